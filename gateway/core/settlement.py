"""Settlement: makes the record of an ended call, which is both its history and its charge.

The charge (``docs/money.md``) is based on the usage that the upstream reported. Without a report, it is based on an
estimate of the prompt and the received output, within what was held. It is zero if the client got nothing. If an
upstream may have billed an attempt that the user is not charged for, the most it may have cost, up to what was held, is
added to the *possible* costs of the channel.
"""

import re

import msgspec

from gateway.core.call import Call
from gateway.core.model_prices import upstream_model_price
from gateway.domain.call import FailureKind, Outcome, Record, shared_fields, usage_fields
from gateway.domain.cost import cost, highest_cost
from gateway.domain.errors import UpstreamError, UpstreamTimeout
from gateway.domain.estimate import Calibration
from gateway.domain.price import WHOLES, Rates, rates
from gateway.domain.text import plain
from gateway.domain.units import Millis, Nanos
from gateway.domain.usage import NOTHING, OTHER_PARTS, PICTURES, Usage, UsageSource, canonical
from gateway.inbound.api import InboundRequest
from gateway.upstream.adapter import AnswerFacts
from gateway.upstream.redaction import quotes
from gateway.upstream.usage_extras import SUSPECT_MARK, without_charged

CLIENT_CLOSED = 499
"""The status of a call whose client left: nginx's convention, never sent."""
_COMPARED_BYTES = 8 * 1024
"""How many bytes at each end of a request are compared with an upstream's id."""
_OTHER_INPUT = frozenset(OTHER_PARTS) - {"other_output"}
_UPSTREAM_ID = re.compile(r"[\w.:+/=-]{1,80}", re.ASCII)


class Meter:
    """Determines the usage of calls. Remembers for each channel and model how far its estimates are off."""

    def __init__(self) -> None:
        self.calibration = Calibration()
        self._answered = 0

    def usage(self, call: Call, answer: AnswerFacts) -> Usage:
        """Returns the usage of a complete answer. If output came but zero was reported, it is estimated."""
        reported = answer.reported
        if reported is None or not (reported.input or reported.output or answer.tally.empty):
            return self.estimated_usage(call, answer)
        self._answered += 1
        if self._answered <= 8 or self._answered % 256 == 0:
            self._learn(call, reported)
        if reported.source is UsageSource.PARTIAL and not reported.input:
            return canonical(msgspec.structs.replace(reported, input=self.prompt_tokens(call)))
        if reported.source is UsageSource.PARTIAL or (not reported.output and _had_output(call, answer)):
            output = self._output_tokens(call, answer)
            return canonical(msgspec.structs.replace(reported, output=output, source=UsageSource.PARTIAL))
        return reported

    def note_answer(self, call: Call, answer: AnswerFacts) -> None:
        """Keep the facts of a complete answer for the record."""
        result = call.result
        result.usage = self.usage(call, answer)
        result.finish, result.upstream_id, result.marks = answer.finish, answer.upstream_id, answer.marks
        if (reported := answer.reported) is not None and not reported.output and _had_output(call, answer):
            result.marks = tuple(dict.fromkeys((*result.marks, SUSPECT_MARK)))
        if call.context.client.gone:
            result.outcome = Outcome.CLIENT_CLOSED

    def partial_usage(self, call: Call) -> Usage:
        """Returns the usage of a call that failed: zero, unless the client got part of the answer."""
        stream = call.attempt.stream
        if stream is None or not call.delivery.content_sent:
            return NOTHING
        answer = stream.state
        reported = answer.reported
        if reported is None:
            return self.estimated_usage(call, answer)
        input_tokens = reported.input or self.prompt_tokens(call)
        output = max(reported.output, self._output_tokens(call, answer))
        usage = msgspec.structs.replace(reported, input=input_tokens, output=output, source=UsageSource.PARTIAL)
        return canonical(usage)

    def estimated_usage(self, call: Call, answer: AnswerFacts | None = None) -> Usage:
        """Returns the estimated usage of an answer; without one, of a prompt that the upstream has read."""
        output = 0 if answer is None else self._output_tokens(call, answer)
        return canonical(Usage(input=self.prompt_tokens(call), output=output, source=UsageSource.ESTIMATED))

    def prompt_tokens(self, call: Call) -> int:
        estimated = call.context.request.prompt_tokens
        return min(call.need.input, self._calibrate(call, estimated))

    def _output_tokens(self, call: Call, answer: AnswerFacts) -> int:
        """Returns the estimated output tokens, at most those that the request's caps allow."""
        tokens = self._calibrate(call, answer.tally.tokens())
        limit = call.need.output
        return min(tokens, limit.capped) if limit.capped == limit.expected else tokens

    def _learn(self, call: Call, reported: Usage) -> None:
        """Learn how far the estimate of a prompt is off. An estimate takes long, so only short prompts are used."""
        route = call.attempt.route
        if route is None or call.context.request.bound.tokens > 8000:
            return
        estimated = call.context.request.prompt_tokens
        self.calibration.learn(route.channel.id, route.served.name, reported=reported.input, estimated=estimated)

    def _calibrate(self, call: Call, estimated: int) -> int:
        route = call.attempt.route
        return estimated if route is None else self.calibration.apply(route.channel.id, route.served.name, estimated)


