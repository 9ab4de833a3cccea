"""Form: typed fields in a dialog, checked while typing; the server's errors are shown at the field they concern.

A ``FormPlan`` defines the fields and what is done with them; its fields are parsed by functions that raise BadRequest.
The equivalent command is at the bottom and changes while the user types. An error of a field is shown once the field
was edited, or after an attempt to save. Advanced fields are folded at the end, and unfold by themselves if one of them
differs from its default or is wrong. A form with changes asks before it is left.

Long: the plan, the rows and the screen are read together.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.field_kinds import NONE_WORDS
from tui.clipboard import copy_text
from tui.key_advice import advice_in
from tui.screens import DialogScreen
from tui.text import cell, content, safe, safe_lines
from tui.widgets.choices import Picker
from tui.widgets.combobox import PICKED, ChoiceInput, Combobox, Suggestion
from tui.widgets.dialogs import BACK, Confirm, Dialog, HintInput

T = TypeVar("T")

Values = Mapping[str, Any]
"""The parsed values, by field id."""


LABEL_WIDTH = 27
"""The most cells of the labels."""


def text_line(text: str) -> str:
    """Returns any text, stripped."""
    return text.strip()


def require_text(text: str) -> str:
    """Returns a text that is not empty. Raises BadRequest."""
    if not text.strip():
        raise BadRequest("required")
    return text.strip()


def optional(read: Callable[[str], T]) -> Callable[[str], T | None]:
    """Returns a reader for which an empty text, ``none`` and ``never`` mean no value."""
    return lambda text: None if text.strip().lower() in NONE_WORDS else read(text)


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form."""

    id: str
    """The server's name for it, by which an error finds its field."""
    errors: Sequence[str] = ()
    """Other names of the server whose errors are shown here."""
    label: str
    value: str = ""
    hint: str = ""
    """The placeholder: an example."""
    note: str = ""
    """A sentence below it."""
    options: Sequence[str] = ()
    """The options, if the field is a choice."""
    suggest: Sequence[Suggestion] = ()
    """The suggestions in its list; other text is accepted too, unless ``parse`` rejects it."""
    narrows: bool = False
    """Whether typed text stands for the first matching suggestion."""
    literal: str = ""
    """A text that contains this is not replaced by a suggestion."""
    many: bool = False
    """Whether the suggestions are for a comma-separated list of names."""
    secret: bool = False
    """Whether it is hidden while it is typed."""
    advanced: bool = False
    """Whether it is folded at the end of the form, unless its value is not the default."""
    default: str = ""
    """The text of its default."""
    applies: Callable[[Mapping[str, str]], bool] = lambda _: True
    """Whether it is shown, given the texts of all fields. A field that is not shown keeps its value."""
    parse: Callable[[str], Any] = text_line

    def read(self, text: str) -> Any:
        """Returns the value. Raises BadRequest."""
        if self.options and text not in self.options:
            raise BadRequest(f"no such choice: {safe(text, 40) or 'nothing'}; clear the field to see all")
        return self.parse(text)


class FormPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a form, and what it does with the values."""

    title: str
    fields: Sequence[FormField]
    save: Callable[[Values], Awaitable[Any]]
    """Called with the values; its result is the form's, and its errors are shown."""
    verb: str = "Save"
    intro: str = ""
    """Sentences above the fields."""
    back: bool = False
    """Whether it can go back to a previous step."""
    waits: str = ""
    """The text shown while ``save`` runs."""
    command: Callable[[Values], str] = lambda _: ""
    """The equivalent command, without ``tollkeeper`` in front; it never contains a secret.

    It raises BadRequest if the values are invalid, or no command can express them; then none is shown.
    """
    live: Callable[[Values], str] = lambda _: ""
    """A sentence about the current values."""
    keep: Callable[[Mapping[str, str], bool], None] = lambda _texts, _saved: None
    """Called when it is left for another step, with the texts, and whether they were saved."""
    drafted: bool = False
    """Whether changes that were entered before, here or in another step, are not saved."""
    asks: bool = True
    """Whether it asks before it is left with changes; false if the changes are only a choice."""
    needs_server: bool = True
    """Whether it is not opened without a server."""


def line_plan(title: str, label: str, example: str, check: Callable[[str], object]) -> FormPlan:
    """Returns a form for one line, whose result is the text. ``check`` raises BadRequest if a text is wrong."""

    def parse(text: str) -> str:
        check(require_text(text))
        return text

    async def save(values: Values) -> str:
        return str(values["text"])

    field = FormField(id="text", label=label, hint=example, parse=parse)
    return FormPlan(title=title, fields=[field], save=save, verb="OK", asks=False, needs_server=False)


