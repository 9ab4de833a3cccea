"""Asking an upstream through its channel."""

import re
import shlex
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.commands.options import now
from gateway.domain.channel import Check, ServedModel
from gateway.domain.price import UpstreamPrices
from gateway.domain.units import Millis, Nanos
from gateway.domain.upstream_views import ListedModel, ListingView, PresetView
from gateway.domain.views import ChannelView
from tests.commands.runner import Control, run
from tests.commands.samples import CHANNEL, NOW

GOOD = Check(time=NOW, ok=True, ms=Millis(85), text="2 models")
BAD = Check(time=NOW, ok=False, ms=Millis(85), text="401: key refused")
TOLD = UpstreamPrices(input=Nanos(2_500_000_000), output=Nanos(10_000_000_000))
LISTED = [
    ListedModel(name="gpt-4o", state="offered", served=True, public="gpt-4o", context=128_000, published=TOLD),
    ListedModel(name="gpt-4o-mini", state="offered", served=True, public="fast", context=None, published=None),
    ListedModel(name="o3", state="new", served=False, public="", context=None, published=None),
    ListedModel(name="old", state="gone", served=False, public="", context=None, published=None),
]
DAY_MS = 86_400_000
FRESH = ListingView(channel="x", patterns=[], time_ms=Millis(now() + DAY_MS), stale=False, error="", models=LISTED)
"""For as long as the tests may take."""


def test_presets_are_listed() -> None:
    known = PresetView(name="groq", dialect="openai", base_url="https://g/v1", key_variable="GROQ_API_KEY", local=False)
    ran = run("channel", "presets", answers={"GET /presets": [known]})
    assert ran.out.splitlines()[1].split() == ["groq", "openai", "https://g/v1", "env:GROQ_API_KEY"]
    assert set(run("channel", "presets", "--json", answers={"GET /presets": [known]}).json[0]) == {
        *("name", "dialect", "base_url", "key_variable", "local")
    }


def test_a_good_test_of_a_model() -> None:
    ran = run("channel", "test", "openai", "--model", "gpt-4o", answers={"POST /channels/openai/test": GOOD})
    assert (ran.code, ran.out) == (0, "ok after 85ms: 2 models\n")
    assert ran.bodies == [{"model": "gpt-4o"}]


def test_a_bad_test_is_a_failure_of_the_upstream_that_is_reported_once() -> None:
    ran = run("channel", "test", "x", answers={"POST /channels/x/test": BAD})
    assert (ran.code, ran.out) == (Exit.UPSTREAM, "failed after 85ms: 401: key refused\n")
    assert ran.err == "tollkeeper: channel 'x' failed its test\n"
    in_json = run("channel", "test", "x", "--json", answers={"POST /channels/x/test": BAD})
    assert (in_json.code, in_json.json["ok"]) == (Exit.UPSTREAM, False)
    assert in_json.err == "tollkeeper: channel 'x' failed its test: 401: key refused\n"


def test_a_key_of_several_that_is_not_accepted_is_a_failure() -> None:
    half = replace(GOOD, text="1 of 2 keys are accepted; it lists 2 models; key 2: refused", failed_keys=1)
    ran = run("channel", "test", "x", answers={"POST /channels/x/test": half})
    assert (ran.code, ran.out) == (Exit.UPSTREAM, f"ok after 85ms: {half.text}\n")
    assert ran.err == "tollkeeper: channel 'x' works, but some of its keys do not\n"
    every = run("channel", "test", answers={"GET /channels": [CHANNEL], "POST /channels/openai/test": half})
    assert (every.code, every.err) == (Exit.UPSTREAM, ran.err.replace("'x'", "'openai'"))


def test_without_a_name_every_enabled_channel_is_tested() -> None:
    channels = [replace(CHANNEL, name="openai"), replace(CHANNEL, name="x"), replace(CHANNEL, name="no", enabled=False)]
    control = {"GET /channels": channels, "POST /channels/openai/test": GOOD, "POST /channels/x/test": BAD}
    ran = run("channel", "test", answers=control)
    assert ran.out == "openai  ok after 85ms: 2 models\nx       failed after 85ms: 401: key refused\n"
    assert (ran.code, ran.err) == (Exit.UPSTREAM, "tollkeeper: channel 'x' failed its test\n")
    in_json = run("channel", "test", "--json", answers=control)
    assert {name: check["ok"] for name, check in in_json.json.items()} == {"openai": True, "x": False}
    assert run("channel", "test", "--model", "m", answers={}).code == Exit.USAGE


def answers() -> Control:
    return Control({"GET /channels/x/listing": FRESH, "GET /channels/x": CHANNEL, "PATCH /channels/ch_1": CHANNEL})


