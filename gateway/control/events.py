"""Events: the JSON lines for a watcher. They begin with a snapshot, which is sent again if the watcher falls behind.

The start and end of a call are reported at once, its progress at most five times a second (the bus ensures that),
balances and changed tables at most four times a second, sums of tables every three seconds, all tables every minute.
Lines are written in batches. A slow watcher does not slow down calls: its queue is bounded, and its connection closed
after ``STUCK_S``.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web

from gateway.control.calls import CALL_FILTERS, SEARCH_S, calls_query, names_of_removed
from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import query
from gateway.control.usage import tallies
from gateway.control.views import account_view, entity_views, model_views
from gateway.core.event_bus import Batch, Watcher
from gateway.domain import events
from gateway.domain.call import Record
from gateway.domain.errors import NotFound
from gateway.domain.incidents import Incident
from gateway.domain.views import AccountView, call_view
from gateway.store.search import SearchDeadline

STUCK_S = 30.0
"""The time after which a watcher that reads nothing is disconnected."""
HEARTBEAT_S = 15.0
"""The longest time without a line."""


class WatcherStream:
    """Makes the lines for one watcher. A snapshot has ``recent`` ended calls. Raises NotFound for an unknown name.

    ``filters`` are the parameters that select ended calls; ``clock`` returns monotonic seconds.
    """

    def __init__(self, edits: ConfigEdits, recent: int, filters: Mapping[str, Any], clock: Callable[[], float]) -> None:
        self._edits, self._engine = edits, edits.engine
        self._recent = recent
        self._clock = clock
        self._filters = filters
        self._query = calls_query(edits, self._filters)
        self._encoder = msgspec.json.Encoder()
        self._incidents: dict[int, Incident] = {}
        """The incidents as they were last reported."""
        self._account: AccountView | None = None
        self._balance_due = self._tables_due = math.inf
        """When to report the balance and the tables next; infinite for a balance that has not changed."""
        self._tables_cost_s = 0.0
        """How long the last report of the tables took to compute."""
        self._deletions = 0
        """How many call files were deleted before the last snapshot."""
        self._balance_sent = self._tables_sent = self._last_sent = clock()

    async def snapshot(self) -> bytes:
        engine = self._engine
        incidents = engine.incident_watch.refresh()
        self._incidents = incidents.copies()
        newest, older = await self._newest_records()
        entities = await self._entities()
        return self._line(
            events.Snapshot(
                status=engine.status(),
                running=list(engine.store.books.running.values()),
                recent=[call_view(record) for record in newest],
                older=older,
                waiting=engine.pipeline.waiting.all(),
                incidents=incidents.newest()[::-1],
                **entities,
            )
        )

    async def _newest_records(self) -> tuple[list[Record], int]:
        """Returns the newest records, first those that the disk refuses, and the number of older ones."""
        store = self._engine.store
        self._deletions = store.calls.log.deletions
        # before the search, so that a record which is written now is in one list
        waiting = [record for record in store.books.waiting()[::-1] if self._query.matches(call_view(record))]
        deadline = SearchDeadline(SEARCH_S) if self._filters else SearchDeadline()
        logged, extent = await asyncio.to_thread(store.calls.search, self._query, limit=self._recent, deadline=deadline)
        logged_ids = {record.id for record in logged}
        records = [*(record for record in waiting if record.id not in logged_ids), *logged]
        return records[: self._recent], extent.left + max(0, len(records) - self._recent)

    async def _entities(self) -> dict[str, Any]:
        """Returns the fields that a snapshot and a report of the tables share, and counts them as sent."""
        engine, began = self._engine, self._clock()
        if self._filters:
            with suppress(NotFound):  # a name may have been removed
                self._query = calls_query(self._edits, self._filters)
        sums = await tallies(engine)
        self._account = account_view(engine)
        self._balance_due = math.inf
        self._balance_sent = self._tables_sent = began
        entities = {
            "account": self._account,
            "tokens": entity_views(engine, "tokens", sums),
            "groups": entity_views(engine, "groups", sums),
            "channels": entity_views(engine, "channels", sums),
            "models": model_views(engine, sums),
            "refuses_unpriced": engine.settings().refuse_unpriced,
            "removed_names": names_of_removed(engine),
        }
        self._tables_cost_s = self._clock() - began
        self._tables_due = began + max(60.0, 50 * self._tables_cost_s)  # a token may expire, a budget begin again
        return entities

    async def lines(self, batch: Batch) -> bytes:
        """Returns the lines for the events of a batch and for due reports; empty if there are neither."""
        if batch.behind or self._engine.store.calls.log.deletions != self._deletions:
            return await self.snapshot()
        now = self._clock()
        lines = list(map(self._line, self._selected_events(batch)))
        incidents = self._engine.incident_watch.refresh()
        if changed := incidents.changed_since(self._incidents):
            self._incidents = incidents.copies()
        lines += [self._line(events.IncidentChanged(incident=incident)) for incident in changed]
        self._schedule_reports(batch, now)
        if now >= self._tables_due:
            entities = await self._entities()
            lines.append(self._line(events.EntityChanged(**entities)))
        elif now >= self._balance_due:
            lines.extend(self._balance_lines(now))
        if not lines and now - self._last_sent >= HEARTBEAT_S:
            lines.append(self._line(events.Heartbeat(time_ms=self._engine.now())))
        return b"".join(lines)

    def _selected_events(self, batch: Batch) -> Iterator[events.Event]:
        for notice in batch.notices:
            if not isinstance(notice, Record):
                yield notice
            elif self._query.matches(call := call_view(notice)):
                yield events.CallSettled(call=call)

    def next_due_s(self) -> float:
        """Returns the number of seconds until something must be sent, even without events."""
        return max(0.0, min(self._balance_due, self._tables_due, self._last_sent + HEARTBEAT_S) - self._clock())

    def _schedule_reports(self, batch: Batch, now: float) -> None:
        """Schedule the next reports. A call changes the balance, which is due soon, and sums, which can wait."""
        sums_changed = any(isinstance(notice, events.CallStarted | Record) for notice in batch.notices)
        if sums_changed:
            self._balance_due = min(self._balance_due, max(now, self._balance_sent + 0.25))
        if batch.changed:
            self._tables_due = min(self._tables_due, max(now, self._tables_sent + 0.25))
        elif sums_changed:
            # sums may be three seconds old; reports of large tables may take 2% of the time
            due = max(now, self._tables_sent) + max(3.0, 50 * self._tables_cost_s)
            self._tables_due = min(self._tables_due, due)

    def _balance_lines(self, now: float) -> list[bytes]:
        """Returns the account's line; empty if the account is as it was last sent."""
        self._balance_due, self._balance_sent = math.inf, now
        account = account_view(self._engine)
        if account == self._account:
            return []
        self._account = account
        return [self._line(events.Balance(account=account))]

    def _line(self, event: events.Event) -> bytes:
        self._last_sent = self._clock()
        return self._encoder.encode(event) + b"\n"


