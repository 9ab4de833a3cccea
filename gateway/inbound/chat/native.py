"""Chat completions of channels that speak them: answers pass nearly unchanged.

Answers are read as for any other API, by the dialect's reader and ``AnswerState``, but the client gets the upstream's
own chunks, with the edits they need. The cheapest way is tried first: events that match a template, then events that
are opened one level at a time. Most whole answers need no edit, which one typed decode of their choices shows.
"""

from copy import copy
from io import BytesIO
from typing import Literal

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerEvent, AnswerPart, BlockKind, Piece, ToolCallPart
from gateway.domain.channel import Channel
from gateway.domain.estimate import OutputCounter
from gateway.domain.failure import AttemptFailed
from gateway.domain.json_text import as_utf8, refuse_many_elements
from gateway.domain.order import Order
from gateway.domain.rawjson import JsonObject
from gateway.domain.sse import BOM, SSEEvent, stream_in
from gateway.inbound.chat.edits import ChunkEditor, edit_head
from gateway.inbound.chat.render import WholeChatRenderer, identity
from gateway.inbound.event_stream import CONTENTLESS, Run
from gateway.inbound.rendering import RenderedStream, RenderingAdapter, WholeRenderer
from gateway.upstream.adapter import AnswerStream, WholeAnswer, WholeFacts
from gateway.upstream.answer_errors import reports_error
from gateway.upstream.answer_state import harmless_id
from gateway.upstream.finish_words import meaning_of
from gateway.upstream.openai.completions import CompletionsDialect
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.openai.reader import ChatReader, may_report_error
from gateway.upstream.tool_call_tracker import Arguments, TrackedCall
from gateway.upstream.usage_report import UsageReports


class NativeChatStream(RenderedStream):
    """One streamed answer."""

    feed = AnswerStream.feed  # the editor keeps nothing for the end

    def __init__(self, reader: ChatReader, order: Order, channel: Channel, editor: ChunkEditor) -> None:
        super().__init__(reader, order, channel, editor)
        self._editor = editor
        self._editor.state = self.state
        self._chat = reader
        self._calls: list[TrackedCall | None] = []
        """A copy of each tool call in the last event, as it was when that was read; None if it has no name yet."""
        self._filled_choices: set[int] = set()
        self._arguments: Arguments | None = None
        """The arguments that the template's texts continue; None if the texts are of another kind."""

    def read_answer(self, body: bytes) -> WholeAnswer | None:
        """Returns the whole answer with its edits, in the upstream's bytes if it needs none; None if its choices are
        parts of one. Raises AttemptFailed.
        """
        edited = self._read_choices(body)
        if self.failure:
            raise AttemptFailed(self.failure)
        if len(edited) > 1 and self.state.order.wants_one_choice:
            return None
        answer, sent = self._chat.chunk, rawjson.maybe_fields(body)
        if edited != rawjson.maybe_objects(sent.get("choices")):
            answer["choices"] = edited
        self._forget()
        head = identity(answer, self.state.upstream_id, self.state.order, self._editor.whole_object)
        edit_head(answer, self.state.reports, self.state.reported, head, self.state.order)
        return WholeAnswer(body=body if answer == sent else rawjson.encode(answer), state=self.state)

    def _read_body(self, body: bytes) -> bytes:
        """See ``AnswerStream``. Everything in the answer is in the chunks that are made of it."""
        choices = self._read_choices(body)
        fields = {name: raw for name, raw in self._chat.chunk.items() if name not in ("choices", "usage")}
        self._forget()
        out = BytesIO()  # it grows in one place, so nothing is copied again
        for choice in () if self.failure else self._editor.split_choices(choices):
            out.write(self._editor.write_event({**fields, "choices": [choice]}))
            fields = {}
        return out.getvalue()

    def _read_choices(self, body: bytes) -> list[JsonObject]:
        """Reads a whole answer. Returns its choices with their edits, or sets ``failure``."""
        self.read_whole(body, split=True)
        calls, choices = iter(self._calls), [] if self.failure else self._chat.choices
        for choice in choices:
            self._editor.edit_whole(choice, calls)
        return [choice.fields for choice in choices]

    def _take_run(self, run: Run) -> bytes | None:
        """See ``EventStream``. Returns the events, edited as the first one was."""
        if self._arguments is not None:
            if any(text.startswith(b"{") for text in run.texts):  # they may repeat what came before
                return None
            self._arguments.add(run.whole_text)
        return run.out

    def _open_event(self, part: bytes) -> bytes:
        self._editor.changed = False
        return super()._open_event(part)

    def _may_repeat(self, part: AnswerPart, event: Piece) -> bool:
        is_call = event.kind is BlockKind.TOOL_CALL
        self._arguments = self.state.tracker(event.choice).calls[event.number].arguments if is_call else None
        if self._editor.changed or (self._chat.watches and event.kind is not BlockKind.TEXT):
            return False
        return not (isinstance(part, ToolCallPart) and part.name)  # the same name once more could be another call

    def _note(self, part: AnswerPart, events: list[AnswerEvent]) -> None:
        """See ``RenderedStream``. Notes what ``_edit`` has to know too."""
        super()._note(part, events)
        if isinstance(part, ToolCallPart):
            self._calls.append(copy(self.state.tracker(part.choice).last))
        if events and not isinstance(part, CONTENTLESS):
            self._filled_choices.add(part.choice)

    def _render_event(self, event: SSEEvent) -> bytes:
        """See ``RenderedStream``. Returns the upstream's own chunk, edited."""
        super()._render_event(event)
        has_usage = not rawjson.is_null(self._chat.chunk.get("usage"))
        chunks = self._edit() if self._chat.choices and not self.failure else []
        if has_usage and not chunks:
            self._editor.keep_last(self._chat.chunk)
        self._forget()  # a large chunk is not kept in more copies than needed
        return b"".join(map(self._editor.write_event, chunks))

    def _skip(self, event: SSEEvent) -> None:
        super()._skip(event)
        self._forget()

    def _edit(self) -> list[JsonObject]:
        """Returns the chunk for the client, if it has something new. Choices that became one are in chunks of their
        own, because clients expect each choice once in a chunk.
        """
        chunk, choices, calls = self._chat.chunk, self._chat.choices, iter(self._calls)
        edited = [
            choice.fields
            for choice in choices
            if self._editor.edit(choice, calls, has_content=choice.index in self._filled_choices)
        ]
        chunk.pop("usage", None)
        if len(edited) > 1 and self.state.order.wants_one_choice:
            return [{**chunk, "choices": [each]} for each in edited]
        chunk["choices"] = edited
        return [chunk] if edited else []

    def _forget(self) -> None:
        self._chat.forget()
        self._calls.clear()
        self._filled_choices.clear()


