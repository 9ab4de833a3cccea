"""Answers of completions: those of channels that have the API pass nearly as they are, chats are rendered.

Native: the model's name is the requested one, ids and usage are complete, and the chunk with the usage and ``[DONE]``
wait for the record. ``text``, ``logprobs`` and everything else stay as they came.
"""

from collections.abc import Callable, Mapping

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerEvent, AnswerFinished, Medium, RefusalPiece, TextPiece, join_strings
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.json_text import TooManyElements, refuse_many_elements
from gateway.domain.rawjson import Fields
from gateway.domain.usage import Usage
from gateway.inbound.relay import NativeStream, native_body
from gateway.inbound.rendering import Renderer
from gateway.upstream import failures
from gateway.upstream.adapter import (
    AttemptFailed,
    Failure,
    LearnedRefusals,
    Order,
    OutputCounter,
    PreparedRequest,
    WholeAnswer,
    as_object,
)
from gateway.upstream.answer_errors import failure_told, reports_error
from gateway.upstream.error_body import excerpt, read_error
from gateway.upstream.failures import bad_response
from gateway.upstream.framing import SSEEvent, is_stream
from gateway.upstream.openai.dialect import PLAIN_HEADERS, STREAM_HEADERS, endpoint
from gateway.upstream.usage_report import UsageReports
from gateway.upstream.vendors import Vendor, vendor_of

OBJECT = "text_completion"
DONE = b"data: [DONE]\n\n"
USUAL_OUTPUT = msgspec.Raw(b"16")
"""Tokens of an answer by default."""
_USAGE_WANTED = msgspec.Raw(b'{"include_usage":true}')
_NO_PATH = frozenset({404, 405, 501})
"""Statuses by which a server says that it has no such path, if they do not concern the model."""
_EMPTY = b'""'