def _had_output(call: Call, answer: AnswerFacts) -> bool:
    """Returns whether the answer has output. With ``echo`` it repeats the prompt, which does not count."""
    return not answer.tally.empty and "echo" not in call.context.request.fields


def record_of(call: Call, status: int, *, mono: float) -> Record:
    """Returns the record of an ended call, its cost computed with one rounding."""
    running, result, first_byte = call.running, call.result, call.delivery.first_byte
    origin, request, error = call.context.origin, call.context.request, result.error
    usage, charged_rates, marks = _charge(call)
    possible = _possible_costs(call, charged=usage.source is not UsageSource.NONE) if result.billed else {}
    return Record(
        **shared_fields(running),
        **usage_fields(usage),
        status=status,
        outcome=result.outcome,
        code=error.code if error is not None else "",
        error=plain(error.record_message, 300) if error is not None else "",
        finish=plain(result.finish, 32),
        ms=Millis(max(0, round((mono - origin.began) * 1000))),
        ttft=Millis(max(0, round((first_byte - origin.began) * 1000))) if first_byte is not None else None,
        overhead=result.overhead_us,
        cost=cost(usage, charged_rates) if charged_rates is not None else Nanos(0),
        rates=charged_rates,
        held=call.hold.nanos,
        possible=possible.pop(running.channel, Nanos(0)),
        possible_elsewhere=possible,
        attempts=tuple(result.attempts),
        upstream_id=recorded_id(result.upstream_id, request),
        retry=origin.retry,
        marks=marks + _request_marks(call),
    )


def _charge(call: Call) -> tuple[Usage, Rates | None, tuple[str, ...]]:
    """Returns the usage to charge, its rates (None for no charge), and the answer's marks that no price covers."""
    usage, marks, price = call.result.usage, call.result.marks, call.attempt.price
    if usage.source is UsageSource.NONE or price is None:
        return usage, None, marks
    is_other = bool(usage.other_model)
    other_input = sum(count for name, count in usage.parts.items() if name in _OTHER_INPUT) if is_other else 0
    charged_rates = rates(price, usage.input - other_input, call.context.group.multiplier, usage.variant)
    if is_other:
        charged_rates = _with_other_model(charged_rates, usage, call, other_input)
    pictures = call.context.request.bound.media.pictures
    if pictures and charged_rates.extras and PICTURES in charged_rates.extras:  # they cost more than their tokens
        usage = msgspec.structs.replace(usage, parts={**usage.parts, PICTURES: pictures})
    return usage, charged_rates, without_charged(marks, usage, price, charged_rates) if marks else marks


