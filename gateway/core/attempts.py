"""Attempts: a call goes from channel to channel until one answers or none is left.

``retry`` decides where it goes after a failure. Once the client has a byte of the answer, no other channel is tried.
When all channels fail, the client gets the most informative failure, with every attempt listed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from typing import NoReturn, Protocol, cast

import msgspec

from gateway.core.answer_memory import UNCOUNTED
from gateway.core.call import Call
from gateway.core.channel_health import NO_TRIAL, ChannelHealth
from gateway.core.chooser import Chooser, unaffordable_text
from gateway.core.clock import Clock
from gateway.core.latency import LatencyStats
from gateway.core.model_entry import ModelEntry, Route
from gateway.core.preparation import Preparer, lacking_names
from gateway.core.progress import ProgressReporter
from gateway.core.retry import NextStep, RetryState, fault_of, is_refused, is_too_long
from gateway.core.settlement import may_be_billed, reports_usage
from gateway.domain.call import CHAT_API, Attempt, FailureKind
from gateway.domain.channel import Channel
from gateway.domain.errors import AnswerMemoryFull, Unavailable, UpstreamError
from gateway.domain.failure import AttemptFailed, ResponsesNeed
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.inbound.api import AttemptPlan
from gateway.upstream.adapter import Adapter, Answer, AnswerFacts, AnswerStream, ChannelDialect, Reply
from gateway.upstream.redaction.redaction import Redaction

SLICE = 32 << 10
"""The maximum size of one write, in bytes. A larger piece would have to be counted; see ``UNCOUNTED``."""


class AnswerSender(Protocol):
    """Sends requests to the upstreams."""

    redaction: Redaction

    async def send(self, channel: Channel, prepared: PreparedRequest, *, stream: bool) -> Reply:
        """Returns the upstream's reply, whose body is still to be read. Raises AttemptFailed."""


