"""Form: typed fields in a dialog, checked while typing; the server's errors are shown at the field they concern.

A Plan says which fields there are and what is done with them; its fields are parsed by functions that raise BadRequest.
The command that does the same stands at the bottom and changes with what is typed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Button, Input, Static

from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.kinds import NONE_WORDS
from tui.clipboard import copied
from tui.text import content, safe, safe_lines
from tui.widgets.choices import Picker
from tui.widgets.dialogs import BACK

T = TypeVar("T")

Values = Mapping[str, Any]
"""The parsed values, by field id."""


VALUE_LIMIT = 200_000
"""Most characters in a field: the names of thousands of models."""


def text_line(text: str) -> str:
    """Any text."""
    return text.strip()


def required(text: str) -> str:
    """Text that is not empty. Raises BadRequest."""
    if not text.strip():
        raise BadRequest("required")
    return text.strip()


def optional(read: Callable[[str], T]) -> Callable[[str], T | None]:
    """The same, where an empty text, ``none`` and ``never`` mean no value."""
    return lambda text: None if text.strip().lower() in NONE_WORDS else read(text)


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form."""

    id: str
    """The server's name for it, so that an error finds its field."""
    label: str
    value: str = ""
    hint: str = ""
    """Placeholder: an example."""
    options: Sequence[str] = ()
    """If any, the field is a choice of these."""
    suggest: Sequence[str] = ()
    """Completions; the first match is offered, and accepted with the right arrow."""
    secret: bool = False
    """Not shown while it is typed."""
    parse: Callable[[str], Any] = text_line


class FormPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a form, and what it does with the values."""

    title: str
    fields: Sequence[Field]
    save: Callable[[Values], Awaitable[Any]]
    """Called with the values; its result is the form's, its errors are shown."""
    verb: str = "Save"
    intro: str = ""
    """Some sentences above the fields."""
    back: bool = False
    """Whether there is a step before this one to go back to."""
    waits: str = ""
    """Shown while ``save`` runs."""
    command: Callable[[Values], str] = lambda _: ""
    """The command that does the same, without ``tollkeeper`` in front; never with a secret in it.

    There is none if it raises BadRequest: what is typed is not valid, or no command can express it.
    """
    live: Callable[[Values], str] = lambda _: ""
    """A sentence about the current values."""


class FormFields(VerticalScroll, inherit_bindings=False):
    """Scrolls to the field that has the focus, and has no keys of its own: up and down are the form's."""


class Form(ModalScreen[Any]):
    """The result of ``save``, BACK, or None if it was closed."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape", "leave", "Cancel"),
        Binding("enter", "save", "Done"),
        Binding("pageup", "back", "Back", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, plan: FormPlan) -> None:
        super().__init__()
        self.plan = plan
        self._busy = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog big form"):
            yield Static(Content.styled(safe(self.plan.title), "bold"), classes="title")
            if self.plan.intro:
                yield Static(Content(safe_lines(self.plan.intro)), classes="intro")
            with FormFields(classes="fields", can_focus=False):
                for field in self.plan.fields:
                    yield from _row(field)
            yield Static(classes="live")
            yield Static(classes="command")
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="leave", compact=True)
                if self.plan.back:
                    yield Button("Back (pgup)", id="back", compact=True)
                yield Button(Content(safe(self.plan.verb)), id="save", variant="primary", compact=True)
                yield Button("Copy command", id="copy", compact=True)

    def on_mount(self) -> None:
        self.check()

    def check(self) -> Values | None:
        """Parse every field and show what is wrong under it; None if anything is."""
        values, right = {}, True
        for field in self.plan.fields:
            complaint = ""
            try:
                values[field.id] = field.parse(self.text_of(field))
            except BadRequest as error:
                complaint, right = error.message, False
            self.complain(field.id, complaint)
        self.query_one(".live", Static).update(content((safe_lines(self.plan.live(values)) if right else "", "live")))
        command = self._command()
        self.query_one("#copy").display = bool(command)
        self.query_one(".command", Static).update(content((f"$ {safe(command)}" if command else "", "dim")))
        return values if right else None

    def text_of(self, field: Field) -> str:
        """The text of a field; its original value while unchanged, even if that is not shown in full."""
        widget = self.query_one(f"#field-{field.id}")
        if isinstance(widget, Input):
            return field.value if widget.value == _input_of(field) else widget.value
        return widget.value if isinstance(widget, Picker) else ""

    def complain(self, field: str, complaint: str) -> None:
        """Show what is wrong with a field; nothing if it is right."""
        place = self.query_one(f"#wrong-{field}", Static)
        place.update(content((safe(complaint), "bad")))
        place.display = bool(complaint)

    @on(Input.Changed)
    @on(Picker.Picked)
    def typed(self) -> None:
        """A value changed."""
        self.check()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "save":
            self.action_save()
        elif event.button.id == "copy":
            copied(self, self._command(), "Command copied.")
        elif event.button.id == "back":
            self.action_back()
        else:
            self.dismiss(None)

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_back(self) -> None:
        """Go to the previous step, if there is one."""
        if self.plan.back and not self._busy:
            self.dismiss(BACK)

    @on(Input.Submitted)
    def action_save(self) -> None:
        """Save if all fields are valid, else go to the first that is not."""
        values = self.check()
        if values is None:
            self._show_wrong()
        elif not self._busy:
            self._busy = True
            if self.plan.waits:
                self.query_one(".live", Static).update(content((safe_lines(self.plan.waits), "live")))
            self.run_worker(self._work(values), group="save", exit_on_error=True)

    def _show_wrong(self) -> None:
        """Go to the first field that is wrong: it may be out of sight."""
        wrong = (field.id for field in self.plan.fields if self.query_one(f"#wrong-{field.id}").display)
        if (first := next(wrong, None)) is not None:
            self.query_one(f"#field-{first}").focus()

    async def _work(self, values: Values) -> None:
        try:
            self.dismiss(await self.plan.save(values))
        except GatewayError as error:
            field = (error.param or "").partition("[")[0].partition(".")[0]
            self.check()
            if field in values:
                self.complain(field, error.message)
                self.query_one(f"#field-{field}").focus()
            else:
                self.query_one(".live", Static).update(content((safe_lines(error.message), "bad")))
        finally:
            self._busy = False

    def _command(self) -> str:
        values = {}
        for field in self.plan.fields:
            text = self.text_of(field)
            values[field.id] = "..." if field.secret and text else text
        try:
            text = self.plan.command(values)
        except BadRequest:
            return ""
        return f"tollkeeper {text}" if text else ""


def _input_of(field: Field) -> str:
    """The initial text of a field."""
    return safe(field.value, VALUE_LIMIT)


def _row(field: Field) -> ComposeResult:
    with Horizontal(classes="row"):
        yield Static(Content(safe(field.label)), classes="label")
        if field.options:
            yield Picker(field.options, field.value, id=f"field-{field.id}")
        else:
            value = _input_of(field)
            offer = SuggestFromList(field.suggest, case_sensitive=False) if field.suggest else None
            known = f"field-{field.id}"
            yield Input(value, placeholder=field.hint, password=field.secret, suggester=offer, compact=True, id=known)
    yield Static(classes="complaint wrong", id=f"wrong-{field.id}")
