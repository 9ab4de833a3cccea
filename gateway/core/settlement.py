"""Settlement: from a call as it ended to the record that is both memory and charge. Pure.

A call whose upstream may have billed although the user is not charged carries the held amount as *possible* cost.
"""

from gateway.core.call import Call
from gateway.domain.call import FailureKind, Outcome, Record
from gateway.domain.errors import UpstreamError, UpstreamTimeout
from gateway.domain.price import cost, rates
from gateway.domain.text import plain
from gateway.domain.units import Millis, Nanos
from gateway.domain.usage import UsageSource
from gateway.upstream.redaction.quotes import kept_id

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
