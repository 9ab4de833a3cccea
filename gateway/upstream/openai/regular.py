"""Regular: a whole answer that needs no mending, recognised in one typed decode. Most answers are regular.

Such an answer goes to the client as the bytes it came as.
"""

import msgspec

from gateway.domain.text import plain
from gateway.upstream.adapter import Order, Whole
from gateway.upstream.openai.finish import REASONS
from gateway.upstream.openai.identity import ID_LIMIT
from gateway.upstream.tally import Tally
from gateway.upstream.usage import RegularUsage, reading_of


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | msgspec.UnsetType | None = msgspec.UNSET
    tool_calls: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    function_call: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Choice(msgspec.Struct, gc=False):
    index: int
    message: _Message
    finish_reason: str


class _Answer(msgspec.Struct, gc=False):
    id: str
    object: str
    created: int
    model: str
    choices: list[_Choice]
    usage: RegularUsage
    timings: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_CHOICES = msgspec.json.Decoder(list[_Choice])
_ANSWER = msgspec.json.Decoder(_Answer)


def whole_of_regular(body: bytes, order: Order) -> Whole | None:
    """The answer as it came, if nothing in it is to be changed; else None."""
    try:
        found = _ANSWER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    name = found.id
    good = 0 < len(name) < ID_LIMIT and found.created > 0 and found.object == "chat.completion"
    if not good or found.model != order.model or found.timings is not msgspec.UNSET or plain(name, ID_LIMIT) != name:
        return None
    tally = Tally()
    finish = _finish(found.choices, tally)
    reading = reading_of(found.usage)
    if not finish or reading is None or not (reading.usage.total or tally.empty):
        return None
    return Whole(body=body, reported=reading.usage, finish=finish, upstream_id=name, tally=tally)


def finish_of_regular(choices: msgspec.Raw, tally: Tally) -> str:
    """The finish reason of the first choice, and the texts in the tally; empty if one of the choices is not regular."""
    try:
        found = _CHOICES.decode(choices)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return _finish(found, tally)


def _finish(found: list[_Choice], tally: Tally) -> str:
    if not found or not all(_is_regular(choice, i) for i, choice in enumerate(found)):
        return ""
    for choice in found:
        message = choice.message
        for text in (message.content, message.reasoning_content, message.reasoning, message.refusal):
            if text:
                tally.add(text)
    return found[0].finish_reason


def _is_regular(choice: _Choice, position: int) -> bool:
    message = choice.message
    twice = message.reasoning_content is not None and message.reasoning is not msgspec.UNSET
    return (
        choice.index == position
        and message.role == "assistant"
        and choice.finish_reason in REASONS
        and message.tool_calls is msgspec.UNSET
        and message.function_call is msgspec.UNSET
        and not twice
    )
