"""The form: typing, complaints, its advanced part, leaving and saving.

Long: all of it is tried on the same made-up forms.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Button, Input, Static

from gateway.domain.errors import BadRequest, Unavailable
from gateway.domain.human_values import parse_count
from tests.tui.owner import press, shown, text_of
from tests.tui.stage import wait_until
from tests.tui.widgets.stage import WidgetStage, asked, form, press_keys
from tui.widgets.combobox import Suggestion
from tui.widgets.dialogs import BACK, Confirm
from tui.widgets.form import Fold, Form, FormField, FormPlan, FormRow, Values, line_plan, optional, require_text

THING = [
    FormField(id="name", label="Name", hint="laptop", parse=require_text),
    FormField(id="limit", label="Calls a minute", value="60", parse=parse_count),
    FormField(id="state", label="State", value="on", options=("on", "off")),
    FormField(id="key", label="Key", secret=True),
]


def thing(**more: Any) -> AbstractAsyncContextManager[tuple[WidgetStage, Pilot[Any], list[Values]]]:
    told: dict[str, Any] = {
        "title": "New [b]thing[/]",
        "command": lambda values: f"thing add {values['name']} --limit {values['limit']} --key {values['key']}",
        "preview": lambda values: f"{values['limit']} calls for {values['name']}",
    }
    return form(*THING, **told | more)


async def refuse(values: Values) -> str:
    if values["name"] == "taken":
        raise BadRequest("the name is taken", param="name")
    if values["name"] == "down":
        raise Unavailable("the server is gone")
    return "made"


async def test_typed_values_are_parsed_and_saved() -> None:
    async with thing() as (app, pilot, saved):
        await press_keys(pilot, *"box", "tab", "end", "k", "tab", "right", "tab", *"sk-1", "enter")
        assert saved == [{"name": "box", "limit": 60_000, "state": "off", "key": "sk-1"}]
        assert app.answers == ["made"]


@pytest.mark.parametrize("keys", [["enter"], ["shift+tab", "x", "backspace"]], ids=["saved", "entered"])
async def test_a_field_says_what_is_wrong_while_one_types_and_saving_shows_all_of_it(keys: list[str]) -> None:
    async with thing() as (app, pilot, saved):
        assert (text_of(app, "#wrong-name"), text_of(app, "#wrong-limit")) == ("", "")
        await pilot.press("tab", "end", "z")
        assert text_of(app, "#wrong-name") == ""
        assert "is not a whole number" in text_of(app, "#wrong-limit")
        await press_keys(pilot, *keys)
        assert (text_of(app, "#wrong-name"), saved) == ("required", [])


async def test_the_sentence_and_the_command_change_with_what_is_typed_and_hold_no_secret() -> None:
    async with thing() as (app, pilot, _):
        await pilot.press(*"box", "tab", "tab", "tab", *"sk-1")
        assert text_of(app, ".preview") == "60 calls for box"
        assert text_of(app, ".command") == "$ tollkeeper thing add box --limit 60 --key ..."
        await pilot.click("#copy")
        await pilot.pause()
        assert app.clipboard == "tollkeeper thing add box --limit 60 --key ..."


async def test_a_save_that_ends_while_a_question_is_asked_closes_both() -> None:
    """The question was closed instead of the form, and leaving the form then ended the console with an error."""
    may_end = asyncio.Event()

    async def save(_: Values) -> str:
        await may_end.wait()
        return "made"

    async with thing(save=save) as (app, pilot, _):
        await pilot.press(*"box", "enter")
        assert text_of(app, ".preview") == "saving ..."
        await pilot.press("escape")
        assert isinstance(app.screen, Confirm)
        assert text_of(app, ".inside Static") == "The server may still save it."
        may_end.set()
        await pilot.pause()
        await pilot.pause()
        assert len(app.screen_stack) == 1
        assert app.answers == ["made"]


async def test_leaving_twice_leaves_once() -> None:
    async with thing() as (app, pilot, _):
        form = app.screen
        assert isinstance(form, Form)
        await form.action_leave()
        await form.action_leave()
        await pilot.pause()
        assert len(app.screen_stack) == 1
        assert app.answers == [None]


async def test_a_refusal_is_shown_at_its_field() -> None:
    async with thing(save=refuse) as (app, pilot, _):
        await press_keys(pilot, *"taken", "tab", "enter")
        assert text_of(app, "#wrong-name") == "the name is taken"
        assert app.focused is not None
        assert app.focused.id == "field-name"
        assert app.answers == []


async def test_another_refusal_is_shown_below_and_one_may_try_again() -> None:
    async with thing(save=refuse) as (app, pilot, _):
        await press_keys(pilot, *"down", "enter")
        assert text_of(app, ".preview") == "the server is gone"
        await press_keys(pilot, "x", "enter")
        assert app.answers == ["made"]


@pytest.mark.parametrize("leave", ["escape", "click", "cancel"])
async def test_a_form_in_which_something_was_entered_asks_before_it_is_left(leave: str) -> None:
    async with thing() as (app, pilot, _):
        await pilot.press("x")
        for answer in ("escape", "y"):
            if leave == "click":
                await pilot.click(offset=(1, 1))
            elif leave == "cancel":
                await pilot.click("#leave")
            else:
                await pilot.press(leave)
            await pilot.pause()
            assert isinstance(app.screen, Confirm)
            assert app.focused is not None
            assert app.focused.id == "cancel"
            await press_keys(pilot, answer)
            assert app.answers == ([] if answer == "escape" else [None])


async def test_quitting_the_console_asks_first_where_something_was_entered() -> None:
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "n", "x", "ctrl+q")
        assert isinstance(app.screen, Confirm)
        await press(app, pilot, "y")
        await wait_until(pilot, lambda: app.return_value is not None)


async def test_a_click_beside_an_untouched_form_leaves_it_and_one_inside_does_not() -> None:
    async with thing() as (app, pilot, _):
        await pilot.click(".title")
        assert app.answers == []
        await pilot.click(offset=(1, 1))
        await pilot.pause()
        assert app.answers == [None]


def folded(**changes: Any) -> list[FormField]:
    return [
        FormField(id="a", label="A"),
        replace(FormField(id="b", label="B, in cells", advanced=True, parse=optional(parse_count)), **changes),
        FormField(id="c", label="C"),
    ]


def is_unfolded(app: WidgetStage) -> bool:
    return app.screen.query_one(".advanced").display


async def test_advanced_fields_are_folded_away_at_the_end_until_asked_for() -> None:
    async with form(*folded()) as (app, pilot, _):
        assert str(app.screen.query_one(Fold).render()) == "▸ Advanced   ^o   B"
        shown = [is_unfolded(app)]
        for keys in (["ctrl+o"], ["ctrl+o"], ["down", "enter"]):
            await pilot.press(*keys)
            shown.append(is_unfolded(app))
        assert shown == [False, True, False, True]
        assert app.screen.query_one("#field-b").has_focus
        await pilot.click(".fold")
        assert not is_unfolded(app)
        rows = [row.field.id for row in app.screen.query(FormRow)]
        assert rows == ["a", "c", "b"]


async def test_the_advanced_part_opens_at_its_first_field_where_enter_saves() -> None:
    async with form(*folded()) as (_, pilot, saved):
        await press_keys(pilot, "ctrl+o", "7", "enter")
        assert saved == [{"a": "", "b": 7, "c": ""}]


A, B = FormField(id="a", label="A"), FormField(id="b", label="B")
NAMED = [FormField(id="name", label="Name", parse=require_text), *folded()]


@pytest.mark.parametrize(
    ("fields", "keys", "focused", "unfolded"),
    [
        ([A, replace(B, parse=require_text)], "enter", "field-b", False),
        ([A, B], "down down", "save", False),
        ([A, B], "down down up up", "field-a", False),
        ([FormField(id=f"f{number}", label=f"F{number}") for number in range(40)], "down down up", "field-f1", False),
        (NAMED, "ctrl+o x", "field-name", True),
        (NAMED, "ctrl+o x ctrl+o ctrl+o", "field-b", True),
        (folded(value="7"), "down", "field-c", True),
        (folded(value="7"), "down ctrl+o", "field-c", False),
    ],
)
async def test_keys_lead_to_a_field(fields: list[FormField], keys: str, focused: str, *, unfolded: bool) -> None:
    async with form(*fields, size=(80, 24)) as (app, pilot, _):
        await press_keys(pilot, *keys.split())
        assert app.screen.query_one(f"#{focused}").has_focus
        assert any(one.display for one in app.screen.query(".advanced")) == unfolded


async def test_an_advanced_field_that_is_wrong_is_unfolded_and_gone_to() -> None:
    async def refuse_b(_values: Values) -> None:
        raise BadRequest("too many", param="b")

    async with form(*folded(), save=refuse_b) as (app, pilot, _):
        await press_keys(pilot, "enter")
        assert text_of(app, "#wrong-b") == "too many"
        assert app.screen.query_one("#field-b").has_focus


async def test_a_field_that_does_not_apply_is_hidden_and_keeps_its_value() -> None:
    kind = FormField(id="kind", label="Kind", options=("demo", "other"))
    url = FormField(id="url", label="Address", applies=lambda texts: texts["kind"] == "other")
    async with form(kind, url) as (app, pilot, saved):
        assert not app.screen.query(FormRow).last().display
        await pilot.press("right")
        assert app.screen.query(FormRow).last().display
        await press_keys(pilot, "tab", "x", "shift+tab", "left", "enter")
        assert saved == [{"kind": "demo", "url": ""}]


async def test_a_field_that_is_hidden_passes_the_focus_to_the_next_one() -> None:
    fields = [
        FormField(id="preset", label="Preset", suggest=[Suggestion("groq")], narrows=True),
        FormField(id="dialect", label="Dialect", options=("a", "b"), applies=lambda texts: not texts["preset"]),
        FormField(id="url", label="URL"),
    ]
    async with form(*fields) as (app, pilot, _):
        await press_keys(pilot, "down", "up", "g", "backspace")  # the list is open
        await press_keys(pilot, "down", "tab")  # takes its choice, and goes to the dialect, which no longer applies
        assert app.screen.query_one("#field-preset", Input).value == "groq"
        assert app.screen.query_one("#field-url").has_focus


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [(40, 10), (60, 15), (80, 24), (200, 50)])
@pytest.mark.long
async def test_buttons_and_the_focused_field_are_on_every_screen(size: tuple[int, int]) -> None:
    long = "a long sentence about what this is for, and why " * 4
    count = size[1] + 10
    fields = [FormField(id=f"f{number}", label=f"Field {number}") for number in range(count)]
    async with form(*fields, size=size, intro=long, preview=lambda _: long, command=lambda _: long) as (app, pilot, _):
        for button in ("#leave", "#save"):
            region = app.screen.query_one(button).region
            assert region.height == 1
            assert app.screen.region.contains_region(region)
        box = app.screen.query_one(".fields")
        assert box.size.height >= 3
        assert box.show_vertical_scrollbar
        await press_keys(pilot, *["down"] * (count - 1))
        assert app.focused is not None
        assert box.region.contains_region(app.focused.region)


@pytest.mark.parametrize(
    ("page", "key", "verb"),
    [
        *((page, "n", "Create") for page in ("tokens", "groups", "channels")),
        *((page, "e", "Save") for page in ("tokens", "groups", "channels", "models", "account", "settings")),
    ],
)
async def test_the_button_says_what_it_does(page: str, key: str, verb: str) -> None:
    async with shown(page) as (app, pilot, _):
        await press(app, pilot, key)
        assert isinstance(app.screen, Form)
        assert str(app.screen.query_one("#save", Button).label) == verb


async def test_back_is_there_only_where_a_step_is_before() -> None:
    async with form(A) as (app, pilot, _):
        await pilot.press("pageup", "escape")
        app.ask(Form(FormPlan(title="T", fields=[A], save=refuse, back=True)))
        await pilot.pause()
        await pilot.press("pageup")
        assert app.answers == [None, BACK]


async def test_what_is_left_as_it_is_is_saved_as_it_was_also_where_it_cannot_be_shown() -> None:
    joined = "a\N{ZERO WIDTH JOINER}b"
    async with form(replace(THING[0], value=joined)) as (app, pilot, saved):
        assert app.screen.query_one("#field-name", Input).value == "a\N{REPLACEMENT CHARACTER}b"
        await press_keys(pilot, "enter")
        assert saved == [{"name": joined}]


async def test_some_fields_have_no_command() -> None:
    def fail(_values: Values) -> str:
        raise BadRequest("no option takes this")

    async with thing(command=fail) as (app, _, _):
        assert text_of(app, ".command") == ""
        assert not app.screen.query_one("#copy").display


async def test_the_key_of_the_advanced_part_is_readable_on_the_colour_of_the_cursor() -> None:
    async with form(*folded()) as (app, pilot, _):
        fold = app.screen.query_one(Fold)
        colours = []
        for is_focused in (False, True):
            if is_focused:
                fold.focus()
                await pilot.pause()
            strip = fold.render_line(0)
            colours.append({segment.style.color for segment in strip if segment.style and segment.text.strip()})
        assert len(colours[0]) > 1
        assert len(colours[1]) == 1


async def test_a_hint_that_has_no_room_ends_with_an_ellipsis_and_is_whole_under_the_field_with_the_focus() -> None:
    hint = "none, or rpm=60 tpm=200k: requests and tokens in a minute, and what else there may be"
    async with form(replace(A, hint=hint), replace(B, hint="short"), size=(60, 24)) as (app, pilot, _):
        await pilot.pause()
        found = []
        for key in ("tab", "shift+tab", "x"):
            found.append(text_of(app, "#wrong-a"))
            await press_keys(pilot, key)
        found.append(text_of(app, "#wrong-a"))
        assert found == [hint, "", hint, ""]
        placeholders = [one.placeholder for one in app.screen.query(Input)]
        assert (placeholders[0][-1], placeholders[1]) == ("\N{HORIZONTAL ELLIPSIS}", "short")


@pytest.mark.parametrize(("height", "rows"), [(24, 3), (14, 1)])
async def test_a_long_command_is_whole_where_there_is_room_or_ends_with_an_ellipsis(height: int, rows: int) -> None:
    words = " ".join(f"--option-{number} value" for number in range(10))
    fields = [FormField(id=name, label=name.upper()) for name in "abcdef"]
    async with form(*fields, size=(80, height), command=lambda _: words) as (app, _, _):
        command = app.screen.query_one(".command", Static)
        lines = [command.render_line(y).text.rstrip() for y in range(command.size.height)]
        assert len(lines) == rows
        assert lines[-1].endswith("\N{HORIZONTAL ELLIPSIS}") == (rows == 1)


async def test_on_the_lowest_screen_a_field_its_label_and_the_buttons_are_seen() -> None:
    fields = [FormField(id=name, label=f"Field {name}, dollars") for name in "abc"]
    told = {"title": "First steps, 1 of 4: your balance", "intro": "Every call is charged. " * 5}
    async with form(*fields, size=(20, 5), **told) as (app, pilot, _):
        for key, name in (("", "a"), ("down", "b"), ("up", "a")):
            await press_keys(pilot, *([key] if key else []))
            places = (".title", f"#field-{name}", "#save")
            assert [app.screen.query_one(place).region.y for place in places] == [0, 2, 4]


@pytest.mark.parametrize(("keys", "answers"), [(["enter"], ["7"]), (["escape"], [None])])
async def test_a_form_for_one_line_checks_it_returns_its_text_and_is_left_without_a_question(
    keys: list[str], answers: list[str | None]
) -> None:
    async with asked(lambda: Form(line_plan("How many?", "Number", "12", parse_count))) as (app, pilot):
        await pilot.press("enter")
        assert text_of(app, "#wrong-text") == "required"
        await pilot.press("x", "enter")
        assert "is not a whole number" in text_of(app, "#wrong-text")
        assert app.answers == []
        await press_keys(pilot, "backspace", "7", *keys)
        assert app.answers == answers
