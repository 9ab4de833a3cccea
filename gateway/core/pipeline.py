"""Pipeline: one call from its first byte to its settlement. Read this first.

The order: identify the token, parse the request, check that the model is visible and that limits and budgets allow the
call; then one commit of hold and limits, without an await between check and commit; then attempts, until an upstream
answers; then the settlement, in ``finally`` and without an await, so that no cancellation can interrupt it. A call
refused before the commit costs nothing.

The end of an answer (the body of a plain one, usage and ``[DONE]`` of a stream) is released only after its record is
written. If the disk refuses the record, the client gets an error instead; see ``store.books``.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import msgspec

from gateway.core.admission import Admission, admit, entry_for, group_of, needs_by_model, visible_name
from gateway.core.answer_headers import answer_headers, end_of_stream_facts, whole_answer_headers
from gateway.core.attempts import Attempts
from gateway.core.auth import Passes, current_token, identify, token_called, token_of, trusted_token
from gateway.core.call import Call, CallContext, CallOrigin, Client
from gateway.core.catalog import Catalog
from gateway.core.clock import Clock
from gateway.core.event_bus import EventBus
from gateway.core.live_calls import BudgetExhausted, LiveCalls
from gateway.core.memory import POCKET, AnswerMemory, AnswerShare
from gateway.core.preparation import Worker
from gateway.core.queueing import CallQueue, until_gone
from gateway.core.quota_refusals import set_quota_status
from gateway.core.ratelimit import Limiter
from gateway.core.refusal_log import Refusals
from gateway.core.retry import KEEP_FAILURE_S, BrokenStreams, RecentFailures
from gateway.core.routing import RouteChoice
from gateway.core.settlement import GONE, Meter, had_output, outcome_of, record_of
from gateway.domain.call import BUDGET_MARK, Outcome, Record
from gateway.domain.errors import (
    AnswerMemoryFull,
    GatewayError,
    InternalError,
    Unavailable,
    UpstreamError,
    UpstreamTimeout,
)
from gateway.domain.settings import Durability
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.usage import COUNTED_HERE, UsageSource
from gateway.inbound.api import LARGE, HttpRequest, InboundRequest, parse_large
from gateway.store.books import Books
from gateway.store.inflight import withheld_error
from gateway.upstream.adapter import AnswerStream, WholeAnswer
from gateway.upstream.usage_marks import SUSPECT

_log = logging.getLogger("tollkeeper")

Result = TypeVar("Result")

_EACH_CALL: Final = Durability.CALL


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that the pipeline works with."""

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
    """Runs calls."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps
        self.attempts = deps.attempts
        self.calibration = deps.meter.calibration
        self.refusals = Refusals(
            deps.books.note, deps.bus, deps.clock, _later, lambda token: deps.catalog().registry.groups.get(token.group)
        )
        self._queue = CallQueue(deps.limiter, deps.books, deps.attempts, deps.catalog, deps.clock, deps.bus)
        self.waiting = self._queue.calls
        self._failures, self._broken = RecentFailures(deps.clock.mono), BrokenStreams(deps.clock.mono)
        self._soon: list[tuple[Call, Record]] = []
        """Calls whose answers go out in the loop's next turn, after their records are written."""
        self.closed: Unavailable | None = None
        """The error for new calls while none are accepted."""

    def identify(self, origin: CallOrigin) -> Token:
        """Returns the token of the client's key. Raises InvalidToken."""
        catalog, passes = self._deps.catalog(), self._deps.passes
        try:
            if origin.trusted and not origin.key:
                return trusted_token(origin.trusted, catalog, origin.ts)
            return identify(origin.key, catalog, passes, origin.ts)
        except GatewayError as error:
            key, name = origin.key, origin.trusted
            token = token_of(key, catalog, passes, origin.ts) if key else token_called(name, catalog)
            self.refusals.note(origin, error, token, None)  # a token that may not be used now is still known
            raise

    def refuse(
        self,
        origin: CallOrigin,
        error: GatewayError,
        token: Token | None = None,
        request: InboundRequest | None = None,
    ) -> None:
        """Record a refused call, and add to the error what its client has to know."""
        set_quota_status(error, origin.app, bundled=origin.bundled)
        if token is not None:
            model = "" if request is None else request.model
            error.readings = self._deps.limiter.readings(self._deps.catalog().binding(token, model))
        self.refusals.note(origin, error, token, request)

    async def run(self, origin: CallOrigin, token: Token, received: HttpRequest, client: Client) -> None:
        """Run one call. Raises GatewayError until part of the answer is sent; later the stream ends with the error."""
        deps, request = self._deps, None
        try:
            if self.closed is not None:
                raise self.closed
            large = len(received.body) > LARGE
            read = partial(parse_large, origin.api, received)
            request = await _beside(deps.worker, client, read) if large else origin.api.parse(received)
            model, catalog = request.model, deps.catalog()
            if origin.api.repeats_blindly and (failure := self._failures.of(token.id, received.body)) is not None:
                failure.add(f" [it failed less than {KEEP_FAILURE_S:.0f} s ago and was not sent again]")
                raise failure
            same = catalog.registry.tokens.get(token.id) is token
            token = token if same else current_token(token, catalog, origin.ts)
            if origin.api.respells and (name := visible_name(model, origin.api, token, catalog)) != model:
                model, request = name, msgspec.structs.replace(request, model=name)
            group = catalog.registry.groups.get(token.group) or group_of(token, catalog)
            call = Call(CallContext(origin, request, client, catalog, token, group))
            if large:
                await self._find_needs(call)
            admission = admit(call, deps.limiter, deps.books, deps.attempts.recalled)
            first = deps.attempts.first(call, admission.entry)
            if admission.full is None and not first.gates:
                self._commit(call, admission, first)
            else:
                admission, first = await self._queue.wait(call, admission, self._commit)
        except (GatewayError, ConnectionError) as error:  # the client may leave while its call waits
            gone = Unavailable(str(error), code="client_closed")
            self.refuse(origin, error if isinstance(error, GatewayError) else gone, token, request)
            raise
        call.share = AnswerShare(deps.answers)
        call.result.after_break = bool(self._broken.known) and self._broken.repeated(token.id, request)
        if admission.bounds or admission.gates:
            counted = call.need.rate_tokens if admission.bounds else 0
            call.limits.ticket = deps.limiter.take(admission.bounds, counted, admission.gates, call.limits.gates)
        deps.live.enter(call)
        try:
            await self._answer(call, admission, first)
        except GatewayError as error:
            error.recorded = True
            if origin.api.repeats_blindly and isinstance(error, UpstreamError):
                self._failures.note(token.id, received.body, error)
            raise
        finally:
            deps.live.leave(call)

    async def _find_needs(self, call: Call) -> None:
        """Compute in the worker what a large request may use. Raises GatewayError if it is too late to admit it."""
        deps, context = self._deps, call.context
        entry = entry_for(call)
        work = partial(needs_by_model, call, entry, deps.attempts.recalled)
        call.needs = await _beside(deps.worker, context.client, work)
        if self.closed is not None:
            raise self.closed
        current_token(context.token, deps.catalog(), context.origin.ts)

    def _commit(self, call: Call, admission: Admission, first: RouteChoice) -> None:
        """Write the hold. Raises Unavailable if the disk refuses, and then nothing is held."""
        call.held, call.held_tokens = admission.hold_plan.nanos, admission.hold_plan.tokens
        if admission.hold_plan.warning:
            call.limits.budget_warning = admission.hold_plan.warning
            call.limits.marks += (BUDGET_MARK + plain(admission.hold_plan.warning, 160),)
        if first.route is not None:
            call.begin_attempt(first.route, first.why, 1)
        self._deps.books.open(call.running)
        if self._deps.bus.watched_by:
            self._deps.bus.started(call.running)

    async def _answer(self, call: Call, admission: Admission, first: RouteChoice) -> None:
        context, result = call.context, call.result
        try:
            await self._good_answer(call, admission, first)
        except GatewayError as error:
            result.error = error.with_traceback(None)  # its frames lead back to the call, and to all of its answer
        except asyncio.CancelledError:
            result.error = _error_of_end(call)
        except Exception as error:  # the outermost frame of a call: a bug must not tear the money
            if isinstance(error, ConnectionError) and context.request.stream:
                result.ended_by = result.ended_by or Outcome.CLIENT_CLOSED
                raise
            trace = self._deps.attempts.redaction.trace(error, context.request.fields)
            _log.error("call %s failed by a bug\n%s", context.origin.id, trace)
            result.error = InternalError(f"the gateway failed because of a bug; the call is {context.origin.id}")
            result.error.__cause__ = error.with_traceback(None)
        else:
            return
        finally:
            if not result.settled:
                self._settle_broken(call)
        if context.catalog.registry.settings.durability is _EACH_CALL:
            with suppress(Unavailable):  # the client does not have to wait for its error because the disk refuses
                await self._deps.books.synced()
        if not context.client.begun:
            raise _last_error(call, self._deps.limiter)
        call.delivery.writing_since = self._deps.clock.mono()
        await context.client.fail(result.error, call.late_facts(), call.attempt.stream)

    async def _good_answer(self, call: Call, admission: Admission, first: RouteChoice) -> None:
        context, origin = call.context, call.context.origin
        if not context.request.stream:
            call.delivery.deadline = origin.began + admission.entry.total_s
        order = origin.api.order(context.request, origin.id, origin.ts)
        if origin.api.timed:
            order = msgspec.structs.replace(order, clock=self._deps.clock.wall, began=origin.ts)
        if admission.entry.effects.remembers or admission.entry.fallbacks:
            order = msgspec.structs.replace(order, owner=context.token.id)
        settings = context.catalog.registry.settings
        if settings.strict_streams:
            order = msgspec.structs.replace(order, strict_events=True)
        call.limits.scopes = admission.bounds + admission.entry.bounds
        try:
            answer = await self._deps.attempts.answer(call, admission.entry, order, first)
        except BudgetExhausted:
            await self._finish_exhausted(call)
            return
        self._measure(call, answer)
        status = GONE if context.client.gone else 200
        if not isinstance(answer, WholeAnswer):
            await self._finish(call, status, _tail(call, answer))
            return
        parts = answer.parts(call.result.usage)
        large = sum(map(len, parts)) > POCKET
        if settings.durability is _EACH_CALL or large or not context.client.may_wait:
            record = self._settle(call, status)
            await self._confirmed(call, record)
            context.client.answer(whole_answer_headers(call.attempt, call.limits, call.result, record), parts)
        else:
            record = self._settle(call, status, soon=True)
            context.client.answer(
                whole_answer_headers(call.attempt, call.limits, call.result, record), parts, soon=True
            )
        if large:
            del answer, parts  # from here on only the response holds it
            await context.client.delivered()

    def _measure(self, call: Call, answer: WholeAnswer | AnswerStream) -> None:
        """Note what the answer used and how it ended."""
        meter, result = self._deps.meter, call.result
        result.usage = meter.usage(call, answer)
        result.finish, result.upstream_id, result.marks = answer.finish, answer.upstream_id, answer.marks
        if (reported := answer.reported) is not None and not reported.output and had_output(call, answer):
            result.marks = tuple(dict.fromkeys((*result.marks, SUSPECT)))
        if call.context.client.gone:
            result.outcome = Outcome.CLIENT_CLOSED

    async def _finish_exhausted(self, call: Call) -> None:
        """End the stream as if its length limit was reached: the money is gone."""
        stream, result = call.attempt.stream, call.result
        if stream is None:
            msg = "a call without a stream cannot run out of money"
            raise InternalError(msg)
        last = stream.cut_short()
        result.usage = self._deps.meter.broken(call)
        result.finish, result.outcome = "length", Outcome.STOPPED
        result.marks = (*stream.marks, "money_gone")
        await self._finish(call, 200, last + _tail(call, stream))

    async def _finish(self, call: Call, status: int, tail: bytes) -> None:
        """Settle a stream, then send its end."""
        await self._confirmed(call, self._settle(call, status))
        await call.send(tail, self._deps.clock.mono(), last=True)

    async def _confirmed(self, call: Call, record: Record) -> None:
        """Wait until the record is as safe as set. Raises Unavailable if the answer is withheld."""
        try:
            if call.context.catalog.registry.settings.durability is _EACH_CALL:
                with suppress(Unavailable):  # it is written, and no call begins until the disk syncs again
                    await self._deps.books.synced()
        finally:
            self._deps.bus.settled(record)
        if record.code:
            raise withheld_error(record)

    def _settle_broken(self, call: Call) -> None:
        """Settle a call that did not end properly: the client is charged for what it got.

        A plain call whose client left is charged its prompt: its upstream was at work. So is one whose answer was
        abandoned for lack of memory before any of it was sent.
        """
        context, result, meter = call.context, call.result, self._deps.meter
        result.outcome = outcome_of(call)
        left = result.ended_by is Outcome.CLIENT_CLOSED and not context.request.stream
        given_up = isinstance(result.error, AnswerMemoryFull) and not call.delivery.content_sent
        left_at_work = (left or given_up) and bool(result.attempts)
        result.usage = meter.unanswered(call) if left_at_work else meter.broken(call)
        if (stream := call.attempt.stream) is not None:
            result.finish, result.upstream_id, result.marks = stream.finish, stream.upstream_id, stream.marks
        status = GONE
        if result.error is not None and result.outcome is not Outcome.CLIENT_CLOSED:
            status = context.origin.api.status(result.error)
            if call.delivery.content_sent:
                self._broken.note(context.token.id, context.request)
        self._deps.bus.settled(self._settle(call, status))

    def _settle(self, call: Call, status: int, *, soon: bool = False) -> Record:
        """End the hold, exactly once: write record and charge, update the limits. Never awaits.

        Returns the record as stored, before watchers get it. With ``soon`` both happen in the loop's next turn.
        """
        record = record_of(call, status, mono=self._deps.clock.mono())
        call.result.settled = True
        record = self._deps.books.settle(record, deferred=soon)
        if soon:
            if not self._soon:
                asyncio.get_running_loop().call_soon(self._write)
            self._soon.append((call, record))
        used = call.result.usage.input + call.result.usage.output
        for ticket in (call.limits.ticket, call.attempt.channel_ticket):
            if ticket is not None:
                ticket.correct_tokens(used)
        return record

    def _write(self) -> None:
        """Write the records of the answers of this turn. If the disk refuses, these answers become errors."""
        due, self._soon = self._soon, []
        books, bus = self._deps.books, self._deps.bus
        books.write()
        for call, record in due:
            stored = books.final_record(record)
            if stored.code:
                call.context.client.withhold(_explain(call, withheld_error(stored), self._deps.limiter))
            bus.settled(stored)


