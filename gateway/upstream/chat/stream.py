"""Stream: a streamed answer of another dialect: its events become events of chat completions, and are handled so.

So there is one place that numbers tool calls, counts what came, and decides whether an answer was complete.
"""

from collections.abc import Callable

from gateway.domain.channel import Channel
from gateway.domain.usage import Usage
from gateway.upstream import rawjson
from gateway.upstream.adapter import AttemptFailed, Failure, Order
from gateway.upstream.chat.decoder import Decoder, transcribe, transcribe_end
from gateway.upstream.chat.forms import Completion
from gateway.upstream.failures import bad_response
from gateway.upstream.openai.body import BEGINNINGS, Body
from gateway.upstream.openai.stream import ChatStream
from gateway.upstream.reports import SUSPECT
from gateway.upstream.sse import BLANK, EventTooLong, Framer, has_comment, parse

WholeReader = Callable[[bytes], Completion]
"""Reads a whole answer of the dialect. Raises AttemptFailed."""


class TranslatedStream:
    """One streamed answer. Implements ``adapter.AnswerStream``."""

    def __init__(self, order: Order, channel: Channel, decoder: Decoder, whole: WholeReader) -> None:
        self._channel = channel
        self._decoder = decoder
        self._whole = whole
        self._chat = ChatStream(order, channel)
        self._framer = Framer()
        self._body: Body | None = None
        """If that is what comes instead of events."""
        self._sniffed = False
        self._suspect = False
        """A whole answer came, and its usage cannot be true."""
        self.started = False
        self.finished = False
        self.failure: Failure | None = None
        self.tally = self._chat.tally
        self.events = 0
        self.comments = 0
        self.held = 0

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
        """For the record: garbled events, a missing end, doubtful usage."""
        doubted = self._decoder.suspect or self._suspect
        return tuple(dict.fromkeys((*self._chat.marks, SUSPECT))) if doubted else self._chat.marks

    def feed(self, data: bytes) -> bytes:
        """See ``adapter.AnswerStream``."""
        if self.failure or self.finished or not (self._sniffed or self._sniff(data)):
            return b""
        try:
            if self._body is None:
                block = self._framer.feed(data)
                self.held = self._framer.held
                return self._take(block)
            self._body.add(data, self._channel)
            self.held = self._body.size
        except EventTooLong as exc:
            self.failure = bad_response(self._channel, str(exc))
        except AttemptFailed as exc:
            self.failure = exc.failure
        return b""

    def end(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        if self.failure or self.finished:
            return b""
        out = b""
        if self._body is not None:
            out = self._read_body(self._body.take())
            self.held = 0
        else:
            rest = self._framer.end().strip(b"\n")
            event = parse(rest)
            if event is not None and rawjson.maybe(event.data) is not None:
                out = self._take(rest)
            if not (self.failure or self.finished):
                out += self._pass(transcribe_end(self._decoder))
        if not (self.failure or self.finished):
            out += self._chat.end()
            self._follow()
        return out

    def cut_short(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        self.finished = True
        return self._chat.cut_short()

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        """See ``adapter.AnswerStream``."""
        return self._chat.tail(usage, estimated=estimated)

    def _sniff(self, data: bytes) -> bool:
        """What comes first, blanks aside, tells events from a body; False if nothing came yet."""
        begin = data.lstrip()[:1]
        if begin in BEGINNINGS:
            self._body = Body()
        self._sniffed = bool(begin)
        return self._sniffed

    def _take(self, block: bytes) -> bytes:
        """Complete events."""
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

    def _read_body(self, body: bytes) -> bytes:
        """A whole answer, as the stream that was asked for."""
        self.events += 1
        try:
            found = self._whole(body)
            self._suspect = found.suspect
            return self._pass(found.body)
        except AttemptFailed as exc:
            self.failure = exc.failure
            return b""

    def _pass(self, chat: bytes) -> bytes:
        out = self._chat.feed(chat) if chat else b""
        self._follow()
        return out

    def _follow(self) -> None:
        self.started = self._chat.started
        self.finished = self._chat.finished
        self.failure = self._decoder.failure or self._chat.failure
