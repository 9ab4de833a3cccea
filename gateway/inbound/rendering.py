"""Rendering: answers of any dialect in the form of an API, by the ``Renderer`` of that API.

A dialect's reader gives parts, ``AnswerState`` makes events of them, and a renderer bytes. A plain answer is a stream
whose renderer writes all of it at the end: a stream that came for a plain request, and a body for a streamed one, need
nothing else.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from io import BytesIO
from itertools import chain

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerEvent,
    AnswerPart,
    Medium,
    ReasoningPiece,
    TextPiece,
    ToolCallBegan,
    UsageSeen,
)
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed, Failure
from gateway.domain.json_text import refuse_many_elements
from gateway.domain.order import Order
from gateway.domain.sse import BLANK, SSEEvent, event_end, has_comment, parse, stream_in, with_blank_lines
from gateway.domain.usage import Usage
from gateway.inbound.renderer import Renderer
from gateway.upstream.adapter import AnswerFacts, AnswerReader, AnswerStream, DialectAdapter, WholeAnswer, whole_answer
from gateway.upstream.answer_errors import failure_named
from gateway.upstream.answer_state import AnswerState
from gateway.upstream.error_body import tidy
from gateway.upstream.failures import bad_response, truncation
from gateway.upstream.framing import FramedStream, is_long, pieces

_SHOWN = (Medium, TextPiece, ToolCallBegan)
_SLICE = 1 << 20
"""Bytes of a streamed answer to a plain request that are read at once."""


class SourceFacts:
    """Implements ``adapter.AnswerFacts`` with those of another object."""

    _source: AnswerFacts

    @property
    def reported(self) -> Usage | None:
        return self._source.reported

    @property
    def finish(self) -> str:
        return self._source.finish

    @property
    def upstream_id(self) -> str:
        return self._source.upstream_id

    @property
    def marks(self) -> tuple[str, ...]:
        return self._source.marks


class NativeTap(SourceFacts):
    """Reads a native answer aside, by the dialect's own reader: what ``relay.NativeReader``s have in common."""

    def __init__(self, order: Order, channel: Channel, reader: AnswerReader) -> None:
        self._order = order
        self._channel = channel
        self.reader = reader
        self._source = self._state = AnswerState(order, all_choices=True, native=True)
        self.reports = self._state.reports
        self.tally = self._state.tally
        self.complete = False
        """Whether the terminal event was read."""
        self.failure: Failure | None = None

    @property
    def began(self) -> bool:
        """Returns whether there was something for the client."""
        return self._state.began

    @property
    def ended(self) -> bool:
        """Returns whether every choice that began has said why it ended."""
        return self._state.complete

    def see(self, parts: Iterable[AnswerPart]) -> None:
        """Count these. Raises ValueError if one makes no sense, and what their reader raises."""
        for part in parts:
            self._state.add(part)
        self.failure = self.reader.failure
        if self._state.broken and self.failure is None:
            self.failure = failure_named(self._channel, self._state.broken)

    def end_all(self, word: str) -> list[int]:
        """End the choices that have not ended. Returns them."""
        left = self._state.unfinished
        self._state.conclude(word)
        return left