async def stream(edits: ConfigEdits, request: web.Request) -> web.StreamResponse:
    """GET /events?recent=N: stream events, after a snapshot with the N most recent calls.

    The filters of ``list_calls`` select the ended calls to report. What concerns no ended call is always reported.
    """
    params = query(request.query, {"recent": range(1, 1001), "since": int, "until": int, **CALL_FILTERS})
    recent = params.pop("recent", 200)
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
    watcher_stream = WatcherStream(edits, recent, params, edits.engine.clock.mono)
    watch = edits.engine.bus.watch(console=edits.source.via == "console")
    with suppress(ConnectionError), watch as watcher:  # the watcher has left: aiohttp would log that as an error
        await response.prepare(request)
        await _write(request, response, await watcher_stream.snapshot(), watcher)
        ended = False
        while not ended:
            ended = watcher.ended.is_set()  # checked first, so that events before the end are still sent
            if data := await watcher_stream.lines(await watcher.next_batch(watcher_stream.next_due_s())):
                await _write(request, response, data, watcher)
                await asyncio.sleep(0.04)  # events that happen in this time are written together
    return response


async def _write(request: web.Request, response: web.StreamResponse, data: bytes, watcher: Watcher) -> None:
    """Write data. Raises ConnectionError if it is not read in ``STUCK_S``, or in one second when the server stops."""
    try:
        async with asyncio.timeout(STUCK_S) as limit:
            watcher.on_end = lambda: limit.reschedule(asyncio.get_running_loop().time() + 1.0)
            if watcher.ended.is_set():
                watcher.on_end()
            await response.write(data)
    except TimeoutError as exc:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionError("the watcher does not read") from exc
    finally:
        watcher.on_end = None
