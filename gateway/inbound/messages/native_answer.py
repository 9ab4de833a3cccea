"""Native answers of Messages: what the gateway reads of them aside, while their bytes pass as they are.

It reads usage (running totals: later numbers replace earlier ones), counts the output, sees how the answer ends, and
replaces the model's name. An answer that came in the other form than the one that was requested is turned into it.
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel
from gateway.domain.rawjson import Fields
from gateway.domain.usage import Usage
from gateway.inbound.messages.render import write_event
from gateway.upstream.adapter import AttemptFailed, Failure, Order, OutputCounter, WholeAnswer
from gateway.upstream.answer_errors import failure_in
from gateway.upstream.answer_reader import no_answer
from gateway.upstream.finish_words import finish_reason, unknown_word
from gateway.upstream.framing import SMALL_NUMBER, PieceDecoder, SSEEvent
from gateway.upstream.redaction.answers import Screen
from gateway.upstream.usage_report import UsageReports


class _Delta(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    usage: msgspec.Raw | None = None


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    name: str | None = None
    text: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    usage: msgspec.Raw | None = None


def _count_block(tally: OutputCounter, block: _Block) -> None:
    """Count what the start of a block brings."""
    if block.type.endswith("tool_use"):
        tally.tool()
        tally.add(block.name or "")
    elif block.text:
        tally.add(block.text)


_CONTENT = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
    "signature_delta": "signature",
    "citations_delta": "citation",
}
"""The content of each kind of delta, which is never searched for secrets. It is all the output that they bring."""

_EVENT = msgspec.json.Decoder(_Event)


class _TextPiece(msgspec.Struct, frozen=True, tag_field="type", tag="text_delta", forbid_unknown_fields=True, gc=False):
    piece: str = msgspec.field(name="text")


class _ThoughtPiece(_TextPiece, frozen=True, tag="thinking_delta", forbid_unknown_fields=True, gc=False):
    piece: str = msgspec.field(name="thinking")


class _ArgumentsPiece(_TextPiece, frozen=True, tag="input_json_delta", forbid_unknown_fields=True, gc=False):
    piece: str = msgspec.field(name="partial_json")


class _PieceEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An event that brings nothing but more text, as the vendor writes it."""

    type: Literal["content_block_delta"]
    index: SMALL_NUMBER
    delta: _TextPiece | _ThoughtPiece | _ArgumentsPiece


_PIECES = PieceDecoder(("content_block_delta",), _PieceEvent)