class CompletionsRelay:
    """An ``Adapter`` for channels of OpenAI's dialect."""

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
            url=endpoint(*_place(channel.base_url, vendor)),
            headers=STREAM_HEADERS if order.stream else PLAIN_HEADERS,
            body=native_body(order, changes),
            dropped=dropped,
            lowered=lowered,
        )

    def recalled(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """See ``adapter.Adapter``: nothing is remembered."""
        return 0

    def stream(self, order: Order, channel: Channel) -> "CompletionStream":
        """See ``adapter.Adapter``."""
        return CompletionStream(order, channel, CompletionReader(order, channel))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """See ``adapter.Adapter``."""
        return _assemble(body, order, channel) if is_stream(body) else read_completion(body, order, channel)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """See ``adapter.Adapter``."""
        found = failures.classify(channel, status, read_error(body), headers)
        lacks = status in _NO_PATH and found.kind not in (FailureKind.MISSING, FailureKind.AUTH)
        return msgspec.structs.replace(found, lacks_api=True, parameters=()) if lacks else found


def _place(base_url: str, vendor: Vendor) -> tuple[str, str]:
    """The base URL and the path below it. DeepSeek has completions beside the usual root."""
    if vendor.completions_root:
        return base_url.rstrip("/").removesuffix("/v1").removesuffix("/beta") + vendor.completions_root, "/completions"
    return base_url, "/completions"


def _with_usage(options: msgspec.Raw | None) -> msgspec.Raw:
    if options is None or rawjson.is_null(options):
        return _USAGE_WANTED
    return rawjson.raw({**rawjson.fields(options), "include_usage": True})


class CompletionReader:
    """Implements ``relay.NativeReader``."""

    def __init__(self, order: Order, channel: Channel) -> None:
        self._order = order
        self._channel = channel
        self._reports = UsageReports(order.fields)
        self._head: Fields = {}
        """What every chunk begins with, as the first one had it."""
        self._open: dict[int, bool] = {}
        """Choices by number, and whether they have not ended."""
        self.tally = OutputCounter()
        self.complete = False
        self.failure: Failure | None = None
        self.finish = ""

    @property
    def reported(self) -> Usage | None:
        """See ``relay.NativeReader``."""
        return self._reports.usage(self.tally)

    @property
    def upstream_id(self) -> str:
        """See ``relay.NativeReader``."""
        found = rawjson.maybe(self._head.get("id"))
        return found if isinstance(found, str) else ""

    @property
    def marks(self) -> tuple[str, ...]:
        """See ``relay.NativeReader``."""
        return self._reports.marks

    @property
    def ended(self) -> bool:
        """Whether every choice that began has said why it ended."""
        return bool(self._open) and not any(self._open.values())

    def take_pieces(self, events: bytes, start: int) -> tuple[int, int]:
        """See ``relay.NativeReader``. A chunk may be of any choice, and end it: all are opened."""
        return 0, start

    def take(self, event: SSEEvent) -> bytes | None:
        """See ``relay.NativeReader``."""
        if event.data.strip() == b"[DONE]":
            self.complete = True
            if not self.ended:
                self.failure = failures.truncation(self._channel, "no finish_reason came")
            return b""  # ``closing`` writes it, with the usage before it
        chunk = rawjson.fields(event.data)
        if event.name == b"error" or reports_error(chunk):
            self.failure = failure_told(self._channel, event.data)
            return b""
        return self._chunk(chunk)

    def replay(self, body: bytes) -> bytes:
        """See ``relay.NativeReader``: a chunk for each choice."""
        answer = rawjson.fields(read_completion(body, self._order, self._channel).body)
        choices = rawjson.objects(answer.pop("choices"))
        self._reports.see(answer)
        answer.pop("usage", None)
        self._chunk({**answer, "choices": rawjson.raw(choices)})
        self.complete = True
        return b"".join(_event({**answer, "choices": rawjson.raw([choice])}) for choice in choices)

    def cut_short(self) -> bytes:
        """See ``relay.NativeReader``."""
        self.finish = "length"
        left = [number for number, is_open in self._open.items() if is_open]
        return b"".join(self._own(_choice(number, _EMPTY, "length")) for number in left)

    def closing(self, usage: Usage, *, estimated: bool) -> bytes:
        """See ``relay.NativeReader``."""
        if not self._order.include_usage:
            return DONE
        sent = None if estimated else self._reports.as_sent()
        report = rawjson.raw(as_object(usage)) if sent is None else sent
        return self._own(None, usage=report) + DONE

    def _chunk(self, chunk: Fields) -> bytes | None:
        """What the client gets for a chunk. Raises ValueError if it has no choices."""
        choices = rawjson.objects(chunk.get("choices", rawjson.NULL))
        self._reports.see(chunk)
        for position, choice in enumerate(choices):
            number = rawjson.maybe(choice.get("index"))
            number = number if type(number) is int else position
            reason = rawjson.maybe(choice.get("finish_reason"))
            self._open[number] = self._open.get(number, True) and not reason
            self.tally.add(_text(choice))
            if isinstance(reason, str) and (number == 0 or not self.finish):
                self.finish = reason
        if not self._head:
            self._head = identity(chunk, self._order)
        if not choices:
            return b""
        changed = self._head | chunk
        changed["model"] = self._head["model"]
        changed.pop("usage", None)
        cleaned = self._order.screen.clean(changed)
        return None if changed == chunk and not cleaned else _event(changed)

    def _own(self, choice: Fields | None, **more: msgspec.Raw) -> bytes:
        head = self._head or identity({}, self._order)
        return _event({**head, "choices": rawjson.raw([choice] if choice else []), **more})


class CompletionStream(NativeStream):
    """A native stream. One whose choices have all ended is good without a ``[DONE]``."""

    def __init__(self, order: Order, channel: Channel, reader: CompletionReader) -> None:
        super().__init__(order, channel, reader)
        self._completion = reader

    def end(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        out = super().end()
        if self.failure is not None and self._completion.failure is None and self._completion.ended:
            self.failure, self.finished = None, True
        return out


def identity(answer: Fields, order: Order) -> Fields:
    """The head of an answer or a chunk: the upstream's id and time if they are good, and the requested model."""
    name, created = rawjson.maybe(answer.get("id")), rawjson.maybe(answer.get("created"))
    good_name = isinstance(name, str) and 0 < len(name) <= 200 and not order.screen.shows(name)
    return {
        "id": answer["id"] if good_name else rawjson.raw(order.answer_id),
        "object": rawjson.raw(OBJECT),
        "created": answer["created"] if type(created) is int and created > 0 else rawjson.raw(order.created),
        "model": rawjson.raw(order.model),
    }


def read_completion(body: bytes, order: Order, channel: Channel) -> WholeAnswer:
    """A plain answer. Raises AttemptFailed if it is an error, or has no texts."""
    body = body.strip().removeprefix(b"\xef\xbb\xbf")
    try:
        refuse_many_elements(body, opens_logprobs=False)
        answer = rawjson.fields(body)
        if "choices" not in answer and reports_error(answer):
            raise AttemptFailed(failure_told(channel, body))
        choices = rawjson.objects(answer.get("choices", rawjson.NULL))
        tally = OutputCounter()
        for choice in choices:
            tally.add(_text(choice))
    except TooManyElements as error:
        raise AttemptFailed(bad_response(channel, str(error))) from error
    except ValueError as error:
        raise AttemptFailed(bad_response(channel, f"it is not a completion: {excerpt(body)}")) from error
    if not choices:
        raise AttemptFailed(bad_response(channel, f"it is not a completion: {excerpt(body)}"))
    reports = UsageReports(order.fields)
    reports.see(answer)
    reported = reports.usage(tally)
    changed = {**answer, **identity(answer, order)}
    if reported is None:
        changed.pop("usage", None)
    elif reports.corrected:
        changed["usage"] = reports.as_sent() or rawjson.raw(as_object(reported))
    cleaned = order.screen.clean(changed)
    reason = rawjson.maybe(choices[0].get("finish_reason"))
    return WholeAnswer(
        body=body if changed == answer and not cleaned else rawjson.encode(changed),
        reported=reported,
        finish=reason if isinstance(reason, str) else "",
        upstream_id=rawjson.text(changed["id"]),
        tally=tally,
        marks=reports.marks,
    )


def _assemble(body: bytes, order: Order, channel: Channel) -> WholeAnswer:
    """A stream that came where none was requested, as one answer."""
    reader = CompletionReader(order, channel)
    stream = CompletionStream(order, channel, reader)
    events = stream.feed(body) + stream.end()
    if stream.failure is not None:
        raise AttemptFailed(stream.failure)
    chunks = [rawjson.fields(part.removeprefix(b"data: ")) for part in events.split(b"\n\n") if part]
    choices: dict[int, Fields] = {}
    texts: dict[int, list[str]] = {}
    for choice in (choice for chunk in chunks for choice in rawjson.objects(chunk["choices"])):
        number = rawjson.maybe(choice.get("index")) or 0
        texts.setdefault(number, []).append(_text(choice))
        known = choices.setdefault(number, {**choice})
        known |= {name: value for name, value in choice.items() if name != "text" and not rawjson.is_null(value)}
    for number, pieces in texts.items():
        choices[number]["text"] = rawjson.raw("".join(pieces))
    answer = {**chunks[0], "choices": rawjson.raw([choices[number] for number in sorted(choices)])}
    if reader.reported is not None:
        answer["usage"] = rawjson.raw(as_object(reader.reported))
    whole = read_completion(rawjson.encode(answer), order, channel)
    return msgspec.structs.replace(whole, marks=(*whole.marks, "assembled"))


def _text(choice: Fields) -> str:
    """The text of a choice. Raises ValueError if it has none."""
    raw = choice.get("text", rawjson.NULL)
    return "" if rawjson.is_null(raw) and "finish_reason" in choice else rawjson.text(raw)


def _event(chunk: Fields) -> bytes:
    return b"data: " + rawjson.encode(chunk) + b"\n\n"


def _choice(number: int, text: bytes, reason: str | None) -> Fields:
    return {
        "index": rawjson.raw(number),
        "text": msgspec.Raw(text),
        "logprobs": rawjson.NULL,
        "finish_reason": rawjson.raw(reason),
    }


_REASONS = {"length": "length", "content_filter": "content_filter"}
"""What else a chat can end with is the end of the text."""


class CompletionRenderer(Renderer):
    """A chat's stream as that of a completion. Only text is shown."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._head = identity({}, order)

    def shows(self, medium: Medium) -> bool:
        """See ``Renderer``."""
        return False

    def take(self, event: AnswerEvent) -> bytes:
        """See ``Renderer``."""
        if isinstance(event, TextPiece | RefusalPiece):
            return self._event([_choice(0, event.piece, None)])
        if isinstance(event, AnswerFinished):
            return self._event([_choice(0, _EMPTY, _REASONS.get(event.reason, "stop"))])
        return b""

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        """See ``Renderer``."""
        if not self._order.include_usage:
            return DONE
        return self._event([], usage=rawjson.raw(as_object(usage))) + DONE

    def _event(self, choices: list[Fields], **more: msgspec.Raw) -> bytes:
        return _event({**self._head, "choices": rawjson.raw(choices), **more})


def whole_renderer(order: Order, _: Channel, events: list[AnswerEvent]) -> Callable[[Usage], bytes]:
    """What writes the events of a whole chat as a completion."""
    pieces = [event.piece for event in events if isinstance(event, TextPiece | RefusalPiece)]
    head, reason = identity({}, order), "stop"
    for event in events:
        if isinstance(event, AnswerFinished):
            reason = _REASONS.get(event.reason, "stop")
    choice = _choice(0, join_strings(pieces) if pieces else _EMPTY, reason)

    def write(usage: Usage) -> bytes:
        return rawjson.encode({**head, "choices": [choice], "usage": rawjson.raw(as_object(usage))})

    return write
