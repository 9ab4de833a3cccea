"""Adapter: what a dialect can do, and the values that pass between core, dialects and the connection.

Adapters are pure. Only ``Reply`` stands for a running exchange.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import SEEK_END, BytesIO
from typing import Protocol

import msgspec

from gateway.domain.answer import AnswerEvent, AnswerPart, Buffer
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.estimate import OutputCounter
from gateway.domain.failure import AttemptFailed, Failure
from gateway.domain.json_text import TooManyElements, as_utf8
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import OutputLimit, read_limit
from gateway.domain.rawjson import Fields
from gateway.domain.sse import BLANK, BOM, Framer, SSEEvent, stream_in, with_line_feeds
from gateway.domain.usage import Usage, as_object
from gateway.upstream.answer_state import AnswerState
from gateway.upstream.call_memory import THOUGHTS_REFUSED, CallMemory
from gateway.upstream.error_body import excerpt, read_error
from gateway.upstream.failures import bad_response, classify
from gateway.upstream.translation import NameRules

BODY_LIMIT = 64 * 1024 * 1024
"""The maximum size of a whole body, in bytes."""

EVENT_LIMIT = 16 * 1024 * 1024
"""The maximum size of an incomplete event, in bytes."""

LATE_LIMIT = 64 << 10
"""The maximum size of an event after the end of the answer, in bytes."""


def on_one_line(body: bytes) -> bytes:
    """Returns JSON without line breaks, because parts of it become events unchanged; anything else as it is."""
    if b"\n" not in body and b"\r" not in body:
        return body
    try:
        return msgspec.json.format(body.strip().removeprefix(BOM), indent=-1)
    except (ValueError, RecursionError):
        return body


class AnswerStream(ABC):
    """One streamed answer: takes upstream bytes, split anywhere, and gives client bytes. Pure.

    The bytes are split into events. A whole JSON answer may come although a stream was requested. The first byte shows
    it; the content type may be wrong.
    """

    events: int = 0
    """The number of data events so far, for the idle deadlines."""
    comments: int = 0
    state: AnswerState
    """What is known of the answer so far."""
    finished: bool = False
    """Whether the answer is complete: ``[DONE]`` came, or the stream ended with every choice finished."""
    failure: Failure | None = None
    """The upstream's error, or what is invalid in the stream, which ends there."""
    held: int = 0
    """The number of bytes that are kept for later: of an incomplete event, or of a whole answer."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._framer = Framer()
        self._body: BytesIO | None = None
        """The body so far, if one comes instead of events."""
        self._recognized = False
        """Whether the first byte came, which shows if these are events or a body."""

    @property
    def final_size(self) -> int | None:
        """Returns the number of characters of an answer that said why it ended; None before that."""
        return self.state.tally.chars if self.state.complete and not self.state.resumed else None

    @abstractmethod
    def cut_short(self) -> bytes:
        """End the answer here. Returns last events with ``finish_reason`` ``length``; then it is finished."""

    @abstractmethod
    def tail(self, usage: Usage) -> bytes:
        """Returns the end of a complete answer: usage if requested, estimated or the upstream's, and ``[DONE]``."""

    @abstractmethod
    def _read_events(self, block: bytes) -> bytes:
        """Returns what the client gets for these complete events."""

    @abstractmethod
    def _read_rest(self, rest: bytes) -> bytes:
        """Returns what the client gets at the end of the events; ``rest`` is what followed the last complete one."""

    @abstractmethod
    def _read_body(self, body: bytes) -> bytes:
        """Returns what the client gets for a body that came instead of events."""

    def feed(self, data: bytes) -> bytes:
        """Returns what the client gets now: complete, normalised events, never the usage chunk or ``[DONE]``."""
        if self.failure or self.finished:
            self.held = 0
            self._read_late(data)
            return b""
        if self._body is not None:
            self._body.write(data)
        elif not self._recognized:
            first = data.removeprefix(BOM).lstrip()[:1]
            if first in (b"{", b"[", b"<"):  # as no line of a stream; a body that comes at once is not copied
                self._body = BytesIO(data)
                self._body.seek(0, SEEK_END)
            self._recognized = bool(first)
        if self._body is not None:
            self.held = self._body.tell()
            if self.held > BODY_LIMIT:
                self.failure = bad_response(self._channel, f"it is longer than {BODY_LIMIT >> 20} MiB")
            return b""
        block = self._framer.feed(data)
        self.held = self._framer.held
        if self.held > EVENT_LIMIT:
            self.failure = bad_response(self._channel, f"an event is longer than {EVENT_LIMIT >> 20} MiB")
            return b""
        if self._framer.has_returns or not block.isascii():
            block = self._normalize(block)
        return self._read_events(block) if block else b""

    def end(self) -> bytes:
        """Handle the end of the upstream's bytes. Returns the last bytes. Sets either ``finished`` or ``failure``."""
        if self.failure or self.finished:
            self._read_late(BLANK)
            return b""
        if self._body is None:
            return self._read_rest(self._normalize(self._framer.end()))
        body = on_one_line(as_utf8(self._body.getvalue()))
        self._body, self.held = None, 0
        if events := stream_in(body):
            return self._read_events(events) + self._read_rest(b"")
        self.events += 1
        return self._read_body(body)

    def _read_late(self, data: bytes) -> None:
        """Read what follows the end of the answer, which may be its usage, but nothing large."""
        if self.finished and self._body is None and self._framer.held + len(data) <= LATE_LIMIT:
            self._read_events(self._normalize(self._framer.feed(data)))

    def _normalize(self, events: bytes) -> bytes:
        """Returns events as they are read: UTF-8, with line feeds as line ends, and without a byte order mark."""
        return with_line_feeds(as_utf8(events)).removeprefix(BOM)


class WholeFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a whole answer that was read without an ``AnswerState``."""

    reported: Usage | None
    finish: str = ""
    upstream_id: str = ""
    tally: OutputCounter
    marks: tuple[str, ...] = ()


AnswerFacts = WholeFacts | AnswerState
"""What is known of an answer."""


class WholeAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One whole answer, normalised."""

    body: bytes
    """The client's bytes, without usage if none was reported; empty if only ``render`` has them."""
    state: AnswerFacts
    render: Callable[[Usage], bytes] | None = None
    """Writes the client's bytes once the usage is known."""
    counts: Callable[[Usage], dict[str, object]] = as_object
    """Returns the usage as the API writes it."""

    def parts(self, usage: Usage) -> tuple[Buffer, ...]:
        """Returns the client's bytes, uncopied, with this estimate if the upstream reported no usage."""
        if self.render is not None:
            return (self.render(usage),)
        if self.state.reported is not None:
            return (self.body,)
        return memoryview(self.body)[:-1], b',"usage":' + msgspec.json.encode(self.counts(usage)) + b"}"


Answer = WholeAnswer | AnswerStream


class RequestWriter(Protocol):
    """Writes requests, and reads errors about them. Pure."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """Returns the request for this channel. Raises BadRequest if it cannot be written."""

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """Returns what an answer with an error status means. Header names are lower-case."""


class Adapter(RequestWriter, Protocol):
    """How a channel is called for one API. Pure."""

    def stream(self, order: Order, channel: Channel) -> AnswerStream:
        """Returns the stream of one attempt. It also accepts a whole JSON answer to a stream request."""

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """Reads a plain answer of status 2xx, also an event stream sent to a plain request. Raises AttemptFailed."""


class AnswerReader(Protocol):
    """Reads one answer as parts. Pure."""

    failure: Failure | None = None
    """The failure that the upstream reported."""
    done: bool = False
    """Whether the last event came."""
    has_content: bool = False
    """Whether a block of the answer has begun. For a native answer that is only tapped, the tap sets it."""
    ends_blocks: bool = False
    """Whether the upstream says when a block is complete."""
    reads_alike: bool = False
    """Whether events that differ in one text only are read alike, whatever the text is."""
    watches: bool = False
    """Whether ``watch`` must be called with every event."""
    tool_rules: NameRules
    """Which names of tools the vendor accepts, so that others were changed in the request."""
    default_word: str = ""
    """The finish word of a complete answer without one; empty if such an answer is not complete."""

    def read(self, event: SSEEvent) -> Iterable[AnswerPart]:
        """Returns the parts in an event. Raises ValueError if it is invalid."""

    def read_whole(self, body: bytes) -> Iterable[AnswerPart]:
        """Returns the parts of a whole answer. Raises ValueError if it is invalid."""

    def end(self) -> Iterable[AnswerPart]:
        """Returns the parts that were held until the end of the bytes."""
        return ()

    def watch(self, event: AnswerEvent) -> None:
        """Handle an event of the answer, for a vendor that wants something of its answers back."""
        return


class DialectAdapter(RequestWriter, Protocol):
    """How requests are written and answers are read. Pure."""

    def reader(self, order: Order, channel: Channel) -> AnswerReader:
        """Returns the reader of one attempt's answer."""


