"""The group commands."""

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.domain.errors import Conflict
from gateway.domain.group import Fallback, Policy
from tests.commands.runner import Control, run
from tests.commands.samples import CHANNEL, GROUP, MODEL


def test_groups_are_listed_with_their_multiplier_and_shown() -> None:
    assert "x1.5" in run("group", "list", answers={"GET /groups": [GROUP]}).out
    shown = run("group", "show", "default", answers={"GET /groups/default": GROUP}).out
    assert "channels       demo\n" in shown
    assert "routing order  highest priority first\n" in shown


def test_a_group_is_added_with_its_multiplier_in_parts_per_million() -> None:
    control = Control({"POST /groups": GROUP, "GET /channels": []})
    run("group", "add", "friends", "--multiplier", "1.5", "--budget", "ever=20", "--rpd", "1k", control=control)
    body = control.bodies[0]
    assert (body["name"], body["multiplier"]) == ("friends", 1_500_000)
    assert body["budgets"] == [{"window": "ever", "nanos": 20_000_000_000, "tokens": None}]
    assert body["limits"]["rpd"] == 1000


def test_a_new_group_says_how_it_gets_a_channel_that_stays_in_its_groups() -> None:
    demo = replace(CHANNEL, name="demo", priority=-100)
    both = replace(CHANNEL, groups=("default", "friends"))
    answers = {"POST /groups": replace(GROUP, name="work"), "GET /channels": [demo, both]}
    line = "tollkeeper channel edit openai --add-group work\n"
    assert run("group", "add", "work", answers=answers).err.endswith(line)
    none = run("group", "add", "work", answers={**answers, "GET /channels": []})
    assert none.err.endswith("tollkeeper channel add NAME --group work\n")


def test_a_group_like_another_one_has_its_fields_but_those_that_are_given() -> None:
    other = replace(GROUP, models=("gpt-*",), policy=Policy.CHEAPEST)
    control = Control({"GET /groups/default": other, "POST /groups": GROUP, "GET /channels": []})
    run("group", "add", "work", "--like", "default", "--multiplier", "2", control=control)
    (body,) = control.bodies
    assert (body["name"], body["models"], body["policy"]) == ("work", ["gpt-*"], "cheapest")
    assert (body["multiplier"], "tokens" in body) == (2_000_000, False)


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ("--rename home --models *", {"name": "home", "models": []}),
        ("--policy local --sticky", {"policy": "local", "sticky": True}),
        ("--policy best", None),
        ("--no-fallbacks --fallback a=b", None),
    ],
)
def test_an_edit_sends_what_is_named_or_is_a_usage_error(options: str, body: dict[str, object] | None) -> None:
    control = Control({"GET /groups": [], "GET /groups/default": GROUP, "PATCH /groups/default": GROUP})
    ran = run("group", "edit", "default", *options.split(), control=control)
    assert (ran.code, control.bodies) == ((Exit.OK, [body]) if body else (Exit.USAGE, []))


def test_a_question_before_removal_names_what_moves_and_never_precedes_a_refusal() -> None:
    error = Conflict("group 'default' is used by token 'laptop'; move them (--move GROUP)", code="group_in_use")
    control = Control({"GET /groups/default": GROUP, "GET /groups/home": GROUP, "DELETE /groups/default": error})
    for options in ((), ("--yes",)):
        ran = run("group", "remove", "default", *options, control=control)
        assert (ran.code, "--move" in ran.err) == (Exit.CONFLICT, True)
    asked = run("group", "remove", "default", "--move", "home", control=control)
    assert (asked.code, f"Its tokens and channels move to 'home': {GROUP.tokens[0]}" in asked.err) == (Exit.USAGE, True)
    assert run("group", "remove", "default", "--move", "hoem", control=control).code == Exit.NOT_FOUND
    unused = Control({"GET /groups/default": replace(GROUP, tokens=[], channels=[])})
    assert "answer yes to: Remove group 'default'?" in run("group", "remove", "default", control=unused).err


def test_its_users_move_to_another_group() -> None:
    control = Control({"DELETE /groups/default": {}})
    assert run("group", "remove", "default", "--move", "home", "--yes", control=control).code == 0
    assert control.asked == [("DELETE /groups/default?move=home", None)]


