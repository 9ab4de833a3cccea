"""From a call as it ended to the record that is both its history and its charge.

What is charged (``reliability.md`` P5): the upstream's usage if it reported one; an estimate of prompt and received
output if it did not and something was received; nothing if the client got nothing. No estimate exceeds what the call
could use at most, for that is what was held. A call whose upstream may have billed although the user is not charged
carries the held amount as *possible* cost.
"""

import msgspec

from gateway.core.call import Call
from gateway.domain.call import FailureKind, Outcome, Record
from gateway.domain.errors import UpstreamError, UpstreamTimeout
from gateway.domain.estimate import Calibration, prompt_tokens
from gateway.domain.price import cost, rates
from gateway.domain.text import plain
from gateway.domain.units import Millis, Nanos
from gateway.domain.usage import NOTHING, Usage, UsageSource, canonical
from gateway.upstream.adapter import AnswerStream, Whole
from gateway.upstream.redaction.quotes import kept_id

LEARN_FIRST = 8
LEARN_EVERY = 64
LEARN_LIMIT = 8_000
"""Estimating costs more than all the rest of a call, so only the first calls and then one in so many teach, and none
whose input may be longer than so many tokens."""


class Meter:
    """Usages of calls. Keeps, per channel and model, how far its estimates are off."""

    def __init__(self) -> None:
        self.calibration = Calibration()
        self._seen = 0

    def whole(self, call: Call, whole: Whole) -> Usage:
        """Of a plain answer."""
        return self._usage(call, whole.reported, whole)

    def stream(self, call: Call, stream: AnswerStream) -> Usage:
        """Of a stream that came to its proper end."""
        return self._usage(call, stream.reported, stream)

    def broken(self, call: Call) -> Usage:
        """Of a call that did not come to its proper end: nothing, unless the client got some of the answer."""
        stream = call.answer
        if stream is None or not call.content_sent:
            return NOTHING
        output = self._output(call, stream)
        reported = stream.reported
        if reported is None:
            return canonical(Usage(input=self.prompt(call), output=output, source=UsageSource.ESTIMATED))
        return canonical(
            Usage(
                input=reported.input or self.prompt(call),
                cached=reported.cached,
                cache_write=reported.cache_write,
                output=max(reported.output, output),
                reasoning=reported.reasoning,
                source=UsageSource.PARTIAL,
            )
        )

    def unanswered(self, call: Call) -> Usage:
        """Of a plain call that was cancelled although its upstream was at work: the prompt was read there."""
        return canonical(Usage(input=self.prompt(call), source=UsageSource.ESTIMATED))

    def prompt(self, call: Call) -> int:
        """Input tokens by estimate."""
        return min(call.need.input, self._corrected(call, _estimate(call)))

    def _output(self, call: Call, answer: Whole | AnswerStream) -> int:
        """Output tokens by estimate."""
        tokens = self._corrected(call, answer.tally.tokens())
        need = call.need
        return min(tokens, need.capped) if need.capped == need.output else tokens

    def _usage(self, call: Call, reported: Usage | None, answer: Whole | AnswerStream) -> Usage:
        """All zeros beside received output count as not reported (``wire.md`` U3)."""
        if reported is not None and (reported.total or answer.tally.empty):
            self._learn(call, reported)
            if reported.source is UsageSource.PARTIAL:
                return canonical(msgspec.structs.replace(reported, output=self._output(call, answer)))
            return reported
        output = self._output(call, answer)
        return canonical(Usage(input=self.prompt(call), output=output, source=UsageSource.ESTIMATED))

    def _learn(self, call: Call, reported: Usage) -> None:
        self._seen += 1
        if self._seen > LEARN_FIRST and self._seen % LEARN_EVERY:
            return
        if call.route is None or call.asked.input_bound > LEARN_LIMIT:
            return
        estimated = _estimate(call)
        self.calibration.learn(
            call.route.channel.id, call.route.served.name, reported=reported.input, estimated=estimated
        )

    def _corrected(self, call: Call, estimated: int) -> int:
        if call.route is None:
            return estimated
        return self.calibration.apply(call.route.channel.id, call.route.served.name, estimated)


def _estimate(call: Call) -> int:
    """Input tokens by estimate, as they stand in the request."""
    return prompt_tokens(call.asked.fields) if call.asked.prompt is None else call.asked.prompt


GONE = 499
"""Status of a call whose client went away; a convention of nginx, never sent."""

ERROR_TEXT = 300
"""Characters of an error kept in a record."""


def record_of(call: Call, status: int, *, mono: float) -> Record:
    """The record of a call that has ended, its cost computed with one rounding."""
    usage, visit, error = call.usage, call.visit, call.error
    charged = usage.source is not UsageSource.NONE
    priced = rates(call.price, usage.input, call.group.multiplier) if call.price is not None and charged else None
    channel = call.route.channel if call.route is not None else None
    return Record(
        id=visit.id,
        ts=visit.ts,
        token=call.token.id,
        token_name=call.token.name,
        group=call.group.name,
        model=call.asked.model,
        upstream_model=call.route.served.upstream_name if call.route is not None else "",
        channel=channel.id if channel is not None else "",
        channel_name=channel.name if channel is not None else "",
        app=visit.app,
        status=status,
        outcome=call.outcome,
        code=error.code if error is not None else "",
        error=plain(error.record_message, ERROR_TEXT) if error is not None else "",
        finish=plain(call.finish, 32),
        stream=call.asked.stream,
        ms=_ms(mono - visit.began),
        ttft=_ms(call.first_byte - visit.began) if call.first_byte is not None else None,
        overhead=call.overhead_us,
        input=usage.input,
        cached=usage.cached,
        cache_write=usage.cache_write,
        output=usage.output,
        reasoning=usage.reasoning,
        source=usage.source,
        cost=cost(usage, priced) if priced is not None else Nanos(0),
        rates=priced,
        held=call.held,
        possible=call.held if not charged and any(a.billed for a in call.attempts) else Nanos(0),
        attempts=tuple(call.attempts),
        upstream_id=kept_id(call.upstream_id, _request_of(call)) if call.upstream_id else "",
        retry=visit.retry,
        marks=call.marks + _marks(call),
    )


def _request_of(call: Call) -> bytes:
    return call.asked.body or call.asked.long.text or b" ".join(call.asked.fields.values())


def _marks(call: Call) -> tuple[str, ...]:
    """What happened to the request on its way."""
    marks: tuple[str, ...] = ("dropped=" + ",".join(call.dropped),) if call.dropped else ()
    if call.lowered is not None:
        marks += (f"output_limit={call.lowered}",)
    if call.route is not None and call.route.served.name != call.asked.model:
        marks += (f"fallback={plain(call.route.served.name, 80)}",)
    return marks


def outcome_of(call: Call) -> Outcome:
    """How a call that did not go well ended: as someone from outside said, else by its error and how far it came."""
    if call.why is not None:
        return call.why
    if call.client.gone:
        return Outcome.CLIENT_CLOSED
    if call.error is None:
        return Outcome.STOPPED
    if isinstance(call.error, UpstreamTimeout):
        return Outcome.TIMEOUT
    return Outcome.UPSTREAM_CUT if call.content_sent and isinstance(call.error, UpstreamError) else Outcome.ERROR


def billed_unseen(kind: FailureKind, *, sent: bool) -> bool:
    """Whether an upstream may have billed an attempt that brought nothing: it had the request and fell silent."""
    return sent and kind in (FailureKind.NETWORK, FailureKind.SLOW, FailureKind.CUT)


def _ms(seconds: float) -> Millis:
    return Millis(max(0, round(seconds * 1000)))
