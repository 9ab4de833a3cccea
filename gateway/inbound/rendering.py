"""Rendering: answers of any dialect in the form of an API, written by the ``Renderer`` of that API.

A dialect's reader returns parts, ``AnswerState`` turns them into events, and a renderer writes these as bytes. Each API
has a renderer for streams, and one for plain answers, which writes everything at the end. So a stream that comes for a
plain request, and a body that comes for a streamed one, need no code of their own.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BytesIO
from typing import Any, Protocol

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    AnswerPart,
    BlockEnded,
    BlockKind,
    Citation,
    Medium,
    Piece,
    Seal,
    ToolCallBegan,
    join_strings,
)
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed, Failure
from gateway.domain.json_text import PIECE, TooManyElements, as_utf8, pieces, refuse_many_elements
from gateway.domain.order import Order
from gateway.domain.sse import BLANK, BOM, SSEEvent, has_comment, is_idle, parse, stream_in, with_blank_lines
from gateway.domain.transcript import object_of
from gateway.domain.usage import Usage
from gateway.inbound.event_stream import EventStream, Run
from gateway.upstream.adapter import AnswerReader, DialectAdapter, WholeAnswer, failing_attempt
from gateway.upstream.answer_errors import failure_named
from gateway.upstream.answer_state import AnswerState
from gateway.upstream.error_body import tidy
from gateway.upstream.failures import bad_response, truncation

_MAX_PARTS = 20_000
"""More parts than any real whole answer has. Each takes some 15 µs to read."""
_MAX_EVENT_PARTS = 4_000
"""More parts than any real event of a stream has."""


class Renderer(Protocol):
    """Writes one answer. Streams are written piece by piece, whole answers at the end."""

    all_choices: bool = False
    """Whether clients get all choices instead of the first one only."""
    native: bool = False
    """Whether clients know the upstream's words, and keep pieces of different blocks apart."""
    renders_audio: bool = False
    """Whether clients can get sounds, not only images."""
    held: int = 0
    """How many bytes are kept for the end."""

    @property
    def fault(self) -> str:
        """Returns why the client cannot use a complete answer; empty if it can."""
        return ""

    def shows(self, event: Medium | Citation) -> bool:
        """Returns whether clients can get this medium or citation."""
        if isinstance(event, Citation) or event.is_image:
            return True
        return self.renders_audio and event.type.startswith("audio") and bool(event.data)

    def take(self, event: AnswerEvent) -> bytes:
        """Returns what the client gets at once for an event; the rest comes with ``tail``."""

    def tail(self, usage: Usage) -> bytes:
        """Returns the end of the answer, with the totals, which is sent once the call is recorded."""

    def whole(self, usage: Usage) -> bytes:
        """Returns a plain answer, which is all in the tail, unless the renderer writes streams, too."""
        return self.tail(usage)


class WholeBlock(msgspec.Struct):
    """A text, a thought or a tool call of a whole answer, collected from its parts."""

    choice: int
    kind: BlockKind = BlockKind.TEXT
    pieces: list[bytes] = []
    """The pieces of its text or its arguments, JSON strings."""
    call: ToolCallBegan | None = None
    media: list[Medium] = []
    seal: Seal | None = None
    citations: list[Citation] = []
    logprobs: list[bytes] = []
    """JSON arrays."""

    @property
    def text(self) -> msgspec.Raw:
        """Returns the text or the arguments, a JSON string."""
        return msgspec.Raw(join_strings(self.pieces))

    @property
    def arguments(self) -> Any:
        """Returns the arguments as an object on one line. Anything else becomes a text in an object."""
        text = rawjson.text(self.text)
        try:
            data = text.encode("utf-8", "surrogatepass")
            refuse_many_elements(data)
            value = rawjson.maybe(data)
        except TooManyElements:
            value = None
        if not isinstance(value, dict):
            return object_of(text) if text.strip() else {}
        is_json = text.isascii() and text.isprintable() and "NaN" not in text and "Infinity" not in text
        return msgspec.Raw(text.encode()) if is_json else value


