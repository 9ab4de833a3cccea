"""The channel commands."""

import shlex
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.commands.options import now
from gateway.domain.channel import Check, Dialect, Overrides, ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.settings import Settings
from gateway.domain.units import Millis
from gateway.domain.upstream_views import PresetView, SavedChannel
from tests.commands.runner import Control, run
from tests.commands.samples import CHANNEL, GROUP, MODEL, NOW, PRICE, TWO_KEYS

FAILED = Check(time=NOW, ok=False, ms=Millis(3), text="connection refused")


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "models                fast (upstream name: gpt-4o-mini), gpt-4o\n"),
        ({}, "key                   env:OPENAI_API_KEY\n"),
        ({"keys": TWO_KEYS}, "1 env:FIRST (ok), 2 …abcd (paused until 2025-11-18"),
        ({"dialect": Dialect.ANTHROPIC}, "Anthropic may cache"),
        ({"refused_params": ("seed", "user")}, "rejected              seed, user: left out for an hour\n"),
        ({"state": "attention", "reason": "it failed"}, "state                 needs attention: it failed\n"),
        ({"last_check": FAILED}, "last test             failed 2025-11-18 "),
        ({"last_check": FAILED}, ": connection refused\n"),
        ({"overrides": Overrides(set={"seed": 1}, system="Be brief.")}, "always seed=1, system prompt before the"),
        ({"overrides": Overrides(system="Be brief.\nBe kind.")}, r"before the client's: Be brief.\nBe kind."),
        ({"overrides": Overrides(set={"seed": 1}, system="Be brief.")}, " client's: Be brief.\n"),
    ],
)
def test_a_channel_is_shown(changes: dict[str, Any], shown: str) -> None:
    usual, view = CHANNEL, replace(CHANNEL, **changes)
    assert shown in run("channel", "show", "x", answers={"GET /channels/x": view}).out
    assert (shown in run("channel", "show", "x", answers={"GET /channels/x": usual}).out) is (not changes)


def test_a_channel_is_added() -> None:
    ran = run(
        *("channel", "add", "openai", "--base-url", "https://api.openai.com/v1", "--key", "env:OPENAI_API_KEY"),
        *("--models", "gpt-4o,o3", "--map", "fast=gpt-4o-mini", "--group", "default", "--group", "friends"),
        *("--priority", "-5", "--weight", "2", "--header", "X-Team=a=b", "--timeout", "head=60"),
        answers={"POST /channels": CHANNEL},
    )
    assert ran.code == 0
    assert ran.bodies == [
        {
            "name": "openai",
            "dialect": "openai",
            "base_url": "https://api.openai.com/v1",
            "key": "env:OPENAI_API_KEY",
            "keys": [],
            "models": [{"name": "gpt-4o"}, {"name": "o3"}, {"name": "fast", "upstream": "gpt-4o-mini"}],
            "patterns": [],
            "groups": ["default", "friends"],
            "priority": -5,
            "weight": 2,
            "headers": {"X-Team": "a=b"},
            "timeouts": {"connect": 10.0, "head": 60.0, "idle": 300.0, "comments": 900.0, "total": 600.0},
        }
    ]


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ("--preset anthropic --key env:X", {"key": "env:X", "keys": [], "preset": "anthropic"}),
        (
            "--dialect mock --option latency=200 --option bad_json=true",
            {"dialect": "mock", "options": {"latency": 200, "bad_json": True}},
        ),
    ],
)
def test_a_preset_or_the_mock_dialect_is_enough(options: str, body: dict[str, object]) -> None:
    control = Control({"POST /channels": CHANNEL})
    assert run("channel", "add", "c", *options.split(), control=control).code == Exit.OK
    assert control.bodies == [{"name": "c", **body}]


FRESH = replace(CHANNEL, state="ok", reason="", untested=True)
FAR = replace(CHANNEL, base_url="http://llm.example.com/v1")
WITHOUT_O3 = replace(CHANNEL, state="ok", reason="", missing_models={"o3": Millis(now() + 10 * 86_400_000)})
EMPTY = replace(CHANNEL, models=())
LACKING = {"GET /channels": [WITHOUT_O3], "GET /channels/x": WITHOUT_O3}


SAVED = SavedChannel(
    **{name: getattr(CHANNEL, name) for name in CHANNEL.__struct_fields__},
    new_prices=(replace(PRICE, source="genai-prices 0.2.3"),),
    unpriced=("my own",),
)


LISTED, SHOWN = ({"GET /channels": [view], "GET /channels/x": view} for view in (CHANNEL, FRESH))
NO_MODELS = {"GET /groups": [replace(GROUP, tokens=["bot"], sees=[])], f"PATCH /channels/{CHANNEL.id}": EMPTY}
REMOVED = LISTED | {"POST /batch": {"done": "removed it"}, "GET /groups": [GROUP]}
BOUGHT = {"POST /channels": SAVED}
FOUR_BOUGHT = {"POST /channels": replace(SAVED, new_prices=tuple(replace(PRICE, model=name) for name in "abcd"))}


