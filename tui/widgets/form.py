"""Form: a dialog of fields, which are checked while the user types; an error of the server is shown at its field.

A ``FormPlan`` defines the fields and what is done with their values. A field is parsed by a function that raises
BadRequest. Its error is shown once the field was edited, or after an attempt to save. The equivalent command is at the
bottom and changes while the user types. Advanced fields are folded at the end, and unfold by themselves if one of them
differs from its default or is wrong. A question is asked before a form with changes is left.

Long: the plan, the rows and the screen are read together.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Offset, Region
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from gateway.client.cells import cell
from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.field_kinds import NONE_WORDS
from gateway.domain.text import plain
from tui.clipboard import copy_text
from tui.key_advice import advice_in
from tui.screens import DialogScreen
from tui.text import content, safe, safe_lines
from tui.widgets.choices import Picker
from tui.widgets.combobox import MAX_PICKER_OPTIONS, ChoiceInput, Suggestion
from tui.widgets.dialogs import BACK, Confirm, Dialog, HintInput

T = TypeVar("T")

Values = Mapping[str, Any]
"""The parsed values, by field id."""

LABEL_WIDTH = 27
"""The maximum width of the labels, in cells."""


def require_text(text: str) -> str:
    """Returns the text without blanks at its ends. Raises BadRequest if nothing is left."""
    if not text.strip():
        raise BadRequest("required")
    return text.strip()


def optional(parse: Callable[[str], T]) -> Callable[[str], T | None]:
    """Returns a parser that returns None for an empty text, ``none`` and ``never``, and otherwise calls ``parse``."""
    return lambda text: None if text.strip().lower() in NONE_WORDS else parse(text)


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form."""

    id: str
    """The server's name of it, which an error of the server has as its ``param``."""
    errors: Sequence[str] = ()
    """Other names that the server uses. Errors about them are shown at this field too."""
    label: str
    value: str = ""
    hint: str = ""
    """The placeholder: an example."""
    note: str = ""
    options: Sequence[str] = ()
    """The only valid texts, if the field is a choice."""
    suggest: Sequence[Suggestion] = ()
    """The suggestions in its list. Any other text is accepted too, unless ``parse`` rejects it."""
    narrows: bool = False
    """Whether a typed text, except for a URL, stands for the first suggestion that matches it."""
    many: bool = False
    """Whether the text is a comma-separated list of names with suggestions for each."""
    secret: bool = False
    """Whether the text is hidden while it is typed."""
    line_break: str = " "
    """What the input has for a line break of a text that is pasted into it."""
    advanced: bool = False
    """Whether it is folded at the end of the form, unless its value is not the default."""
    default: str = ""
    applies: Callable[[Mapping[str, str]], bool] = lambda _: True
    """Returns whether it is shown, given the texts of all fields. A field that is not shown keeps its value."""
    parse: Callable[[str], Any] = str.strip
    """Returns the value of a text. Raises BadRequest."""

    def read(self, text: str) -> Any:
        if self.options and text not in self.options:
            raise BadRequest(f"no such choice: {safe(text, 40) or 'nothing'}; clear the field to see all")
        return self.parse(text)


class FormPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a form, and what it does with the values."""

    title: str
    fields: Sequence[FormField]
    save: Callable[[Values], Awaitable[Any]]
    """Saves the values. Its result is the form's; if it raises a GatewayError, the form shows it and stays open."""
    verb: str = "Save"
    """The label of the button that saves."""
    intro: str = ""
    back: bool = False
    """Whether it can go back to a previous step."""
    progress_text: str = "saving ..."
    """The text shown while ``save`` runs."""
    command: Callable[[Mapping[str, str]], str] = lambda _: ""
    """Returns the command for the texts, without ``tollkeeper`` and secrets. Raises BadRequest if they are invalid."""
    preview: Callable[[Values], str] = lambda _: ""
    """Returns a sentence about the current values, such as what they will do."""
    confirms: bool = True
    """Whether a question is asked before the form is left with changes. False if the changes are only a choice."""
    needs_server: bool = True
    """Whether the form is opened only while a server is attached."""


