"""Regular: choices of a whole answer that need no mending, recognised in one typed decode. Most answers are regular."""

import msgspec

from gateway.upstream.openai.finish import REASONS
from gateway.upstream.tally import Tally


class _Message(msgspec.Struct):
    role: str
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | msgspec.UnsetType | None = msgspec.UNSET
    tool_calls: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    function_call: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Choice(msgspec.Struct):
    index: int
    message: _Message
    finish_reason: str


_CHOICES = msgspec.json.Decoder(list[_Choice])


def finish_of_regular(choices: msgspec.Raw, tally: Tally) -> str:
    """The finish reason of the first choice, and the texts in the tally; empty if one of the choices is not regular."""
    try:
        found = _CHOICES.decode(choices)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
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
