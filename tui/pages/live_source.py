"""LiveSource: the rows of the Live page: the calls of the ring, and the older records that the server has.

It shows calls in one of three ways, all newest first unless sorted:

- plain: the ring, then every older record by its number; only pages in view are fetched, so a million records can be
  scrolled without loading them;
- filtered: the matches in the ring, then those found so far among older records, which are searched page by page;
- sorted: the matches in the ring, and the first in that order of all older records, which the server finds.

The rows change only in ``renew``. While the list is paused, a filter, a sort and the results of a search still change
them, but only among the calls that existed when it was paused.
"""

from asyncio import Lock
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence

import msgspec
from textual.cache import LRUCache

from gateway.domain.query import CallOrder, Query
from gateway.domain.units import CallId, Millis
from gateway.domain.views import CallPage, CallView
from tui import format as fmt
from tui.calls import CallRing, as_view
from tui.columns import Column
from tui.session import ConsoleSession

FOUND_LIMIT = 20_000
"""The maximum number of older records that are kept for one filter."""

SORTED_LIMIT = 2_000
"""The maximum number of older records that are kept while the list is sorted."""


class SearchProgress(msgspec.Struct):
    """The progress of a search in older records."""

    cursor: str = ""
    """The server's cursor for the next request; empty before the first one."""
    time_ms: int = 0
    """When the last searched record began."""
    done: bool = False
    cut: bool = False
    """Whether more records were found than are kept while the list is sorted."""


class LiveSource:
    """The rows by index. Their keys are call ids; in the plain list, older records have their numbers as keys."""

    def __init__(self, session: ConsoleSession) -> None:
        self.session = session
        self.calls = session.board.calls
        self._version = -1
        self._view: list[CallId] = []
        """The ids shown from the ring, oldest first."""
        self.records = 0
        """The number of the newest record below the ring."""
        self._listed: list[CallView] | None = None
        """The rows below them: what a search found, or all if sorted or only marked ones; None for ``history``."""
        self.history = CallHistory()
        self.search_results: list[CallView] = []
        """The older records that the search found, newest first unless sorted."""
        self.search = SearchProgress()
        self.query: Query | None = None
        """The filter; None: it shows all calls."""
        self.widened_query: Query | None = None
        """The query with the earlier names of the tokens, channels and groups that it names."""
        self.search_lock = Lock()
        """Held while a search request runs: one at a time."""
        self._allowed_keys: Collection[Hashable] | None = None
        self._pinned: Hashable = None
        """The selected row, which stays even when its call ends and no longer matches the filter."""
        self.call_order: CallOrder | None = None
        """The order of a sorted list; None: newest first."""
        self.paused = False
        self.last_seen = CallId("")
        """The newest call when the list was paused, or was last at the top and following."""

    @property
    def count(self) -> int:
        return len(self._view) + (self.records if self._listed is None else len(self._listed))

    def row(self, index: int) -> CallView | None:
        if index < len(self._view):
            call = self.calls.by_id.get(self._view[-1 - index])
            return None if call is None else as_view(call, self.session.now())
        offset = index - len(self._view)
        return self.history.row(self.records - offset) if self._listed is None else self._listed[offset]

    def key(self, index: int) -> Hashable:
        if index < len(self._view):
            return self._view[-1 - index]
        offset = index - len(self._view)
        return self.records - offset if self._listed is None else self._listed[offset].id

    def index(self, key: Hashable) -> int | None:
        if isinstance(key, int):
            is_shown = self._listed is None and 0 < key <= self.records
            return len(self._view) + self.records - key if is_shown else None
        place = bisect_left(self._view, str(key))
        if place < len(self._view) and self._view[place] == key:
            return len(self._view) - 1 - place
        return next((len(self._view) + i for i, row in enumerate(self._listed or ()) if row.id == key), None)

    def restrict(self, keys: Collection[Hashable] | None) -> None:
        """Show only the calls with these keys, of those that are loaded; None: all calls again."""
        self._allowed_keys = keys
        self._version = -1

    def pin(self, key: Hashable) -> None:
        previous, self._pinned = self._pinned, key
        is_other_call = previous != key and previous in self.calls.by_id
        if is_other_call and not self.matches(CallId(str(previous))):
            self._version = -1  # the filter hides the previous row again

    def order(self, column: Column[CallView] | None, *, descending: bool) -> None:
        self.call_order = CallOrder(column.id, ascending=not descending) if column is not None else None
        self.narrow(self.query)  # the first older records in the new order are other ones

    def narrow(self, query: Query | None) -> None:
        self.query = query
        self.widened_query = None if query is None else self.session.board.names.widen(query)
        self.search_results, self.search = [], SearchProgress()
        self._version = -1

    def pause(self, *, on: bool) -> None:
        self.paused = on
        if on:
            note_seen(self)
        else:
            self._version = -1

    def renew(self) -> None:
        """Load what changed on the board; while paused, only what the filter, the order or the search changed."""
        calls = self.session.board.calls
        if calls is not self.calls:
            self.calls = calls  # of another server, with other records
            self.history = CallHistory()
            self.narrow(self.query)
        if self.query is not None and self.session.board.names.widen(self.query) != self.widened_query:
            self.narrow(self.query)  # by their current names, it means other tokens, channels or groups
        if self.paused and self._version >= 0:
            return
        is_arranged = self._allowed_keys is not None or self.call_order is not None
        if calls.version == self._version and not (is_arranged and calls.running):
            return
        self._load(calls)
        self._version = calls.version
        if is_arranged:
            self._listed = self._arrange(calls)
            self._view = []

    def extend(self, page: CallPage) -> None:
        """Add the next page of the search."""
        rows, search = page.calls, self.search
        search.cursor = page.cursor or ""
        search.time_ms = page.back_to_ms
        search.done = page.cursor is None
        if self.call_order is None:
            self.search_results.extend(rows)
            search.done = search.done or len(self.search_results) >= FOUND_LIMIT
        else:
            search.cut = search.cut or len(rows) >= SORTED_LIMIT or len(self.search_results) + len(rows) > SORTED_LIMIT
            self.search_results = self.call_order.best([*self.search_results, *rows], SORTED_LIMIT)
        self._version = -1

    def _arrange(self, calls: CallRing) -> list[CallView]:
        """Returns all rows in their order, or only the marked ones."""
        rows = [*(as_view(calls.by_id[i], self.session.now()) for i in reversed(self._view)), *self.search_results]
        if self._allowed_keys is not None:
            numbers = sorted((key for key in self._allowed_keys if isinstance(key, int)), reverse=True)
            older = filter(None, map(self.history.row, numbers))
            rows = [*(row for row in rows if row.id in self._allowed_keys), *older]
        if self.call_order is None:
            return rows
        return self.call_order.best(rows, SORTED_LIMIT if self.search.cut else len(rows))

    def _load(self, calls: CallRing) -> None:
        """Load the ids that are shown from the ring."""
        order = calls.order[: bisect_right(calls.order, self.last_seen)] if self.paused else calls.order
        if calls.below != self.records:  # calls have left the ring, and must be found below it now
            self.narrow(self.query)
        if calls.below < self.records:  # old records were deleted, and the others have new numbers
            self.history = CallHistory()
        self.records = calls.below
        if self.query is None:
            self._view, self._listed = [*order], None
        else:
            self._view = [i for i in order if i == self._pinned or self.matches(i)]  # 1 ms for a thousand calls
            self._listed = self.search_results

    def matches(self, call_id: CallId) -> bool:
        """Returns whether the filter, if any, shows this call of the ring."""
        return self.widened_query is None or self.widened_query.matches(
            as_view(self.calls.by_id[call_id], self.session.now())
        )