def line_plan(title: str, label: str, example: str, check: Callable[[str], object]) -> FormPlan:
    """Returns the plan of a form with one line, its result. ``check`` raises BadRequest if the text is wrong."""

    def parse(text: str) -> str:
        check(require_text(text))
        return text

    field = FormField(id="text", label=label, hint=example, parse=parse)
    return field_plan(title, field, "OK", needs_server=False)


def field_plan(title: str, field: FormField, verb: str, **more: Any) -> FormPlan:
    """Returns the plan of a form with one field, whose value is the result. ``more`` are attributes of the plan."""

    async def save(values: Values) -> Any:
        return values[field.id]

    return FormPlan(title=title, fields=[field], save=save, verb=verb, confirms=False, **more)


class FormRow(Horizontal):
    """A row of the form: the label and the input of a field, and its error below."""

    def __init__(self, field: FormField, label_width: int) -> None:
        super().__init__(classes="row")
        self.field = field
        self._label_width = label_width
        self.input = _input_for(field)
        """The widget where the value is typed or picked."""
        self._initial = self.input.value
        self.edited = False
        """Whether the value ever differed from the initial one."""
        self._complaint = ""

    def compose(self) -> ComposeResult:
        yield Static(Content(cell(safe(self.field.label), self._label_width)), classes="label")
        with Vertical(classes="value"):
            yield self.input
            if isinstance(self.input, ChoiceInput):
                yield self.input.choices
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
        for place in self.query(".wrong").results(Static):  # a row is empty until it was unfolded
            place.update(content((safe(self._complaint or hint), "bad" if self._complaint else "dim")))
            place.display = bool(self._complaint or hint)

    @on(events.DescendantFocus)
    def show_whole(self) -> None:
        """Scroll the row into view with the line below it; Textual does so only for the input."""
        self.call_after_refresh(self.scroll_visible, animate=False)

    @property
    def text(self) -> str:
        """Returns the text. While it is unchanged, it is the original one, which may not be shown in full."""
        is_original = not self.changed and not isinstance(self.input, Picker)
        return self.field.value if is_original else self.input.value

    @property
    def changed(self) -> bool:
        return self.input.value != self._initial

    def complain(self, complaint: str) -> None:
        """Show an error; an empty text removes it."""
        self._complaint = advice_in(self, complaint)
        self.draw_line()


def _input_for(field: FormField) -> HintInput | Picker:
    name, initial = f"field-{field.id}", plain(field.value.replace("\t", "    "), 200_000)  # it is saved if edited
    if field.suggest or len(field.options) > MAX_PICKER_OPTIONS:
        choices = field.suggest or [Suggestion(option) for option in field.options]
        return ChoiceInput(
            initial,
            choices,
            only=bool(field.options) or field.narrows,
            many=field.many,
            placeholder=field.hint,
            id=name,
        )
    if field.options:
        return Picker(field.options, field.value, id=name)
    return HintInput(initial, hint=field.hint, password=field.secret, line_break=field.line_break, id=name)


class Fold(Widget, can_focus=True):
    """The line that opens and closes the advanced part."""

    is_open = reactive(False)
    BINDINGS = [Binding("enter,space", "screen.fold", show=False)]  # noqa: RUF012 - Textual reads it, never changes it

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__(classes="fold")
        self._labels = ", ".join(labels)

    def render(self) -> Content:
        """Returns the line, while closed with the labels of its fields; without tones on the cursor's colour."""
        labels = "" if self.is_open else f"   {safe(self._labels)}"
        key_tone, label_tone = ("", "") if self.has_focus else ("key", "dim")
        head = (f"{'▼' if self.is_open else '▸'} Advanced", "bold")
        return content(head, ("   ^o", key_tone), (labels, label_tone))

    async def on_click(self) -> None:
        self.focus()
        await self.run_action("screen.fold")


