"""Pipeline: one call from its first byte to its settlement. Read this first.

The order (``features.md`` 2.0): who is it, what is asked, is the model visible, do limits and budgets allow it; then
one commit of hold and limits, with no await between check and commit; then attempts, until an upstream answers; then
the settlement, in ``finally`` and without awaiting, so that no cancellation can tear it. What is refused before the
commit has cost nothing.

The end of an answer (the body of a plain one, usage and ``[DONE]`` of a stream) is released only when its record is
written, and with durability ``call`` also synced. If the disk refuses, the client gets an error in its place, and the
record says the same; see ``store.books``.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec

from gateway.core.admission import Admission, admit, demand, group_of, visible_entry
from gateway.core.attempts import Attempts
from gateway.core.auth import Passes, identify, still
from gateway.core.call import Call, Client, Visit
from gateway.core.catalog import Catalog
from gateway.core.clock import Clock
from gateway.core.event_bus import EventBus
from gateway.core.live_calls import BudgetExhausted, LiveCalls
from gateway.core.memory import POCKET, AnswerMemory
from gateway.core.preparation import Worker
from gateway.core.queueing import CallQueue, until_gone
from gateway.core.ratelimit import Limiter, Ticket
from gateway.core.refusals import Refusals
from gateway.core.routing import RouteChoice
from gateway.core.settlement import GONE, Meter, outcome_of, record_of
from gateway.domain.call import Outcome, Record
from gateway.domain.errors import AnswerMemoryFull, GatewayError, InternalError, Unavailable, UpstreamTimeout
from gateway.domain.money import number
from gateway.domain.settings import Durability
from gateway.domain.token import Token
from gateway.domain.usage import UsageSource
from gateway.inbound.api import LARGE, HttpRequest
from gateway.store.books import Books
from gateway.store.inflight import refusal
from gateway.upstream.adapter import AnswerStream, Whole

_log = logging.getLogger("tollkeeper")

Found = TypeVar("Found")


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What the pipeline works with."""

    books: Books
    catalog: Callable[[], Catalog]
    passes: Passes
    limiter: Limiter
    attempts: Attempts
    meter: Meter
    live: LiveCalls
    bus: EventBus
    answers: AnswerMemory
    clock: Clock
    worker: Worker


