"""Chat completions of channels that speak them: an answer goes to the client nearly as it came.

What an answer means is read and kept as for any other API, by the dialect's reader and ``AnswerState``; the client gets
the very chunks, with the edits they need. Cheapest checks first: whole reads by a template, then single events, then
events opened one level at a time. Most whole answers need no edit: one typed decode of their choices shows it.
"""

from collections.abc import Iterable, Iterator
from io import BytesIO

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerEvent,
    AnswerMark,
    AnswerPart,
    ArgumentsPiece,
    ReasoningPiece,
    RefusalPiece,
    TextPiece,
    ToolCallPart,
    UpstreamNamed,
    UsageSeen,
)
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed
from gateway.domain.json_text import refuse_many_elements
from gateway.domain.order import Order
from gateway.domain.sse import BLANK, SSEEvent, event_end, is_stream
from gateway.domain.usage import as_object
from gateway.inbound.chat.edits import COMPLETION, ChunkEditor, Doc, TakenCall, identity, mend_head, mend_message
from gateway.inbound.chat.whole import chunks_of, finish_of_regular, join_chunks
from gateway.inbound.rendering import RenderedStream
from gateway.upstream.adapter import OutputCounter, WholeAnswer, whole_of
from gateway.upstream.call_book import Arguments
from gateway.upstream.framing import FramedStream, WholeBody
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.openai.reader import ChatReader, upstream_id
from gateway.upstream.openai.template import Template, learn
from gateway.upstream.usage_report import UsageReports

LESSONS = 12
"""How many templates may fail before no more are learned."""
PATTERN_LIMIT = 256 << 10
"""The most bytes of a text from which a template may be learned."""
_SLICE = 1 << 20
"""Bytes of a streamed answer that are read at once when it is assembled."""

_FEW = 2
"""The fewest parts of an event with more than one."""
_BESIDE = (UpstreamNamed, UsageSeen, AnswerMark)
"""Parts without content for the client."""
_TEXTS = (TextPiece, ReasoningPiece, RefusalPiece, ArgumentsPiece)
_FIGURES = frozenset({"timings", "x_groq"})
"""Fields of chunks with usage."""


def _check_utf8(data: bytes) -> None:
    """Raises ValueError for what must not be decoded. What passes undecoded must be UTF-8 too."""
    refuse_many_elements(data, opens_logprobs=False)
    if not data.isascii():
        data.decode()


class NativeChatStream(RenderedStream):
    """One streamed answer. Implements ``adapter.AnswerStream``."""

    _check = staticmethod(_check_utf8)
    feed = FramedStream.feed  # the editor keeps nothing for the end

    def __init__(self, reader: ChatReader, order: Order, channel: Channel) -> None:
        self._editor = ChunkEditor(order)
        super().__init__(reader, order, channel, self._editor)
        self._editor.state = self._state
        self._chat = reader
        self._calls: list[TakenCall] = []
        """What the tool calls of the last event were read as."""
        self._said: set[int] = set()
        """The choices with content in it."""
        self._happened: list[list[AnswerEvent]] = []
        """What its first parts were read as."""
        self._template: Template | None = None
        self._lessons = LESSONS
        self._pattern = b""
        """The only text of the last event, if it had nothing else: later events may be the same around it."""
        self._arguments: Arguments | None = None
        """The arguments that the template's texts continue; None: they are of another kind."""

    def read_answer(self, body: bytes) -> Doc:
        """Returns an edited whole answer; empty if it is invalid, and ``failure`` is set."""
        self.read_whole(body, split=True)
        if self.failure:
            return {}
        answer, calls = self._chat.opened, iter(self._calls)
        for choice in self._chat.choices:
            mend_message(choice, calls, self._state.reason(choice.index), self._order)
        answer["choices"] = [choice.fields for choice in self._chat.choices]
        self._forget()
        head = identity(answer, self.upstream_id, self._order, COMPLETION)
        mend_head(answer, self._state.reports, self.reported, head, self._order)
        return answer

    def _read_body(self, body: WholeBody) -> bytes:
        """Returns the body as events, built in one place, without a further copy."""
        out, answer = BytesIO(), self.read_answer(body.take())
        self.held = body.size
        for chunk in chunks_of(answer) if answer else ():
            out.write(self._editor.event(chunk))
        return out.getvalue()

    def _read_events(self, block: bytes) -> bytes:
        """Reads the events; the last one may lack its blank line."""
        out = []
        start, bulk = 0, True
        while start < len(block):
            template = self._template
            run = None if template is None else template.run(block, start, several=bulk)
            if run is not None:
                self.events += len(run.texts)
                self.tally.add(run.said)
                if self._arguments is not None:
                    self._arguments.add(run.said)
                self._lessons = LESSONS
                if run.size == len(block):
                    return run.out
                out.append(run.out)
                start += run.size
                continue
            if template is not None and bulk:
                bulk = False  # templates that failed are not tried again and again
                continue
            end = block.find(BLANK, start)
            end = len(block) if end < 0 else end
            if end > start:
                out.append(self._open_event(block[start:end]))
                if self.failure or self.finished:
                    break
                bulk = bulk or self._template is not template
            start = end + len(BLANK)
        return b"".join(out)

    def _open_event(self, part: bytes) -> bytes:
        """Returns what the client gets for one event, from which a template may be learned."""
        self._editor.turned = False
        out = self._read_event(part)
        if self._editor.turned:
            self._template = None
        if self._pattern:
            self._lessons -= 1
            self._template = learn(part, out.removesuffix(BLANK), self._pattern)
            self._pattern = b""  # it may be as large as the event, and the client may be slow
        return out

    def _parts(self, parts: Iterable[AnswerPart]) -> Iterator[AnswerEvent]:
        for part in parts:
            events = self._state.take(part)
            if isinstance(part, ToolCallPart):
                self._calls.append(TakenCall(self._state.last_call(part.choice), events, bool(part.name)))
            if not isinstance(part, _BESIDE):
                if len(self._happened) < _FEW:
                    self._happened.append(events)
                if events:
                    self._said.add(part.choice)
            yield from events

    def _pass(self, event: SSEEvent, parts: Iterable[AnswerPart] | None) -> bytes:
        """See ``RenderedStream``: the chunk, edited."""
        super()._pass(event, parts)
        chunk = self._edit() if self._chat.choices and not self.failure else None
        self._forget()  # of a large chunk no more copies are kept than needed
        return b"" if chunk is None else self._editor.event(chunk)

    def _skip(self, event: SSEEvent) -> None:
        super()._skip(event)
        self._forget()

    def _conclude(self, *, done: bool) -> bytes:
        """See ``RenderedStream``. If every choice has ended, the client knows all."""
        if not (self._state.complete and done) or self._chat.watches:
            return super()._conclude(done=done)
        self.finished = not self.failure
        return b""

    def _edit(self) -> Doc | None:
        """Returns the chunk for the client; None if it has nothing new."""
        chunk, choices, calls = self._chat.opened, self._chat.choices, iter(self._calls)
        kept = [
            choice.fields for choice in choices if self._editor.edit(choice, calls, said=choice.index in self._said)
        ]
        if not kept:
            return None
        quiet = rawjson.is_null(chunk.pop("usage", None)) and len(choices) == 1 and _FIGURES.isdisjoint(chunk)
        if quiet and self._lessons and not self._editor.turned:
            self._pattern = self._find_pattern()
        chunk["choices"] = kept
        return chunk

    def _find_pattern(self) -> bytes:
        """Finds the only text of the event, if it has nothing else and more of its kind can follow."""
        if [len(events) for events in self._happened] != [1]:
            return b""
        event = self._happened[0][0]
        if not isinstance(event, _TEXTS):
            return b""
        if self._state.reason(event.choice) or len(event.piece) > PATTERN_LIMIT:
            return b""
        if self._chat.watches and not isinstance(event, TextPiece):
            return b""
        if any(taken.named or taken.call is None for taken in self._calls):
            return b""  # the same name once more could be another call
        self._arguments = next((taken.call.arguments for taken in self._calls if taken.call is not None), None)
        return event.piece

    def _forget(self) -> None:
        self._chat.forget()
        self._calls.clear()
        self._happened.clear()
        self._said.clear()


