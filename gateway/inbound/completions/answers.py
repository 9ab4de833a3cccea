"""Answers as clients of completions read them: the chunks of a stream, and whole answers.

Of a chat only text is shown. At channels that have completions the answer passes nearly unchanged: the model's name is
the requested one, ids and usage are complete, and the chunk with the usage and ``[DONE]`` wait for the record.
``text``, ``logprobs`` and everything else pass unchanged.
"""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerEvent, AnswerFinished, BlockKind, Medium, RefusalPiece, TextPiece
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed
from gateway.domain.json_text import TooManyElements, refuse_many_elements
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields
from gateway.domain.sse import SSEEvent, is_stream
from gateway.domain.usage import Usage, as_object
from gateway.inbound.chat.edits import identity, mend_head
from gateway.inbound.chat.render import DONE
from gateway.inbound.relay import NativeStream, events_in
from gateway.inbound.renderer import Renderer, WholeRenderer
from gateway.inbound.rendering import NativeTap
from gateway.upstream.adapter import Adapter, WholeAnswer, whole_of
from gateway.upstream.error_body import excerpt
from gateway.upstream.failures import bad_response, truncation
from gateway.upstream.openai.completions import CompletionReader, CompletionsDialect
from gateway.upstream.openai.reader import upstream_id

_EMPTY = msgspec.Raw(b'""')
_REASONS = {"length": "length", "content_filter": "content_filter"}
"""Finish reasons; all others become the end of the text."""


def _head_of(answer: Fields, order: Order) -> Fields:
    """Returns the head of an answer or a chunk: the upstream's id and time if they are valid, and the
    requested model.
    """
    return identity(answer, upstream_id(answer, order.screen), order, msgspec.Raw(b'"text_completion"'))


def _choice_of(number: int, text: msgspec.Raw = _EMPTY, reason: str | None = None) -> Fields:
    """Returns one choice of an answer or a chunk."""
    return {
        "index": rawjson.raw(number),
        "text": text,
        "logprobs": rawjson.NULL,
        "finish_reason": rawjson.raw(reason),
    }


def _event_of(chunk: Fields) -> bytes:
    """Returns one event."""
    return b"data: " + rawjson.encode(chunk) + b"\n\n"