def _with_other_model(own: Rates, usage: Usage, call: Call, input_tokens: int) -> Rates:
    """Returns the rates of a call, with those of another model that worked on the answer if its price is known."""
    route, context = call.attempt.route, call.context
    if route is None:
        return own
    other_price = upstream_model_price(route.channel, usage.other_model, context.catalog.registry, context.origin.ts)
    if other_price is None:
        return own
    other = rates(other_price, input_tokens, own.multiplier, usage.variant)
    other_extras = {name: getattr(other, WHOLES[name]) for name in OTHER_PARTS}
    return msgspec.structs.replace(own, extras={**(own.extras or {}), **other_extras})


def _possible_costs(call: Call, *, charged: bool) -> dict[str, Nanos]:
    """Returns the most that upstreams may have billed for failed attempts, by channel id.

    The hold is for the most expensive model that might have answered, so the price of the model that was tried counts.
    """
    billed, costs = call.result.billed, dict[str, Nanos]()
    if charged and call.result.attempts[-1].billed:
        billed = billed[:-1]  # the user is charged for the last attempt
    for channel, price in billed:
        highest = call.hold.nanos
        if price is not None:
            need, multiplier = call.need, call.context.group.multiplier
            highest = min(highest, highest_cost(price, need.input, need.output.expected, multiplier, need.extras))
        costs[channel] = Nanos(costs.get(channel, 0) + highest)
    return costs


def recorded_id(id: str, request: InboundRequest) -> str:
    """Returns the upstream's id for the record; empty if it is not an id, or quotes the request.

    Every call has an id, so this must be fast. A quote of ``quotes.LONG`` characters includes a whole block, so only
    blocks of the id are searched for, and only at both ends of a long request.
    """
    if not _UPSTREAM_ID.fullmatch(id):
        return ""
    body = request.body or b" ".join(request.fields.values())
    if len(body) > 2 * _COMPARED_BYTES:
        body = body[:_COMPARED_BYTES] + b"\0" + body[-_COMPARED_BYTES:]
    size = len(id)
    if size < quotes.LONG:
        blocks = [id] if size >= 2 * quotes.SHORT else []
    elif size <= 2 * quotes.LONG - quotes.SHORT:
        blocks = [id[size - quotes.LONG : quotes.LONG]]  # the part common to all runs
    else:
        half = quotes.LONG // 2
        blocks = [id[start : start + half] for start in range(0, size - half + 1, half)]
    for block in blocks:
        if block.encode() in body:
            return ""
    return id


def _request_marks(call: Call) -> tuple[str, ...]:
    """Returns the marks of what the gateway changed in the request, and of what happened to the call."""
    attempt, route = call.attempt, call.attempt.route
    marks: tuple[str, ...] = ("dropped=" + attempt.dropped,) if attempt.dropped else ()
    if attempt.lowered_cap is not None:
        marks += (f"output_limit={attempt.lowered_cap}",)
    marks += attempt.repairs
    if call.result.resends:
        marks += (f"resent={call.result.resends}",)
    if call.result.after_break:
        marks += ("after_break",)
    marks += call.limits.marks
    if route is not None and route.served.name != call.context.request.model:
        marks += (f"fallback={plain(route.served.name, 80)}",)
    return marks


def outcome_of(call: Call) -> Outcome:
    """Returns how a failed call ended: by what ended it from outside, else by its error and how far it got."""
    error = call.result.error
    if call.result.ended_by is not None:
        return call.result.ended_by
    if call.context.client.gone:
        return Outcome.CLIENT_CLOSED
    if error is None:
        return Outcome.STOPPED
    if isinstance(error, UpstreamTimeout):
        return Outcome.TIMEOUT
    cut = call.delivery.content_sent and isinstance(error, UpstreamError)
    return Outcome.UPSTREAM_CUT if cut else Outcome.ERROR


def may_be_billed(kind: FailureKind, *, sent: bool) -> bool:
    """Returns whether an upstream may have billed a failed attempt: it got the request, but its answer is not whole."""
    return sent and kind in (FailureKind.NETWORK, FailureKind.SLOW, FailureKind.CUT)


def reports_usage(body: bytes) -> bool:
    """Returns whether an answer that cannot be used reports tokens. OpenAI's failed responses have null there."""
    return re.search(rb'"usage\w*":\s*\{', body) is not None
