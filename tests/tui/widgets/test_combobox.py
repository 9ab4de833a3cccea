from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

import pytest

from gateway.domain.errors import BadRequest
from tests.tui.widgets.stage import form, press_keys
from tui.widgets.combobox import MAX_LISTED, ChoiceInput, ChoiceList, Suggestion, matching_suggestions
from tui.widgets.form import FormField

VENDORS = [
    Suggestion("openai", "https://api.openai.com/v1"),
    Suggestion("groq", "https://api.groq.com/openai/v1"),
    Suggestion("mistral", "https://api.mistral.ai/v1"),
    Suggestion("open-router", "https://openrouter.ai"),
]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", ["openai", "groq", "mistral", "open-router"]),
        ("open", ["openai", "open-router", "groq"]),
        ("GROQ", ["groq"]),
        ("api mistral", ["mistral"]),
        ("nobody", []),
    ],
)
def test_names_and_descriptions_are_searched_and_beginnings_come_first(typed: str, found: list[str]) -> None:
    assert [one.text for one in matching_suggestions(VENDORS, typed)] == found


class Asked:
    """A form of one such field behind a plain one, or before it."""

    def __init__(self, field: FormField, *, comes_first: bool = False) -> None:
        plain = FormField(id="plain", label="Plain")
        self._field, self._fields = field.id, [field, plain] if comes_first else [plain, field]

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[Self]:
        """Its first field has the focus."""
        async with form(*self._fields) as (self.app, self.pilot, self._values):
            yield self

    @property
    def saved(self) -> list[str]:
        return [values[self._field] for values in self._values]

    async def press(self, *keys: str) -> None:
        await press_keys(self.pilot, *keys)

    @property
    def listed(self) -> list[str]:
        """What the list shows; nothing if it is closed."""
        shown = self.app.screen.query_one(ChoiceList)
        return [str(one.prompt).split(" ")[0] for one in shown.options] if shown.display else []

    @property
    def focused(self) -> str | None:
        """The id of what has the focus."""
        return self.app.focused.id if self.app.focused else None

    @property
    def line(self) -> ChoiceInput:
        return self.app.screen.query_one(ChoiceInput)


def vendors() -> Asked:
    return Asked(FormField(id="vendor", label="Vendor", suggest=VENDORS, narrows=True))


def models(options: Sequence[str], **changes: str) -> Asked:
    return Asked(FormField(id="model", label="Model", options=options, **changes))  # type: ignore[arg-type]


async def test_an_empty_line_lists_all_choices_and_typing_narrows_them() -> None:
    async with vendors().shown() as asked:
        assert asked.listed == []
        await asked.press("tab")
        assert asked.listed == ["openai", "groq", "mistral", "open-router"]
        await asked.press("g", "r")
        assert asked.listed == ["groq"]
        await asked.press("enter")
        assert (asked.line.value, asked.listed, asked.saved) == ("groq", [], [])
        await asked.press("enter")
        assert asked.saved == ["groq"]


async def test_erasing_what_was_typed_lists_all_choices_again_and_takes_none() -> None:
    async with vendors().shown() as asked:
        await asked.press("tab", "m", "backspace")
        assert asked.listed == ["openai", "groq", "mistral", "open-router"]
        await asked.press("tab")
        assert asked.line.value == ""


async def test_arrows_go_through_the_list_and_escape_closes_only_the_list() -> None:
    async with vendors().shown() as asked:
        await asked.press("tab")
        await asked.press("escape")
        assert asked.listed == []
        assert asked.app.answers == []
        await asked.press("o")
        await asked.press("down", "enter")
        assert asked.line.value == "open-router"


async def test_arrows_leave_the_field_past_the_ends_of_the_list_and_do_not_open_it() -> None:
    async with vendors().shown() as asked:
        await asked.press("down")
        assert (asked.focused, asked.listed) == ("field-vendor", [])
        await asked.press("down")
        assert asked.focused == "save"
        await asked.press("shift+tab", "shift+tab")
        await asked.press(*["down"] * len(VENDORS))
        assert asked.focused == "field-vendor"
        await asked.press("down")
        assert asked.focused == "save"


