"""Answers of another dialect as chat completions, plain and streamed.

A decoder turns the dialect's events into events of chat completions, which are then handled as such: there is one place
that numbers tool calls, counts the output, and decides whether an answer was complete.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from gateway.domain.channel import Channel
from gateway.domain.usage import Usage, UsageSource
from gateway.upstream import rawjson
from gateway.upstream.adapter import AttemptFailed, Failure, Order, WholeAnswer, as_object
from gateway.upstream.error_body import read_error, tidy
from gateway.upstream.failures import bad_response
from gateway.upstream.framing import (
    BLANK,
    EventTooLong,
    FramedStream,
    Framer,
    SSEEvent,
    WholeBody,
    has_comment,
    is_stream,
    parse,
)
from gateway.upstream.openai.completion import read_whole
from gateway.upstream.openai.stream import DONE, ChatStream, assemble
from gateway.upstream.rawjson import TooManyElements, refuse_many_elements

Json = dict[str, Any]


class Completion(msgspec.Struct, frozen=True):
    """A whole answer of another dialect, as a chat completion."""

    body: bytes
    """JSON."""
    marks: tuple[str, ...]
    """What is odd about its usage; see ``usage_marks``."""


def chunk(id: str, *choices: Json, usage: Usage | None = None) -> Json:
    """One chunk of a stream; what it lacks is added on the way to the client."""
    out: Json = {"id": id, "choices": list(choices)}
    if usage is not None:
        out["usage"] = report(usage)
    return out


def delta(index: int = 0, *, finish: str | None = None, **fields: object) -> Json:
    """One choice of a chunk."""
    return {"index": index, "delta": fields, "logprobs": None, "finish_reason": finish}


def tool_call(number: int | None, id: str, name: str, arguments: str, **more: object) -> Json:
    """A tool call; in a stream it has a number."""
    place = {} if number is None else {"index": number}
    return {**place, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def arguments_delta(number: int, arguments: str | msgspec.Raw) -> Json:
    """More of a tool call's arguments."""
    return {"index": number, "function": {"arguments": arguments}}


def message(content: str, *, reasoning: str = "", calls: list[Json] | None = None, **more: object) -> Json:
    """An assistant's message. Without text, ``content`` is null if there are calls, else empty."""
    out: Json = {"role": "assistant", "content": content if content or not calls else None, "refusal": None}
    if reasoning:
        out["reasoning_content"] = reasoning
    if calls:
        out["tool_calls"] = calls
    return out | more


def completion(id: str, choices: list[tuple[Json, str]], usage: Usage | None) -> Json:
    """A whole answer of messages and their finish reasons."""
    out: Json = {
        "id": id,
        "choices": [
            {"index": i, "message": fields, "logprobs": None, "finish_reason": finish}
            for i, (fields, finish) in enumerate(choices)
        ],
    }
    if usage is not None:
        out["usage"] = report(usage)
    return out


def report(usage: Usage) -> Json:
    """The usage as clients read it; what was not reported stays out, so that it is estimated."""
    out = as_object(usage)
    if usage.source is UsageSource.PARTIAL:
        del out["completion_tokens"], out["total_tokens"]
    return out


class Decoder(Protocol):
    """Reads the events of one answer of a dialect."""

    failure: Failure | None
    """Set when the upstream reported a failure."""
    complete: bool
    """The answer's end was seen."""

    @property
    def marks(self) -> tuple[str, ...]:
        """What is odd about the usage that was reported; see ``usage_marks``."""

    def take(self, event: SSEEvent) -> Iterable[Json]:
        """The chunks of chat completions that an event means. Raises ValueError if it makes no sense."""

    def end(self) -> Iterable[Json]:
        """The bytes have ended: the chunks that were waiting for that."""


def transcribe(decoder: Decoder, event: SSEEvent) -> bytes:
    """An event in the words of chat completions; one that makes no sense becomes one that makes none there either."""
    try:
        refuse_many_elements(event.data)
        return _write_chunks(decoder, decoder.take(event))
    except ValueError:
        excerpt = tidy(event.data[:1000].decode("utf-8", "replace"), 120)
        return b"data: odd event: " + excerpt.encode() + BLANK


def transcribe_end(decoder: Decoder) -> bytes:
    """What the end of the bytes means."""
    return _write_chunks(decoder, decoder.end())


def _write_chunks(decoder: Decoder, chunks: Iterable[Json]) -> bytes:
    out = b"".join(b"data: " + rawjson.encode(chunk) + BLANK for chunk in chunks)
    return out + DONE if decoder.complete else out


WholeReader = Callable[[bytes], Completion]
"""Reads a whole answer of the dialect. Raises AttemptFailed."""


def _read(whole: WholeReader, body: bytes, channel: Channel) -> Completion:
    try:
        refuse_many_elements(body)
    except TooManyElements as error:
        raise AttemptFailed(bad_response(channel, str(error))) from error
    return whole(body)