def test_a_group_has_fallbacks() -> None:
    control = Control({"GET /groups/default": GROUP, "PATCH /groups/default": GROUP, "GET /models": [MODEL]})
    run("group", "edit", "default", "--fallback", "gpt-*=claude, qwen3:8b", "--fallback", "o3=gpt-4o", control=control)
    run("group", "edit", "default", "--no-fallbacks", control=control)
    assert control.bodies == [
        {"fallbacks": [{"model": "gpt-*", "to": ["claude", "qwen3:8b"]}, {"model": "o3", "to": ["gpt-4o"]}]},
        {"fallbacks": []},
    ]
    told = replace(GROUP, fallbacks=[Fallback(model="gpt-*", to=("claude", "qwen3:8b"))])
    ran = run("group", "show", "default", answers={"GET /groups/default": told, "GET /models": [MODEL]})
    assert "fallbacks      gpt-*: claude, qwen3:8b\n" in ran.out


def test_a_fallback_that_nobody_offers_is_saved_with_a_note() -> None:
    fallback = Fallback(model="gpt-*", to=("nowhere", MODEL.name))
    saved = replace(GROUP, fallbacks=[fallback], channels=MODEL.channels)
    control = Control({"GET /groups/default": GROUP, "PATCH /groups/default": saved, "GET /models": [MODEL]})
    ran = run("group", "edit", "default", "--fallback", f"gpt-*=nowhere,{MODEL.name}", control=control)
    note = "note: fallbacks that no channel of group 'default' offers now: nowhere\n"
    assert ran.err == f"Group 'default' saved.\n{note}"
    elsewhere = Control({"GET /groups/default": saved, "GET /models": [replace(MODEL, channels=["another"])]})
    ran = run("group", "show", "default", control=elsewhere)
    assert ran.err == note.replace("nowhere", f"{MODEL.name}, nowhere")


def test_fallbacks_that_are_replaced_are_named() -> None:
    before = replace(GROUP, fallbacks=[Fallback(model="gpt-*", to=("claude",)), Fallback(model="o3", to=(MODEL.name,))])
    saved = replace(GROUP, fallbacks=[Fallback(model="o3", to=(MODEL.name,))], channels=MODEL.channels)
    control = Control({"GET /groups/default": before, "PATCH /groups/default": saved, "GET /models": [MODEL]})
    err = run("group", "edit", "default", "--fallback", f"o3={MODEL.name}", control=control).err
    assert err.endswith("note: --fallback replaces all fallbacks, so these models have none now: gpt-*\n")


def test_models_that_leave_a_group_without_any_are_pointed_out() -> None:
    for sees, noted in (([], True), (["m"], False)):
        found = replace(GROUP, sees=sees, tokens=["laptop"])
        control = Control({"GET /groups/default": GROUP, "PATCH /groups/default": found, "GET /groups": [found]})
        ran = run("group", "edit", "default", "--models", "gpt-9*", control=control)
        assert ("note: group 'default' has no models now, so its tokens cannot call: laptop" in ran.err) is noted


def test_an_alias_that_the_group_hides_is_pointed_out() -> None:
    aliases = [Fallback(model="fast", to=(MODEL.name,)), Fallback(model="o*", to=(MODEL.name,))]
    for models, noted in ((("gpt-*",), True), (("gpt-*", "fast"), False), ((), False)):
        saved = replace(GROUP, models=models, fallbacks=aliases, channels=MODEL.channels)
        control = Control({"GET /groups/default": GROUP, "PATCH /groups/default": saved, "GET /models": [MODEL]})
        err = run("group", "edit", "default", "--fallback", f"fast={MODEL.name}", control=control).err
        assert ("note: the group's own --models hide fast; add it there, or no token can use it" in err) is noted
        control = Control({"POST /groups": saved, "GET /channels": []})
        assert ("the group's own --models hide fast" in run("group", "add", "new", control=control).err) is noted


def test_a_fallback_that_the_group_itself_leaves_out_is_named() -> None:
    view = replace(GROUP, models=("gpt-*",), fallbacks=(Fallback(model="gpt-4o", to=("qwen3:8b",)),), channels=["demo"])
    models = [replace(MODEL, name="qwen3:8b", channels=["demo"])]
    control = Control({"GET /groups/x": GROUP, "PATCH /groups/x": view, "GET /models": models})
    ran = run("group", "edit", "x", "--fallback", "gpt-4o=qwen3:8b", control=control)
    assert "note: the group's own --models leave out the fallbacks qwen3:8b: they never answer\n" in ran.err
