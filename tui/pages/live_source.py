"""LiveSource: the rows of the Live page: the ring, below it the records by number, or what a filter finds in both.

It shows calls in one of three ways, all newest first unless sorted:

- plain: the ring, then every older record by its number; only pages in view are fetched, so a million records can be
  scrolled without loading them;
- filtered: the matches in the ring, then those found so far among older records, which are searched page by page;
- sorted: the matches in the ring, and the first in that order of all older records, which the server finds.

The rows do not change between two calls of ``renew``. While it is paused, a filter, a sort and the results of a search
still change them, but only among the calls that existed when it was paused.
"""

from asyncio import Lock
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence

import msgspec

from gateway.domain.errors import GatewayError
from gateway.domain.query import CallOrder, Query
from gateway.domain.units import CallId, Millis
from gateway.domain.views import CallView
from tui import format as fmt
from tui.calls import CallRing, as_view
from tui.columns import Column
from tui.session import ConsoleSession

FOUND_LIMIT = 20_000
"""The most older records that one filter keeps."""


TOP = 2_000
"""The most older records that are kept while the list is sorted."""


class SearchProgress(msgspec.Struct):
    """The progress of a search in older records."""

    cursor: str = ""
    """Where it continues; empty before the first request."""
    time_ms: int = 0
    """When the last searched record began."""
    done: bool = False
    """Whether all records were searched."""
    cut: bool = False
    """Whether more was found than is kept, because the list is sorted."""