class RenderedStream(SourceFacts, FramedStream):
    """A streamed answer of any dialect in the form of an API. Implements ``adapter.AnswerStream``."""

    _check: Callable[[bytes], None] = staticmethod(refuse_many_elements)
    """Raises ValueError for an event or a body that must not be decoded."""

    def __init__(self, reader: AnswerReader, order: Order, channel: Channel, renderer: Renderer) -> None:
        super().__init__(channel)
        self._order = order
        self._reader = reader
        self._source = self._state = AnswerState(
            order, all_choices=renderer.all_choices, native=renderer.native, ends_blocks=reader.ends_blocks
        )
        self._withheld = False
        """Whether the answer had a medium that this API has no place for."""
        self._shown = False
        """Whether it had something else too."""
        self.renderer = renderer
        self.tally = self._state.tally

    def cut_short(self) -> bytes:
        self.finished = True
        return self._render(self._state.conclude("length"))

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        return self.renderer.tail(usage, estimated=estimated)

    def feed(self, data: bytes) -> bytes:
        out = super().feed(data)
        self.held += self.renderer.held
        return out

    def _read_events(self, block: bytes) -> bytes:
        out: list[bytes] = []
        start = 0
        while start < len(block) and not (self.failure or self.finished):
            run, end = self._reader.texts(block, start) if self._state.in_text else (None, start)
            if run:
                out.append(self._pass_texts(run))
            else:
                end = event_end(block, start, returns=False)
                out.append(self._read_event(block[start:end].rstrip(b"\n")))
            start = end
        if self.finished and start < len(block):
            take_late_usage(block[start:], self._reader, self._state)
        return b"".join(out)

    def _pass_texts(self, run: list[bytes]) -> bytes:
        """Passes consecutive pieces of text, each of them an event."""
        self.events += len(run)
        if self._state.count_texts(run):
            return self.renderer.take_texts(run)
        return b"".join([self._pass(SSEEvent(piece), [TextPiece(piece)]) for piece in run])

    def _read_event(self, part: bytes) -> bytes:
        """Returns what the client gets for one event, given without its blank line."""
        event = parse(part)
        if event is None or not event.data:
            self.comments += has_comment(part)
            return b""
        if b"}\n" in event.data and len(parts := with_blank_lines(part).split(BLANK)) > 1:
            return b"".join([self._read_event(part) for part in parts])
        self.events += 1
        out = self._pass(event, None)
        if not self.failure and self._reader.done:
            out += self._conclude(done=True)
        return out

    def _read_rest(self, rest: bytes) -> bytes:
        """Reads the last event, which counts without its blank line if it is complete."""
        rest = rest.strip(b"\n")
        event, out = parse(rest), b""
        last = b"" if event is None else event.data.rpartition(b"\n")[2]
        if last.strip() == b"[DONE]" or rawjson.maybe(last) is not None:
            out = self._read_events(rest)
        if self.failure or self.finished:
            return out
        out += self._render(self._parts(self._reader.end()))
        return out + self._conclude(done=self._reader.done)

    def _read_body(self, body: bytes) -> bytes:
        """Reads a whole answer as the requested stream."""
        return self.read_whole(body, split=True)

    def read_whole(self, body: bytes, *, split: bool = False) -> bytes:
        """Returns what the client gets for a whole answer; ``split``: long texts in pieces. It grows in one place: it
        is not copied again.
        """
        out = BytesIO()
        try:
            self._check(body)
            parts = self._reader.read_whole(body)
            for part in chain.from_iterable(map(_pieces_of, parts)) if split else parts:
                out.write(self._render(self._parts((part,))))
        except AttemptFailed as exc:
            self.failure = exc.failure
            return b""
        except ValueError as error:
            self.failure = bad_response(self._channel, f"it is not an answer: {error}")
            return b""
        out.write(self._conclude(done=True))
        return out.getvalue()

    def _pass(self, event: SSEEvent, parts: Iterable[AnswerPart] | None) -> bytes:
        """Returns what the client gets for one event; ``parts``: what it was read as, if it was."""
        try:
            self._check(event.data)
            return self._render(self._parts(self._reader.read(event) if parts is None else parts))
        except ValueError:
            self._skip(event)
            return b""

    def _parts(self, parts: Iterable[AnswerPart]) -> Iterator[AnswerEvent]:
        for part in parts:
            yield from self._state.add(part)

    def _render(self, events: Iterable[AnswerEvent]) -> bytes:
        out = []
        for event in events:
            if self._reader.watches:
                self._reader.watch(event)
            if isinstance(event, Medium) and not self.renderer.shows(event):
                self._withheld = True
                self._state.add_mark("medium_dropped")
                continue
            self._shown = self._shown or isinstance(event, _SHOWN)
            out.append(self.renderer.take(event))
        self.started = self.started or self._state.began
        if self._state.broken and self._reader.failure is None:
            self._reader.failure = failure_named(self._channel, self._state.broken)
        self.failure = self.failure or self._reader.failure
        return b"".join(out)

    def _skip(self, event: SSEEvent) -> None:
        """Leaves out one unreadable event. What follows decides whether the answer was good."""
        self._state.invalid_events += 1
        if not self.started or self._state.invalid_events > 1 or self._order.strict_events:
            excerpt = tidy(event.data[:1000].decode("utf-8", "replace"), 120)
            self.failure = bad_response(self._channel, f"an event of the stream is not valid: {excerpt}")

    def _conclude(self, *, done: bool) -> bytes:
        """Ends the answer, which is good only if every choice has ended."""
        self.failure = self.failure or self._reader.failure
        if self.failure:
            return b""
        open_choices = self._state.began and not self._state.complete
        default = self._reader.default_word if open_choices and not self._state.invalid_events else ""
        if not (self._state.complete or default):
            self.failure = _failure_without_end(self._state, self._channel)
            return b""
        if self._state.empty:
            self.failure = bad_response(self._channel, "a tool call has no name")
            return b""
        if self._withheld and not self._shown:
            self.failure = bad_response(self._channel, "it is an image or a sound, which this API has no place for")
            return b""
        out = self._render(self._state.conclude(default))
        self.finished = True
        if not done:
            self._state.add_mark("no_done")
        return out