def _later(delay_s: float, work: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(delay_s, work)


def _error_of_end(call: Call) -> GatewayError:
    """Returns the error of a call whose task was cancelled, for its client.

    Raises CancelledError if the client is gone.
    """
    task, ended_by = asyncio.current_task(), call.result.ended_by
    if ended_by in (None, Outcome.CLIENT_CLOSED) or task is None:
        raise asyncio.CancelledError
    task.uncancel()
    if ended_by is Outcome.TIMEOUT:
        limit = (call.delivery.deadline or 0) - call.context.origin.began
        return UpstreamTimeout(f"the call took longer than its total limit of {limit:.0f} s")
    if ended_by is Outcome.CANCELLED:
        msg = "the call was cancelled by the gateway's owner"
        return Unavailable(msg, code="call_cancelled")
    msg = "the gateway was stopped before the call could end"
    return Unavailable(msg, code="gateway_stopping", retry_after_s=5)


def _last_error(call: Call, limiter: Limiter) -> GatewayError:
    """Returns the call's error, to be raised, and drops it from the call. Otherwise the two would keep each other, and
    an answer, alive until the garbage collector runs.
    """
    error, call.result.error = call.result.error, None
    return _explain(call, error or InternalError("the call failed without an error"), limiter)


def _explain(call: Call, error: GatewayError, limiter: Limiter) -> GatewayError:
    """Returns the error with what an answer's headers would say: limits and route."""
    error.readings = limiter.readings(call.limits.scopes)
    error.facts = answer_headers(call.attempt, call.limits, call.result)
    return error


def _tail(call: Call, stream: AnswerStream) -> bytes:
    """Returns the end of a stream, with the facts that an early head left out and a note of omitted events."""
    usage, marks = call.result.usage, call.result.marks
    facts = end_of_stream_facts(usage, marks) if marks or usage.source in COUNTED_HERE else {}
    note = call.context.origin.api.comment(facts) if facts else b""
    return call.late_facts() + note + stream.tail(usage, estimated=usage.source is not UsageSource.REPORTED)


async def _beside(worker: Worker, client: Client, work: Callable[[], Result]) -> Result:
    """Returns the result of work on a large request. Raises ConnectionResetError if the client leaves meanwhile."""
    with until_gone(client):
        return await worker.run(work)