class WholeRenderer(Renderer):
    """Collects the blocks of a whole answer. A subclass writes them in ``tail``."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.id = order.answer_id
        self.blocks: list[WholeBlock] = []
        self.finishes: dict[int, AnswerFinished] = {}
        """How the choices ended, by their index."""
        self._open: dict[int, WholeBlock] = {}

    def take(self, event: AnswerEvent) -> bytes:
        if isinstance(event, AnswerBegan):
            self.id = event.id
            return b""
        block = self._open.setdefault(event.choice, WholeBlock(event.choice))
        match event:
            case Piece():
                block.pieces.append(event.piece)
                if event.logprobs:
                    block.logprobs.append(event.logprobs)
            case ToolCallBegan():
                block.call = event
            case Medium():
                block.media.append(event)
            case Seal():
                block.seal = event
            case Citation():
                block.citations.append(event)
            case BlockEnded():
                block.kind = event.kind
                self.blocks.append(self._open.pop(event.choice))
            case AnswerFinished():
                self.finishes[event.choice] = event
        return b""

    def text(self, *kinds: BlockKind, choice: int = 0) -> msgspec.Raw | None:
        """Returns the text of all blocks of these kinds, a JSON string; None if it has no pieces."""
        blocks = [block for block in self.blocks if block.kind in kinds and block.choice == choice]
        pieces = [piece for block in blocks for piece in block.pieces]
        return msgspec.Raw(join_strings(pieces)) if pieces else None

    def logprobs(self, choice: int = 0) -> msgspec.Raw | None:
        """Returns the log probabilities of the text's tokens as a JSON array, or None."""
        arrays = [array[1:-1] for block in self.blocks if block.choice == choice for array in block.logprobs]
        return msgspec.Raw(b"[%b]" % b",".join(arrays)) if arrays else None


class RenderedStream(EventStream):
    """A streamed answer of any dialect in the form of an API."""

    def __init__(self, reader: AnswerReader, order: Order, channel: Channel, renderer: Renderer) -> None:
        state = AnswerState(
            order,
            client_name=partial(reader.tool_rules.client_name, order, {}),
            ends_blocks=reader.ends_blocks,
            all_choices=renderer.all_choices,
            native=renderer.native,
        )
        super().__init__(channel, reader, state)
        self._lost_medium = False
        """Whether the answer had a medium that this API has no place for."""
        self._has_content = False
        """Whether it had something else too."""
        self.renderer = renderer

    def cut_short(self) -> bytes:
        self.finished = True
        return self._render(self.state.conclude("length"))

    def tail(self, usage: Usage) -> bytes:
        return self.renderer.tail(usage)

    def feed(self, data: bytes) -> bytes:
        out = super().feed(data)
        self.held += self.renderer.held
        return out

    def _take_run(self, run: Run) -> bytes | None:
        """See ``EventStream``. Texts that came together become one. They are read unless the first block is open."""
        if not self.state.is_in_text:
            return None
        text = b"".join(run.texts)
        return self.renderer.take(Piece(BlockKind.TEXT, b'"%b"' % text)) if text else b""

    def _read_event(self, part: bytes) -> bytes:
        """Returns what the client gets for one event, given without its blank line."""
        event = parse(part)
        if event is None or not event.data:
            self.comments += has_comment(part)
            return b""
        if b"}\n" in event.data and len(parts := with_blank_lines(part).split(BLANK)) > 1:
            return b"".join([self._read_event(part) for part in parts])
        del part  # it may be large, and its text is copied
        self.events += 1
        out = self._render_event(event)
        if self._reader.done and not (self.failure or self.finished):
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
        out += self._render(self._events_of(self._reader.end()))
        return out + self._conclude(done=self._reader.done)

    def _read_body(self, body: bytes) -> bytes:
        return self.read_whole(body, split=True)

    def read_whole(self, body: bytes, *, split: bool = False) -> bytes:
        """Returns what a stream gets for a whole answer, if it is ``split``: long texts come in pieces."""
        out = BytesIO()  # it grows in one place, so nothing is copied again
        body = as_utf8(body.strip().removeprefix(BOM))
        self.state.whole = True
        try:
            with failing_attempt(body, self._channel):
                refuse_many_elements(body, opens_logprobs=not self.renderer.native)
                for number, part in enumerate(self._reader.read_whole(body)):
                    if number >= _MAX_PARTS:
                        raise TooManyElements(f"it has more than {_MAX_PARTS:,} parts")
                    for piece in _split_text(part) if split else (part,):
                        rendered = self._render(self._events_of((piece,)))
                        out.write(rendered if split else b"")
        except AttemptFailed as exc:
            self.failure = exc.failure
            return b""
        out.write(self._conclude(done=True))
        return out.getvalue()

    def _render_event(self, event: SSEEvent) -> bytes:
        """Returns what the client gets for one event."""
        try:
            refuse_many_elements(event.data, opens_logprobs=not self.renderer.native)
            return self._render(self._events_of(self._reader.read(event)))
        except ValueError:
            data = event.data.removeprefix(b"data:").strip()
            if event.data.startswith(b"data:") and not data.startswith(b"data:"):  # some relays write this twice
                return RenderedStream._render_event(self, SSEEvent(data, event.name))
            if not is_idle(event):
                self._skip(event)
            # Zhipu may cut off the event before this one, with or without a line feed between them
            _, cut, last = event.data.replace(b'data: {"', b'\n{"').rpartition(b"\n{")
            whole = SSEEvent(b"{" + last, event.name) if cut and not self.failure else None
            return b"" if whole is None else RenderedStream._render_event(self, whole)

    def _events_of(self, parts: Iterable[AnswerPart]) -> Iterator[AnswerEvent]:
        for number, part in enumerate(parts):
            if number >= _MAX_EVENT_PARTS:
                self.failure = bad_response(self._channel, f"an event has more than {_MAX_EVENT_PARTS:,} parts")
                return
            events = self.state.add(part)
            self._note(part, events)
            yield from events

    def _render(self, events: Iterable[AnswerEvent]) -> bytes:
        """Returns what the client gets for events. Sets ``failure`` if the answer failed."""
        out = []
        for event in events:
            if self._reader.watches:
                self._reader.watch(event)
            if isinstance(event, Medium | Citation) and not self.renderer.shows(event):
                is_medium = isinstance(event, Medium)
                self._lost_medium = self._lost_medium or is_medium
                self.state.add_mark("medium_dropped" if is_medium else "citation_dropped")
                continue
            is_text = isinstance(event, Piece) and event.kind is BlockKind.TEXT
            self._has_content = self._has_content or is_text or isinstance(event, Medium | ToolCallBegan)
            out.append(self.renderer.take(event))
        if self.state.broken and self._reader.failure is None:
            self._reader.failure = failure_named(self._channel, self.state.broken)
        self.failure = self.failure or self._reader.failure
        return b"".join(out)

    def _skip(self, event: SSEEvent) -> None:
        """Leave out an unreadable event. The stream fails if it has not begun, if it was the second, or if strict."""
        self.state.invalid_events += 1
        if not self.state.began or self.state.invalid_events > 1 or self.state.order.strict_events:
            excerpt = tidy(event.data[:1000].decode("utf-8", "replace"), 120)
            self.failure = bad_response(self._channel, f"an event of the stream is not valid: {excerpt}")

    def _conclude(self, *, done: bool) -> bytes:
        """End the answer. Returns its last bytes, or sets ``failure`` unless every choice has ended."""
        self.failure = self.failure or self._reader.failure
        if self.failure:
            return b""
        open_choices = self.state.began and not self.state.complete
        default = self._reader.default_word if open_choices and not self.state.invalid_events else ""
        if not (self.state.complete or default):
            self.failure = _failure_without_end(self.state, self._channel)
            return b""
        out, fault = b"", self.state.fault
        if self._lost_medium and not self._has_content:
            fault = "it is an image or a sound, which this API has no place for"
        elif not fault:
            out = self._render(self.state.conclude(default))
            fault = self.renderer.fault
        if fault:
            self.failure = bad_response(self._channel, fault)
            return b""
        self.finished = True
        if not done:
            self.state.add_mark("no_done")
        return out