class Pipeline:
    """The life of a call."""

    def __init__(self, parts: Dependencies) -> None:
        self._ = parts
        self.attempts = parts.attempts
        self._refusals = Refusals(parts.books.note, parts.bus, parts.clock)
        self._waiting = CallQueue(parts.limiter, parts.books, parts.attempts, parts.catalog, parts.clock)
        self._soon: list[tuple[Call, Record]] = []
        """Calls whose answers go out in the loop's next turn: their records are written in it, before them."""
        self.closed: Unavailable | None = None
        """Set while no calls are taken: what those who come are told."""

    def identify(self, visit: Visit) -> Token:
        """Who it is. Raises InvalidToken."""
        try:
            return identify(visit.key, self._.catalog(), self._.passes, visit.ts)
        except GatewayError as error:
            self.refuse(visit, error)
            raise

    def refuse(self, visit: Visit, error: GatewayError, token: Token | None = None, model: str = "") -> None:
        """Record a call that is turned away; the error learns how its token's limits stand."""
        if token is not None:
            error.readings = self._.limiter.readings(self._.catalog().binding(token, model))
        self._refusals.note(visit, error, token, model)

    async def run(self, visit: Visit, token: Token, received: HttpRequest, client: Client) -> None:
        """One call. Raises GatewayError while the client has no byte of an answer, later ends the stream with it."""
        model = ""
        try:
            if self.closed is not None:
                raise self.closed
            parse, large = visit.api.parse, len(received.body) > LARGE
            request = await _beside(self._.worker, client, partial(parse, received)) if large else parse(received)
            model, catalog = request.model, self._.catalog()
            token = still(token, catalog, visit.ts)
            call = Call(visit, request, client, catalog, token, group_of(token, catalog))
            if large:
                find = partial(demand, call, visible_entry(model, token, catalog), self._.attempts.recalled)
                call.demand = await _beside(self._.worker, client, find)
                if self.closed is not None:
                    raise self.closed
                still(token, self._.catalog(), visit.ts)
            admission = admit(call, self._.limiter, self._.books, self._.attempts.recalled)
            first = self._.attempts.first(call, admission.entry)
            if admission.full is None and not first.gates:
                self._commit(call, admission, first)
            else:
                admission, first = await self._waiting.through(call, admission, self._commit)
        except GatewayError as error:
            self.refuse(visit, error, token, model)
            raise
        except ConnectionError as error:  # it waited for a place
            self.refuse(visit, Unavailable(str(error), code="client_closed"), token, model)
            raise
        call.share = self._.answers.share()
        with self._.limiter.take(admission.bounds, call.need.rate_tokens, admission.gates, call.gates) as ticket:
            self._.live.enter(call)
            try:
                with call.share:
                    await self._answer(call, admission, first, ticket)
            finally:
                self._.live.leave(call)

    def _commit(self, call: Call, admission: Admission, first: RouteChoice) -> None:
        """Write the hold. Raises Unavailable if the disk does not take it; then nothing is held."""
        taken = admission.hold_plan
        call.held, call.held_tokens = taken.nanos, taken.tokens
        if first.route is not None:
            call.take_route(first.route, first.why, 1)
        self._.books.open(call.running)
        self._.bus.started(call.running)

    async def _answer(self, call: Call, admission: Admission, first: RouteChoice, ticket: Ticket) -> None:
        try:
            await self._good_answer(call, admission, first, ticket)
        except GatewayError as error:
            call.error = error.with_traceback(None)  # its frames lead back to the call, and to all of its answer
        except asyncio.CancelledError:
            call.error = self._from_outside(call)
        except Exception as error:  # the outermost frame of a call: a bug must not tear the money
            if isinstance(error, ConnectionError) and call.asked.stream:
                call.why = call.why or Outcome.CLIENT_CLOSED
                raise
            trace = self._.attempts.redaction.trace(error, call.asked.fields, call.asked.long)
            _log.error("call %s failed by a bug\n%s", call.visit.id, trace)
            call.error = InternalError(f"the gateway failed by a bug of its own; the call is {call.visit.id}")
            call.error.__cause__ = error.with_traceback(None)
        else:
            return
        finally:
            if not call.settled:
                self._settle_broken(call, ticket)
        if _is_strict(call):
            with suppress(Unavailable):  # a disk that refuses is no reason to keep the client waiting for its error
                await self._.books.synced()
        if not call.client.begun:
            raise _last_error(call, self._.limiter)
        call.writing_since = self._.clock.mono()
        await call.client.fail(call.error, call.late_facts())

    async def _good_answer(self, call: Call, admission: Admission, first: RouteChoice, ticket: Ticket) -> None:
        if not call.asked.stream:
            call.deadline = call.visit.began + admission.entry.total_s
        visit = call.visit
        order = visit.api.order(call.asked, visit.id, visit.ts)
        try:
            got = await self._.attempts.answer(call, admission.entry, order, first)
        except BudgetExhausted:
            await self._finish_broke(call, ticket)
            return
        self._measure(call, got)
        status = GONE if call.client.gone else 200
        if not isinstance(got, Whole):
            await self._finish(call, ticket, status, _tail(call, got))
            return
        parts = got.parts(call.usage)
        large = sum(map(len, parts)) > POCKET
        if _is_strict(call) or large or not call.client.patient:
            record = await self._confirmed(call, self._settle(call, ticket, status))
            call.client.answer(_plain_headers(call, record), parts)
        else:
            record = self._settle(call, ticket, status, soon=True)
            call.client.answer(_plain_headers(call, record), parts, soon=True)
        if large:
            del got, parts  # from here on whoever delivers it has it alone
            await call.client.delivered()

    def _measure(self, call: Call, got: Whole | AnswerStream) -> None:
        """What the answer used, and how it came out."""
        meter = self._.meter
        call.usage = meter.whole(call, got) if isinstance(got, Whole) else meter.stream(call, got)
        call.finish, call.upstream_id, call.marks = got.finish, got.upstream_id, got.marks
        if call.client.gone:
            call.outcome = Outcome.CLIENT_CLOSED

    async def _finish_broke(self, call: Call, ticket: Ticket) -> None:
        """The money is gone: the stream ends as if its length limit were reached."""
        stream = call.answer
        if stream is None:
            msg = "a call without a stream cannot run out of money"
            raise InternalError(msg)
        last = stream.cut_short()
        call.usage = self._.meter.broken(call)
        call.finish, call.outcome = "length", Outcome.STOPPED
        call.marks = (*stream.marks, "money_gone")
        await self._finish(call, ticket, 200, last + _tail(call, stream))

    async def _finish(self, call: Call, ticket: Ticket, status: int, tail: bytes) -> None:
        """Settle a stream, and only then release its end."""
        await self._confirmed(call, self._settle(call, ticket, status))
        await call.send(tail, self._.clock.mono())

    async def _confirmed(self, call: Call, record: Record) -> Record:
        """The record, once it is as safe as the settings want it. Raises Unavailable if the answer is withheld."""
        try:
            if _is_strict(call):
                record = await self._.books.confirmed(record)
        finally:
            self._.bus.settled(record)
        if record.code:
            raise refusal(record)
        return record

    def _settle_broken(self, call: Call, ticket: Ticket) -> None:
        """Settle a call that did not come to its proper end: what the client got of it is charged.

        A plain call that was cancelled because its client left is charged its prompt: its upstream was at work. So is
        one whose answer was given up for want of memory, before anything of it had been sent.
        """
        call.outcome = outcome_of(call)
        left = call.why is Outcome.CLIENT_CLOSED and not call.asked.stream
        given_up = isinstance(call.error, AnswerMemoryFull) and not call.content_sent
        left_at_work = (left or given_up) and bool(call.attempts)
        call.usage = self._.meter.unanswered(call) if left_at_work else self._.meter.broken(call)
        if (stream := call.answer) is not None:
            call.finish, call.upstream_id, call.marks = stream.finish, stream.upstream_id, stream.marks
        gone = call.outcome is Outcome.CLIENT_CLOSED or call.error is None
        status = GONE if gone or call.error is None else call.visit.api.status(call.error)
        self._.bus.settled(self._settle(call, ticket, status))

    def _settle(self, call: Call, ticket: Ticket, status: int, *, soon: bool = False) -> Record:
        """End the hold, exactly once: write record and charge, tell the limiter. Never awaits.

        Gives the record as it is kept; the watchers are still to be told. With ``soon`` they are, when it is written.
        """
        record = record_of(call, status, mono=self._.clock.mono())
        call.settled = True
        record = self._.books.settle(record, soon=soon)
        if soon:
            if not self._soon:
                asyncio.get_running_loop().call_soon(self._write)
            self._soon.append((call, record))
        used = call.usage.input + call.usage.output
        ticket.true_up(used)
        if call.room is not None:
            call.room.true_up(used)
        return record

    def _write(self) -> None:
        """Write the records of the answers that are to go out now. Those that the disk refuses become errors."""
        due, self._soon = self._soon, []
        books, bus = self._.books, self._.bus
        books.write()
        for call, record in due:
            kept = books.kept(record)
            if kept.code:
                call.client.withhold(_explained(call, refusal(kept), self._.limiter))
            bus.settled(kept)

    def _from_outside(self, call: Call) -> GatewayError:
        """The call's task was cancelled: go on with an error for the client if it is still there.

        Raises CancelledError if nobody is left to be told.
        """
        task = asyncio.current_task()
        if call.why in (None, Outcome.CLIENT_CLOSED) or task is None:
            raise asyncio.CancelledError
        task.uncancel()
        if call.why is Outcome.TIMEOUT:
            limit = (call.deadline or 0) - call.visit.began
            return UpstreamTimeout(f"the call took longer than its total limit of {limit:.0f} s")
        if call.why is Outcome.CANCELLED:
            msg = "the call was cancelled by the gateway's owner"
            return Unavailable(msg, code="call_cancelled")
        msg = "the gateway was stopped before the call could end"
        return Unavailable(msg, code="gateway_stopping", retry_after_s=5)