def test_models_are_listed_with_what_is_offered() -> None:
    ran = run("channel", "models", "x", "--json", control=answers())
    keys = ("name", "state", "served", "public", "context", "input_nanos")
    assert [tuple(row[key] for key in keys) for row in ran.json] == [
        ("gpt-4o", "offered", True, "gpt-4o", 128_000, 2_500_000_000),
        ("gpt-4o-mini", "offered", True, "fast", None, None),
        ("o3", "new", False, "", None, None),
        ("old", "gone", False, "", None, None),
    ]
    assert {"output_nanos", "listed_ms", "stale"} <= set(ran.json[0])


def test_a_context_of_the_price_list_is_marked() -> None:
    known = replace(LISTED[1], known_context=400_000, context_source="genai-prices 1.0")
    control = Control({**answers().answers, "GET /channels/x/listing": replace(FRESH, models=[LISTED[0], known])})
    lines = run("channel", "models", "x", control=control).out.splitlines()
    assert ["(list)" in line for line in lines] == [False, False, True]
    row = run("channel", "models", "x", "--json", control=control).json[1]
    assert (row["context"], row["context_source"]) == (400_000, "genai-prices 1.0")


def test_a_fresh_list_is_shown_without_a_request_and_fetched_again_on_demand() -> None:
    control = answers()
    run("channel", "models", "x", control=control)
    assert [path for path, _ in control.asked] == ["GET /channels/x/listing", "GET /channels/x"]
    changed = replace(FRESH, models=LISTED[:1])
    control = Control({**answers().answers, "POST /channels/x/refresh": changed})
    assert len(run("channel", "models", "x", "--refresh", control=control).out.splitlines()) == 2


@pytest.mark.parametrize("old", [{"time_ms": NOW}, {"models": []}, {"stale": True}])
def test_an_old_list_is_fetched_again(old: dict[str, Any]) -> None:
    control = Control(
        {**answers().answers, "GET /channels/x/listing": replace(FRESH, **old), "POST /channels/x/refresh": FRESH}
    )
    assert "gpt-4o-mini" in run("channel", "models", "x", control=control).out


STALE = replace(FRESH, stale=True, error="it is down", time_ms=NOW)
DOWN, NONE = ({"POST /channels/x/refresh": view} for view in (STALE, replace(STALE, models=[])))
ADDED = {f"PATCH /channels/{CHANNEL.id}": replace(CHANNEL, models=(ServedModel(name="o3"),))}
LEFT_OUT = {"GET /channels/x/listing": replace(FRESH, models=[replace(LISTED[2], state="kept_out")])}
UNNAMED = {"GET /channels/x/listing": replace(FRESH, unnamed=2)}
PAUSED = {"GET /channels/x": replace(CHANNEL, missing_models={"fast": Millis(now() + 10 * DAY_MS)})}


@pytest.mark.parametrize(
    ("line", "changes", "code", "out", "err"),
    [
        ("o?", {}, Exit.OK, r"Model .*\no3 +no +new[^\n]*\n$", ""),
        ("o3 --add", ADDED, Exit.OK, r"\no3 +yes +offered ", ""),
        ("", LEFT_OUT, Exit.OK, r"\no3 +no +not offered ", ""),
        ("", PAUSED, Exit.OK, r"\ngpt-4o +yes +offered  .*\ngpt-4o-mini .*offered, paused until", ""),
        ("", UNNAMED, Exit.OK, "", "^note: 2 models left out, without a name or "),
        ("--refresh", DOWN, Exit.UPSTREAM, "gpt-4o", "it is down"),
        ("--set --refresh", NONE, Exit.UPSTREAM, "^$", "^tollkeeper: channel 'x': it is down; nothing was changed\n$"),
        ("--add --set", {}, Exit.USAGE, "^$", ""),
        ("--remove --set o3", {}, Exit.USAGE, "^$", ""),
        ("--remove", {}, Exit.USAGE, "^$", ""),
    ],
)
def test_models_are_printed(line: str, changes: dict[str, object], code: Exit, out: str, err: str) -> None:
    ran = run("channel", "models", "x", *line.split(), answers={**answers().answers, **changes})
    assert (ran.code, bool(re.search(out, ran.out)), bool(re.search(err, ran.err))) == (code, True, True), ran
    assert bool(ran.bodies) == (changes is ADDED)


def test_models_are_added_to_those_there_are() -> None:
    control = answers()
    run("channel", "models", "x", "--add", control=control)
    assert [model["name"] for model in control.bodies[0]["models"]] == ["fast", "gpt-4o", "o3"]