@pytest.mark.parametrize(
    ("line", "answers", "code", "out", "err"),
    [
        ("list", LISTED, Exit.OK, "paused until 2025-11-18", ""),
        ("list", LISTED, Exit.OK, "429 from upstream", ""),
        ("list", SHOWN, Exit.OK, "nothing has succeeded here yet\n", ""),
        ("show x", SHOWN, Exit.OK, "state                 untested: nothing has succeeded here yet\n", ""),
        ("list", LACKING, Exit.OK, "the upstream does not have o3; retry in 9d23h", ""),
        ("show x", LACKING, Exit.OK, "the upstream does not have o3; retry in 9d23h", ""),
        ("remove x", REMOVED, Exit.USAGE, "", ""),
        ("remove x --yes", REMOVED, Exit.OK, "", ""),
        ("remove nope", REMOVED, Exit.NOT_FOUND, "", ""),
        ("remove nope --yes", REMOVED, Exit.NOT_FOUND, "", ""),
        ("add x --models a", {}, Exit.USAGE, "", "--base-url"),
        (f"add x --base-url {FAR.base_url}", {"POST /channels": FAR}, Exit.OK, "", "not encrypted"),
        ("add c --preset openai", BOUGHT, Exit.OK, "", "genai-prices 0.2.3: gpt-4o $2.50 / $10.00\nChange one: "),
        ("add c --preset openai", FOUR_BOUGHT, Exit.OK, "", "b $2.50 / $10.00; c $2.50 / $10.00; ...\n"),
        ("add c --preset openai", BOUGHT, Exit.OK, "", "note: my own has no price: counted, not charged, and"),
        ("add c --preset openai", BOUGHT, Exit.OK, "", "tollkeeper price set 'my own' --like OTHER"),
        ("edit x --map fast=none", LISTED | NO_MODELS, Exit.OK, "", "note: group 'default' has no models now, so its"),
    ],
)
def test_commands_print_results(line: str, answers: Mapping[str, object], code: Exit, out: str, err: str) -> None:
    ran = run("channel", *shlex.split(line), answers=answers)
    assert (ran.code, out in ran.out, err in ran.err) == (code, True, True), ran.out + ran.err


def test_a_vendors_channel_without_a_key_says_that_it_needs_one() -> None:
    keyless = replace(SAVED, name="g", preset="groq", key="", keys=())
    known = PresetView(name="groq", dialect="openai", base_url="https://g/v1", key_variable="GROQ_API_KEY", local=False)
    note = "note: the channel has no key, but groq requires one: tollkeeper channel edit g --key env:GROQ_API_KEY\n"
    for saved, noted in ((keyless, True), (replace(keyless, key="env:X"), False), (replace(keyless, preset=""), False)):
        control = Control({"POST /channels": saved, "GET /presets": [known]})
        assert (note in run("channel", "add", "g", "--preset", "groq", control=control).err) is noted


def test_a_mapping_of_a_new_channel_is_in_addition_to_all_of_its_models() -> None:
    control = Control({"POST /channels": SAVED, "GET /presets": []})
    run("channel", "add", "c", "--preset", "openai", "--key", "env:X", "--map", "best=gpt-4o", control=control)
    assert control.bodies[0]["patterns"] == ["*"]
    assert [(model["name"], model["upstream"]) for model in control.bodies[0]["models"]] == [("best", "gpt-4o")]


def test_without_a_list_a_new_channel_offers_what_is_mapped_and_says_so() -> None:
    mapped = replace(SAVED, name="c", models=(ServedModel(name="fast", upstream="llama"),))
    missing = BadRequest("no list of models from channel 'c'", code="no_model_list")
    control = Control({"POST /channels": iter((missing, mapped))})
    ran = run("channel", "add", "c", "--base-url", "http://127.0.0.1:9/v1", "--map", "fast=llama", control=control)
    assert ran.code == 0
    assert [body["patterns"] for body in control.bodies] == [["*"], []]
    assert "note: the upstream lists no models, so only the names in --map are offered; add others: " in ran.err
    assert "tollkeeper channel edit c --models fast=llama,MODEL\n" in ran.err
    control = Control({"POST /channels": iter((BadRequest("no", code="invalid_value"), mapped))})
    ran = run("channel", "add", "c", "--base-url", "http://127.0.0.1:9/v1", "--map", "fast=llama", control=control)
    assert (ran.code, len(control.bodies)) == (Exit.USAGE, 1)