def note_seen(source: LiveSource) -> None:
    """Note that the newest calls are on the screen."""
    source.last_seen = source.calls.order[-1] if source.calls.order else CallId("")


def count_unseen(source: LiveSource) -> int:
    """Returns how many calls that match the filter began since the list was paused, or last followed."""
    order = source.calls.order
    return sum(map(source.matches, order[bisect_right(order, source.last_seen) :]))


async def load_found(source: LiveSource) -> None:
    """Send the next request of the search for older records, and add what it finds."""
    async with source.search_lock:
        query, order, search = source.query, source.call_order, source.search
        cursor = search.cursor or source.calls.first_ended
        if search.done:
            return
        if cursor is None:  # no call has ended yet
            source.extend(CallPage(calls=[]))
            return
        params: dict[str, object] = {"limit": 500, "before": cursor}
        if query is not None:
            params |= {"words": " ".join(query.words), "since": query.since, "until": query.until}
        if order is not None:
            params |= {"sort": order.key, "ascending": order.ascending or None, "limit": SORTED_LIMIT}
        page = await source.session.client.calls(**params)
        if source.search is search:  # otherwise another search has begun
            source.extend(page)


def progress_text(source: LiveSource, now: Millis, *, is_searching: bool) -> str:
    """Returns how far back a filter or a sort has searched: ``back to 14:05; searching older calls``."""
    calls, next_step = source.calls, "searching older calls" if is_searching else "G for older ones"
    oldest = as_view(calls.by_id[calls.order[0]], now).time_ms if calls.order else now
    return f"back to {fmt.moment(source.search.time_ms or oldest, now).strip()}; {next_step}"


def unloaded_count(source: LiveSource) -> int:
    """Returns how many rows of the plain list are older records that are fetched when they come into view."""
    last = source.count - 1
    return source.records if last >= 0 and isinstance(source.key(last), int) else 0


class CallHistory:
    """The older records that were fetched, in pages, and which page to fetch next: one at a time."""

    def __init__(self, page_size: int = 200, max_pages: int = 60) -> None:
        """``page_size``: the records of a page, which fill a few screens."""
        self._page_size = page_size
        self._pages: LRUCache[int, Sequence[CallView]] = LRUCache(max_pages)
        self._missing: int | None = None
        """The page that was needed last and is not here."""

    @property
    def waiting(self) -> bool:
        return self._missing is not None

    def row(self, number: int) -> CallView | None:
        """Returns the record with this number; None if it is missing, and ``load`` fetches its page."""
        page, offset = divmod(number - 1, self._page_size)
        rows = self._pages.get(page)
        if rows is None or offset >= len(rows):
            self._missing = page  # rows scrolled past are not needed; the next paint requests those on screen
            return None
        return rows[offset]

    async def load(self, fetch: Callable[..., Awaitable[Sequence[CallView]]], count: int) -> None:
        """Fetch the page that was needed last and is missing, if any. ``count``: how many records there are.

        ``fetch`` returns ``limit`` records from number ``at`` down.
        """
        if (page := self._missing) is None:
            return
        newest = min((page + 1) * self._page_size, count)
        calls = await fetch(at=newest, limit=max(1, newest - page * self._page_size))
        self._pages.discard(page)  # otherwise the cache keeps what it has: a page that was short before
        self._pages[page] = list(reversed(calls))
        if self._missing == page:
            self._missing = None