class FormFields(VerticalScroll, inherit_bindings=False):
    """All rows of a form, in a part that scrolls. It has no keys of its own, because the form handles up and down.

    Advanced rows are mounted when they are unfolded first: in the form of a channel they are most of its widgets.
    """

    def __init__(self, fields: Sequence[FormField]) -> None:
        super().__init__(classes="fields", can_focus=False)
        width = min(LABEL_WIDTH, max(len(field.label) for field in fields) + 2)
        self.rows = {field.id: FormRow(field, width) for field in fields}
        self.folded_rows = [row for row in self.rows.values() if row.field.advanced]
        self._fold = Fold([row.field.label.partition(",")[0] for row in self.folded_rows])
        self.advanced = Vertical(classes="advanced")
        _keep_closed(self.rows[fields[0].id].input)  # its list would hide the other fields

    def compose(self) -> ComposeResult:
        yield from (row for row in self.rows.values() if not row.field.advanced)
        if self.folded_rows:
            yield self._fold
            yield self.advanced

    async def on_mount(self) -> None:
        await self.unfold(is_open=any(row.field.value != row.field.default for row in self.folded_rows))

    def scroll_to_region(self, region: Region, **options: Any) -> Offset:
        """Scroll at once: the input's row is scrolled into view next, and an animation would undo that."""
        return super().scroll_to_region(region, **options | {"animate": False, "immediate": True})

    def texts(self) -> dict[str, str]:
        """Returns all texts. A field that does not apply to them is hidden, and keeps its original text."""
        texts = {id_: row.text for id_, row in self.rows.items()}
        hidden = {id_: row.field.value for id_, row in self.rows.items() if not row.field.applies(texts)}
        for id_, row in self.rows.items():
            if id_ in hidden and self.screen.focused is row.input:
                self.screen.focus_next()  # Textual would leave the focus nowhere
            row.display = id_ not in hidden
        return texts | hidden

    async def unfold(self, *, is_open: bool) -> None:
        if is_open and not self.advanced.children:
            await self.advanced.mount_all(self.folded_rows)
        self._fold.is_open = self.advanced.display = is_open

    async def go_to(self, field: str) -> None:
        """Focus a field, and unfold the advanced part if the field is in it."""
        if self.rows[field].field.advanced:
            await self.unfold(is_open=True)
        self.rows[field].input.focus()


NO_SERVER = (
    "The server is gone, and nothing was saved. What you entered stays here: start the server in another terminal with "
    "'tollkeeper serve', then try again."
)
"""The message without a server. It names a command instead of a key, because the key would be typed as text."""


