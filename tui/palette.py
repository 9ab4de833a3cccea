"""Palette: finds everything by name, from every page.

It offers the actions of every page, the sort orders of the open list, settings, themes, every token, group, channel,
model and price, actions on one of them ("laptop rotate"), and calls by their ids. Names are drawn as ``Content``,
because Textual would read markup in a string.
"""

import heapq
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import cast

import msgspec
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from gateway.domain.errors import GatewayError
from gateway.domain.settings import Settings
from gateway.domain.views import CallView
from tui import format as fmt
from tui.actions import PAGES, Action, key_text
from tui.board import Board
from tui.calls import AnyCall
from tui.columns import sortable_columns
from tui.console_app import ConsoleApp, available_actions
from tui.global_actions import apply_theme, go_to, theme_options
from tui.pages.base import ConsolePage, page_class
from tui.pages.list_page import ListPage, select_row, set_filter, sort_by_title, toggle_detail
from tui.pages.settings import all_rows, source_of
from tui.text import safe


class PaletteEntry(msgspec.Struct, frozen=True):
    """An action or a place that can be found by its text."""

    text: str
    about: str
    run: Callable[[], Awaitable[None] | None]
    weight: float = 1.0
    """The factor of its score, which is higher for entries that users are more likely to mean."""


OPEN_PAGE_WEIGHT, NAME_WEIGHT = 1.3, 1.2
"""The weights of entries for pages and the open page's actions, and for named rows."""
CALL_ID = re.compile(r"(?:req_)?[0-9a-f]{6,}", re.IGNORECASE)
LIST_VERBS = frozenset(
    {"full", "filter", "sort", "reverse", "columns", "mark", "marked", "bulk", "export", "back", "new"}
)
"""The verbs that act on a list as a whole, not on its selected row."""


class Palette(Provider):
    """Provides everything that the palette offers."""

    async def search(self, query: str) -> Hits:
        app = cast("ConsoleApp", self.app)
        candidates = [*entries(app), *entity_entries(app), *combined_entries(app, query)]
        scored = ((score_of(query, entry), entry) for entry in candidates)
        for score, entry in heapq.nlargest(100, (pair for pair in scored if pair[0] > 0), key=itemgetter(0)):
            yield Hit(score, highlight(entry.text, query), entry.run, text=entry.text, help=entry.about)
        for token in app.session.board.tokens:
            for owner in token.keys:
                if owner.has(query.strip()):  # it is the part of a key that may be shown
                    name, about = safe(token.name, 80), safe(owner.text(app.session.now()))
                    yield Hit(200.0, Content(name), partial(go_to, app, "tokens", token.id), text=name, help=about)
        async for hit in _call_hits(app, query):
            yield hit

    async def discover(self) -> Hits:
        app = cast("ConsoleApp", self.app)
        page_actions = action_entries(app, app.page, available_actions(app.page, app.session.keymap))
        for entry in [*page_entries(app), *page_actions, *islice(entity_entries(app), 3)]:
            yield DiscoveryHit(Content(entry.text), entry.run, text=entry.text, help=entry.about)


def entries(app: ConsoleApp) -> Iterator[PaletteEntry]:
    """Yields pages, the actions of all of them, the columns to sort the open list by, settings and themes."""
    yield from page_entries(app)
    keymap, open_page = app.session.keymap, app.page
    yield from action_entries(app, open_page, available_actions(open_page, keymap))
    for column in sortable_columns(open_page.columns) if isinstance(open_page, ListPage) else ():
        title = column.title or column.id.capitalize()
        about = f"{'the largest' if column.largest_first else 'in order, the first'} on top; once more reverses"
        yield PaletteEntry(f"Sort by {title}", about, partial(sort_by_title, open_page, column.id))
    for info in PAGES:
        if info.id != open_page.id:
            for action in page_class(info.id).actions(keymap):
                run = partial(run_on_page, app, info.id, action.verb)
                yield PaletteEntry(f"{info.name}: {action.label}{_key_suffix(action)}", action.help, run)
    for row in all_rows(app, Settings()):
        change = partial(go_to, app, "settings", row.name, "edit" if source_of(row) else "")
        yield PaletteEntry(f"Setting: {row.label}", row.meaning, change)
    for name, about in theme_options(app.session):
        yield PaletteEntry(f"Theme: {name}", about, partial(apply_theme, app, name))


def page_entries(app: ConsoleApp) -> Iterator[PaletteEntry]:
    """Yields the pages."""
    for number, info in enumerate(PAGES, 1):
        yield PaletteEntry(f"{info.name}  ({number})", info.about, partial(app.open_page, info.id), OPEN_PAGE_WEIGHT)


def action_entries(app: ConsoleApp, page: ConsolePage, actions: Sequence[Action]) -> Iterator[PaletteEntry]:
    """Yields the actions of the open page and of every page."""
    for action in actions:
        owner = app if action.scope == "app" else page
        run = partial(owner.action_act, action.verb)
        yield PaletteEntry(action.label + _key_suffix(action), action.help, run, OPEN_PAGE_WEIGHT)