class NativeChat(RenderingAdapter):
    """Calls a channel that speaks chat completions. An answer in the other form than requested is rendered."""

    def __init__(
        self,
        dialect: OpenAIDialect | CompletionsDialect,
        editor: type[ChunkEditor] = ChunkEditor,
        whole: type[WholeRenderer] = WholeChatRenderer,
    ) -> None:
        super().__init__(dialect, editor, whole)
        self._reader = dialect.reader
        self._editor = editor

    def stream(self, order: Order, channel: Channel) -> NativeChatStream:
        return NativeChatStream(self._reader(order, channel), order, channel, self._editor(order))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        answer = _read_regular(_json_in(body), order) if self._editor is ChunkEditor else None
        if answer is None and not stream_in(body):
            answer = self.stream(order, channel).read_answer(_json_in(body))  # not kept: it may be a copy of 60 MB
        return answer or super().whole(body, order, channel)


def _json_in(body: bytes) -> bytes:
    """Returns the JSON text in a body, which may begin with blank lines, as DeepSeek's do."""
    return as_utf8(body.strip().removeprefix(BOM))


def _read_regular(body: bytes, order: Order) -> WholeAnswer | None:
    """Returns the answer if its choices need no edit; else None."""
    tally = OutputCounter()
    try:
        refuse_many_elements(body, opens_logprobs=False)
        answer = rawjson.fields(body)
    except ValueError:
        return None
    finish = _read_choices(answer.get("choices", rawjson.NULL), tally, order)
    if not finish or (may_report_error(answer, body) and reports_error(answer)):
        return None
    original, reports = dict(answer), UsageReports(order.fields)
    reports.add(answer)
    reported = reports.usage(tally)
    name = harmless_id(rawjson.text_at(answer.get("id")), order.screen)
    edit_head(answer, reports, reported, identity(answer, name, order, ChunkEditor.whole_object), order)
    facts = WholeFacts(reported=reported, finish=finish, upstream_id=name, tally=tally, marks=reports.marks)
    return WholeAnswer(body=body if answer == original else rawjson.encode(answer), state=facts)


class _RegularMessage(msgspec.Struct, gc=False):
    """A message that need not be edited. A field that can only be unset fails if it is there."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | msgspec.UnsetType | None = msgspec.UNSET
    reasoning_details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    reasoning_text: msgspec.UnsetType = msgspec.UNSET
    reasoning_steps: msgspec.UnsetType = msgspec.UNSET
    thinking: msgspec.UnsetType = msgspec.UNSET
    extra_content: msgspec.UnsetType = msgspec.UNSET
    tool_calls: msgspec.UnsetType = msgspec.UNSET
    function_call: msgspec.UnsetType = msgspec.UNSET


class _RegularChoice(msgspec.Struct, gc=False):
    index: int
    message: _RegularMessage
    finish_reason: Literal["stop", "length", "content_filter"]
    native_finish_reason: str | None = None
    logprobs: msgspec.Raw = rawjson.NULL


_CHOICES = msgspec.json.Decoder(list[_RegularChoice])


def _read_choices(choices: msgspec.Raw, tally: OutputCounter, order: Order) -> str:
    """Add the texts of regular choices to the tally. Returns the first finish reason; nothing for irregular choices."""
    try:
        regular = _CHOICES.decode(choices)
        has_secret = any(map(order.screen.clean, rawjson.objects(choices)))
    except (ValueError, RecursionError):
        return ""
    if has_secret or (len(regular) > 1 and order.wants_one_choice):
        return ""
    if not all(_is_regular(choice, position) for position, choice in enumerate(regular)):
        return ""
    for choice in regular:
        message = choice.message
        for text in (message.content, message.reasoning_content, message.reasoning, message.refusal):
            if text:
                tally.add(text)
    return regular[0].finish_reason if regular else ""


def _is_regular(choice: _RegularChoice, position: int) -> bool:
    """Returns whether a choice has nothing that would have to be edited."""
    message = choice.message
    has_reasoning_twice = message.reasoning_content is not None and message.reasoning is not msgspec.UNSET
    has_only_details = message.reasoning_details is not msgspec.UNSET and not message.reasoning
    is_broken = meaning_of(choice.native_finish_reason or "") == "broken"
    return choice.index == position and not (has_reasoning_twice or has_only_details or is_broken)