async def test_down_leaves_the_field_once_its_only_choice_is_typed_whole() -> None:
    async with Asked(FormField(id="groups", label="Groups", suggest=VENDORS, many=True)).shown() as asked:
        await asked.press("tab", *"openai, groq")
        await asked.press("down")
        assert (asked.focused, asked.listed, asked.line.value) == ("save", [], "openai, groq")


@pytest.mark.parametrize("keys", [["enter"], ["down", "enter"]])
async def test_enter_chooses_what_was_typed_whole_and_saves_nothing(keys: list[str]) -> None:
    async with vendors().shown() as asked:
        await asked.press("tab", *"mistral", *keys)
        assert (asked.line.value, asked.focused, asked.listed, asked.saved) == ("mistral", "field-vendor", [], [])
        await asked.press("enter")
        assert asked.saved == ["mistral"]


async def test_in_a_form_of_one_field_enter_uses_what_it_chooses() -> None:
    models = [f"model-{letter}" for letter in "abcdefghij"]
    async with form(FormField(id="model", label="Model", value="model-a", options=models)) as (app, pilot, saved):
        await press_keys(pilot, "ctrl+u", *"-c", "enter")
        assert (saved, app.answers) == ([{"model": "model-c"}], ["made"])


async def test_a_choice_can_be_clicked() -> None:
    async with vendors().shown() as asked:
        await asked.pilot.click("#field-vendor")
        await asked.pilot.pause()
        await asked.pilot.click(ChoiceList, offset=(3, 3))
        await asked.pilot.pause()
        assert asked.line.value == "mistral"
        assert asked.line.has_focus
        assert asked.listed == []


async def test_what_is_half_typed_stands_for_the_first_that_fits() -> None:
    async with models([f"model-{number}" for number in range(40)]).shown() as asked:
        await asked.press("tab", "3", "7", "tab")
        assert asked.line.value == "model-37"


async def test_only_one_of_the_choices_is_accepted() -> None:
    async with models([f"model-{number}" for number in range(40)], value="model-3").shown() as asked:
        await asked.press("tab", *"nobody", "enter")
        assert asked.saved == []
        wrong = str(asked.app.screen.query_one("#wrong-model").render())
        assert wrong.startswith("no such choice: nobody")


async def test_few_choices_are_stepped_through_and_need_no_typing() -> None:
    async with models(["a", "b", "c"]).shown() as asked:
        assert not asked.app.screen.query(ChoiceInput)


async def test_a_long_list_says_how_much_more_there_is() -> None:
    async with models([f"model-{number}" for number in range(MAX_LISTED + 12)]).shown() as asked:
        await asked.press("tab")
        last = asked.app.screen.query_one(ChoiceList).options[-1]
        assert str(last.prompt) == "12 more: type to narrow"
        assert last.disabled


async def test_in_a_list_of_names_the_one_under_the_cursor_is_completed() -> None:
    async with Asked(FormField(id="groups", label="Groups", suggest=VENDORS, many=True)).shown() as asked:
        await asked.press("tab", *"groq, mis")
        assert asked.listed == ["mistral"]
        await asked.press("down", "enter", "enter")
        assert asked.saved == ["groq, mistral"]


async def test_a_form_that_begins_with_such_a_field_does_not_open_its_list() -> None:
    async with Asked(FormField(id="vendor", label="Vendor", suggest=VENDORS), comes_first=True).shown() as asked:
        assert (asked.focused, asked.listed) == ("field-vendor", [])
        await asked.press("down")
        assert asked.focused == "field-plain"


async def test_what_is_typed_into_a_list_of_choices_is_wrong_only_once_the_list_is_closed() -> None:
    def read(text: str) -> str:
        if text and text not in ("openai", "groq"):
            raise BadRequest(f"unknown {text}")
        return text

    async with Asked(
        FormField(id="vendor", label="Vendor", suggest=VENDORS, narrows=True, parse=read)
    ).shown() as asked:
        await asked.press("down", *"open")
        wrong = asked.app.screen.query_one("#wrong-vendor")
        assert (asked.listed[:1], wrong.display) == (["openai"], False)
        await asked.press("escape")
        assert (asked.listed, wrong.display) == ([], True)