def _failure_without_end(state: AnswerState, channel: Channel) -> Failure:
    if state.invalid_events:
        return bad_response(channel, "an event of the stream is not valid, and the answer has no end")
    return truncation(channel, "it has no finish_reason" if state.began else "it has no choice")


def _split_text(part: AnswerPart) -> Iterator[AnswerPart]:
    """Yields a long text in pieces, so that never more than one is copied. A text with logprobs stays whole."""
    if (
        isinstance(part, Piece)
        and part.kind is not BlockKind.REFUSAL
        and len(part.piece) > PIECE + 2
        and not part.logprobs
    ):
        for piece in pieces(part.piece):
            yield msgspec.structs.replace(part, piece=piece)
    else:
        yield part


class RenderingAdapter:
    """A dialect whose answers are rendered. Implements ``adapter.Adapter``."""

    def __init__(
        self, dialect: DialectAdapter, renderer: Callable[[Order], Renderer], whole: Callable[[Order], Renderer]
    ) -> None:
        """``renderer`` makes the renderer of a stream, ``whole`` a plain answer's, which is all in its tail."""
        self._dialect = dialect
        self._renderer = renderer
        self._whole = whole
        self.prepare = dialect.prepare
        self.failure = dialect.failure

    def stream(self, order: Order, channel: Channel) -> RenderedStream:
        return RenderedStream(self._dialect.reader(order, channel), order, channel, self._renderer(order))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """See ``adapter.Adapter``. A whole answer is read like a stream that brings it at once."""
        stream = RenderedStream(self._dialect.reader(order, channel), order, channel, self._whole(order))
        events = stream_in(body)
        if events:
            stream.state.add_mark("assembled")
            stream.feed(events)
            stream.end()
        else:
            stream.read_whole(body)
        if stream.failure is not None:
            raise AttemptFailed(stream.failure)
        return WholeAnswer(body=b"", state=stream.state, render=stream.renderer.whole)