@dataclass(kw_only=True, eq=False)
class Attempts:
    """Calls the channels that the chooser selects."""

    sender: AnswerSender
    preparer: Preparer
    chooser: Chooser
    progress: ProgressReporter
    clock: Clock

    def __post_init__(self) -> None:
        self.redaction = self.sender.redaction
        self.health, self.channel_limits = self.chooser.health, self.chooser.channel_limits

    async def answer(self, call: Call, entry: ModelEntry) -> Answer:
        """Returns the whole answer, or the stream whose content the client has and whose end is still to be sent.

        The first attempt has begun. Raises UpstreamError if no channel answers, and errors of the client's connection.
        """
        route = cast("Route", call.attempt.route)  # set by ``begin_attempt``
        tries: RetryState | None = None
        order = _order_of(call, route.served.name, self.clock)
        while True:
            try:
                return await self._attempt(call, order, route)
            except UpstreamError as error:
                error.__cause__ = error.__context__ = error.__traceback__ = None  # they hold what the attempt held
                tries = tries or RetryState(entry, route.served.name)
                tries.add_failure(route, error)
            step = None if call.delivery.content_sent else await self.chooser.next(call, tries)
            if step is None or not await self._wait_before(step, call, entry):
                self.channel_limits.release_slot(call)
                raise _most_informative(call, tries.failures)
            route = step.route
            if route.served.name != order.model:
                order = _order_of(call, route.served.name, self.clock)
            call.begin_attempt(route, step.reason)
            self.progress.report_route(call)

    async def _wait_before(self, step: NextStep, call: Call, entry: ModelEntry) -> bool:
        """Wait before the next attempt. Returns False if it is too late, the channel is full, or the client left."""
        if self.clock.mono() + step.wait_s >= call.context.origin.began + entry.total_s:
            return False
        if step.wait_s:
            self.channel_limits.release_slot(call)
            self.progress.report_wait(call, f"its next try at channel '{plain(step.route.channel.name)}'")
            await self.clock.sleep(step.wait_s)
        return not call.context.client.gone and await self.channel_limits.wait_for_room(call, step.route)

    async def _attempt(self, call: Call, order: Order, route: Route) -> Answer:
        """Make one attempt, report it to the channel's health, and add it to the call. Raises UpstreamError."""
        call.attempt.began = self.clock.mono()
        self.channel_limits.enter(call, route)
        with self.health.trying(route.channel.id, route.key_id) if self.health.failing else NO_TRIAL:
            try:
                try:
                    answer = await self._answer_of_channel(call, order, route)
                except AttemptFailed as failed:
                    raise await self._note_failure(call, route, failed) from failed
            except UpstreamError:  # already noted
                raise
            except BaseException as error:
                is_unsent = isinstance(error, Unavailable) and not isinstance(error, AnswerMemoryFull)
                self._note_attempt(call, reason="abandoned", billed=not is_unsent)
                raise
            finally:
                self.channel_limits.release_slot(call)
                if call.result.resends and call.context.origin.began < self.health.renewed[route.channel.id]:
                    self.preparer.learned.forget(route.channel.id)  # it may be of an upstream that the channel had
            if self.health.failing and call.context.origin.began >= self.health.renewed[route.channel.id]:
                self.health.note_success(route.channel.id, route.key_id)
        if route.rank.by_latency:
            _note_latency(self.health.latency, call, route, answer.state, self.clock.mono())
        if call.conversation:
            self.chooser.note_conversation(call.conversation, route)
        if call.running.native and call.context.origin.api.keeps_answer(call.context.request):
            self.chooser.note_answer(answer.state.upstream_id, route)
        self._note_attempt(call, status=200)
        return answer

    async def _answer_of_channel(self, call: Call, order: Order, route: Route) -> Answer:
        """Returns the channel's answer, to the translated request if it lacks the API. Raises AttemptFailed."""
        try:
            return await self._send(call, order, route)
        except AttemptFailed as failed:
            if call.delivery.content_sent or not (failed.failure.lacks_api or failed.failure.may_lack_api):
                raise
            return await self._answer_translated(call, order, route, failed)

    async def _send(self, call: Call, order: Order, route: Route, dialect: ChannelDialect | None = None) -> Answer:
        """Returns the answer. A chat that the channel is known to take only as a response is sent as one.

        A refused request is sent again as the API repairs it, as a response, or without the parameters that the channel
        named. Raises AttemptFailed.
        """
        preparer = self.preparer
        if dialect is None and preparer.learned.missing_apis:
            need = preparer.response_need(order, route)
            if need is not None and (answer := await self._answer_as_response(call, order, route, need)) is not None:
                return answer
        plan = await preparer.plan(call, order, route, dialect)
        for _ in range(8):  # some upstreams name one parameter at a time
            used = preparer.refusals_of(route)
            try:
                return await self._exchange(call, plan, route, used)
            except AttemptFailed as failed:
                failure = failed.failure
                if call.delivery.content_sent or failure.lacks_api or failure.may_lack_api:
                    raise
                if (need := preparer.response_need(order, route, failure)) is not None:
                    call.result.resends += 1
                    if (answer := await self._answer_as_response(call, order, route, need)) is not None:
                        return answer
                repaired = await preparer.repair(call, plan, route.channel, failure)
                if repaired is not None:
                    plan = msgspec.structs.replace(plan, order=repaired)
                elif not await preparer.learn(call, plan.order, route, failure, used):
                    raise
                call.result.resends += 1
        return await self._exchange(call, plan, route, preparer.refusals_of(route))

    async def _answer_as_response(self, call: Call, order: Order, route: Route, need: ResponsesNeed) -> Answer | None:
        """Returns the answer to a chat that is sent as a response. Returns None if it must be a chat after all: without
        Responses, or with what a response cannot have, if the model takes other chats. Raises AttemptFailed.
        """
        try:
            answer = await self._send(call, order, route, self.preparer.responses)
        except AttemptFailed as failed:
            answer, failure = None, failed.failure
            is_missing = failure.kind is FailureKind.MISSING and need is not ResponsesNeed.MODEL
            if failure.needs_responses is ResponsesNeed.NOTHING or is_missing:
                need = ResponsesNeed.NOTHING
            elif failure.sent or failure.kind is not FailureKind.CLIENT or need is ResponsesNeed.MODEL:
                raise
        self.preparer.learned.learn_responses(route.channel.id, route.served, need, self.clock.wall())
        return answer

    async def _answer_translated(self, call: Call, order: Order, route: Route, failed: AttemptFailed) -> Answer:
        """Returns the answer of a channel that lacks the client's API to the translated request.

        If the failure leaves it uncertain whether the channel lacks the API, that is remembered only if the upstream
        accepts the translated request. If the upstream's server fails at that too, the first failure is raised, and
        so is the refusal of a kind of content that has no translation.
        """
        learned = self.preparer.learned
        names = lacking_names(call.context.origin.api, failed.failure)
        learned.learn_lack(route.channel.id, names, self.clock.wall())
        try:
            call.result.resends += 1
            return await self._send(call, order, route)
        except AttemptFailed as translated:
            is_untranslatable = not translated.failure.sent
            is_certain = failed.failure.lacks_api or translated.accepted
            if is_untranslatable or not is_certain:
                learned.unlearn_lack(route.channel.id, names)
            if is_untranslatable and failed.failure.refused_kinds:
                raise failed from None
            if is_untranslatable or is_certain or translated.failure.kind is not FailureKind.SERVER:
                raise
            raise failed from None

    async def _exchange(self, call: Call, plan: AttemptPlan, route: Route, refused: LearnedRefusals) -> Answer:
        """Prepare the request, send it once, and return the answer. Raises AttemptFailed."""
        if plan.native is not call.running.native and call.context.origin.api.name != CHAT_API:
            call.running = msgspec.structs.replace(call.running, native=plan.native)
            self.progress.report_route(call)
        prepared = await self.preparer.prepare(call, plan, route, refused)
        dropped = plan.order.removed + prepared.dropped
        call.attempt.dropped = plain(",".join(dropped), 1000) if dropped else ""
        call.attempt.lowered_cap = prepared.lowered_cap or call.context.request.lowered_cap
        call.attempt.repairs = plan.order.marks
        if not call.result.overhead_us:
            call.result.overhead_us = round((self.clock.mono() - call.context.origin.began) * 1_000_000)
        return await self._receive(call, plan, route, prepared)

    async def _receive(self, call: Call, plan: AttemptPlan, route: Route, prepared: PreparedRequest) -> Answer:
        """Send a request, or its parts one after another, and return the answer. Raises AttemptFailed.

        If a part fails, the attempt fails, although others may be billed.
        """
        order, channel = plan.order, route.channel
        order.screen = self.redaction.screen(channel)
        bytes_left = call.context.origin.api.answer_limit
        bodies: list[bytes] = []
        reply: Reply | None = None
        try:
            for part in (prepared, *prepared.more):
                call.attempt.parts = len(bodies)
                reply = await self.sender.send(channel, part, stream=order.stream)
                call.attempt.reply_headers = order.screen.headers(reply.headers)
                if not 200 <= reply.status < 300:
                    await _raise_failure(call, plan.adapter, channel, reply, self.clock.wall())
                if order.stream:
                    return await self._relay(call, reply, plan.adapter.stream(order, channel))
                bodies.append(await reply.read(bytes_left, call.share))
                bytes_left -= len(bodies[-1])
            body = bodies[0] if len(bodies) == 1 else b"[%b]" % b",".join(bodies)
            work = partial(plan.adapter.whole, body, order, channel)
            whole = await self.preparer.worker.run(work, large=len(body) > UNCOUNTED)
        except BaseException as error:
            if reply is not None:
                if isinstance(error, AttemptFailed):
                    error.accepted = 200 <= reply.status < 300
                    error.is_billed = error.is_billed or any(map(reports_usage, bodies))
                _abort(reply, call, route, self.health)
            raise
        call.attempt.parts = 0
        # a body that is still to be rendered takes at most what was read
        call.share.set_size(len(whole.body) or call.share.size)
        call.delivery.first_byte = self.clock.mono()
        return whole

    async def _relay(self, call: Call, reply: Reply, stream: AnswerStream) -> AnswerStream:
        """Send what the stream makes of the upstream's bytes, until the answer is complete. Raises AttemptFailed."""
        call.attempt.stream = stream
        chunks = reply.chunks(stream)
        async for data in chunks:
            content = stream.feed(data)
            del data  # while waiting for a slow client, only one copy of the piece is held
            if content:
                await _send_content(call, content, stream.held, self.clock)
            if stream.failure is not None or stream.finished:
                break
            if content:
                self.progress.note_output(call)
            if stream.held > UNCOUNTED or call.share.counted:
                await call.share.wait_to_read(SLICE, stream.held)
        else:
            if content := await self.preparer.worker.run(stream.end, large=stream.held > UNCOUNTED):
                await _send_content(call, content, stream.held, self.clock)
        if stream.failure is not None:
            raise AttemptFailed(stream.failure, is_billed=stream.state.reported is not None)
        if stream.state.reported is None:
            await _read_late_usage(chunks, stream)
        reply.release()
        return stream

    async def _note_failure(self, call: Call, route: Route, failed: AttemptFailed) -> UpstreamError:
        """Report a failed attempt to its channel's health, add it to the call, and return its error without secrets."""
        request, key = call.context.request, call.context.origin.key
        redact = self.redaction.error_maker(failed.failure, route.channel, request.fields, key)
        error = await self.preparer.run(call, redact)
        kind = FailureKind.CUT if call.delivery.content_sent else error.kind
        reason = plain(error.record_message.removeprefix(f"channel '{route.channel.name}': "), 160)
        if call.context.origin.began >= self.health.renewed[route.channel.id]:
            if kind is FailureKind.MISSING:
                self.health.note_missing(route.channel.id, route.subject)
            self.health.note_failure(fault_of(route, kind), kind, reason, error.retry_after_s)
        billed = failed.is_billed or call.attempt.parts > 0 or may_be_billed(kind, sent=error.sent)
        self._note_attempt(call, status=error.status, kind=kind, reason=reason, billed=billed)
        return error

    def _note_attempt(
        self, call: Call, *, status: int = 0, kind: FailureKind | None = None, reason: str = "", billed: bool = False
    ) -> None:
        """Add the current attempt to the call's record. ``billed``: its upstream may have billed it."""
        route = cast("Route", call.attempt.route)
        if billed:
            call.result.billed.append((route.channel.id, call.attempt.price))
        attempt = Attempt(
            channel=route.channel.name,
            status=status,
            ms=Millis(round((self.clock.mono() - call.attempt.began) * 1000)),
            kind=kind,
            reason=reason,
            billed=billed,
            key=route.key_name,
            model=route.served.name if route.served.name != call.context.request.model else "",
        )
        call.result.attempts.append(attempt)