class LiveSource:
    """The rows by index. Keys are call ids, and numbers of records that are not in the ring."""

    def __init__(self, session: ConsoleSession) -> None:
        self.session = session
        self.calls = session.board.calls
        """The ring."""
        self._version = -1
        self._view: list[CallId] = []
        """The ids shown from the ring, oldest first."""
        self.records = 0
        """The number of the newest record below the ring."""
        self._ordered: list[CallView] | None = None
        self.history = CallHistory()
        self.found: list[CallView] = []
        """The calls that the filter found below the ring, newest first."""
        self.search = SearchProgress()
        self.query: Query | None = None
        self._wanted: Query | None = None
        """The query, extended by the earlier names of the things that it names."""
        self._names = session.board.names
        self.searches = Lock()
        """Held by the only search request at a time."""
        self._kept: Collection[Hashable] | None = None
        self._pinned: Hashable = None
        """The selected row, which stays even when its call ends and no longer matches the filter."""
        self.order_wanted: CallOrder | None = None
        self.paused = False
        self.seen = CallId("")
        """The newest call when the list was paused, or last followed."""

    @property
    def count(self) -> int:
        if self._ordered is not None:
            return len(self._ordered)
        return len(self._view) + (self.records if self.query is None else len(self.found))

    def row(self, index: int) -> CallView | None:
        if self._ordered is not None:
            return self._ordered[index]
        if index < len(self._view):
            known = self.calls.by_id.get(self._view[-1 - index])
            return None if known is None else as_view(known, self.session.now())
        at = index - len(self._view)
        return self.history.row(self.records - at) if self.query is None else self.found[at]

    def key(self, index: int) -> Hashable:
        if self._ordered is not None:
            return self._ordered[index].id
        if index < len(self._view):
            return self._view[-1 - index]
        at = index - len(self._view)
        return self.records - at if self.query is None else self.found[at].id

    def index(self, key: Hashable) -> int | None:
        if self._ordered is not None:
            return next((i for i, row in enumerate(self._ordered) if row.id == key), None)
        if isinstance(key, int):
            return len(self._view) + self.records - key if 0 < key <= self.records else None
        at = bisect_left(self._view, str(key))
        if at < len(self._view) and self._view[at] == key:
            return len(self._view) - 1 - at
        return next((len(self._view) + i for i, row in enumerate(self.found) if row.id == key), None)

    def restrict(self, keys: Collection[Hashable] | None) -> None:
        """Show only these calls, if they are loaded."""
        self._kept = keys
        self._version = -1

    def pin(self, key: Hashable) -> None:
        before, self._pinned = self._pinned, key
        if before != key and isinstance(before, str) and before in self.calls.by_id and not self.fits(CallId(before)):
            self._version = -1  # the filter hides it again

    def order(self, column: Column[CallView] | None, *, descending: bool) -> None:
        self.order_wanted = CallOrder(column.id, ascending=not descending) if column is not None else None
        self.narrow(self.query)  # the first of all older records must be found

    def narrow(self, query: Query | None) -> None:
        """Show only calls that match; None for all calls."""
        self.query, self._names = query, self.session.board.names
        self._wanted = None if query is None else self._names.widened(query)
        self.found, self.search = [], SearchProgress(done=all_loaded(self.calls, query))
        self._version = -1

    def pause(self, *, on: bool) -> None:
        """Freeze the rows, or let them follow the board again."""
        self.paused = on
        if on:
            see_all(self)
        else:
            self._version = -1

    def renew(self) -> None:
        """Load changes of the board; while paused, only changes by the filter or the order."""
        calls = self.session.board.calls
        if calls is not self.calls:
            self.calls = calls  # of another server, with other records
            self.history.clear()
            self.narrow(self.query)
        if (names := self.session.board.names) is not self._names:
            before, self._names = self._names, names
            if self.query is not None and names.widened(self.query) != self._wanted:
                if names.without_new(before).widened(self.query) != self._wanted:
                    self.narrow(self.query)
                self._wanted = names.widened(self.query)  # a new list has no older calls
        if self.paused and self._version >= 0:
            return
        if calls.version == self._version and not (self._ordered and calls.running):
            return
        self._take(calls)
        self._version = calls.version
        self._ordered = self._arranged(calls)

    def extend(self, rows: Sequence[CallView], search: SearchProgress) -> None:
        """Add more found records; ``search`` is the new progress."""
        search.cut = self.search.cut
        self.search = search
        if self.order_wanted is None:
            self.found.extend(rows)
            search.done = search.done or len(self.found) >= FOUND_LIMIT
        else:
            search.cut = search.cut or len(rows) >= TOP or len(self.found) + len(rows) > TOP
            self.found = self.order_wanted.best([*self.found, *rows], TOP)
        self._version = -1

    def _arranged(self, calls: CallRing) -> list[CallView] | None:
        """Returns the rows if they are sorted or restricted, otherwise None."""
        if self._kept is None and self.order_wanted is None:
            return None
        rows = [*(as_view(calls.by_id[i], self.session.now()) for i in reversed(self._view)), *self.found]
        if self._kept is not None:
            older = (
                self.history.row(key) for key in sorted((k for k in self._kept if isinstance(k, int)), reverse=True)
            )
            rows = [*(row for row in rows if row.id in self._kept), *(row for row in older if row is not None)]
        if self.order_wanted is None:
            return rows
        return self.order_wanted.best(rows, TOP if self.search.cut else len(rows))

    def _take(self, calls: CallRing) -> None:
        changed = calls.take_changes()
        order = calls.order[: bisect_right(calls.order, self.seen)] if self.paused else calls.order
        if self.query is None:
            if self.order_wanted is not None and calls.below != self.records:
                self.narrow(None)  # calls left the ring: they must be found below it now
            self._view, self.records = list(order), calls.below
        elif changed is None or self._version < 0:
            if calls.below != self.records:  # calls left the ring: they must be found below it now
                self.narrow(self.query)
            self._view = [i for i in order if i == self._pinned or self.fits(i)]
            self.records = calls.below
        else:
            for call_id in dict.fromkeys(changed):
                there = call_id in calls.by_id and (call_id == self._pinned or self.fits(call_id))
                _insert(self._view, call_id, there=there)

    def fits(self, call_id: CallId) -> bool:
        """Returns whether the filter, if any, shows this call of the ring."""
        return self._wanted is None or self._wanted.matches(as_view(self.calls.by_id[call_id], self.session.now()))


def see_all(source: LiveSource) -> None:
    """Note that the newest calls are on the screen."""
    source.seen = source.calls.order[-1] if source.calls.order else CallId("")


def count_unseen(source: LiveSource) -> int:
    """Returns how many calls that match the filter came since the list was paused, or last followed."""
    order = source.calls.order
    return sum(map(source.fits, order[bisect_right(order, source.seen) :]))


async def load_page(source: LiveSource) -> None:
    """Fetch the records that were last found missing."""
    history, client = source.history, source.session.client
    ask = history.next(source.records)
    if ask is None:
        return
    try:
        history.fill(ask, await client.numbered_calls(ask.at, ask.limit))
    except GatewayError:
        history.fail(ask)
        raise