class ChannelDialect(DialectAdapter):
    """A dialect as channels speak it: requests, answers, errors, limits and lists of models."""

    own_names: Mapping[str, str] = {}
    """The client's names of fields that the vendor calls something else, by the vendor's name."""

    def __init__(self) -> None:
        self._memory = CallMemory()
        """What vendors want back with tool calls."""

    def recalled_tokens(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """Returns the maximum input tokens that ``prepare`` may add from memory."""
        return self._memory.tokens_for(fields)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        failure = classify(channel, status, read_error(body), headers)
        names = dict.fromkeys(self.own_names.get(name, name) for name in failure.parameters)
        return msgspec.structs.replace(failure, parameters=tuple(names))

    def repair(self, channel: Channel, order: Order, failure: Failure) -> Order | None:
        """Returns the order without the thoughts that the upstream refused, and forgets them; None if it has none."""
        conversation = order.conversation
        if conversation is None or not THOUGHTS_REFUSED.search(failure.words):
            return None
        known = self._memory.forget(order.owner, {call.id for turn in conversation.turns for call in turn.calls})
        unsigned = conversation if channel.strict else conversation.without_signatures()
        if unsigned == conversation and not known:
            return None
        return msgspec.structs.replace(order, conversation=unsigned)

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        """Returns the maximum output that a request allows; ``fields`` include the owner's parameters."""
        return read_limit(fields)

    def model_limit(self, upstream_model: str) -> int | None:
        """Returns a model's largest output, if the vendor's models are in a table here; else None."""
        return None

    def models_request(self, channel: Channel, after: str) -> PreparedRequest | None:
        """Returns the request for the list of models, or for its page after ``after``; None if it has no list."""
        return None


@contextmanager
def failing_attempt(body: bytes, channel: Channel) -> Iterator[None]:
    """Raises AttemptFailed in place of the errors of a body that is not an answer."""
    try:
        yield
    except TooManyElements as error:
        raise AttemptFailed(bad_response(channel, str(error))) from error
    except ValueError as error:
        said = read_error(body[:65536])
        problem = "not an answer" if said.is_json else "not valid JSON"
        message = said.message or excerpt(body) or "an empty body"
        raise AttemptFailed(bad_response(channel, f"it is {problem}: {message}")) from error


class Memory(Protocol):
    """The memory that one answer may use while it is gathered."""

    def take(self, size: int) -> bool:
        """Take this many more bytes if they are free now. Returns whether they were."""

    async def wait(self, size: int) -> None:
        """Take them once other answers have ended. Raises AnswerMemoryFull when that takes too long."""


class Reply(Protocol):
    """An upstream's answer whose head has arrived. It must be read to its end, released or aborted."""

    status: int
    headers: Mapping[str, str]
    """The headers, by lower-case names."""

    async def read(self, limit: int, memory: Memory) -> bytes:
        """Returns the whole body, decompressed, at most ``limit`` bytes. Raises AttemptFailed, and AnswerMemoryFull."""

    def chunks(self, stream: AnswerStream) -> AsyncIterator[bytes]:
        """Yields the body in pieces as they arrive, decompressed, for this stream.

        It says what they were, so that comments and fragments do not count as progress. Raises AttemptFailed.
        """

    def release(self) -> None:
        """Stop reading, without waiting. The connection is kept if the rest of the body comes at once."""

    def abort(self) -> None:
        """Close the connection at once."""