def _last_error(call: Call, limiter: Limiter) -> GatewayError:
    """The call's error, to be raised. The call lets go of it: the two would keep each other alive, and an answer with
    them, until the garbage collector looks.
    """
    error, call.error = call.error, None
    return _explained(call, error or InternalError("the call failed without an error"), limiter)


def _explained(call: Call, error: GatewayError, limiter: Limiter) -> GatewayError:
    """The error with what an answer's headers tell: limits and the call's way."""
    error.readings = limiter.readings(call.binding)
    error.facts = call.headers()
    return error


def _is_strict(call: Call) -> bool:
    """Whether the end of an answer waits until its record is safe from a power cut."""
    return call.catalog.registry.settings.durability is Durability.CALL


def _tail(call: Call, stream: AnswerStream) -> bytes:
    """The end of a stream, with what an early head has left out."""
    return call.late_facts() + stream.tail(call.usage, estimated=call.usage.source is not UsageSource.REPORTED)


async def _beside(worker: Worker, client: Client, work: Callable[[], Found]) -> Found:
    """What the work on a large request brings. Raises ConnectionResetError if the client leaves meanwhile."""
    with until_gone(client):
        return await worker.run(work)


def _plain_headers(call: Call, record: Record) -> dict[str, str]:
    out = call.headers()
    out["x-gateway-cost"] = number(record.cost)
    if record.balance is not None:
        out["x-gateway-balance"] = number(record.balance)
    return out
