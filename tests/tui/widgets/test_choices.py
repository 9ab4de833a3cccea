from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widget import Widget

from tests.tui.stage import console
from tests.tui.widgets.stage import WidgetStage, asked, press_keys
from tui.widgets.choices import CheckList, ChooseOne, MultiSelect, Picker
from tui.widgets.dialogs import BACK


@asynccontextmanager
async def focused(widget: Widget, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[Any]]:
    """A stage with a widget that has the focus."""
    async with WidgetStage(widget).run_test(size=size) as pilot:
        widget.focus()
        yield pilot


@pytest.mark.parametrize(
    ("width", "shown"), [(80, "< one >   1 of 2; left, right, or type"), (20, "< one >   1 of 2"), (12, "< one >")]
)
async def test_it_reads_without_colour_and_its_hint_is_whole_or_left_out(width: int, shown: str) -> None:
    choice = Picker(["one", "two"], "one", id="c")
    async with focused(choice, size=(width, 5)):
        assert choice.render().plain == shown


async def test_a_value_that_is_not_an_option_is_the_first() -> None:
    assert Picker(["one", "two"], "seven", id="c").value == "one"


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["left"], "frank"),
        (["left", "right"], "default"),
        (["space", "space"], "friends"),
        ([*"agen"], "agents"),
        ([*"agen", *"fra"], "frank"),
        ([*"fra", "right", "l"], "agents"),
    ],
)
async def test_keys_go_round_and_letters_choose(keys: list[str], chosen: str) -> None:
    choice = Picker(["default", "agents", "friends", "frank"], "default", id="c")
    async with focused(choice) as pilot:
        await pilot.press(*keys)
        assert choice.value == chosen


async def test_a_letter_that_begins_no_name_is_a_key() -> None:
    choice = Picker(["one", "two"], "one", id="c")
    pressed: list[str] = []

    class Stage(WidgetStage):
        def key_q(self) -> None:
            pressed.append("q")

    async with Stage(choice).run_test() as pilot:
        choice.focus()
        await pilot.press("t", "q")
        assert (choice.value, pressed) == ("two", ["q"])


async def test_a_click_is_the_next() -> None:
    choice = Picker(["one", "two"], "one", id="c")
    async with focused(choice) as pilot:
        await pilot.click(choice)
        assert choice.value == "two"


OPTIONS = [("a", "Apple"), ("b", "[b]Banana"), ("c", "Cherry")]


async def test_space_changes_the_one_under_the_cursor() -> None:
    checks = CheckList(OPTIONS, ["b"])
    async with focused(checks) as pilot:
        await pilot.press("space", "j", "space", "up", "up", "space")
        assert checks.checked == {"a", "c"}
        assert [str(one.prompt) for one in checks.options] == ["[x] Apple", "[ ] [b]Banana", "[x] Cherry"]


async def test_the_cursor_goes_to_both_ends_and_by_pages() -> None:
    checks = CheckList([(str(number), str(number)) for number in range(50)], [])
    async with focused(checks, size=(40, 20)) as pilot:
        rows = []
        for key in ("G", "down", "end", "pageup", "home", "pagedown", "g", "pageup"):
            await pilot.press(key)
            rows.append(checks.highlighted)
        assert rows == [49, 0, 49, 29, 0, 20, 0, 0]


async def test_all_can_be_on_or_off_and_a_click_changes_what_it_hits() -> None:
    checks = CheckList(OPTIONS, [])
    async with focused(checks) as pilot:
        await pilot.press("a")
        assert checks.checked == {"a", "b", "c"}
        await pilot.press("a")
        assert checks.checked == set()
        await pilot.click(checks, offset=(2, 2))
        assert checks.checked == {"c"}


async def test_nothing_to_choose_from_does_not_crash() -> None:
    checks = CheckList([], [])
    async with focused(checks) as pilot:
        await pilot.press("j", "space", "a")
        assert checks.checked == set()


MODELS = [("a", "new [b]a[/]"), ("b", "gone b"), ("c", "new c")]


@pytest.mark.parametrize(
    ("options", "keys", "answer"),
    [
        ({}, ["space", "down", "space", "enter"], {"a"}),
        ({}, ["a", "escape", "y"], None),
        ({}, ["slash", *"new c", "enter", "a", "enter"], {"b", "c"}),
        ({}, ["r", "enter"], {"b"}),
        ({"resets": True}, ["r"], set()),
        ({"resets": True}, ["space", "escape"], None),
        ({}, ["b", "escape"], None),
        ({"back": True}, ["b"], BACK),
    ],
    ids=[
        *("enter gives what is on", "escape changes nothing", "a filter leaves the rest", "r alone", "a reset"),
        *("a choice without consequences needs no question", "without a step before", "back to the step before"),
    ],
)
async def test_several_are_chosen(options: dict[str, Any], keys: list[str], answer: object) -> None:
    async with asked(lambda: MultiSelect("Models", "what to take", MODELS, ["b"], **options)) as (app, pilot):
        await press_keys(pilot, *keys)
        assert app.answers == [answer]


async def test_what_was_selected_is_not_discarded_without_a_question() -> None:
    async with asked(MultiSelect("Models", "", OPTIONS, ["b"])) as (app, pilot):
        await pilot.press("space", "escape", "n", "escape", "escape")
        assert app.answers == []
        await press_keys(pilot, "space", "escape")
    assert app.answers == [None]


async def test_escape_leaves_the_search_before_the_dialog() -> None:
    async with asked(MultiSelect("Models", "what to take", MODELS, ["b"])) as (app, pilot):
        await pilot.press("slash", *"zzz", "escape")
        assert app.answers == []
        assert app.screen.query_one(CheckList).shown == MODELS
        await pilot.press("escape")
        assert app.answers == [None]


LONG = "word " * 19


@pytest.mark.parametrize(
    ("dialog", "row"),
    [
        (ChooseOne("Choose", [("a", LONG)], "a"), f"(x) a  {LONG}"),
        (MultiSelect("Choose", "", [("a", LONG)], []), f"[ ] {LONG}"),
    ],
)
async def test_a_dialog_is_as_wide_as_its_longest_option(dialog: ModalScreen[Any], row: str) -> None:
    app = console()
    async with app.run_test(size=(140, 30)) as pilot:
        app.push_screen(dialog)
        await pilot.pause()
        choices = dialog.query_one(".choices")
        assert row.strip() in choices.render_line(0).text
        assert choices.size.height == 1


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("d", "Disable"),
        ("dd", "Delete"),
        ("ddd", "Disable"),
        ("m", "Move"),
        ("x", "Enable"),
        ("jm", "Move"),
        ("de", "Delete"),
        ("work", "work"),
    ],
)
async def test_a_letter_goes_to_the_next_option_that_begins_with_it(keys: str, chosen: str) -> None:
    options = [(name, "") for name in ("Enable", "Disable", "Move", "Delete", "home", "work")]
    async with asked(ChooseOne("What", options, "")) as (app, pilot):
        await press_keys(pilot, *keys, "enter")
    assert app.answers == [chosen]


async def test_letters_that_are_keys_elsewhere_find_options_too() -> None:
    app = WidgetStage()
    options = [(name, "") for name in ("default", "jobs", "kids", "qa")]
    async with app.run_test() as pilot:
        for letter in "qkj":
            app.ask(ChooseOne("What", options, ""))
            await pilot.pause()
            await press_keys(pilot, letter, "enter")
    assert app.answers == ["qa", "kids", "jobs"]