def test_models_are_replaced_and_keep_their_public_names() -> None:
    control = answers()
    run("channel", "models", "x", "gpt-4o-mini", "--set", control=control)
    assert control.bodies == [{"models": [{"name": "fast", "upstream": "gpt-4o-mini"}], "patterns": []}]


PATTERNED = replace(
    CHANNEL,
    models=(ServedModel(name="gpt-4o", live=True), ServedModel(name="gpt-5", live=True), ServedModel(name="own")),
    patterns=("gpt-*",),
)


@pytest.mark.parametrize(
    ("view", "pattern", "patch"),
    [
        (CHANNEL, "fast", {"models": [{"name": "gpt-4o"}], "patterns": []}),
        (CHANNEL, "gpt-4o-mini", {"models": [{"name": "gpt-4o"}], "patterns": []}),
        (PATTERNED, "gpt-4o", {"models": [{"name": "own"}], "patterns": ["gpt-*", "!gpt-4o"]}),
        (PATTERNED, "own", {"models": [], "patterns": ["gpt-*"]}),
        (PATTERNED, "gpt-*", {"models": [{"name": "own"}], "patterns": ["gpt-*", "!gpt-4o", "!gpt-5"]}),
    ],
)
def test_a_model_is_taken_off_a_channel_by_either_name(view: ChannelView, pattern: str, patch: dict[str, Any]) -> None:
    ran = run("channel", "models", "x", pattern, "--remove", answers={**answers().answers, "GET /channels/x": view})
    assert ran.code == 0, ran.err
    (body,) = ran.bodies
    names = [{"name": model["name"]} for model in body["models"]]
    assert body | {"models": names} == patch
    assert ran.err.endswith(f"channel '{view.name}' now offers 2 models\n")


def test_a_model_is_taken_off_while_the_upstream_is_down() -> None:
    control = Control({**answers().answers, "GET /channels/x/listing": STALE})
    assert run("channel", "models", "x", "fast", "--remove", control=control).code == 0
    assert control.bodies == [{"models": [{"name": "gpt-4o"}], "patterns": []}]
    assert "POST /channels/x/refresh" not in [path for path, _ in control.asked]


def test_what_cannot_be_taken_off_changes_nothing() -> None:
    control = answers()
    ran = run("channel", "models", "x", "nosuch", "--remove", control=control)
    assert (ran.code, "offers no model that matches nosuch; it offers fast, gpt-4o;" in ran.err) == (3, True), ran.err
    ran = run("channel", "models", "x", "*", "--remove", control=control)
    assert (ran.code, "to stop using it: tollkeeper channel disable" in ran.err) == (Exit.USAGE, True)
    assert control.bodies == []


@pytest.mark.parametrize("option", ["--add", "--set"])
@pytest.mark.parametrize("pattern", ["nosuch*", "old"])
def test_patterns_that_match_nothing_change_nothing(option: str, pattern: str) -> None:
    control = answers()
    ran = run("channel", "models", "x", pattern, option, control=control)
    assert (ran.code, control.bodies) == (Exit.NOT_FOUND, [])
    assert ran.err == (
        f"tollkeeper: the upstream of channel 'x' lists no model that matches {shlex.quote(pattern)}; "
        "nothing was changed\n"
    )


def test_a_model_that_is_offered_under_several_names_keeps_them_all() -> None:
    twice = replace(CHANNEL, models=(ServedModel(name="o3"), ServedModel(name="quick", upstream="o3")))
    control = {"GET /channels/x/listing": FRESH, "GET /channels/x": twice, "PATCH /channels/ch_1": twice}
    for pattern, option in (("o3", "--set"), ("gpt-4o", "--add")):
        asked = Control(control)
        assert run("channel", "models", "x", pattern, option, control=asked).code == 0
        assert {"o3", "quick"} <= {model["name"] for model in asked.bodies[0]["models"]}
    assert "o3           yes, quick" in run("channel", "models", "x", answers=control).out


def test_a_new_model_without_a_price_is_named() -> None:
    view = replace(CHANNEL, models=[ServedModel(name="o3"), ServedModel(name="gpt-4o")])
    for unpriced, noted in ((["gpt-4o", "o3"], True), (["gpt-4o"], False)):
        for refused, effect in (
            (False, "counted, not charged, and no dollar budget stops it"),
            (True, "calls of it are refused"),
        ):
            control = {
                "GET /channels/x/listing": replace(FRESH, unpriced=unpriced, refuses_unpriced=refused),
                "GET /channels/x": view,
            }
            ran = run("channel", "models", "x", answers=control)
            assert (f"note: o3 has no price: {effect}" in ran.err) is noted
            assert "gpt-4o has" not in ran.err