def test_prices_can_be_left_out() -> None:
    control = Control({"POST /channels": CHANNEL, "GET /channels/c": CHANNEL, "PATCH /channels/ch_1": SAVED})
    ran = run("channel", "add", "c", "--preset", "openai", "--no-prices", control=control)
    assert "rices" not in ran.err
    run("channel", "edit", "c", "--no-prices", control=control)
    assert [body["known_prices"] for body in control.bodies] == [False, False]


def test_an_edit_says_which_prices_new_models_got() -> None:
    control = Control({"GET /channels/c": CHANNEL, "PATCH /channels/ch_1": SAVED})
    assert "Prices of 1 model set" in run("channel", "edit", "c", "--models", "a", control=control).err
    for unpriced in ((), ("my own",)):
        saved = replace(SAVED, new_prices=(), unpriced=unpriced)
        control = Control({"GET /channels/c": CHANNEL, "PATCH /channels/ch_1": saved, "GET /groups": []})
        ran = run("channel", "edit", "c", "--models", "a", control=control)
        assert ("note: my own has no price" in ran.err) is bool(unpriced)


@pytest.mark.parametrize(("models", "said"), [(("fast", "my own"), "my own"), (("fast", "gpt-4o"), "")])
def test_an_edit_of_several_channels_says_which_new_models_have_no_price(models: tuple[str, ...], said: str) -> None:
    first, second = CHANNEL, replace(CHANNEL, id="ch_2", name="b")
    after = [replace(view, models=tuple(ServedModel(name=name) for name in models)) for view in (first, second)]
    unpriced = [replace(MODEL, name=name, price=None) for name in ("fast", "my own")]
    answers = {"POST /batch": {"done": "changed"}, "GET /models": unpriced, "GET /settings": Settings()}
    channels = {"GET /channels/a": first, "GET /channels/b": second}
    later = {f"GET /channels/{view.id}": view for view in after}
    ran = run("channel", "edit", "a", "b", "--models", "*", answers={**answers, **channels, **later, "GET /groups": []})
    assert (f"note: {said} has no price: counted" in ran.err) is bool(said), ran.err
    assert ("Price one:" in ran.err) is bool(said)


def test_enabling_also_forgets_failures_and_disabling_does_not() -> None:
    mine = f"/channels/{CHANNEL.id}"
    answers = dict.fromkeys(("GET /channels/x", f"GET {mine}", f"POST {mine}/clear"), CHANNEL)
    control = Control({**answers, "POST /batch": {"done": "enabled channel 'openai'"}})
    assert run("channel", "enable", "x", control=control).err == "Enabled channel 'openai'.\n"
    assert [line for line, _ in control.asked][1:] == ["POST /batch", f"POST {mine}/clear", f"GET {mine}"]
    control = Control({**answers, "POST /batch": {"done": "disabled channel 'openai'"}, "GET /groups": [GROUP]})
    assert run("channel", "disable", "x", control=control).err == "Disabled channel 'openai'.\n"
    assert control.bodies == [{"kind": "channels", "edits": [{"ref": CHANNEL.id, "patch": {"enabled": False}}]}]


@pytest.mark.parametrize(
    "line", ["channel edit x --group default", "channel disable x", "channel remove x --yes"], ids=str.split
)
def test_a_group_that_a_channel_leaves_without_models_is_named(line: str) -> None:
    before = replace(CHANNEL, groups=("default", "friends"))
    after = CHANNEL if "edit" in line else before
    friends = replace(GROUP, name="friends", tokens=["bot", "ci"], sees=[])
    groups = [GROUP, friends, replace(friends, name="empty", tokens=[]), replace(friends, name="other")]
    mine = f"/channels/{CHANNEL.id}"
    by_id = {f"GET {mine}": after, f"PATCH {mine}": after, "POST /batch": {"done": "done"}}
    ran = run(*line.split(), answers={"GET /channels/x": before, "GET /groups": groups, **by_id})
    notes = [text for text in ran.err.splitlines() if text.startswith("note: group")]
    assert notes == ["note: group 'friends' has no models now, so its tokens cannot call: bot, ci"]


def test_a_variable_that_is_not_set_is_pointed_out() -> None:
    missing = replace(CHANNEL, missing_variables=("MY_KEY",))
    note = "note: MY_KEY is not set where the server runs; set it there and restart the server\n"
    for line in ("add x --base-url https://a.example/v1 --key env:MY_KEY", "edit x --key env:MY_KEY", "enable x"):
        mine = f"/channels/{missing.id}"
        asked = ("POST /channels", "GET /channels/x", f"GET {mine}", f"PATCH {mine}", f"POST {mine}/clear")
        control = Control({**dict.fromkeys(asked, missing), "POST /batch": {"done": "enabled it"}})
        ran = run("channel", *line.split(), control=control)
        assert (ran.code, note in ran.err) == (0, True)
    shown = run("channel", "show", "x", answers={"GET /channels/x": missing}).out
    assert [line.split() for line in shown.splitlines() if line.startswith("not set")] == [["not", "set", "MY_KEY"]]
