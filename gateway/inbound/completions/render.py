"""Chats as clients of completions read them: the chunks of a stream, and whole answers. Only text is shown."""

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerEvent, AnswerFinished, BlockKind, Medium, RefusalPiece, TextPiece
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields
from gateway.domain.usage import Usage, as_object
from gateway.inbound.chat.edits import identity
from gateway.inbound.chat.render import DONE
from gateway.inbound.renderer import Renderer, WholeRenderer
from gateway.upstream.openai.reader import upstream_id

_EMPTY = msgspec.Raw(b'""')
_REASONS = {"length": "length", "content_filter": "content_filter"}
"""Finish reasons; all others become the end of the text."""


def head_of(answer: Fields, order: Order) -> Fields:
    """Returns the head of an answer or a chunk: the upstream's id and time if they are valid, and the
    requested model.
    """
    return identity(answer, upstream_id(answer, order.screen), order, msgspec.Raw(b'"text_completion"'))


def choice_of(number: int, text: msgspec.Raw = _EMPTY, reason: str | None = None) -> Fields:
    """Returns one choice of an answer or a chunk."""
    return {
        "index": rawjson.raw(number),
        "text": text,
        "logprobs": rawjson.NULL,
        "finish_reason": rawjson.raw(reason),
    }


def event_of(chunk: Fields) -> bytes:
    """Returns one event."""
    return b"data: " + rawjson.encode(chunk) + b"\n\n"


class CompletionRenderer(Renderer):
    """A chat's stream as that of a completion."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._head = head_of({}, order)

    def shows(self, medium: Medium) -> bool:
        return False

    def take(self, event: AnswerEvent) -> bytes:
        if isinstance(event, TextPiece | RefusalPiece):
            return self._event(choice_of(0, msgspec.Raw(event.piece)))
        if isinstance(event, AnswerFinished):
            return self._event(choice_of(0, reason=_REASONS.get(event.reason, "stop")))
        return b""

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        return (self._event(usage=rawjson.raw(as_object(usage))) if self._order.include_usage else b"") + DONE

    def _event(self, *choices: Fields, **more: msgspec.Raw) -> bytes:
        return event_of({**self._head, "choices": rawjson.raw(choices), **more})


class WholeCompletionRenderer(WholeRenderer):
    """A whole chat as a completion."""

    def shows(self, medium: Medium) -> bool:
        return False

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        text = self.text(BlockKind.TEXT, BlockKind.REFUSAL)
        choice = choice_of(0, _EMPTY if text is None else text, _REASONS.get(self.finish, "stop"))
        return rawjson.encode({**head_of({}, self._order), "choices": [choice], "usage": as_object(usage)})
