"""History page: every change of the configuration, in a dialog. Any of them can be undone, some after a question."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from gateway.domain.history import HistoryView, undo_text
from gateway.domain.human_values import ago
from tui import format as fmt
from tui.columns import Column
from tui.console_app import ConsoleApp
from tui.pages.base import AnyPage, Verb, selection
from tui.pages.list_page import VERBS, ListPage
from tui.screens import DialogScreen
from tui.session import ConsoleSession
from tui.text import TextCard, content, key_hints, safe
from tui.widgets.dialogs import toast


async def undo_change(app: ConsoleApp, number: int = 0, *, redo: bool = False) -> None:
    """Undo a change, by default the newest one, or redo an undone one."""
    client, key = app.session.client, app.session.key
    change = await (client.redo if redo else client.undo)(number)
    hint = f"Press {key('app.undo')} to undo" if change.kind == "redo" else f"Press {key('app.redo')} to redo"
    text = f"{undo_text(change, app.session.now(), client.source)}. {hint}."
    toast(app, "\n".join([text, *change.notes]), change=True)


def _undo(page: AnyPage, *, redo: bool = False) -> None:
    """Undo the selected change, or redo the last undone one. Undoing an undo is a redo."""
    number = 0 if redo else selection(page).id
    app: ConsoleApp = page.app
    app.page.do(lambda _page: undo_change(app, number, redo=redo))  # it goes on if the dialog is closed


def _columns(page: "HistoryPage") -> Iterator[Column[HistoryView]]:
    me, now = page.session.source, page.session.now
    yield Column("id", "Id", 4, lambda e: str(e.id), right=True, tone=_tone)
    yield Column("time", "Time", 12, lambda e: fmt.moment(e.time_ms, now()), tone=_tone)
    yield Column("change", "Change", 26, _change, max_width=100, flex=True, tone=_tone)
    yield Column("by", "By", 16, lambda e: safe(e.source.brief(me), 60), rank=2, max_width=24, dim=True)
    yield Column("state", "", 6, lambda e: "undone" if e.undone_by else "", rank=1, tone=_tone)


def _change(entry: HistoryView) -> str:
    return safe(f"{entry.text}  {entry.edit_text}".rstrip(), 200)


def _tone(entry: HistoryView) -> str:
    return "dim" if entry.undone_by or entry.kind != "change" else ""


class HistoryPage(ListPage[HistoryView]):
    """The list of changes, newest first."""

    scopes = ("list",)
    noun = "change"
    creation_hint = ""
    all_columns = _columns
    verbs: ClassVar[Mapping[str, Verb]] = {
        **{verb: VERBS[verb] for verb in ("filter", "columns", "twin")},
        "undo": _undo,
        "redo": partial(_undo, redo=True),
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "act('undo')", show=False),
        Binding("U", "act('redo')", show=False),
    ]
    changes: Sequence[HistoryView] = ()

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(session)
        self.view.detail = True
        self.view.filter = ""

    def renew(self) -> None:
        super().renew()
        self.fetch_if_due(self.session.board.tables_version)

    async def fetch(self) -> None:
        self.changes = await self.session.client.history(limit=500)  # all kept ones

    def rows(self) -> Sequence[HistoryView]:
        return self.changes

    def command(self, entry: HistoryView) -> str:
        return "tollkeeper " + fmt.cli_command("history", "show", str(entry.id))

    def lead(self, width: int) -> Content:
        if self.session.link == "gone":
            return content((safe(self.session.reason), "bad"))
        return content(("History", "bold"), f"   {self.count_rows(len(self.changes))}, newest first")

    def detail(self, entry: HistoryView, width: int) -> Content:
        """Returns the details of a change: before and after, when and by whom."""
        card, now = TextCard(width), self.session.now()
        card.row("change", (f"{entry.id}: {safe(entry.text, 400)}", "bold"))
        author = entry.source.text(self.session.source)
        origin = f"{fmt.moment(entry.time_ms, now)}, {ago(now - entry.time_ms)}, by {author}"
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

    def empty(self) -> Content:
        return content(("No changes." if self.fetched else "Loading the changes ...", "dim"))

    def words(self, entry: HistoryView) -> str:
        return " ".join([str(entry.id), *(f"{change.noun} {change.name}" for change in entry.differences)])

    def on_live_table_opened(self) -> None:
        self.action_act("undo")


class HistoryScreen(DialogScreen[None]):
    """The dialog with the list of changes."""

    BINDINGS = [Binding("escape,q,H", "leave", "Close")]  # noqa: RUF012 - Textual reads it and never changes it

    def __init__(self, session: ConsoleSession) -> None:
        self._page = HistoryPage(session)
        keys = [("enter u", " undo  "), ("U", " redo  "), ("tab", " details  "), ("/", " filter  ")]
        keys += [("Y", " command  "), ("esc", " closes")]
        super().__init__(Vertical(self._page, Static(key_hints(*keys), classes="hint"), classes="dialog"))

    def on_mount(self) -> None:
        self._page.take_focus()
        self.set_interval(1.0, self._page.renew)

    def action_leave(self) -> None:
        if not self._page.field.close():
            self.dismiss(None)
