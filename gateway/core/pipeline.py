"""Pipeline: one call from its first byte to its settlement. Read this first.

First the token is identified, the request is parsed, and ``admission`` checks that the model is visible and that limits
and budgets allow the call. Then the hold and the limits are committed at once, without an await after the check. Then
``attempts`` are made until an upstream answers. Then the call is settled, in ``finally`` and without an await, so that
no cancellation can interrupt it. A call that is refused before the commit costs nothing.

The end of an answer (the body of a plain one, usage and ``[DONE]`` of a stream) is sent only after its record is
written. If the disk refuses the record, the client gets an error instead; see ``store.books``.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import cast

import msgspec

from gateway.core.admission import Admission, admit, entry_for, needs_by_model, visible_name
from gateway.core.answer_memory import UNCOUNTED, AnswerMemory, AnswerShare
from gateway.core.attempts import Attempts
from gateway.core.auth import current_token, identify, keyless_token, token_named, token_of
from gateway.core.call import Call, CallContext, CallOrigin, Client
from gateway.core.catalog import Catalog
from gateway.core.live_calls import LiveCalls
from gateway.core.progress import BudgetExhausted
from gateway.core.queueing import CallQueue, cancel_when_gone
from gateway.core.quota_refusals import set_program_status
from gateway.core.recent_items import BrokenStreams, RecentFailures, RecentItems
from gateway.core.refusal_log import Refusals
from gateway.core.routing import RouteChoice
from gateway.core.settlement import CLIENT_CLOSED, Meter, outcome_of, record_of
from gateway.domain.call import BUDGET_MARK, LOST_EVENTS_MARK, Outcome, Record, mark_total
from gateway.domain.errors import AnswerMemoryFull, GatewayError, Unavailable, UpstreamError, unexpected_error
from gateway.domain.events import CallStarted
from gateway.domain.settings import Durability
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import TokenId
from gateway.domain.usage import COUNTED_HERE, NOTHING
from gateway.inbound.api import HttpRequest, InboundRequest, is_large, parse_large
from gateway.store.books import Books
from gateway.store.recorder import withheld_error
from gateway.upstream.adapter import AnswerStream, WholeAnswer

_log = logging.getLogger("tollkeeper")


@dataclass(kw_only=True, eq=False)
class Pipeline:
    """Runs calls. The fields are the parts that it works with."""

    books: Books
    catalog: Callable[[], Catalog]
    attempts: Attempts
    live: LiveCalls
    answers: AnswerMemory

    def __post_init__(self) -> None:
        self.bus = self.attempts.progress.bus
        self.clock = self.attempts.clock
        self.worker = self.attempts.preparer.worker
        self.limiter = self.attempts.channel_limits.limiter
        self.meter = Meter()
        self.passes = RecentItems[TokenId](self.clock.mono, keep_s=60.0, limit=1000)
        """The tokens of keys that work for a minute, for calls of the owner as a token, by the keys' digests."""
        self.refusals = Refusals(
            self.books.record_refusal,
            self.bus,
            self.clock,
            lambda delay_s, work: asyncio.get_running_loop().call_later(delay_s, work),
            lambda token: self.catalog().registry.groups.get(token.group),
        )
        self.waiting = CallQueue(self.bus, self.limiter, self.books, self.attempts, self.catalog, self.clock)
        self._failures, self._broken_streams = RecentFailures(self.clock.mono), BrokenStreams(self.clock.mono)
        self._due: list[tuple[Call, Record]] = []
        """Calls whose answers are sent in the loop's next turn, after their records are written."""
        self.closed: Unavailable | None = None
        """The error for new calls while none are accepted."""

    def identify(self, origin: CallOrigin) -> Token:
        """Returns the token of the client's key. Raises InvalidToken."""
        catalog, passes = self.catalog(), self.passes
        try:
            if origin.keyless_token and not origin.key:
                return keyless_token(origin.keyless_token, catalog, origin.ts)
            return identify(origin.key, catalog, passes, origin.ts)
        except GatewayError as error:
            # the record names a token that exists but may not be used now
            token = token_of(origin.key, catalog, passes) if origin.key else token_named(origin.keyless_token, catalog)
            self.refusals.note(origin, error, token, None)
            raise

    def refuse(
        self, origin: CallOrigin, error: GatewayError, token: Token | None = None, request: InboundRequest | None = None
    ) -> None:
        """Record a refused call, and add the status and the limits to the error that its client gets."""
        set_program_status(error, origin.app, bundled=origin.bundled)
        if token is not None:
            model = "" if request is None else request.model
            error.call_headers = self.limiter.headers(self.catalog().rated_scopes(token, model))
        self.refusals.note(origin, error, token, request)

    async def run(self, origin: CallOrigin, token: Token, received: HttpRequest, client: Client) -> None:
        """Run one call. Raises GatewayError until part of the answer is sent; later the stream ends with the error."""
        request: InboundRequest | None = None
        try:
            if self.closed is not None:
                raise self.closed
            if is_large(received.body):
                with cancel_when_gone(client):
                    request = await self.worker.run(partial(parse_large, origin.api, received))
            else:
                request = origin.api.parse(received)
            if origin.api.repeats_blindly:
                self._failures.check(token.id, received.body)
            catalog = self.catalog()
            token = current_token(token, catalog, origin.ts)
            if (name := visible_name(request.model, origin.api, token, catalog)) != request.model:
                request = msgspec.structs.replace(request, model=name)
            call = Call(CallContext(origin, request, client, catalog, token, catalog.registry.groups[token.group]))
            admission = await self._admit(call)
        except GatewayError as error:
            self.refuse(origin, error, token, request)
            raise
        except ConnectionError as error:  # the client left while its call waited
            self.refuse(origin, Unavailable(str(error), code="client_closed"), token, request)
            raise
        self._enter(call, admission)
        try:
            await self._answer_or_fail(call, admission)
        except GatewayError as error:
            error.recorded = True
            if origin.api.repeats_blindly and isinstance(error, UpstreamError):
                self._failures.note(token.id, received.body, error)
            raise
        finally:
            if call.limits.gates:
                self.limiter.concurrency.leave(call.limits.gates)
            self.live.leave(call)

    async def _admit(self, call: Call) -> Admission:
        """Admit and commit a call, after a wait if all slots are taken. Raises GatewayError and ConnectionError."""
        context = call.context
        if context.request.input_estimate is not None:  # it is large
            needs = partial(needs_by_model, call, entry_for(call), self.attempts.preparer.recalled_tokens)
            with cancel_when_gone(context.client):
                call.needs = await self.worker.run(needs)
            if self.closed is not None:  # much may have happened meanwhile
                raise self.closed
            current_token(context.token, self.catalog(), context.origin.ts)
        admission = admit(call, self.limiter, self.books, self.attempts.preparer.recalled_tokens)
        first = self.attempts.chooser.first(call, admission.entry)
        if admission.full is not None or first.gates:
            return await self.waiting.wait(call, admission, self._commit)
        self._commit(call, admission, first)
        return admission

    def _commit(self, call: Call, admission: Admission, first: RouteChoice) -> None:
        """Write the hold. Raises Unavailable if the disk refuses, and then nothing is held.

        The hold names the first channel, so that after a crash it is known which channel may bill the call.
        """
        call.hold = admission.hold_plan
        if call.hold.warning:
            call.limits.marks += (BUDGET_MARK + plain(call.hold.warning, 160),)
        if first.route is not None:
            call.begin_attempt(first.route, first.reason)
        self.books.open(call.running)
        if self.bus.watchers:
            self.bus.publish(CallStarted(call=call.running))

    def _enter(self, call: Call, admission: Admission) -> None:
        """Count a committed call against the limits, and watch it while it runs."""
        context = call.context
        call.share = AnswerShare(self.answers)
        if self._broken_streams.conversations.items:
            call.result.after_break = self._broken_streams.is_repetition(context.token.id, context.request)
        if admission.gates and not call.limits.gates:  # a call that waited has its slots
            call.limits.gates = tuple([gate.key for gate in admission.gates])
            self.limiter.concurrency.enter(call.limits.gates)
        if admission.scopes:
            call.limits.counted_calls = self.limiter.take(admission.scopes, call.need.rate_tokens)
        self.attempts.chooser.retries.calls += 1
        self.live.enter(call)

    async def _answer_or_fail(self, call: Call, admission: Admission) -> None:
        """Answer an admitted call and settle it, whatever happens. Raises GatewayError if nothing was sent."""
        context, result = call.context, call.result
        try:
            await self._answer_and_settle(call, admission)
        except GatewayError as error:
            set_program_status(error, context.origin.app, bundled=context.origin.bundled)
            result.error = error.with_traceback(None)  # its frames refer to the call, and to all of its answer
        except asyncio.CancelledError:
            result.error = call.error_of_cancellation()
        except Exception as error:  # the outermost frame of a call: even after a bug it must be settled
            if isinstance(error, ConnectionError) and context.request.stream:
                result.ended_by = result.ended_by or Outcome.CLIENT_CLOSED
                raise
            trace = self.attempts.redaction.safe_traceback(error, context.request.fields)
            _log.error("call %s failed unexpectedly\n%s", context.origin.id, trace)
            result.error = unexpected_error(error, context.origin.id)
            result.error.__cause__ = error.with_traceback(None)
        else:
            return
        finally:
            if not result.settled:
                self._settle_failed(call)
        if context.catalog.registry.settings.durability is Durability.CALL:
            with suppress(Unavailable):  # the client gets its error even if the disk refuses
                await self.books.wait_until_synced()
        if not context.client.begun:
            if not _reads_error_in_stream(context, result.error):
                raise call.take_error()
            context.client.begin(call.answer_headers())
        await context.client.fail(result.error, call.late_facts(), call.attempt.stream)

    async def _answer_and_settle(self, call: Call, admission: Admission) -> None:
        """Answer a call and settle it, if nothing fails. Raises whatever fails."""
        context, entry = call.context, admission.entry
        if not context.request.stream:
            call.delivery.deadline = context.origin.began + entry.total_s
        if scopes := admission.scopes + entry.scopes:
            call.limits.headers = partial(self.limiter.headers, scopes)
        try:
            answer = await self.attempts.answer(call, entry)
        except BudgetExhausted:
            await self._finish_exhausted(call)
            return
        self.meter.note_answer(call, answer.state)
        status = CLIENT_CLOSED if context.client.gone else 200
        if not isinstance(answer, WholeAnswer):
            await self._finish(call, status, _end_of_stream(call, answer))
            return
        write = partial(answer.parts, call.result.usage)
        parts = await self.worker.run(write, large=not answer.body and call.share.size > UNCOUNTED)
        is_large = sum(map(len, parts)) > UNCOUNTED
        # the records and answers of several calls may be written together, in the loop's next turn
        syncs_each_call = context.catalog.registry.settings.durability is Durability.CALL
        soon = not (syncs_each_call or is_large) and context.client.may_wait
        record = self._settle(call, status, soon=soon)
        if not soon:
            await self._confirm(call, record)
        context.client.answer(call.answer_headers(record), parts, soon=soon)
        if is_large:
            del answer, parts  # from here on only the response holds it
            await context.client.wait_until_sent()

    async def _finish_exhausted(self, call: Call) -> None:
        """End a stream whose money is used up as if its length limit was reached."""
        stream = cast("AnswerStream", call.attempt.stream)  # nothing else runs out of money
        result = call.result
        last_events = stream.cut_short()
        result.usage = self.meter.partial_usage(call)
        result.finish, result.outcome = "length", Outcome.STOPPED
        result.upstream_id = stream.state.upstream_id
        result.marks = (*stream.state.marks, "money_gone")
        await self._finish(call, 200, last_events + _end_of_stream(call, stream))

    async def _finish(self, call: Call, status: int, end: bytes) -> None:
        await self._confirm(call, self._settle(call, status))
        await call.send(end, self.clock.mono(), last=True)

    async def _confirm(self, call: Call, record: Record) -> None:
        """Wait until the record is as durable as wanted. Raises Unavailable if it was not written: then no answer."""
        try:
            if call.context.catalog.registry.settings.durability is Durability.CALL:
                with suppress(Unavailable):  # it is written, and no call begins until the disk syncs again
                    await self.books.wait_until_synced()
        finally:
            self.bus.publish_record(record)
        if record.code:
            raise withheld_error(record)

    def _settle_failed(self, call: Call) -> None:
        """Settle a call that failed: the client is charged for what it got.

        A plain call whose client left is charged its prompt, because its upstream was at work. So is a call whose
        answer was abandoned for lack of memory before any of it was sent. An answer that came whole is charged in full.
        """
        context, result, meter = call.context, call.result, self.meter
        result.outcome = outcome_of(call)
        has_left = result.ended_by is Outcome.CLIENT_CLOSED and not context.request.stream
        is_abandoned = isinstance(result.error, AnswerMemoryFull) and not call.delivery.content_sent
        if result.usage is NOTHING:  # otherwise the answer had come, and was being written
            is_prompt_read = (has_left or is_abandoned) and result.attempts
            result.usage = meter.estimated_usage(call) if is_prompt_read else meter.partial_usage(call)
        if (stream := call.attempt.stream) is not None:
            state = stream.state
            result.finish, result.upstream_id, result.marks = state.finish, state.upstream_id, state.marks
        status = CLIENT_CLOSED
        if result.error is not None and result.outcome is not Outcome.CLIENT_CLOSED:
            status = context.origin.api.status(result.error)
            if call.delivery.content_sent:
                self._broken_streams.note(context.token.id, context.request)
        self.bus.publish_record(self._settle(call, status))

    def _settle(self, call: Call, status: int, *, soon: bool = False) -> Record:
        """End the hold, exactly once: write record and charge, update the limits. Never awaits.

        Returns the record as stored. With ``soon``, it is written in the loop's next turn, and watchers get it then.
        """
        record = record_of(call, status, mono=self.clock.mono())
        call.result.settled = True
        record = self.books.settle(record, deferred=soon)
        if soon:
            if not self._due:
                asyncio.get_running_loop().call_soon(self._write_due)
            self._due.append((call, record))
        used = call.result.usage.input + call.result.usage.output
        for counted in (*call.limits.counted_calls, *call.attempt.counted_calls):
            counted.correct_tokens(used)
        return record

    def _write_due(self) -> None:
        """Write the records of the answers of this turn. If the disk refuses, these answers become errors."""
        due, self._due = self._due, []
        books, bus = self.books, self.bus
        books.write()
        for call, record in due:
            stored = books.final_record(record)
            if stored.code:
                call.context.client.withhold(call.with_call_headers(withheld_error(stored)))
            bus.publish_record(stored)


def _end_of_stream(call: Call, stream: AnswerStream) -> bytes:
    """Returns the end of a stream, with the facts that an early head left out and a note of omitted events."""
    usage, marks = call.result.usage, call.result.marks
    facts = {"x-gateway-lost-events": str(lost)} if marks and (lost := mark_total(marks, LOST_EVENTS_MARK)) else {}
    if usage.source in COUNTED_HERE:
        facts["x-gateway-usage"] = usage.source.value
    note = call.context.origin.api.comment(facts) if facts else b""
    return call.late_facts() + note + stream.tail(usage)


def _reads_error_in_stream(context: CallContext, error: GatewayError) -> bool:
    """Returns whether the client reads this error only in a stream: Codex up to 0.158, if the input is too long."""
    is_codex = context.origin.app.startswith("codex") and context.origin.api.repeats_blindly
    return is_codex and context.request.stream and error.code == "context_length_exceeded"