async def load_found(source: LiveSource) -> None:
    """Search older records on the server for matches, one request at a time; a search takes as many as it needs."""
    async with source.searches:
        query, order, search = source.query, source.order_wanted, source.search
        before = search.cursor or source.calls.first_ended
        if search.done:
            return
        if before is None:  # no call has ended yet
            source.extend([], SearchProgress(done=True))
            return
        wanted: dict[str, object] = {"limit": 500, "before": before}
        if query is not None:
            wanted |= {"words": " ".join(query.words), "since": query.since, "until": query.until}
        if order is not None:
            wanted |= {"sort": order.key, "ascending": order.ascending or None, "limit": TOP}
        page = await source.session.client.calls(**wanted)
        if source.search is search:  # otherwise another search has started
            done = page.cursor is None
            source.extend(page.calls, SearchProgress(cursor=page.cursor or "", time_ms=page.back_to_ms, done=done))


def all_loaded(calls: CallRing, query: Query | None) -> bool:
    """Returns whether no call below the ring can match, because all of them ended before the query's start."""
    edge = None if calls.first_ended is None else calls.by_id[calls.first_ended]
    if query is None or query.since is None or not isinstance(edge, CallView):
        return False
    return edge.time_ms + edge.duration_ms < query.since


def search_words(source: LiveSource, now: Millis, *, going_on: bool) -> str:
    """Returns how far back a filter or a sort has searched: ``back to 14:05; searching older calls``."""
    calls, more = source.calls, "searching older calls" if going_on else "G for older ones"
    oldest = as_view(calls.by_id[calls.order[0]], now).time_ms if calls.order else now
    return f"back to {fmt.moment(source.search.time_ms or oldest, now).strip()}; {more}"


def _insert(view: list[CallId], call_id: CallId, *, there: bool) -> None:
    """Insert a call in its place among the shown ones, or remove it."""
    at = bisect_left(view, call_id)
    is_there = at < len(view) and view[at] == call_id
    if there and not is_there:
        view.insert(at, call_id)
    elif is_there and not there:
        del view[at]


class HistoryRequest(msgspec.Struct, frozen=True):
    """The missing records: those numbered ``at``, ``at - 1``, ... ``limit`` of them."""

    page: int
    at: int
    limit: int


class CallHistory:
    """The fetched records, and which to fetch next."""

    def __init__(self, page: int = 200, pages: int = 60) -> None:  # a page is a few screens
        self._size = page
        self._keep = pages
        self._pages: OrderedDict[int, Sequence[CallView]] = OrderedDict()
        self._missing: OrderedDict[int, None] = OrderedDict()
        self._asked: set[int] = set()

    @property
    def waiting(self) -> bool:
        """Returns whether records are missing."""
        return bool(self._missing)

    def row(self, number: int) -> CallView | None:
        """Returns the record with this number; None if it is missing, which is noted for ``next``."""
        page, offset = divmod(number - 1, self._size)
        rows = self._pages.get(page)
        if rows is None or offset >= len(rows):
            if page not in self._asked:
                self._missing[page] = None
            return None
        self._pages.move_to_end(page)
        return rows[offset]

    def next(self, count: int) -> HistoryRequest | None:
        """Returns the next request, for the page that was last found missing; ``count`` is the newest number. None if
        nothing is missing.
        """
        if not self._missing:
            return None
        page, _ = self._missing.popitem()
        self._missing.clear()  # rows scrolled past are not needed; the next paint requests those on screen
        self._asked.add(page)
        at = min((page + 1) * self._size, count)
        return HistoryRequest(page, at, max(1, at - page * self._size))

    def fill(self, ask: HistoryRequest, calls: Sequence[CallView]) -> None:
        """Store a response, newest first."""
        self._asked.discard(ask.page)
        self._pages[ask.page] = list(reversed(calls))
        while len(self._pages) > self._keep:
            self._pages.popitem(last=False)

    def fail(self, ask: HistoryRequest) -> None:
        """Note that the request failed: the page may be requested again."""
        self._asked.discard(ask.page)

    def clear(self) -> None:
        """Remove everything, for another server, or after records were removed."""
        self._pages.clear()
        self._missing.clear()
        self._asked.clear()
