"""Answers of completions: a chat's answer is rendered, a completion passes nearly unchanged.

Only the text of a chat's answer is rendered. In a completion, the model's name is the requested one, ids and usage are
completed, and the chunk with the usage and ``[DONE]`` wait for the record.
"""

from functools import partial

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerEvent, AnswerFinished, BlockKind, Citation, Medium, RefusalPiece, TextPiece
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed
from gateway.domain.json_text import TooManyElements, as_utf8, refuse_many_elements
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields
from gateway.domain.sse import BOM, SSEEvent, stream_in
from gateway.domain.usage import Usage, as_object
from gateway.inbound.chat.edits import edit_head, identity
from gateway.inbound.chat.render import DONE
from gateway.inbound.relay import RenderableStream
from gateway.inbound.renderer import Renderer, WholeRenderer
from gateway.inbound.rendering import NativeTap, RenderingAdapter
from gateway.upstream.adapter import WholeAnswer, whole_answer
from gateway.upstream.error_body import excerpt
from gateway.upstream.failures import bad_response
from gateway.upstream.openai.completions import CompletionsDialect
from gateway.upstream.openai.reader import ChatReader, ParsedChoice, upstream_id

_REASONS = {"length": "length", "content_filter": "content_filter"}
"""Finish reasons. All others become ``stop``."""


def _head_of(answer: Fields, order: Order) -> Fields:
    """Returns the fields with which an answer or a chunk begins, see ``identity``."""
    return identity(answer, upstream_id(answer, order.screen), order, msgspec.Raw(b'"text_completion"'))


def _choice_of(number: int, text: msgspec.Raw = rawjson.EMPTY_TEXT, reason: str | None = None) -> Fields:
    return {
        "index": rawjson.raw(number),
        "text": text,
        "logprobs": rawjson.NULL,
        "finish_reason": rawjson.raw(reason),
    }


def _is_chat(choice: Fields) -> bool:
    """Returns whether a choice is one of chat completions."""
    return "text" not in choice and ("message" in choice or "delta" in choice)


def _event_of(chunk: Fields) -> bytes:
    return b"data: " + rawjson.encode(chunk) + b"\n\n"


class CompletionRenderer(Renderer):
    """Writes the chunks of a stream."""

    all_choices = True

    def __init__(self, order: Order) -> None:
        self._order = order
        self._head = _head_of({}, order)

    def shows(self, event: Medium | Citation) -> bool:
        return False

    def take(self, event: AnswerEvent) -> bytes:
        if isinstance(event, TextPiece | RefusalPiece):
            return self._event(_choice_of(event.choice, msgspec.Raw(event.piece)))
        if isinstance(event, AnswerFinished):
            return self._event(_choice_of(event.choice, reason=_REASONS.get(event.reason, "stop")))
        return b""

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        return (self._event(usage=rawjson.raw(as_object(usage))) if self._order.include_usage else b"") + DONE

    def _event(self, *choices: Fields, **more: msgspec.Raw) -> bytes:
        return _event_of({**self._head, "choices": rawjson.raw(choices), **more})


class WholeCompletionRenderer(WholeRenderer):
    """Writes a whole completion."""

    all_choices = True

    def shows(self, event: Medium | Citation) -> bool:
        return False

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        choices = [self._choice(self.finishes[index]) for index in sorted(self.finishes)]
        return rawjson.encode({**_head_of({}, self._order), "choices": choices, "usage": as_object(usage)})

    def _choice(self, finish: AnswerFinished) -> Fields:
        text = self.text(BlockKind.TEXT, BlockKind.REFUSAL, choice=finish.choice)
        return _choice_of(
            finish.choice, rawjson.EMPTY_TEXT if text is None else text, _REASONS.get(finish.reason, "stop")
        )


class CompletionsRelay(RenderingAdapter):
    """Calls a channel that has completions. An answer in the other form than requested is rendered."""

    def __init__(self) -> None:
        super().__init__(CompletionsDialect(), CompletionRenderer, WholeCompletionRenderer)

    def stream(self, order: Order, channel: Channel) -> RenderableStream:
        return RenderableStream(channel, CompletionTap(order, channel), partial(self.rendered, order, channel))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        body = as_utf8(body.strip().removeprefix(BOM))
        may_be_chat = b'"text"' not in body and (b'"message"' in body or b'"delta"' in body)
        if stream_in(body) or may_be_chat:
            return super().whole(body, order, channel)
        return CompletionTap(order, channel).read_whole(body)


class CompletionTap(NativeTap):
    """Reads a native completion. Implements ``relay.NativeReader``."""

    def __init__(self, order: Order, channel: Channel) -> None:
        self._chat = ChatReader(order, channel)
        super().__init__(order, channel, self._chat)
        self._head: Fields = {}
        """The head of every chunk, as the first one had it."""

    def take_pieces(self, events: bytes, start: int) -> tuple[int, int]:
        """Returns that no event is a usual piece: a chunk may be of any choice, and may end it, so all are decoded."""
        return 0, start

    def take(self, event: SSEEvent) -> bytes | None:
        self.take_parts(self.reader.read(event))
        if self.failure is not None:
            return None
        chunk = rawjson.fields(event.data)
        self._head = self._head or _head_of(chunk, self.order)
        choices = rawjson.maybe_objects(chunk.get("choices"))
        if not choices:
            return b""
        edited = self._head | chunk
        if all(map(_is_chat, choices)):
            edited |= {
                "object": self._head["object"],
                "choices": rawjson.raw(list(map(self._text_of, self._chat.choices))),
            }
        edited["model"] = self._head["model"]
        edited.pop("usage", None)
        cleaned = self.order.screen.clean(edited)
        return None if edited == chunk and not cleaned else _event_of(edited)

    def _text_of(self, choice: ParsedChoice) -> Fields:
        """Returns the choice of a chunk of chat completions, which some relays send, as completions have it."""
        text, reason = choice.message.get("content", rawjson.NULL), self.reason(choice.index)
        text = rawjson.EMPTY_TEXT if rawjson.is_null(text) else text
        return _choice_of(choice.index, text, _REASONS.get(reason, "stop") if reason else None)

    def cut_short(self) -> bytes:
        cut_off = self.unfinished
        self.conclude("length")
        return b"".join(self._chunk(_choice_of(number, reason="length")) for number in cut_off)

    def terminal_event(self, usage: Usage, *, estimated: bool) -> bytes:
        if not self.order.include_usage:
            return DONE
        report = None if estimated else self.reports.as_sent()
        return self._chunk(usage=rawjson.raw(as_object(usage)) if report is None else report) + DONE

    def _chunk(self, *choices: Fields, **more: msgspec.Raw) -> bytes:
        head = self._head or _head_of({}, self.order)
        return _event_of({**head, "choices": rawjson.raw(choices), **more})

    def read_whole(self, body: bytes) -> WholeAnswer:
        """Reads a plain answer. Raises AttemptFailed if it is an error, or has no texts."""
        try:
            refuse_many_elements(body, opens_logprobs=False)
            self.take_parts(self.reader.read_whole(body))
            answer = rawjson.fields(body)
        except TooManyElements as error:
            raise AttemptFailed(bad_response(self._channel, str(error))) from error
        except ValueError as error:
            raise AttemptFailed(bad_response(self._channel, f"it is not a completion: {excerpt(body)}")) from error
        if not self.began:
            raise AttemptFailed(bad_response(self._channel, f"it is not a completion: {excerpt(body)}"))
        edited = dict(answer)
        edit_head(edited, self.reports, self.reported, _head_of(answer, self.order), self.order)
        return whole_answer(self, body if edited == answer else rawjson.encode(edited))