def take_late_usage(events: bytes, reader: AnswerReader, state: AnswerState) -> None:
    """Takes reports of usage that follow the end of an answer."""
    for event in map(parse, events.split(BLANK)):
        with suppress(ValueError):
            for part in reader.read(event) if event is not None else ():
                if isinstance(part, UsageSeen):
                    state.add(part)


def _failure_without_end(state: AnswerState, channel: Channel) -> Failure:
    """Returns the failure of an answer without an end."""
    if state.invalid_events:
        return bad_response(channel, "an event of the stream is not valid, and the answer has no end")
    return truncation(channel, "it has no finish_reason" if state.began else "it has no choice")


def _pieces_of(part: AnswerPart) -> Iterator[AnswerPart]:
    """Yields a long text as several, so that only a piece of an answer is ever copied."""
    whole = isinstance(part, TextPiece) and part.logprobs
    if isinstance(part, TextPiece | ReasoningPiece) and is_long(part.piece) and not whole:
        for piece in pieces(part.piece):
            yield msgspec.structs.replace(part, piece=piece)
    else:
        yield part


class RenderingAdapter:
    """A dialect whose answers are rendered. Implements ``adapter.Adapter``; its orders are chat completions."""

    def __init__(
        self, dialect: DialectAdapter, renderer: Callable[[Order], Renderer], whole: Callable[[Order], Renderer]
    ) -> None:
        """``whole`` writes nothing before its tail, which is all of a plain answer."""
        self._dialect = dialect
        self._renderer = renderer
        self._whole = whole
        self.prepare = dialect.prepare
        self.recalled = dialect.recalled
        self.failure = dialect.failure

    def stream(self, order: Order, channel: Channel) -> AnswerStream:
        return self.rendered(order, channel)

    def rendered(self, order: Order, channel: Channel) -> RenderedStream:
        """Returns the stream that renders an answer of the dialect."""
        return self._rendered(order, channel, self._renderer(order))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """Reads a whole answer like a stream that brings it at once."""
        stream = self._rendered(order, channel, self._whole(order))
        events = stream_in(body)
        if events:
            view = memoryview(events)
            for start in range(0, len(events), _SLICE):
                stream.feed(bytes(view[start : start + _SLICE]))
            stream.end()
        else:
            stream.read_whole(body)
        if stream.failure is not None:
            raise AttemptFailed(stream.failure)
        render = partial(stream.renderer.tail, estimated=False)
        return whole_answer(stream, body, *(("assembled",) if events else ()), render=render)

    def _rendered(self, order: Order, channel: Channel, renderer: Renderer) -> RenderedStream:
        return RenderedStream(self._dialect.reader(order, channel), order, channel, renderer)