def entity_entries(app: ConsoleApp) -> Iterator[PaletteEntry]:
    """Yields everything with a name. Choosing an entry opens its page with the cursor on it."""
    for page, key, name in named_rows(app.session.board):
        open_row = partial(go_to, app, page, key)
        yield PaletteEntry(name, f"{page.removesuffix('s')} on page {page.capitalize()}", open_row, NAME_WEIGHT)
        if page == "models":
            edit_price = partial(go_to, app, page, key, "edit")
            yield PaletteEntry(f"Price of {name}", "edit the price", edit_price)


def combined_entries(app: ConsoleApp, query: str) -> Iterator[PaletteEntry]:
    """Yields the actions on rows with a word of the query in their name, for a query such as ``laptop rotate``."""
    words = query.casefold().split()
    if len(words) < 2:
        return
    keymap = app.session.keymap
    named = named_rows(app.session.board)
    rows = ((page, key, name) for page, key, name in named if any(word in name.casefold() for word in words))
    for page, key, name in islice(rows, 40):  # each has about ten actions
        for action in page_class(page).actions(keymap):
            if action.verb not in LIST_VERBS:
                run = partial(go_to, app, page, key, action.verb)
                about = f"{page.removesuffix('s')} {name}: {action.help}"
                yield PaletteEntry(f"{name}: {action.label}{_key_suffix(action)}", about, run, NAME_WEIGHT)


def named_rows(board: Board) -> Iterator[tuple[str, str, str]]:
    """Yields the page, the key there, and the name of every token, channel, group and model."""
    yield from (("tokens", token.id, safe(token.name, 80)) for token in board.tokens)
    yield from (("channels", channel.id, safe(channel.name, 80)) for channel in board.channels)
    yield from (("groups", group.name, safe(group.name, 80)) for group in board.groups)
    yield from (("models", model.name, safe(model.name, 80)) for model in board.models)


def score_of(query: str, entry: PaletteEntry) -> float:
    """Returns how well an entry matches; 0 if it does not.

    The whole text is best, then its first words, then its start, then words in it, then words in its help, then letters
    in this order. So an action that begins with the word comes before a row with this name: "first", "test".
    """
    text, words = entry.text.casefold(), query.casefold().split()
    if not words:
        return 0
    joined = " ".join(words)
    if text.partition("  (")[0] == joined:
        score = 100.0
    elif text.startswith(f"{joined} "):
        score = 95.0
    elif text.startswith(joined):
        score = 80.0
    elif all(word in text for word in words):
        starts = sum(f" {word}" in f" {text}" for word in words)
        score = 40.0 + 20.0 * starts / len(words)
    elif all(word in f"{text} {entry.about.casefold()}" for word in words):
        score = 20.0
    else:
        first, *others = map(re.escape, "".join(words))
        in_order = rf"\b{first}" + "".join(f"[^{letter}]*{letter}" for letter in others)
        score = 10.0 if re.search(in_order, text) else 0.0
    return score * entry.weight / (1 + len(text) / 500)


def highlight(text: str, query: str) -> Content:
    """Returns a text with the words of the query marked. Textual's own function would read markup in the text."""
    words = re.compile("|".join(map(re.escape, query.split())), re.IGNORECASE)
    return Content(text).highlight_regex(words, style="bold underline")


async def run_on_page(app: ConsoleApp, page: str, verb: str) -> None:
    """Open a page and run one of its actions there."""
    await app.action_page(page)
    app.page.action_act(verb)


async def show_call(app: ConsoleApp, call: str) -> None:
    """Open the Live page with a call's receipt. If the call is not in the list, a filter finds it."""
    await app.action_page("live")
    page = app.page
    if page.source.index(call) is None:
        set_filter(page, f"id:{call}")
    if not page.view.detail:
        toggle_detail(page)
    select_row(page, call)


async def _call_hits(app: ConsoleApp, query: str) -> Hits:
    """Yields the newest calls with this part of an id: from the board, else as the server finds them."""
    typed = query.strip().lower()
    if not CALL_ID.fullmatch(typed):
        return
    calls: list[AnyCall] = [call for id_, call in app.session.board.calls.by_id.items() if typed in id_][-3:]
    if not calls:
        try:
            page = await app.session.client.calls(words=f"id:*{typed}*", limit=3)
            while not page.calls and page.cursor:  # Textual cancels the search when the query changes
                page = await app.session.client.calls(words=f"id:*{typed}*", limit=3, before=page.cursor)
            calls = [*page.calls]
        except GatewayError:
            return
    for call in reversed(calls):
        began_ms = call.time_ms if isinstance(call, CallView) else call.ts
        text = f"Call {safe(call.id)}"
        about = f"{safe(call.model, 60)}, {fmt.moment(began_ms, app.session.now()).strip()}"
        yield Hit(200.0, highlight(text, typed), partial(show_call, app, call.id), text=text, help=about)


def _key_suffix(action: Action) -> str:
    return f"  ({key_text(action)})" if action.keys else ""
