"""Completions at channels that have them: the answer passes nearly as it is.

The model's name is the requested one, ids and usage are complete, and the chunk with the usage and ``[DONE]`` wait for
the record. ``text``, ``logprobs`` and everything else stay as they came.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerPart, StopWord, TextPiece, UpstreamNamed, UsageSeen
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.json_text import TooManyElements, refuse_many_elements
from gateway.domain.rawjson import Fields
from gateway.domain.usage import Usage
from gateway.inbound.completions.render import DONE, choice_of, event_of, identity
from gateway.inbound.relay import NativeStream, events_in, native_body
from gateway.inbound.rendering import NativeTap
from gateway.upstream.adapter import (
    Adapter,
    AttemptFailed,
    Failure,
    LearnedRefusals,
    Order,
    PreparedRequest,
    WholeAnswer,
    as_object,
)
from gateway.upstream.answer_errors import failure_in
from gateway.upstream.answer_reader import AnswerReader
from gateway.upstream.error_body import excerpt, read_error
from gateway.upstream.failures import bad_response, classify, truncation
from gateway.upstream.framing import SSEEvent, is_stream
from gateway.upstream.openai.dialect import PLAIN_HEADERS, STREAM_HEADERS, endpoint
from gateway.upstream.vendors import Vendor, vendor_of

USUAL_OUTPUT = msgspec.Raw(b"16")
"""Tokens of an answer by default."""
_USAGE_WANTED = msgspec.Raw(b'{"include_usage":true}')
_NO_PATH = frozenset({404, 405, 501})
"""Statuses by which a server says that it has no such path, if they do not concern the model."""


class CompletionsRelay(Adapter):
    """How channels of OpenAI's dialect are called, also as a ``DialectAdapter``: their answers can be rendered."""

    native_chat = None

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """See ``adapter.Adapter``."""
        vendor = vendor_of(channel.preset, channel.base_url)
        dropped = tuple(name for name in learned.dropped if name in order.fields)
        if dropped:
            kept = {name: value for name, value in order.fields.items() if name not in dropped}
            order = msgspec.structs.replace(order, fields=kept, body=b"")
        changes: Fields = {"model": rawjson.raw(served.upstream_name)} if served.upstream_name != order.model else {}
        if rawjson.is_null(order.fields.get("max_tokens")):
            changes["max_tokens"] = USUAL_OUTPUT
        cap = rawjson.maybe(order.fields.get("max_tokens")) if learned.max_output is not None else None
        lowered = learned.max_output if type(cap) is int and cap > (learned.max_output or cap) else None
        if lowered is not None:
            changes["max_tokens"] = rawjson.raw(lowered)
        wanted = vendor.stream_options and "stream_options" not in learned.dropped
        if order.stream and wanted and not order.include_usage:
            changes["stream_options"] = _with_usage(order.fields.get("stream_options"))
        return PreparedRequest(
            url=_address(channel.base_url, vendor),
            headers=STREAM_HEADERS if order.stream else PLAIN_HEADERS,
            body=native_body(order, changes),
            dropped=dropped,
            lowered=lowered,
        )

    def reader(self, order: Order, channel: Channel) -> "CompletionReader":
        """See ``DialectAdapter``."""
        return CompletionReader(channel)

    def stream(self, order: Order, channel: Channel) -> NativeStream:
        """See ``adapter.Adapter``."""
        return NativeStream(channel, CompletionTap(order, channel))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """See ``adapter.Adapter``."""
        body = body.strip().removeprefix(b"\xef\xbb\xbf")
        streamed = is_stream(body)
        if streamed:
            asked = msgspec.structs.replace(order, include_usage=True)
            body = _assemble([*events_in(body, self.stream(asked, channel))])
        whole = CompletionTap(order, channel).read_whole(body)
        return msgspec.structs.replace(whole, marks=(*whole.marks, "assembled")) if streamed else whole

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """See ``adapter.Adapter``."""
        found = classify(channel, status, read_error(body), headers)
        lacks = status in _NO_PATH and found.kind not in (FailureKind.MISSING, FailureKind.AUTH)
        return msgspec.structs.replace(found, lacks_api=True, parameters=()) if lacks else found


def _address(base_url: str, vendor: Vendor) -> str:
    """DeepSeek has completions beside the usual root."""
    if vendor.completions_root:
        base_url = base_url.rstrip("/").removesuffix("/v1").removesuffix("/beta") + vendor.completions_root
    return endpoint(base_url, "/completions")


def _with_usage(options: msgspec.Raw | None) -> msgspec.Raw:
    if options is None or rawjson.is_null(options):
        return _USAGE_WANTED
    return rawjson.raw({**rawjson.fields(options), "include_usage": True})


