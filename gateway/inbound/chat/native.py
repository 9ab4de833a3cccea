"""Chat completions of channels that speak them: an answer goes to the client nearly as it came.

What an answer means is read and kept as for any other API, by the dialect's reader and ``AnswerState``; the client gets
the very chunks, with the edits they need. Cheapest checks first: whole reads by a template, then single events, then
events opened one level at a time. Most whole answers need no edit: one typed decode of their choices shows it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

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
from gateway.domain.screen import Screen
from gateway.domain.sse import BLANK, SSEEvent, stream_in
from gateway.inbound.chat.edits import COMPLETION, ChunkEditor, Doc, TakenCall, identity, mend_head, mend_message
from gateway.inbound.chat.render import ChatRenderer, WholeChatRenderer
from gateway.inbound.rendering import RenderedStream, RenderingAdapter, take_late_usage
from gateway.upstream.adapter import OutputCounter, WholeAnswer, whole_answer
from gateway.upstream.finish_words import REASONS
from gateway.upstream.framing import FramedStream
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.openai.reader import ChatReader, upstream_id
from gateway.upstream.openai.template import Template, learn
from gateway.upstream.tool_call_tracker import Arguments
from gateway.upstream.usage_report import UsageReports

LESSONS = 12
"""How many templates may fail before no more are learned."""
PATTERN_LIMIT = 256 << 10
"""The most bytes of a text from which a template may be learned."""
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
        answer, calls = self._chat.chunk, iter(self._calls)
        for choice in self._chat.choices:
            mend_message(choice, calls, self._state.reason(choice.index), self._order)
        answer["choices"] = [choice.fields for choice in self._chat.choices]
        self._forget()
        head = identity(answer, self.upstream_id, self._order, COMPLETION)
        mend_head(answer, self._state.reports, self.reported, head, self._order)
        return answer

    def _read_body(self, body: bytes) -> bytes:
        """See ``RenderedStream``: the chunks of a whole answer are rendered, as for other dialects."""
        self.renderer = ChatRenderer(self._order)
        out = super()._read_body(body)
        self._forget()
        return out

    def _read_events(self, block: bytes) -> bytes:
        """Reads the events; the last one may lack its blank line."""
        out = []
        start, bulk = 0, True
        while start < len(block):
            template = self._template
            run = None if template is None else template.run(block, start, several=bulk)
            if run is not None:
                if self._arguments is not None:
                    if any(text.startswith(b"{") for text in run.texts):  # they may contain what came before
                        self._template = None
                        continue
                    self._arguments.add(run.whole_text)
                self.events += len(run.texts)
                self.tally.add(run.whole_text)
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
                    if end + len(BLANK) < len(block):
                        take_late_usage(block[end:], self._reader, self._state)
                    break
                bulk = bulk or self._template is not template
            start = end + len(BLANK)
        return b"".join(out)

    def _open_event(self, part: bytes) -> bytes:
        """Returns what the client gets for one event, from which a template may be learned."""
        self._editor.changed = False
        out = self._read_event(part)
        if self._editor.changed:
            self._template = None
        if self._pattern:
            self._lessons -= 1
            self._template = learn(part, out.removesuffix(BLANK), self._pattern)
            self._pattern = b""  # it may be as large as the event, and the client may be slow
        return out

    def _parts(self, parts: Iterable[AnswerPart]) -> Iterator[AnswerEvent]:
        for part in parts:
            events = self._state.add(part)
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
        edits = self.renderer is self._editor
        if not (edits and self._state.complete and done) or self._chat.watches:
            return super()._conclude(done=done)
        self.finished = not self.failure
        return b""

    def _edit(self) -> Doc | None:
        """Returns the chunk for the client; None if it has nothing new."""
        chunk, choices, calls = self._chat.chunk, self._chat.choices, iter(self._calls)
        kept = [
            choice.fields for choice in choices if self._editor.edit(choice, calls, said=choice.index in self._said)
        ]
        if not kept:
            return None
        quiet = rawjson.is_null(chunk.pop("usage", None)) and len(choices) == 1 and _FIGURES.isdisjoint(chunk)
        if quiet and self._lessons and not self._editor.changed:
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


class NativeChat(RenderingAdapter):
    """How a channel that speaks chat completions is called. Implements ``adapter.Adapter``.

    An answer in the other form than requested is rendered, as for other dialects.
    """

    def __init__(self, dialect: OpenAIDialect) -> None:
        super().__init__(dialect, ChatRenderer, WholeChatRenderer)
        self._dialect: OpenAIDialect = dialect

    def stream(self, order: Order, channel: Channel) -> NativeChatStream:
        return NativeChatStream(self._dialect.reader(order, channel), order, channel)

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        if (regular := _regular(body, order)) is not None:
            return regular
        if stream_in(body):
            return super().whole(body, order, channel)
        stream = self.stream(order, channel)
        answer = stream.read_answer(body)
        if stream.failure:
            raise AttemptFailed(stream.failure)
        return whole_answer(stream, rawjson.encode(answer))


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
    finish = _finish_of(answer.get("choices", rawjson.NULL), tally, order.screen)
    if not finish:
        return None
    before, reports = dict(answer), UsageReports(order.fields)
    reports.add(answer)
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


class _RegularMessage(msgspec.Struct, gc=False):
    role: str
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | msgspec.UnsetType | None = msgspec.UNSET
    reasoning_details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    reasoning_text: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    thinking: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    tool_calls: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    function_call: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _RegularChoice(msgspec.Struct, gc=False):
    index: int
    message: _RegularMessage
    finish_reason: str
    logprobs: msgspec.Raw = rawjson.NULL


class _BareRegularChoice(_RegularChoice, gc=False, forbid_unknown_fields=True):
    """A choice with nothing that has to be screened."""


_Found = TypeVar("_Found")

_CHOICES = msgspec.json.Decoder(list[_RegularChoice])
_BARE_CHOICES = msgspec.json.Decoder(list[_BareRegularChoice])


def _finish_of(choices: msgspec.Raw, tally: OutputCounter, screen: Screen) -> str:
    """Returns the finish reason of the first choice, and counts the texts in the tally; empty if a choice is not
    regular.
    """
    regular: Sequence[_RegularChoice] | None = _decode(_BARE_CHOICES, choices)
    if regular is None:
        regular = _decode(_CHOICES, choices)
        if regular is None or any(map(screen.clean, rawjson.objects(choices))):
            return ""
    for position, choice in enumerate(regular):
        if not _is_regular(choice, position):
            return ""
    for choice in regular:
        message = choice.message
        for text in (message.content, message.reasoning_content, message.reasoning, message.refusal):
            if text:
                tally.add(text)
    return regular[0].finish_reason if regular else ""


def _decode(decoder: "msgspec.json.Decoder[_Found]", data: msgspec.Raw) -> _Found | None:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _is_regular(choice: _RegularChoice, position: int) -> bool:
    message = choice.message
    return (
        choice.index == position
        and message.role == "assistant"
        and choice.finish_reason in REASONS
        and message.tool_calls is msgspec.UNSET
        and message.function_call is message.reasoning_text is message.thinking is msgspec.UNSET
        and (message.reasoning_content is None or message.reasoning is msgspec.UNSET)  # not the same text twice
        and (message.reasoning_details is msgspec.UNSET or bool(message.reasoning))
    )
