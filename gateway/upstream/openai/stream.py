"""A streamed answer from upstream bytes to client bytes, event by event, with nothing held back.

Cheapest checks first: whole reads by a template, single events by a template, then events opened one level at a time.
An event the upstream garbled is left out once; what follows it decides whether the answer was good.
"""

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

from gateway.domain import rawjson
from gateway.domain.channel import Channel
from gateway.domain.json_text import refuse_many_elements
from gateway.domain.rawjson import Fields
from gateway.domain.sse import BLANK, SSEEvent, event_end, has_comment, parse
from gateway.domain.usage import Usage
from gateway.upstream.adapter import AttemptFailed, Order, WholeAnswer, as_object
from gateway.upstream.answer_errors import failure_named, failure_told, reports_error
from gateway.upstream.error_body import tidy
from gateway.upstream.failures import bad_response, truncation
from gateway.upstream.framing import FramedStream, WholeBody
from gateway.upstream.openai.chunks import TEXTS, Chunks
from gateway.upstream.openai.completion import read_whole
from gateway.upstream.openai.replay import chunks_of
from gateway.upstream.openai.template import Template, TextSink, learn
from gateway.upstream.openai.tool_calls import CountedArguments

DONE = b"data: [DONE]\n\n"

_SLICE = 1 << 20
"""Bytes of a streamed answer that are read together when they are put together again."""

LESSONS = 12
"""Templates that may fail before no more are learned."""


