"""History: the dialog with every change of the configuration, and undo and redo, which may ask for confirmation."""

from collections.abc import Sequence

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from gateway.domain.errors import GatewayError
from gateway.domain.history import ChangeSource, HistoryView, ago, undo_text
from tui import format as fmt
from tui.clipboard import copy_text
from tui.columns import Column
from tui.console_app import ConsoleApp
from tui.listing import ListRows, row_filter
from tui.screens import DialogScreen
from tui.session import ConsoleSession
from tui.text import TextCard, content, key_hints, safe
from tui.widgets.dialogs import toast
from tui.widgets.search_input import FilterInput
from tui.widgets.table import LiveTable
from tui.widgets.text_block import Detail


async def undo_change(app: ConsoleApp, number: int = 0, *, redo: bool = False) -> None:
    """Undo a change, by default the newest one, or redo an undone one."""
    client, key = app.session.client, app.session.key
    change = await (client.redo if redo else client.undo)(number)
    hint = f"Press {key('app.undo')} to undo" if change.kind == "redo" else f"Press {key('app.redo')} to redo"
    text = f"{undo_text(change, app.session.now(), client.source)}. {hint}."
    toast(app, "\n".join([text, *change.notes]), change=True)


class HistoryScreen(DialogScreen[None]):
    """The dialog with the changes, newest first. Any of them can be undone."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q,H", "leave", "Close"),
        Binding("u", "undo(False)", "Undo"),
        Binding("U", "undo(True)", "Redo"),
        Binding("Y", "copy", show=False),
        Binding("slash", "filter", show=False),
    ]

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__()
        self._session = session
        self._source = ListRows[HistoryView](lambda entry: entry.id)
        self._error = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(classes="title")
            yield FilterInput("words to match, !word to exclude")
            yield LiveTable(history_columns(self._session), self._source, id="history")
            yield Detail(classes="detail")
            keys = [("enter u", " undo  "), ("U", " redo  "), ("tab", " details  "), ("/", " filter  ")]
            keys += [("Y", " command  "), ("esc", " closes")]
            yield Static(key_hints(*keys), classes="hint")

    def on_mount(self) -> None:
        self._table.focus()
        self.fetch()
        self.set_interval(2.0, self.fetch)

    @work(group="history", exclusive=True)
    async def fetch(self) -> None:
        """Fetch the changes in the background. Other programs may make some at any time."""
        try:
            self._source.set_rows(await self._session.client.history(limit=500))  # all kept ones
            self._error = ""
        except GatewayError as error:
            self._error = self._session.advice(error.message)
        self.draw()

    def draw(self) -> None:
        count = self._source.count
        shown = f"{fmt.count_text(count, 'change')}, newest first" if count else "no changes"
        self.query_one(".title", Static).update(
            content(("History", "bold"), f"   {shown}") if not self._error else content((safe(self._error), "bad"))
        )
        self._table.renew()
        entry, me, now = self._table.current, self._session.source, self._session.now()
        pane, key = self.query_one(Detail), None if entry is None else entry.id
        pane.show(lambda width: Content("") if entry is None else entry_text(entry, me, now, width), key)

    @property
    def _table(self) -> LiveTable[HistoryView]:
        return self.query_one(LiveTable)

    on_live_table_moved = draw

    def on_live_table_opened(self) -> None:
        self.action_undo(False)

    def on_input_changed(self, event: Input.Changed) -> None:
        matches, me = row_filter(event.value), self._session.source
        self._source.pin(None)
        self._source.matches = lambda entry: matches(_filter_text(entry, me))
        self._source.arrange()
        self.draw()

    def action_filter(self) -> None:
        self.query_one(FilterInput).open()

    def action_leave(self) -> None:
        if not self.query_one(FilterInput).close():
            self.dismiss(None)

    def action_copy(self) -> None:
        if (entry := self._table.current) is not None:
            command = "tollkeeper " + fmt.cli_command("history", "show", str(entry.id))
            copy_text(self, command, f"Copied:\n{command}")

    def action_undo(self, redo: bool) -> None:  # noqa: FBT001 - Textual calls it
        """Undo the selected change, or redo the last undone one. Undoing an undo is a redo."""
        entry = self._table.current
        number = 0 if redo or entry is None else entry.id

        app = self.app
        assert isinstance(app, ConsoleApp)  # noqa: S101 - narrows the type

        async def undo(_page: object) -> None:
            await undo_change(app, number, redo=redo)
            if self.is_attached:  # it may have been closed meanwhile
                self.fetch()

        if redo or entry is not None:
            app.page.do(undo)


def history_columns(session: ConsoleSession) -> Sequence[Column[HistoryView]]:
    """Returns the columns of the table of changes."""
    me = session.source
    return (
        Column("id", "Id", 4, lambda e: str(e.id), right=True, tone=_tone),
        Column("time", "Time", 12, lambda e: fmt.moment(e.time_ms, session.now()), tone=_tone),
        Column("change", "Change", 26, _change, max_width=100, flex=True, tone=_tone),
        Column("by", "By", 16, lambda e: safe(e.source.brief(me), 60), rank=2, max_width=24, dim=True),
        Column("state", "", 6, lambda e: "undone" if e.undone_by else "", rank=1, tone=_tone),
    )


def entry_text(entry: HistoryView, me: ChangeSource | None, now: int, width: int) -> Content:
    """Returns the details of a change: before and after, when and by whom, in lines of at most ``width`` cells."""
    card = TextCard(width)
    card.row("change", (f"{entry.id}: {safe(entry.text, 400)}", "bold"))
    origin = f"{fmt.moment(entry.time_ms, now)}, {ago(now - entry.time_ms)}, by {entry.source.text(me)}"
    card.row("when", safe(origin, 200))
    if entry.undone_by:
        card.row("state", (f"undone by change {entry.undone_by}", "warn"))
    elif entry.kind == "undo":
        card.row("state", "u redoes what this undid")
    for difference in entry.differences:
        card.row(difference.action, safe(f"{difference.noun} {difference.name}".rstrip(), 120))
        for field in difference.fields:
            after = (safe(field.after, 200), "ok") if field.after else ("default", "dim")
            before = (safe(field.before, 200), "") if field.before else ("default", "dim")
            if difference.action == "changed":
                card.row("", (f"{safe(field.field)}: ", "dim"), before, " -> ", after)
            else:
                card.row("", (f"{safe(field.field)}: ", "dim"), safe(field.after or field.before, 200))
    return card.content()


def _change(entry: HistoryView) -> str:
    return safe(f"{entry.text}  {entry.edit_text}".rstrip(), 200)


def _tone(entry: HistoryView) -> str:
    return "dim" if entry.undone_by or entry.kind != "change" else ""


def _filter_text(entry: HistoryView, me: ChangeSource | None) -> str:
    changed = (f"{difference.noun} {difference.name}" for difference in entry.differences)
    return " ".join([str(entry.id), entry.text, entry.edit_text, entry.source.brief(me), *changed])