class MessagesReader:
    """Implements ``relay.NativeReader``."""

    def __init__(self, order: Order, channel: Channel, model: str) -> None:
        """``model``: the public name, if the answer has another; else empty."""
        self._order = order
        self._channel = channel
        self._model = model
        self._reports = UsageReports(order.fields)
        self._open: int | None = None
        """Index of the block that is open."""
        self._mended = False
        """A whole answer is not passed on as it came."""
        self.noted: tuple[str, ...] = ()
        """Marks that do not come from the report."""
        self.tally = OutputCounter()
        self.complete = False
        self.failure: Failure | None = None
        self.finish = ""
        self.ended = False
        self.upstream_id = ""

    @property
    def reported(self) -> Usage | None:
        """See ``adapter.AnswerStream``. Before the end only the input is known: the output is still a first number."""
        return self._reports.usage(self.tally)

    @property
    def marks(self) -> tuple[str, ...]:
        """See ``adapter.AnswerStream``."""
        return self.noted + self._reports.marks

    def take_pieces(self, events: bytes, start: int) -> tuple[int, int]:
        """See ``relay.NativeReader``."""
        pieces, end = _PIECES.read(events, start)
        if pieces:
            self.tally.add("".join([event.delta.piece for event in pieces]))
        return len(pieces), end

    def take(self, event: SSEEvent) -> bytes | None:
        """See ``relay.NativeReader``."""
        data = event.data
        try:
            found = _EVENT.decode(data)
        except (msgspec.DecodeError, RecursionError):  # a lone surrogate, or a field of another type
            found = _lenient(rawjson.value(data))
        match found.type:
            case "content_block_delta":
                delta = found.delta or _Delta()
                self.tally.add(_output_of(delta, data))
                return _cleaned_delta(event, _CONTENT.get(delta.type or "", ""), self._order.screen)
            case "message_start":
                return self._start(data)
            case "content_block_start":
                self._open = found.index
                _count_block(self.tally, found.content_block or _Block())
            case "content_block_stop":
                self._open = None
            case "message_delta":
                self._end(found)
            case "message_stop":
                self._end(found)
                self.complete = True
            case _ if (failure := failure_in(self._channel, rawjson.fields(data), event=event.name)) is not None:
                self.failure = failure
                return None
        return _clean(event, self._order.screen)

    def _start(self, data: bytes) -> bytes | None:
        fields = rawjson.fields(data)
        message = rawjson.fields(fields.get("message", rawjson.NULL))
        self._see(message, final=False)
        edited = self._renamed(message)
        if not self._order.screen.clean(fields) and edited is None:
            return None
        return write_event(b"message_start", rawjson.encode({**fields, "message": edited or message}))

    def _see(self, message: Fields, *, final: bool) -> None:
        """The id and the usage of a message."""
        found = rawjson.maybe(message.get("id"))
        if isinstance(found, str) and not self._order.screen.shows(found):
            self.upstream_id = found
        self._reports.see(message, final=final)

    def _renamed(self, message: Fields) -> Fields | None:
        """The message with the public name, and without secrets around its content; None if it stays as it came."""
        around = {name: value for name, value in message.items() if name != "content"}
        cleaned = self._order.screen.clean(around) | _clean_inside(around, "usage", self._order.screen)
        if "id" in message and not self.upstream_id:
            around["id"], cleaned = rawjson.raw(self._order.answer_id), True
        if not (self._model or cleaned):
            return None
        edited = {
            name: around.get(name, value) for name, value in message.items() if name in around or name == "content"
        }
        if self._model:
            edited["model"] = rawjson.raw(self._model)
        return edited

    def _end(self, event: _Event) -> None:
        for usage in (event.delta.usage if event.delta else None, event.usage):
            if usage is not None and not rawjson.is_null(usage):
                self._reports.see({"usage": usage})
        if event.delta is not None and event.delta.stop_reason:
            self._stop(event.delta.stop_reason)

    def _stop(self, word: str) -> None:
        self.finish, self.ended = finish_reason(word, tools=word == "tool_use"), True
        self.noted = tuple(dict.fromkeys((*self.noted, *unknown_word(word))))

    def read_whole(self, body: bytes) -> WholeAnswer:
        """A whole answer. Raises AttemptFailed."""
        message = self._message(body)
        edited = self._renamed(message)
        if self.reported is None or not self.reported.output:
            for text in _texts(rawjson.maybe(message.get("content"))):
                self.tally.add(text)
        return NativeWhole(
            body=rawjson.encode(edited or message) if edited or self._mended else body,
            reported=self.reported,
            finish=self.finish,
            upstream_id=self.upstream_id,
            tally=self.tally,
            marks=self.marks,
        )

    def _message(self, body: bytes) -> Fields:
        """The fields of a whole answer, read. Raises AttemptFailed if it is none."""
        try:
            message = rawjson.fields(body.strip().removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            raise no_answer(body, self._channel) from error
        mark = bytes(memoryview(message.get("content", rawjson.NULL))[:1])
        if mark == b'"':  # a text without its block
            self._mended = True
            message["content"] = rawjson.raw([{"type": "text", "text": message["content"]}])
            mark = b"["
        if mark != b"[":
            failure = failure_in(self._channel, message)
            raise no_answer(body, self._channel) if failure is None else AttemptFailed(failure)
        self._see(message, final=True)
        word = rawjson.maybe(message.get("stop_reason"))
        self._stop(word if isinstance(word, str) else "")
        return message

    def replay(self, body: bytes) -> bytes:
        """See ``relay.NativeReader``."""
        message = self._message(body)
        message = self._renamed(message) or message
        try:
            blocks = rawjson.objects(message["content"])
        except ValueError as error:
            raise no_answer(body, self._channel) from error
        start: dict[str, object] = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
        out = [write_event(b"message_start", rawjson.encode({"type": "message_start", "message": start}))]
        for index, block in enumerate(blocks):
            out += _replay(index, block)
        end = {name: message.get(name, rawjson.NULL) for name in ("stop_reason", "stop_sequence")}
        last = {"type": "message_delta", "delta": end, "usage": message.get("usage", rawjson.raw({"output_tokens": 0}))}
        self.complete = True
        return b"".join([*out, write_event(b"message_delta", rawjson.encode(last))])

    def cut_short(self) -> bytes:
        """See ``relay.NativeReader``."""
        out = b""
        if self._open is not None:
            stop = {"type": "content_block_stop", "index": self._open}
            out = write_event(b"content_block_stop", rawjson.encode(stop))
        if self.finish:
            return out
        delta = {"stop_reason": "max_tokens", "stop_sequence": None}
        last = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": self.tally.tokens()}}
        return out + write_event(b"message_delta", rawjson.encode(last))

    def closing(self, usage: Usage, *, estimated: bool) -> bytes:
        """See ``relay.NativeReader``."""
        return write_event(b"message_stop", b'{"type":"message_stop"}')


def _output_of(delta: _Delta, data: bytes) -> str:
    """A piece of the output. Of a kind that is not known here all of the event counts."""
    text = delta.text or delta.thinking or delta.partial_json or ""
    return text if text or delta.type in _CONTENT else data.decode("utf-8", "replace")


def _clean(event: SSEEvent, screen: Screen) -> bytes | None:
    """An event around the content without the secrets in it; None if it has none."""
    if not screen.hides(msgspec.Raw(event.data)):
        return None
    fields = rawjson.fields(event.data)
    for name in ("content_block", "delta", "usage"):
        _clean_inside(fields, name, screen)
    screen.clean(fields)
    return write_event(event.name or b"message", rawjson.encode(fields))


def _cleaned_delta(event: SSEEvent, content: str, screen: Screen) -> bytes | None:
    """A piece without the secrets around its content; of a kind that is not known nothing is content."""
    if not screen.hides(msgspec.Raw(event.data)):
        return None
    fields = rawjson.fields(event.data)
    delta = rawjson.fields(fields.get("delta", msgspec.Raw(b"{}")))
    fields = {**screen.cleaned(fields, {"delta", "type"}), "delta": rawjson.raw(screen.cleaned(delta, {content}))}
    return write_event(event.name or b"message", rawjson.encode(fields))


def _clean_inside(fields: Fields, name: str, screen: Screen) -> bool:
    """Blank the secrets in the object of a field; whether there were any."""
    try:
        inner = rawjson.fields(fields.get(name, rawjson.NULL))
    except ValueError:
        return False
    cleaned = screen.clean(inner)
    if cleaned:
        fields[name] = rawjson.raw(inner)
    return cleaned


class NativeWhole(WholeAnswer, frozen=True, kw_only=True, gc=False):
    """A whole answer that passes as it is, with or without usage."""

    def parts(self, usage: Usage) -> tuple[bytes, ...]:
        """See ``WholeAnswer``."""
        return (self.body,)


def _lenient(found: object) -> _Event:
    """An event of which some field is not what it should be. Raises ValueError if it is not an object."""
    if not isinstance(found, dict):
        raise ValueError("not an event")  # noqa: TRY004 - one kind of error for what makes no sense
    delta, block = found.get("delta"), found.get("content_block")
    texts = {
        name: delta[name] for name in _Delta.__struct_fields__ if isinstance(delta, dict) and _is_text(delta, name)
    }
    inner = {
        name: block[name] for name in _Block.__struct_fields__ if isinstance(block, dict) and _is_text(block, name)
    }
    index = found.get("index")
    return _Event(
        type=str(found.get("type", "")),
        index=index if type(index) is int else 0,
        delta=_Delta(**texts),
        content_block=_Block(**inner),
        usage=rawjson.raw(found["usage"]) if isinstance(found.get("usage"), dict) else None,
    )


def _is_text(holder: dict[str, Any], name: str) -> bool:
    return isinstance(holder.get(name), str)


def _texts(content: object) -> Iterator[str]:
    """The texts of a whole answer's blocks, for an estimate."""
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            for name in ("text", "thinking", "name"):
                if isinstance(block.get(name), str):
                    yield block[name]
            if "input" in block:
                yield rawjson.encode(block["input"]).decode()


def _replay(index: int, block: Fields) -> Iterator[bytes]:
    """The events that a block would have come in."""
    kind = rawjson.maybe(block.get("type"))
    empty: dict[str, object] = dict(block)
    pieces: list[dict[str, object]] = []
    if kind == "text":
        pieces, empty["text"] = [{"type": "text_delta", "text": block.get("text", rawjson.NULL)}], ""
    elif kind == "thinking":
        pieces = [{"type": "thinking_delta", "thinking": block.get("thinking", rawjson.NULL)}]
        pieces.append({"type": "signature_delta", "signature": block.get("signature", rawjson.raw(""))})
        empty |= {"thinking": "", "signature": ""}
    elif "input" in block:
        text = bytes(block["input"]).decode("utf-8", "replace")
        pieces, empty["input"] = [{"type": "input_json_delta", "partial_json": text}], {}
    start: dict[str, object] = {"type": "content_block_start", "index": index, "content_block": empty}
    yield write_event(b"content_block_start", rawjson.encode(start))
    for delta in pieces:
        event = {"type": "content_block_delta", "index": index, "delta": delta}
        yield write_event(b"content_block_delta", rawjson.encode(event))
    yield write_event(b"content_block_stop", rawjson.encode({"type": "content_block_stop", "index": index}))