class FormRow(Horizontal):
    """The label and input of a field, and its error."""

    def __init__(self, field: FormField, label_width: int) -> None:
        super().__init__(classes="row")
        self.field = field
        self._label_width = label_width
        self.input = _input(field)
        """The widget where the value is typed or picked."""
        self._initial = self.input.value
        self.edited = False
        """Whether it ever differed from the initial value."""
        self._complaint = ""

    def compose(self) -> ComposeResult:
        yield Static(Content(cell(safe(self.field.label), self._label_width)), classes="label")
        with Vertical(classes="value"):
            yield Combobox(self.input) if isinstance(self.input, ChoiceInput) else self.input
            if self.field.note:
                yield Static(content((safe(self.field.note), "warn")), classes="note")
            yield Static(classes="complaint wrong", id=f"wrong-{self.field.id}")

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw_line)  # when the input has its size

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def draw_line(self) -> None:
        """Show the error below the field, or the whole hint of the field with the focus if the hint is cut."""
        hint = self.field.hint if isinstance(self.input, HintInput) and self.input.hides_hint else ""
        place = self.query_one(".wrong", Static)
        place.update(content((safe(self._complaint or hint), "bad" if self._complaint else "dim")))
        place.display = bool(self._complaint or hint)

    @on(events.DescendantFocus)
    def show_whole(self) -> None:
        """Scroll the row into view with the line below it; Textual does so only for the input."""
        self.call_after_refresh(self.scroll_visible, animate=False)

    @property
    def text(self) -> str:
        """Returns its text; the original value while unchanged, even if that is not shown in full."""
        is_shown = self.changed or isinstance(self.input, Picker)
        return self.input.value if is_shown else self.field.value

    @property
    def changed(self) -> bool:
        """Returns whether it differs from its initial value."""
        return self.input.value != self._initial

    @property
    def valid(self) -> bool:
        """Returns whether its text could be saved."""
        try:
            self.field.read(self.text)
        except BadRequest:
            return False
        return True

    @property
    def choosing(self) -> bool:
        """Returns whether its choices are listed: the typed text only narrows them so far."""
        return isinstance(self.input, ChoiceInput) and self.input.choosing

    def complain(self, complaint: str) -> None:
        """Show an error; an empty text removes it."""
        self._complaint = advice_in(self, complaint)
        self.draw_line()


def _input(field: FormField) -> HintInput | Picker:
    name, initial = f"field-{field.id}", safe(field.value, 200_000)  # the names of thousands of models
    if field.suggest or len(field.options) > PICKED:
        choices = field.suggest or [Suggestion(option) for option in field.options]
        return ChoiceInput(
            initial,
            choices,
            only=bool(field.options) or field.narrows,
            literal=field.literal,
            many=field.many,
            placeholder=field.hint,
            id=name,
        )
    if field.options:
        return Picker(field.options, field.value, id=name)
    return HintInput(initial, hint=field.hint, password=field.secret, id=name)


class Fold(Widget, can_focus=True):
    """The line that opens and closes the advanced part."""

    is_open = reactive(False)
    BINDINGS = [Binding("enter,space", "screen.fold", show=False)]  # noqa: RUF012 - Textual reads it, never changes it

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__(classes="fold")
        self._labels = ", ".join(labels)

    def render(self) -> Content:
        """Returns the line with the labels of its fields, if it is closed. With the focus it has no other tones: on the
        cursor's colour those of keys and hints are unreadable.
        """
        held = "" if self.is_open else f"   {safe(self._labels)}"
        tones = ("", "") if self.has_focus else ("key", "dim")
        head = (f"{'▼' if self.is_open else '▸'} Advanced", "bold")
        return content(head, ("   ^o", tones[0]), (held, tones[1]))

    async def on_click(self) -> None:
        self.focus()
        await self.run_action("screen.fold")