async def _send_content(call: Call, content: bytes, held: int, clock: Clock) -> None:
    """Send part of a stream. A large one is sent in slices. Each slice shows that the client still reads."""
    now, delivery = clock.mono(), call.delivery
    if delivery.first_byte is None:
        delivery.first_byte = now
    delivery.content_sent = True
    if len(content) <= UNCOUNTED:
        await call.send(content, now)
        return
    call.share.set_size(held + len(content))
    view = memoryview(content)  # while waiting for a slow client, no slice is held twice
    for start in range(0, len(content), SLICE):
        await call.send(view[start : start + SLICE], clock.mono())
    call.share.set_size(held)


async def _read_late_usage(chunks: AsyncIterator[bytes], stream: AnswerStream) -> None:
    """Read usage that an upstream sends after the end of its answer, within a quarter of a second."""
    with suppress(TimeoutError, AttemptFailed):
        async with asyncio.timeout(0.25):
            async for data in chunks:
                stream.feed(data)
                if stream.state.reported is not None:
                    return
            stream.end()


async def _raise_failure(call: Call, adapter: Adapter, channel: Channel, reply: Reply, now: Millis) -> NoReturn:
    """Raises AttemptFailed with the error that an upstream sent instead of an answer."""
    body = await reply.read(1 << 20, call.share)
    headers = {"date": formatdate(now / 1000, usegmt=True), **reply.headers}
    raise AttemptFailed(adapter.failure(channel, reply.status, headers, body))


