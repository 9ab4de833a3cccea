"""Completions at channels that have them: the answer passes nearly unchanged.

The model's name is the requested one, ids and usage are complete, and the chunk with the usage and ``[DONE]`` wait for
the record. ``text``, ``logprobs`` and everything else pass unchanged.
"""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed
from gateway.domain.json_text import TooManyElements, refuse_many_elements
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields
from gateway.domain.sse import SSEEvent, is_stream
from gateway.domain.usage import Usage, as_object
from gateway.inbound.chat.edits import mend_head
from gateway.inbound.chat.render import DONE
from gateway.inbound.completions.render import choice_of, event_of, head_of
from gateway.inbound.relay import NativeStream, events_in
from gateway.inbound.rendering import NativeTap
from gateway.upstream.adapter import Adapter, WholeAnswer, whole_of
from gateway.upstream.error_body import excerpt
from gateway.upstream.failures import bad_response, truncation
from gateway.upstream.openai.completions import CompletionReader, CompletionsDialect


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
        self._head = self._head or head_of(chunk, self._order)
        if not rawjson.items(chunk["choices"]):
            return b""
        changed = self._head | chunk
        changed["model"] = self._head["model"]
        changed.pop("usage", None)
        cleaned = self._order.screen.clean(changed)
        return None if changed == chunk and not cleaned else event_of(changed)

    def replay(self, body: bytes) -> bytes:
        """Yields a chunk for each choice."""
        answer = rawjson.fields(self.read_whole(body.strip().removeprefix(b"\xef\xbb\xbf")).body)
        choices = rawjson.objects(answer.pop("choices"))
        answer.pop("usage", None)
        self._head = head_of(answer, self._order)
        self.complete = True
        return b"".join(event_of({**answer, "choices": rawjson.raw([choice])}) for choice in choices)

    def cut_short(self) -> bytes:
        return b"".join(self._own(choice_of(number, reason="length")) for number in self.end_all("length"))

    def closing(self, usage: Usage, *, estimated: bool) -> bytes:
        if not self._order.include_usage:
            return DONE
        sent = None if estimated else self.reports.as_sent()
        return self._own(usage=rawjson.raw(as_object(usage)) if sent is None else sent) + DONE

    def _own(self, *choices: Fields, **more: msgspec.Raw) -> bytes:
        head = self._head or head_of({}, self._order)
        return event_of({**head, "choices": rawjson.raw(choices), **more})

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
        mend_head(changed, self.reports, self.reported, head_of(answer, self._order), self._order)
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