class FormFields(VerticalScroll, inherit_bindings=False):
    """All rows. It scrolls to the field with the focus, and has no keys of its own: up and down are the form's."""

    def __init__(self, fields: Sequence[FormField]) -> None:
        super().__init__(classes="fields", can_focus=False)
        width = min(LABEL_WIDTH, max(len(field.label) for field in fields) + 2)
        self.rows = {field.id: FormRow(field, width) for field in fields}
        if isinstance(first := self.rows[fields[0].id].input, ChoiceInput):
            first.quiet = True  # its list would hide the other fields

    def compose(self) -> ComposeResult:
        rows = list(self.rows.values())
        folded = [row for row in rows if row.field.advanced]
        yield from (row for row in rows if not row.field.advanced)
        if folded:
            yield Fold([row.field.label.partition(",")[0] for row in folded])
            yield Vertical(*folded, classes="advanced")

    def on_mount(self) -> None:
        fields = [row.field for row in self.rows.values()]
        self.unfold(is_open=any(field.advanced and field.value != field.default for field in fields))

    @property
    def changed(self) -> bool:
        """Returns whether any visible field differs from its initial value."""
        return any(row.changed and row.display for row in self.rows.values())

    def texts(self) -> dict[str, str]:
        """Returns the texts of all fields; fields that do not apply are hidden and keep their original text."""
        texts = {id_: row.text for id_, row in self.rows.items()}
        for row in self.rows.values():
            row.display = row.field.applies(texts)
        return {id_: text if self.rows[id_].display else self.rows[id_].field.value for id_, text in texts.items()}

    def unfold(self, *, is_open: bool) -> None:
        """Open or close the advanced part."""
        for fold in self.query(Fold):
            fold.is_open = is_open
            self.query_one(".advanced").display = is_open

    def named(self, name: str) -> str:
        """Returns the id of the field that the server calls by this name; empty if none is shown."""
        there = (row.field for row in self.rows.values() if row.display)
        return next((field.id for field in there if name and name in (field.id, *field.errors)), "")

    def go_to(self, field: str) -> None:
        """Focus a field, also one that is out of sight."""
        if self.rows[field].field.advanced:
            self.unfold(is_open=True)
        self.rows[field].input.focus()


NO_SERVER = (
    "There is no server, and nothing was saved. What you entered stays here: start the server in another terminal with "
    "'tollkeeper serve', then try again."
)
"""The message without a server. It names no key: letters are typed into a form, also the one that starts a server
elsewhere."""


class CommandLine(Static):
    """A text that ends with an ellipsis if it does not fit."""

    def render_line(self, y: int) -> Strip:
        strip, (width, height) = super().render_line(y), self.size
        if y != height - 1 or self.visual.get_height(self.styles.get_rules(), width) <= height:
            return strip
        return Strip.join([strip.crop(0, width - 1), Strip([Segment("…", self.rich_style)])])