class ChatStream(FramedStream):
    """One streamed answer. Implements ``adapter.AnswerStream``."""

    def __init__(self, order: Order, channel: Channel) -> None:
        super().__init__(channel)
        self._order = order
        self._chunks = Chunks(order)
        self._template: Template | None = None
        self._lessons = LESSONS
        self._sink: TextSink = self._chunks.tally
        """Where the template puts its texts."""
        self._garbled = 0
        self._no_done = False
        self._doubts: tuple[str, ...] = ()
        """Marks of a body that came instead of events."""
        self.tally = self._chunks.tally

    @property
    def reported(self) -> Usage | None:
        """Usage as the upstream reported it so far."""
        return self._chunks.reports.usage(self.tally)

    @property
    def finish(self) -> str:
        """finish_reason of the first choice, or empty."""
        return self._chunks.finish

    @property
    def upstream_id(self) -> str:
        """The answer's id at the upstream, or empty."""
        return self._chunks.upstream_id

    @property
    def marks(self) -> tuple[str, ...]:
        """For the record: a missing ``[DONE]``, garbled events, doubtful usage."""
        done = ("no_done",) if self._no_done else ()
        bad = (f"bad_chunks={self._garbled}",) if self._garbled else ()
        return done + bad + tuple(dict.fromkeys(self._doubts + self._chunks.marks))

    def cut_short(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        self.finished = True
        return self._chunks.end_with("length")

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        """See ``adapter.AnswerStream``."""
        if not self._order.include_usage:
            return DONE
        return b"data: " + self._chunks.usage_chunk(usage, estimated=estimated) + BLANK + DONE

    def _read_body(self, body: WholeBody) -> bytes:
        """The body as events. They are put together in one place, without a further copy."""
        out = BytesIO()
        try:
            chunks, self._doubts = _chunks_in(body.take(), self._order, self._channel)
            for chunk in chunks:
                out.write(self._pass(chunk, b""))
        except AttemptFailed as exc:
            self.failure = exc.failure
        self.held = body.size
        if not self.failure:
            out.write(self._conclude(done=True))
        return out.getvalue()

    def _read_rest(self, rest: bytes) -> bytes:
        """The last event counts without its blank line, if it is whole."""
        out = self._read_events(_whole_event(rest))
        if not (self.failure or self.finished):
            out += self._conclude(done=False)
        return out

    def _read_events(self, block: bytes) -> bytes:
        """The last event may lack its blank line."""
        out = []
        start, bulk = 0, True
        while start < len(block) and not (self.failure or self.finished):
            template = self._template
            run = (template.run if bulk else template.one)(block, start, self._sink) if template else None
            if run is not None:
                self.events += run.count
                self._lessons = LESSONS
                if run.size == len(block):
                    return run.out
                out.append(run.out)
                start += run.size
                continue
            if template and bulk:
                bulk = False  # what does not fit is not looked for again and again
                continue
            end = block.find(BLANK, start)
            end = len(block) if end < 0 else end
            if end > start:
                out.append(self._look(block[start:end]))
                bulk = bulk or self._template is not template
            start = end + len(BLANK)
        return b"".join(out)

    def _look(self, part: bytes) -> bytes:
        """One event, opened."""
        if has_comment(part):
            self.comments += 1
        event = parse(part)
        if event is None or not event.data:
            return b""
        self.events += 1
        if event.data.strip() == b"[DONE]":
            return self._conclude(done=True)
        try:
            refuse_many_elements(event.data, opens_logprobs=False)
            chunk = _chunk_of(event)
            if chunk is not None:
                return self._pass(chunk, part)
            self._chunks.see_error(event.data)
            self.failure = failure_told(self._channel, event.data)
        except ValueError:
            self._skip(event)
        return b""

    def _pass(self, chunk: Fields, part: bytes) -> bytes:
        """The chunk as an event for the client, or nothing; raises ValueError if it is none."""
        step = self._chunks.take(chunk)
        chunk.clear()  # of a large chunk no more copies are kept than needed
        if step.broken:
            self.failure = failure_named(self._channel, step.broken)
        if step.turned:
            self._template = None
        if not step.out:
            return b""
        self.started = True
        if step.pattern and self._lessons:
            self._lessons -= 1
            self._template = learn(part, b"data: " + step.out, step.pattern)
            self._sink = CountedArguments(self.tally, step.arguments) if step.arguments is not None else self.tally
        return b"".join((b"data: ", step.out, BLANK))

    def _skip(self, event: SSEEvent) -> None:
        self._garbled += 1
        if not self.started or self._garbled > 1 or self._order.strict_events:
            excerpt = tidy(event.data[:1000].decode("utf-8", "replace"), 120)
            self.failure = bad_response(self._channel, f"an event of the stream is not a chunk: {excerpt}")

    def _conclude(self, *, done: bool) -> bytes:
        """The stream is over: good only if every choice has a finish reason, or all came and the reason is left out."""
        out = b""
        complete = self._chunks.complete
        if done and not (complete or self._garbled) and self._chunks.begun and self.reported is not None:
            out, complete = self._chunks.end_with("stop"), True
        if complete:
            self.finished = True
            self._no_done = not done
        elif self._garbled:
            self.failure = bad_response(
                self._channel, "an event of the stream is not a chunk, and the answer has no end"
            )
        else:
            missing = "finish_reason" if self._chunks.begun else "choice"
            self.failure = truncation(self._channel, f"it has no {missing}")
        return out


def _chunks_in(body: bytes, order: Order, channel: Channel) -> tuple[Iterator[Fields], tuple[str, ...]]:
    """A whole answer as the chunks of a stream, still to be normalized, and its marks. Raises AttemptFailed."""
    whole = read_whole(body, order, channel)
    return chunks_of(whole.body), whole.marks


def _whole_event(rest: bytes) -> bytes:
    """An event whose blank line never came counts only if it is whole."""
    rest = rest.strip(b"\n")
    event = parse(rest)
    if event is None or event.data.strip() == b"[DONE]":
        return rest
    try:
        rawjson.fields(event.data)
    except ValueError:
        return b""
    return rest


def _chunk_of(event: SSEEvent) -> Fields | None:
    """The chunk; None if it is an error. Raises ValueError for what is neither."""
    if event.name == b"error":
        return None
    event.data.decode()  # what is passed on unopened must be UTF-8, too
    if event.data[:1] == b"[":
        if any(reports_error(item) for item in rawjson.objects(event.data)):
            return None
        raise ValueError("an array")
    chunk = rawjson.fields(event.data)
    return None if reports_error(chunk) else chunk


def assemble(body: bytes, order: Order, channel: Channel) -> WholeAnswer:
    """The answer that the events bring. Raises AttemptFailed if they bring none, or an unfinished one."""
    stream = ChatStream(order, channel)
    answer: dict[str, Any] = {}
    choices = _choices(_chunks_of(body, stream, answer))
    if stream.failure:
        raise AttemptFailed(stream.failure)
    answer |= {"object": "chat.completion", "choices": choices}
    if stream.reported is not None:
        answer["usage"] = as_object(stream.reported)
    return WholeAnswer(
        body=rawjson.encode(answer),
        reported=stream.reported,
        finish=stream.finish,
        upstream_id=stream.upstream_id,
        tally=stream.tally,
        marks=(*stream.marks, "assembled"),
    )


def _chunks_of(body: bytes, stream: ChatStream, answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The chunks, one after the other: of an answer of any size only a slice is there as events and as chunks.

    What the first one has beside its choices is put into ``answer``.
    """
    for events in _passed_on(body, stream):
        start = 0
        while (end := events.find(BLANK, start)) >= 0:
            chunk = rawjson.value(events[start + len(b"data: ") : end])
            start = end + len(BLANK)
            if not answer:
                answer |= {key: value for key, value in chunk.items() if key != "choices"}
            yield chunk
        del events  # while the next ones are made


def _passed_on(body: bytes, stream: ChatStream) -> Iterator[bytes]:
    """What the client of a stream would get: all events of a slice, or one that is larger."""
    start = 0
    while start < len(body):
        end = body.rfind(BLANK, start, start + _SLICE)
        end = end + len(BLANK) if end >= 0 else event_end(body, start, returns=False)
        yield stream.feed(body[start:end])
        start = end
    yield stream.end()


def _choices(chunks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The choices, in order of their index. The chunks are normalised, so there is no doubt what belongs where."""
    choices: dict[int, dict[str, Any]] = {}
    for piece in (piece for chunk in chunks for piece in chunk["choices"]):
        index = piece["index"]
        choice = choices.setdefault(index, {"index": index, "message": {"role": "assistant", "content": None}})
        _add_delta(choice["message"], piece["delta"])
        if piece.get("finish_reason"):
            choice["finish_reason"] = piece["finish_reason"]
        if isinstance(piece.get("logprobs"), dict):
            _add_logprobs(choice, piece["logprobs"])
    for choice in choices.values():
        _join_texts(choice["message"])
    return [choices[index] for index in sorted(choices)]


def _add_delta(message: dict[str, Any], delta: dict[str, Any]) -> None:
    """Texts are lists of pieces until the end: none is copied for each piece that follows."""
    for name, value in delta.items():
        if value is None or name == "role":
            continue
        if name == "tool_calls":
            _add_calls(message.setdefault("tool_calls", []), value)
        elif name in TEXTS:
            message[name] = message.get(name) or []
            message[name].append(value)
        elif isinstance(value, list):
            message[name] = _longer(message.get(name), value)
        else:
            message[name] = value


def _add_calls(calls: list[dict[str, Any]], deltas: list[dict[str, Any]]) -> None:
    for delta in deltas:
        index = delta.pop("index")
        kind, key = _input_of(delta)
        piece = delta.get(kind, {}).get(key, "")
        if index == len(calls):
            delta[kind] = {**delta.get(kind, {}), key: []}
            calls.append(delta)
        calls[index][kind][key].append(piece)


def _input_of(call: dict[str, Any]) -> tuple[str, str]:
    """Where a tool call has its input."""
    return ("custom", "input") if "custom" in call else ("function", "arguments")


def _join_texts(message: dict[str, Any]) -> None:
    for name in TEXTS:
        if isinstance(message.get(name), list):
            message[name] = "".join(message[name])
    for call in message.get("tool_calls", ()):
        kind, key = _input_of(call)
        call[kind][key] = "".join(call[kind][key])


def _add_logprobs(choice: dict[str, Any], logprobs: dict[str, Any]) -> None:
    known = choice.setdefault("logprobs", {})
    for name, value in logprobs.items():
        known[name] = _longer(known.get(name), value) if isinstance(value, list) else value


def _longer(known: object, more: list[Any]) -> list[Any]:
    """The list with more at its end; what is known counts only if it is a list."""
    return [*known, *more] if isinstance(known, list) else more