class NativeChat:
    """How a channel that speaks chat completions is called. Implements ``adapter.Adapter``."""

    def __init__(self, dialect: OpenAIDialect) -> None:
        self._dialect = dialect
        self.prepare = dialect.prepare
        self.recalled = dialect.recalled
        self.failure = dialect.failure

    def stream(self, order: Order, channel: Channel) -> NativeChatStream:
        """See ``adapter.Adapter``."""
        return NativeChatStream(self._dialect.reader(order, channel), order, channel)

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """See ``adapter.Adapter``."""
        if not body.startswith(b"{") and is_stream(body):
            return _assemble(body, self.stream(order, channel))
        if (regular := _regular(body, order)) is not None:
            return regular
        stream = self.stream(order, channel)
        answer = stream.read_answer(body)
        if stream.failure:
            raise AttemptFailed(stream.failure)
        return whole_of(stream, rawjson.encode(answer))


def _regular(body: bytes, order: Order) -> WholeAnswer | None:
    """Returns the answer if its choices need no edit; else None. Blank lines before it are legal: DeepSeek
    sends them.
    """
    body = body.strip().removeprefix(b"\xef\xbb\xbf")
    tally = OutputCounter()
    try:
        _check_utf8(body)
        answer = rawjson.fields(body)
    except ValueError:
        return None
    finish = finish_of_regular(answer.get("choices", rawjson.NULL), tally, order.screen)
    if not finish:
        return None
    before, reports = dict(answer), UsageReports(order.fields)
    reports.see(answer)
    reported, name = reports.usage(tally), upstream_id(answer, order.screen)
    mend_head(answer, reports, reported, identity(answer, name, order, COMPLETION), order)
    return WholeAnswer(
        body=body if answer == before else rawjson.encode(answer),
        reported=reported,
        finish=finish,
        upstream_id=name,
        tally=tally,
        marks=reports.marks,
    )


def _assemble(body: bytes, stream: NativeChatStream) -> WholeAnswer:
    """Returns the answer in the events. Raises AttemptFailed if they have none, or an unfinished one."""
    answer = join_chunks(_slices(body, stream))
    if stream.failure:
        raise AttemptFailed(stream.failure)
    if stream.reported is not None:
        answer["usage"] = as_object(stream.reported)
    return whole_of(stream, rawjson.encode(answer), "assembled")


def _slices(body: bytes, stream: NativeChatStream) -> Iterator[bytes]:
    """Yields what the client of a stream would get: all events of a slice, or one that is larger."""
    start = 0
    while start < len(body):
        end = body.rfind(BLANK, start, start + _SLICE)
        end = end + len(BLANK) if end >= 0 else event_end(body, start, returns=False)
        yield stream.feed(body[start:end])
        start = end
    yield stream.end()