class TranslatedStream(FramedStream):
    """One streamed answer. Implements ``adapter.AnswerStream``."""

    def __init__(self, order: Order, channel: Channel, decoder: Decoder, whole: WholeReader) -> None:
        super().__init__(channel)
        self._decoder = decoder
        self._whole = whole
        self._chat = ChatStream(order, channel)
        self._marks: tuple[str, ...] = ()
        """Of a whole answer, if that came."""
        self.tally = self._chat.tally

    @property
    def reported(self) -> Usage | None:
        """Usage as the upstream reported it so far."""
        return self._chat.reported

    @property
    def finish(self) -> str:
        """finish_reason of the first choice, or empty."""
        return self._chat.finish

    @property
    def upstream_id(self) -> str:
        """The answer's id at the upstream, or empty."""
        return self._chat.upstream_id

    @property
    def marks(self) -> tuple[str, ...]:
        """For the record: garbled events, a missing end, odd usage."""
        more = self._decoder.marks or self._marks
        return tuple(dict.fromkeys((*self._chat.marks, *more))) if more else self._chat.marks

    def cut_short(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        self.finished = True
        return self._chat.cut_short()

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        """See ``adapter.AnswerStream``."""
        return self._chat.tail(usage, estimated=estimated)

    def _read_events(self, block: bytes) -> bytes:
        out = []
        for part in filter(None, block.split(BLANK)):
            if has_comment(part):
                self.comments += 1
            event = parse(part)
            if event is not None and event.data:
                self.events += 1
                out.append(self._pass(transcribe(self._decoder, event)))
            if self.failure or self.finished:
                break
        return b"".join(out)

    def _read_rest(self, rest: bytes) -> bytes:
        """The last event counts without its blank line, if it is whole."""
        rest = rest.strip(b"\n")
        event, out = parse(rest), b""
        if event is not None and rawjson.maybe(event.data) is not None:
            out = self._read_events(rest)
        if not (self.failure or self.finished):
            out += self._pass(transcribe_end(self._decoder))
        return out + self._conclude()

    def _read_body(self, body: WholeBody) -> bytes:
        """A whole answer, as the stream that was requested."""
        try:
            completion = _read(self._whole, body.take(), self._channel)
            self._marks = completion.marks
            out = self._pass(completion.body)
        except AttemptFailed as exc:
            self.failure = exc.failure
            out = b""
        self.held = 0
        return out + self._conclude()

    def _conclude(self) -> bytes:
        """The end of the bytes, unless the answer has ended before."""
        if self.failure or self.finished:
            return b""
        out = self._chat.end()
        self._follow()
        return out

    def _pass(self, chat: bytes) -> bytes:
        out = self._chat.feed(chat) if chat else b""
        self._follow()
        return out

    def _follow(self) -> None:
        self.started = self._chat.started
        self.finished = self._chat.finished
        self.failure = self._decoder.failure or self._chat.failure


def read_translated(body: bytes, order: Order, channel: Channel, decoder: Decoder, whole: WholeReader) -> WholeAnswer:
    """The answer, which may have come as events although none were asked for. Raises AttemptFailed."""
    if not is_stream(body):
        found = _read(whole, body, channel)
        answer = read_whole(found.body, order, channel)
        return _add_marks(answer, found.marks)
    framer = Framer()
    try:
        blocks = (framer.feed(body) + framer.end()).split(BLANK)
    except EventTooLong as exc:
        raise AttemptFailed(bad_response(channel, str(exc))) from exc
    events = filter(None, map(parse, blocks))
    chat = b"".join(transcribe(decoder, event) for event in events) + transcribe_end(decoder)
    if decoder.failure is not None:
        raise AttemptFailed(decoder.failure)
    answer = _complete(assemble(chat, order, channel))
    return _add_marks(answer, decoder.marks)


def _add_marks(answer: WholeAnswer, marks: tuple[str, ...]) -> WholeAnswer:
    return msgspec.structs.replace(answer, marks=tuple(dict.fromkeys((*answer.marks, *marks)))) if marks else answer


def _complete(whole: WholeAnswer) -> WholeAnswer:
    """The answer with the fields that streams leave out."""
    answer = rawjson.fields(whole.body)
    choices = rawjson.objects(answer["choices"])
    for choice in choices:
        message = rawjson.fields(choice["message"])
        message.setdefault("refusal", rawjson.NULL)
        choice.setdefault("logprobs", rawjson.NULL)
        choice["message"] = rawjson.raw(message)
    answer["choices"] = rawjson.raw(choices)
    return msgspec.structs.replace(whole, body=rawjson.encode(answer))


def no_answer(body: bytes, channel: Channel) -> AttemptFailed:
    """The failure of a body that is not an answer of the dialect."""
    fields = read_error(body[:65536])
    what = "not an answer" if fields.json else "not valid JSON"
    return AttemptFailed(bad_response(channel, f"it is {what}: {fields.message or 'an empty body'}"))