class CompletionReader(AnswerReader):
    """Reads one answer. Implements ``AnswerReader``."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def read(self, event: SSEEvent) -> Iterator[AnswerPart]:
        """See ``AnswerReader``."""
        if event.data.strip() == b"[DONE]":
            self.done = True
            return
        chunk = rawjson.fields(event.data)
        self.failure = failure_in(self._channel, chunk, event=event.name)
        if self.failure is None:
            yield from _parts(chunk)

    def read_whole(self, body: bytes) -> Iterator[AnswerPart]:
        """See ``AnswerReader``."""
        answer = rawjson.fields(body)
        if "choices" not in answer and (failure := failure_in(self._channel, answer)) is not None:
            raise AttemptFailed(failure)
        self.default_word = "stop"
        yield from _parts(answer)


def _parts(answer: Fields) -> Iterator[AnswerPart]:
    """Of an answer or a chunk. Raises ValueError if it has no choices, or one of them no text."""
    choices = rawjson.objects(answer.get("choices", rawjson.NULL))
    yield UsageSeen(answer)
    name = rawjson.maybe(answer.get("id"))
    yield UpstreamNamed(name if isinstance(name, str) else "", began=bool(choices))
    for position, choice in enumerate(choices):
        number = rawjson.maybe(choice.get("index"))
        number = number if type(number) is int else position
        text, reason = choice.get("text", rawjson.NULL), rawjson.maybe(choice.get("finish_reason"))
        if not (rawjson.is_null(text) and "finish_reason" in choice):
            yield TextPiece(bytes(text), choice=number)
        if isinstance(reason, str) and reason:
            yield StopWord(reason, number)


class CompletionTap(NativeTap):
    """Implements ``relay.NativeReader``."""

    def __init__(self, order: Order, channel: Channel) -> None:
        super().__init__(order, channel, CompletionReader(channel))
        self._head: Fields = {}
        """What every chunk begins with, as the first one had it."""

    def take_pieces(self, events: bytes, start: int) -> tuple[int, int]:
        """See ``relay.NativeReader``. A chunk may be of any choice, and end it: all are opened."""
        return 0, start

    def take(self, event: SSEEvent) -> bytes | None:
        """See ``relay.NativeReader``."""
        self.see(self.reader.read(event))
        if self.reader.done:
            self.complete = True
            if not self.ended:
                self.failure = truncation(self._channel, "no finish_reason came")
        if self.complete or self.failure is not None:
            return b""  # ``closing`` writes the end, with the usage before it
        chunk = rawjson.fields(event.data)
        self._head = self._head or identity(chunk, self._order)
        if not rawjson.items(chunk["choices"]):
            return b""
        changed = self._head | chunk
        changed["model"] = self._head["model"]
        changed.pop("usage", None)
        cleaned = self._order.screen.clean(changed)
        return None if changed == chunk and not cleaned else event_of(changed)

    def replay(self, body: bytes) -> bytes:
        """See ``relay.NativeReader``: a chunk for each choice."""
        answer = rawjson.fields(self.read_whole(body.strip().removeprefix(b"\xef\xbb\xbf")).body)
        choices = rawjson.objects(answer.pop("choices"))
        answer.pop("usage", None)
        self._head = identity(answer, self._order)
        self.complete = True
        return b"".join(event_of({**answer, "choices": rawjson.raw([choice])}) for choice in choices)

    def cut_short(self) -> bytes:
        """See ``relay.NativeReader``."""
        return b"".join(self._own(choice_of(number, reason="length")) for number in self.end_all("length"))

    def closing(self, usage: Usage, *, estimated: bool) -> bytes:
        """See ``relay.NativeReader``."""
        if not self._order.include_usage:
            return DONE
        sent = None if estimated else self.reports.as_sent()
        return self._own(usage=rawjson.raw(as_object(usage)) if sent is None else sent) + DONE

    def _own(self, *choices: Fields, **more: msgspec.Raw) -> bytes:
        head = self._head or identity({}, self._order)
        return event_of({**head, "choices": rawjson.raw(choices), **more})

    def read_whole(self, body: bytes) -> WholeAnswer:
        """A plain answer. Raises AttemptFailed if it is an error, or has no texts."""
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
        changed = {**answer, **identity(answer, self._order)}
        if self.reported is None:
            changed.pop("usage", None)
        elif self.reports.corrected:
            changed["usage"] = self.reports.as_sent() or rawjson.raw(as_object(self.reported))
        cleaned = self._order.screen.clean(changed)
        return WholeAnswer(
            body=body if changed == answer and not cleaned else rawjson.encode(changed),
            reported=self.reported,
            finish=self.finish,
            upstream_id=self.upstream_id,
            tally=self.tally,
            marks=self.marks,
        )


def _assemble(chunks: list[dict[str, Any]]) -> bytes:
    """The answer that a stream brought."""
    choices: dict[int, dict[str, Any]] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        known = choices.setdefault(choice.get("index") or 0, choice | {"text": ""})
        text = known["text"] + (choice["text"] or "")
        known |= {name: value for name, value in choice.items() if value is not None} | {"text": text}
    usage = [chunk["usage"] for chunk in chunks if "usage" in chunk]
    answer = {**chunks[0], "choices": [choices[number] for number in sorted(choices)]}
    return rawjson.encode({**answer, "usage": usage[-1]} if usage else answer)
