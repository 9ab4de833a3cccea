from typing import Any

import msgspec

from gateway.domain.group import Fallback, Policy
from gateway.domain.views import GroupView
from tests.domain.field_samples import ODD
from tests.tui.owner import Owner, press, said, screen, shown
from tests.tui.stage import FakeClient, console, group, words
from tui.pages.groups import GroupForm, GroupListing


def listing(*groups: GroupView) -> GroupListing:
    session = console().session
    client = FakeClient()
    client.groups_now = list(groups)
    session.board.apply(client.snapshot())
    return GroupListing(session)


def test_a_route_marks_what_does_not_answer() -> None:
    made = listing(group("g", channels=["deepseek", "openrouter", "google"]), group("h", channels=[]))
    route = next(column for column in made.columns() if column.id == "route")
    assert [route.text(row) for row in made.rows()] == ["deepseek ▲ → openrouter ○ → google", "no channel"]
    assert route.tone is not None
    assert [route.tone(row) for row in made.rows()] == ["", "warn"]


def test_a_group_without_anything_says_what_to_do() -> None:
    made = listing(group("g", channels=[], tokens=[], sees=[], budgets=[], models=["x-*"], note="for friends"))
    text = made.detail(made.rows()[0], 100).plain
    assert "no channel lists this group; add it on page 4 (e)" in text
    assert "shows x-*; none: its tokens see no models" in text
    assert "for friends" in text.replace("\n        ", "")


def test_the_command_shows_the_group() -> None:
    made = listing(group("g"))
    assert made.command(made.rows()[0]) == "tollkeeper group show g"
    assert "n creates one" in made.empty().plain


async def test_a_group_is_made_with_its_factor() -> None:
    async with shown("groups") as (app, pilot, owner):
        await press(app, pilot, "n", "=family", "down", "=1.5", "enter")
        ((verb, body),) = owner.did
        assert (verb, body["name"], body["multiplier"]) == ("add_group", "family", 1_500_000)


async def test_an_edit_may_rename_and_says_what_will_be_seen() -> None:
    async with shown("groups") as (app, pilot, owner):
        await press(app, pilot, "e", "end", "=2", "down", "down", "=claude-*")
        assert said(app, ".preview") == "its tokens see 2 of the 4 models that its channels offer"
        assert said(app, ".command") == "$ tollkeeper group edit batch --rename batch2 --models 'claude-*'"
        await press(app, pilot, "enter")
        ((verb, name, patch),) = owner.did
        assert (verb, name, patch["name"], patch["models"]) == ("edit_group", "batch", "batch2", ["claude-*"])


async def test_deleting_names_what_uses_it_and_moves_that() -> None:
    async with shown("groups") as (app, pilot, owner):
        await press(app, pilot, "d")
        assert "Used by token ci, channel anthropic, channel openai-main," in screen(app)
        await press(app, pilot, "right", "enter")
        assert owner.did == [("remove_group", "batch", "free")]
        assert words(app) == ["Group batch deleted. Press u to undo."]


async def test_a_group_that_nothing_uses_is_deleted_after_asking() -> None:
    owner = Owner()
    owner.groups_now = [group("empty", tokens=[], channels=[])]
    async with shown("groups", owner) as (app, pilot, _):
        await press(app, pilot, "d", "y")
        assert owner.did == [("remove_group", "empty", "")]


async def test_the_only_group_stays_while_it_is_used() -> None:
    owner = Owner()
    owner.groups_now = [msgspec.structs.replace(group("default"), channels=[])]
    async with shown("groups", owner) as (app, pilot, _):
        await press(app, pilot, "d")
        assert words(app)[0].endswith("no other group exists to move them to")


async def test_a_duplicate_has_another_name() -> None:
    async with shown("groups") as (app, pilot, owner):
        await press(app, pilot, "D", "enter")
        ((verb, body),) = owner.did
        assert (verb, body["name"], body["multiplier"]) == ("add_group", "batch-2", 500_000)


async def test_groups_are_listed_with_route_and_factor() -> None:
    async with shown("groups", size=(140, 40)) as (app, _, _):
        row = next(line for line in screen(app).splitlines() if line.startswith(" batch"))
        assert "x0.5" in row
        assert "anthropic → openai-main → ollama" in row


async def test_the_pane_tells_all_of_one() -> None:
    async with shown("groups") as (app, pilot, _):
        await press(app, pilot, "enter")
        assert "tokens  ci" in screen(app)
        assert "41% $16.40/40   lasts at this pace" in screen(app)


FALLBACKS = (Fallback(model="gpt-*", to=("a", "b")), Fallback(model="x", to=("y",)))


def form(view: GroupView | None, copy: Any = False, **typed: str) -> tuple[dict[str, Any], str]:
    """The body and the command of a form, with some inputs typed."""
    made = GroupForm(console().session, view, copy=copy)
    inputs = made.fields()
    texts = {field.id: field.value for field in inputs} | typed
    return made.body({field.id: field.parse(texts[field.id]) for field in inputs}), made.command(texts)


def test_a_form_that_is_left_as_it_is_changes_nothing() -> None:
    view = group("x", policy=Policy.FASTEST, sticky=True, fallbacks=FALLBACKS)
    assert form(view) == ({}, "group edit x")


def test_the_command_names_policy_stickiness_and_fallbacks() -> None:
    body, command = form(group("x"), policy="cheapest first", sticky="stay on one channel", fallbacks="gpt-*=a,b")
    assert command == "group edit x --policy cheapest --sticky --fallback 'gpt-*=a,b'"
    assert body == {"policy": "cheapest", "sticky": True, "fallbacks": [{"model": "gpt-*", "to": ["a", "b"]}]}


def test_removing_them_is_in_the_command_too() -> None:
    view = group("x", sticky=True, fallbacks=FALLBACKS)
    _, command = form(view, sticky="may switch channels", fallbacks="")
    assert command == "group edit x --not-sticky --no-fallbacks"


def test_a_copy_has_all_but_the_name() -> None:
    body, _ = form(group("x", sticky=True, budgets=()), copy=True)
    assert (body["name"], body["sticky"]) == ("x-2", True)


def test_names_with_blanks_and_marks_stay_what_they_are() -> None:
    fallbacks = tuple(Fallback(model=one, to=tuple(ODD)) for one in ODD)
    view = group("my box", models=tuple(ODD), note=" x ", fallbacks=fallbacks)
    assert form(view) == ({}, "group edit 'my box'")


def test_names_with_blanks_are_quoted_in_the_command() -> None:
    _, command = form(group("x"), models='"m bad", demo*', fallbacks='m*=demo-echo,"m bad"')
    assert command == "group edit x --models 'm bad,demo*' --fallback 'm*=demo-echo,m bad'"
