"""Meter: the usage of a call, whatever became of it: reported, partly reported or estimated. It learns as it goes.

What is charged (``reliability.md`` P5): the upstream's usage if it reported one; an estimate of prompt and received
output if it did not and something was received; nothing if the client got nothing. No estimate is above what the call
could use at most, for that is what was held.
"""

import msgspec

from gateway.core.call import Call
from gateway.domain.estimate import Calibration, prompt_tokens
from gateway.domain.usage import NOTHING, Usage, UsageSource, canonical
from gateway.upstream.adapter import AnswerStream, Whole

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