def _abort(reply: Reply, call: Call, route: Route, health: ChannelHealth) -> None:
    """Close a reply that cannot be used. Its status still says how the key is."""
    health.note_answer(route.channel.id, route.key_id, reply.status)
    reply.abort()
    call.share.set_size(0)


def _order_of(call: Call, model: str, clock: Clock) -> Order:
    """Returns the request that every attempt with a model begins with. For another model its body is made again."""
    context, origin = call.context, call.context.origin
    order = origin.api.order(context.request, origin.id, origin.ts)
    order.clock, order.began, order.owner = clock.wall, origin.ts, context.token.id
    order.strict_events = context.catalog.registry.settings.strict_streams
    if model != order.model:
        order.model, order.body = model, b""
    return order


def _most_informative(call: Call, failures: list[UpstreamError]) -> UpstreamError:
    """Returns the most informative failure. After several attempts its message lists them."""
    error = min(failures, key=lambda failure: [*FailureKind].index(failure.kind))
    attempt = call.result.attempts[failures.index(error) - len(failures)]
    error.details["channel"] = attempt.channel
    if attempt.key:  # the number of one of several keys, followed by its mask
        error.details["key"] = attempt.key.partition(" ")[0]
    if len(failures) > 1:
        attempts = "; ".join(f"{plain(a.channel)}: {a.status or a.kind}" for a in call.result.attempts)
        error.add(f" [attempts: {attempts}]")
    request_at_fault = is_refused(failures[-1]) and not is_too_long(failures[-1])
    if call.limits.unaffordable and not (call.delivery.content_sent or request_at_fault):
        error.add(f" [{unaffordable_text(call.limits.unaffordable)}]")
    error.details["attempts"] = [
        {"channel": a.channel, "status": a.status, "class": a.kind or "", "ms": a.ms} for a in call.result.attempts
    ]
    return error


def _note_latency(latency: LatencyStats, call: Call, route: Route, answer: AnswerFacts, ended: float) -> None:
    """Note how fast an answer came, for groups with the policy ``fastest``."""
    first_byte, began = call.delivery.first_byte, call.attempt.began
    first_s = first_byte - began if call.context.request.stream and first_byte is not None else None
    tokens = answer.reported.output if answer.reported is not None else answer.tally.tokens()
    latency.note(route.channel.id, route.served.name, first_s=first_s, whole_s=ended - began, tokens=tokens)