class CompletionRenderer(Renderer):
    """A chat's stream as that of a completion."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._head = _head_of({}, order)

    def shows(self, medium: Medium) -> bool:
        return False

    def take(self, event: AnswerEvent) -> bytes:
        if isinstance(event, TextPiece | RefusalPiece):
            return self._event(_choice_of(0, msgspec.Raw(event.piece)))
        if isinstance(event, AnswerFinished):
            return self._event(_choice_of(0, reason=_REASONS.get(event.reason, "stop")))
        return b""

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        return (self._event(usage=rawjson.raw(as_object(usage))) if self._order.include_usage else b"") + DONE

    def _event(self, *choices: Fields, **more: msgspec.Raw) -> bytes:
        return _event_of({**self._head, "choices": rawjson.raw(choices), **more})


class WholeCompletionRenderer(WholeRenderer):
    """A whole chat as a completion."""

    def shows(self, medium: Medium) -> bool:
        return False

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        text = self.text(BlockKind.TEXT, BlockKind.REFUSAL)
        choice = _choice_of(0, _EMPTY if text is None else text, _REASONS.get(self.finish, "stop"))
        return rawjson.encode({**_head_of({}, self._order), "choices": [choice], "usage": as_object(usage)})


class CompletionsRelay(CompletionsDialect, Adapter):
    """How such a channel is called."""

    def stream(self, order: Order, channel: Channel) -> NativeStream:
        return NativeStream(channel, CompletionTap(order, channel))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        body = body.strip().removeprefix(b"\xef\xbb\xbf")
        streamed = is_stream(body)
        if streamed:
            asked = msgspec.structs.replace(order, include_usage=True)
            body = _assemble([*events_in(body, self.stream(asked, channel))])
        whole = CompletionTap(order, channel).read_whole(body)
        return msgspec.structs.replace(whole, marks=(*whole.marks, "assembled")) if streamed else whole


class CompletionTap(NativeTap):
    """Implements ``relay.NativeReader``."""

    def __init__(self, order: Order, channel: Channel) -> None:
        super().__init__(order, channel, CompletionReader(channel))
        self._head: Fields = {}
        """The head of every chunk, as the first one had it."""

    def take_pieces(self, events: bytes, start: int) -> tuple[int, int]:
        """Returns none: a chunk may belong to any choice, and end it, so all are decoded."""
        return 0, start

    def take(self, event: SSEEvent) -> bytes | None:
        self.see(self.reader.read(event))
        if self.reader.done:
            self.complete = True
            if not self.ended:
                self.failure = truncation(self._channel, "no finish_reason came")
        if self.complete or self.failure is not None:
            return b""  # ``closing`` writes the end, with the usage before it
        chunk = rawjson.fields(event.data)
        self._head = self._head or _head_of(chunk, self._order)
        if not rawjson.items(chunk["choices"]):
            return b""
        changed = self._head | chunk
        changed["model"] = self._head["model"]
        changed.pop("usage", None)
        cleaned = self._order.screen.clean(changed)
        return None if changed == chunk and not cleaned else _event_of(changed)

    def replay(self, body: bytes) -> bytes:
        """Yields a chunk for each choice."""
        answer = rawjson.fields(self.read_whole(body.strip().removeprefix(b"\xef\xbb\xbf")).body)
        choices = rawjson.objects(answer.pop("choices"))
        answer.pop("usage", None)
        self._head = _head_of(answer, self._order)
        self.complete = True
        return b"".join(_event_of({**answer, "choices": rawjson.raw([choice])}) for choice in choices)

    def cut_short(self) -> bytes:
        return b"".join(self._own(_choice_of(number, reason="length")) for number in self.end_all("length"))

    def closing(self, usage: Usage, *, estimated: bool) -> bytes:
        if not self._order.include_usage:
            return DONE
        sent = None if estimated else self.reports.as_sent()
        return self._own(usage=rawjson.raw(as_object(usage)) if sent is None else sent) + DONE

    def _own(self, *choices: Fields, **more: msgspec.Raw) -> bytes:
        head = self._head or _head_of({}, self._order)
        return _event_of({**head, "choices": rawjson.raw(choices), **more})

    def read_whole(self, body: bytes) -> WholeAnswer:
        """Reads a plain answer. Raises AttemptFailed if it is an error, or has no texts."""
        try:
            refuse_many_elements(body, opens_logprobs=False)
            self.see(self.reader.read_whole(body))
            answer = rawjson.fields(body)
        except TooManyElements as error:
            raise AttemptFailed(bad_response(self._channel, str(error))) from error
        except ValueError as error:
            raise AttemptFailed(bad_response(self._channel, f"it is not a completion: {excerpt(body)}")) from error
        if not self.began:
            raise AttemptFailed(bad_response(self._channel, f"it is not a completion: {excerpt(body)}"))
        changed = dict(answer)
        mend_head(changed, self.reports, self.reported, _head_of(answer, self._order), self._order)
        return whole_of(self, body if changed == answer else rawjson.encode(changed))


def _assemble(chunks: list[dict[str, Any]]) -> bytes:
    """Returns the answer in a stream."""
    choices: dict[int, dict[str, Any]] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        known = choices.setdefault(choice.get("index") or 0, choice | {"text": ""})
        text = known["text"] + (choice["text"] or "")
        known |= {name: value for name, value in choice.items() if value is not None} | {"text": text}
    usage = [chunk["usage"] for chunk in chunks if "usage" in chunk]
    answer = {**chunks[0], "choices": [choices[number] for number in sorted(choices)]}
    return rawjson.encode({**answer, "usage": usage[-1]} if usage else answer)