class Form(DialogScreen[Any]):
    """A form. Its result is that of ``save``, BACK, or None if it was closed."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape", "leave", "Cancel"),
        Binding("ctrl+q", "quit", "Quit", show=False),
        Binding("enter", "save", "Done"),
        Binding("pageup", "back", "Back", show=False),
        Binding("ctrl+o", "fold", "Advanced", show=False),
        Binding("down", "walk(1)", show=False),
        Binding("up", "walk(-1)", show=False),
    ]

    def __init__(self, plan: FormPlan) -> None:
        super().__init__()
        self.plan = plan
        self.needs_server = plan.needs_server
        self.fields = FormFields(plan.fields)
        self._tried = False
        """Whether saving was attempted: from then on all errors are shown."""
        self._wrong: list[str] = []
        """The ids of the fields that are not valid."""
        self._busy = False

    def compose(self) -> ComposeResult:
        with Dialog(classes="dialog big form"):
            yield Static(Content.styled(safe(self.plan.title), "bold"), classes="title")
            if self.plan.intro:
                yield Static(Content(safe_lines(self.plan.intro)), classes="intro")
            yield self.fields
            yield Static(classes="live")
            yield CommandLine(classes="command")
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="leave", compact=True)
                if self.plan.back:
                    yield Button("Back (pgup)", id="back", compact=True)
                yield Button(Content(safe(self.plan.verb)), id="save", variant="primary", compact=True)
                yield Button("Copy command", id="copy", compact=True)

    def on_mount(self) -> None:
        inputs = [row.input for row in self.fields.rows.values()]
        if len(inputs) == 1 and isinstance(inputs[0], ChoiceInput) and not self.plan.fields[0].many:
            inputs[0].alone = True
        self.check()

    def check(self) -> Values | None:
        """Parse every field and show its error below it. Returns the values; None if any field is wrong."""
        texts = self.fields.texts()
        values: dict[str, Any] = {}
        self._wrong = []
        for id_, row in self.fields.rows.items():
            complaint = ""
            try:
                values[id_] = row.field.read(texts[id_])
            except BadRequest as error:
                complaint = error.message
                self._wrong.append(id_)
            row.edited = row.edited or row.changed
            row.complain(complaint if (row.edited or self._tried) and not row.choosing else "")
        right = not self._wrong
        self.query_one(".live", Static).update(content((safe_lines(self.plan.live(values)) if right else "", "live")))
        command = self._command()
        self.query_one("#copy").set_class(not command, "-none")
        self.query_one(".command", Static).update(content((f"$ {safe(command)}" if command else "", "dim")))
        return values if right else None

    @on(Input.Changed)
    @on(Picker.Picked)
    @on(ChoiceInput.Closed)
    def typed(self) -> None:
        """Check the form after a change of a value."""
        self.check()

    async def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "copy":
            copy_text(self, self._command(), "Command copied.")
        else:
            await self.run_action(event.button.id or "")

    async def on_click(self, event: events.Click) -> None:
        """Leave the form after a click beside the dialog."""
        if event.widget is self:
            await self.action_leave()

    async def action_leave(self, *, quitting: bool = False) -> None:
        """Leave the form, after a question if it has changes; ``quitting``: also leave the console."""

        async def decided(leave: bool | None) -> None:  # noqa: FBT001 - Textual calls it
            if leave:
                self.dismiss(None)
                if quitting:
                    await self.app.run_action("app.act('leave')")

        if self.plan.asks and (self.fields.changed or self.plan.drafted):
            question = Confirm("Discard what you entered?", "Nothing has been saved.", "Discard", keep="Keep editing")
            self.app.push_screen(question, decided)
        else:
            await decided(leave=True)

    async def action_quit(self) -> None:
        """Leave the form and the console."""
        await self.action_leave(quitting=True)

    def action_back(self) -> None:
        """Go to the previous step, if there is one."""
        if self.plan.back and not self._busy:
            self.plan.keep(self.fields.texts(), False)
            self.dismiss(BACK)

    def action_fold(self) -> None:
        """Open the advanced part and go to its first field, unless the current field is not valid yet. Or close it, and
        move the focus from one of its fields to the last field before it.
        """
        if not self.query(Fold):
            return
        part = self.query_one(".advanced")
        inside = self.focused is not None and part in self.focused.ancestors
        self.fields.unfold(is_open=not part.display)
        row = next((row for row in self.fields.rows.values() if row.input.has_focus), None)
        if part.display and row is not None and not row.valid:
            return
        if part.display or inside:
            there = [row for row in self.fields.rows.values() if row.display and row.field.advanced == part.display]
            field = there[0 if part.display else -1].input
            if isinstance(field, ChoiceInput):
                field.quiet = True
            field.focus()

    def action_walk(self, by: int) -> None:
        """Go to the next or previous field, whose list stays closed: down and up would go through it."""
        field = self.focus_next() if by > 0 else self.focus_previous()
        if isinstance(field, ChoiceInput):
            field.quiet = True

    @on(Input.Submitted)
    def action_save(self) -> None:
        """Save if all fields are valid, otherwise go to the first invalid one."""
        self._tried = True
        values = self.check()
        if values is None:
            self.fields.go_to(self._wrong[0])
        elif not self._busy:
            self._busy = True
            if self.plan.waits:
                self.query_one(".live", Static).update(content((safe_lines(self.plan.waits), "live")))
            self.run_worker(self._work(values), group="save", exit_on_error=True)

    async def _work(self, values: Values) -> None:
        try:
            result = await self.plan.save(values)
            self.plan.keep(self.fields.texts(), True)
            self.dismiss(result)
        except GatewayError as error:
            self.check()
            if field := self.fields.named((error.param or "").partition("[")[0].partition(".")[0]):
                self.fields.rows[field].complain(error.message)
                self.fields.go_to(field)
            else:
                gone = error.code == "server_gone"
                text = NO_SERVER if gone else safe_lines(advice_in(self, error.message))
                self.query_one(".live", Static).update(content((text, "bad")))
        finally:
            self._busy = False

    def _command(self) -> str:
        rows, texts = self.fields.rows, self.fields.texts()
        shown = {id_: "..." if rows[id_].field.secret and text else text for id_, text in texts.items()}
        try:
            text = self.plan.command(shown)
        except BadRequest:
            return ""
        return f"tollkeeper {text}" if text else ""