class Form(DialogScreen[Any]):
    """A form. Its result is what the plan's ``save`` returns, BACK, or None if it was closed."""

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
        self.plan = plan
        self.needs_server = plan.needs_server
        self.fields = FormFields(plan.fields)
        self._line = Static(classes="preview")
        self._command_line = Static(classes="command")
        self._shows_all_errors = False
        """Set by the first attempt to save."""
        self._wrong_ids: list[str] = []
        self._is_saving = False
        intro = [Static(Content(safe_lines(plan.intro)), classes="intro")] if plan.intro else []
        buttons = [Button("Cancel", id="leave", compact=True)]
        buttons += [Button("Back (pgup)", id="back", compact=True)] if plan.back else []
        buttons += [Button(Content(safe(plan.verb)), id="save", variant="primary", compact=True)]
        buttons += [Button("Copy command", id="copy", compact=True)]
        parts = [*intro, self.fields, self._line, self._command_line, Horizontal(*buttons, classes="buttons")]
        super().__init__(Dialog(plan.title, *parts, classes="big form"))

    def on_mount(self) -> None:
        self.check()

    @on(Input.Changed)
    @on(Picker.Picked)
    @on(ChoiceInput.Closed)
    def check(self) -> Values | None:
        """Parse every field, and show errors, preview and command. Returns the values; None if a field is wrong."""
        texts = self.fields.texts()
        values: dict[str, Any] = {}
        self._wrong_ids = []
        for id_, row in self.fields.rows.items():
            complaint = ""
            try:
                values[id_] = row.field.read(texts[id_])
            except BadRequest as error:
                complaint = error.message
                self._wrong_ids.append(id_)
            row.edited = row.edited or row.changed
            is_part = isinstance(row.input, ChoiceInput) and row.input.choosing  # of a choice
            row.complain(complaint if (row.edited or self._shows_all_errors) and not is_part else "")
        self._show_line(safe_lines(self.plan.preview(values)) if not self._wrong_ids else "")
        command = self._command()
        self.query("#copy, .command").set_class(not command, "-none")
        self._command_line.update(content((f"$ {safe(command)}" if command else "", "dim")))
        return None if self._wrong_ids else values

    async def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "copy":
            copy_text(self, self._command(), "Command copied.")
        else:
            await self.run_action(event.button.id or "")

    async def on_click(self, event: events.Click) -> None:
        """Leave the form after a click outside of the dialog."""
        if event.widget is self:
            await self.action_leave()

    async def action_leave(self, *, quitting: bool = False) -> None:
        """Leave the form, after a question if it has changes; ``quitting``: also leave the console."""

        async def leave_if(confirmed: bool | None) -> None:  # noqa: FBT001 - Textual calls it
            if confirmed:
                self.dismiss(None)
                if quitting:
                    await self.app.run_action("app.act('leave')")

        has_changes = any(row.changed and row.display for row in self.fields.rows.values())
        if self.plan.confirms and has_changes:
            effect = "The server may still save it." if self._is_saving else "Nothing has been saved."
            question = Confirm("Discard what you entered?", effect, "Discard", keep="Keep editing")
            self.app.push_screen(question, leave_if)
        else:
            await leave_if(confirmed=True)

    async def action_quit(self) -> None:
        await self.action_leave(quitting=True)

    def action_back(self) -> None:
        if self.plan.back and not self._is_saving:
            self.dismiss(BACK)

    async def action_fold(self) -> None:
        """Open the advanced part and go to its first field, unless the current one is wrong; or close and leave it."""
        part = self.fields.advanced
        if not self.fields.folded_rows:
            return
        had_focus = self.focused is not None and part in self.focused.ancestors
        was_folded = not part.display
        await self.fields.unfold(is_open=was_folded)
        row = next((row for row in self.fields.rows.values() if row.input.has_focus), None)
        if was_folded and row is not None and row.field.id in self._wrong_ids:
            return
        if was_folded or had_focus:
            targets = [row for row in self.fields.rows.values() if row.display and row.field.advanced == was_folded]
            target = targets[0 if was_folded else -1].input
            _keep_closed(target)
            target.focus()

    def action_walk(self, by: int) -> None:
        """Go to another field, or from the last one to the button that saves: enter must not cancel there."""
        walkable = "HintInput, Picker, Fold, #save"
        _keep_closed(self.focus_next(walkable) if by > 0 else self.focus_previous(walkable))

    @on(Input.Submitted)
    async def action_save(self) -> None:
        self._shows_all_errors = True
        values = self.check()
        if values is None:
            await self.fields.go_to(self._wrong_ids[0])
        elif not self._is_saving:
            self._is_saving = True
            self._show_line(safe_lines(self.plan.progress_text))
            self.run_worker(self._save(values), group="save", exit_on_error=True)

    async def _save(self, values: Values) -> None:
        try:
            self.dismiss(await self.plan.save(values))
        except GatewayError as error:
            self.check()
            name = (error.param or "").partition("[")[0].partition(".")[0]
            visible = (row.field for row in self.fields.rows.values() if row.display)
            field = next((field for field in visible if name and name in (field.id, *field.errors)), None)
            if field is not None:
                self.fields.rows[field.id].complain(error.message)
                await self.fields.go_to(field.id)
            else:
                is_gone = error.code == "server_gone"
                self._show_line(NO_SERVER if is_gone else safe_lines(advice_in(self, error.message)), "bad")
        finally:
            self._is_saving = False

    def _show_line(self, text: str, tone: str = "live") -> None:
        """Show a text below the fields: the preview, progress, or an error."""
        self._line.set_class(not text, "-none")
        self._line.update(content((text, tone)))

    def _command(self) -> str:
        rows, texts = self.fields.rows, self.fields.texts()
        masked = {id_: "..." if rows[id_].field.secret and text else text for id_, text in texts.items()}
        try:
            command = self.plan.command(masked)
        except BadRequest:
            return ""
        return f"tollkeeper {command}" if command else ""


def _keep_closed(field: Widget | None) -> None:
    """Keep the list of a field closed when it gets the focus: otherwise down and up would go through the list."""
    if isinstance(field, ChoiceInput):
        field.stays_closed = True
