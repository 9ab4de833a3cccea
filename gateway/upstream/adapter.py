"""Adapter: what a dialect can do, and the values that pass between core, dialects and the connection.

Adapters are pure. Only ``Reply`` stands for a running exchange. ``OutputCounter`` counts an answer as it passes.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

import msgspec

from gateway.domain.answer import Buffer
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.estimate import estimate
from gateway.domain.failure import Failure
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.usage import Usage, as_object


class OutputCounter(msgspec.Struct, eq=False):
    """Collects text, reasoning and tool calls as they pass. Adding costs nearly nothing; ``tokens`` does the work."""

    chars: int = 0
    """Characters so far."""
    tools: int = 0
    """Tool calls so far."""
    _pieces: list[str] = []
    _most: int = 65_536
    """Characters so far beyond which the pieces are counted and forgotten."""
    _folded: int = 0

    def add(self, text: str) -> None:
        """Content, reasoning, a tool's name or arguments, a refusal."""
        self.chars += len(text)
        self._pieces.append(text)
        if len(self._pieces) >= 256 or self.chars > self._most:  # a stream brings thousands of a few letters each
            self._fold()

    def _fold(self) -> None:
        """Keep little. Few samples: the number is rarely needed."""
        text = "".join(self._pieces)
        self._pieces = [text]
        if self.chars > self._most:
            self._folded += estimate(text, samples=2)
            self._pieces = []
            self._most = self.chars + 65_536

    def tool(self) -> None:
        """One more tool call began."""
        self.tools += 1

    @property
    def empty(self) -> bool:
        """Whether nothing came."""
        return not (self.chars or self.tools)

    @property
    def cheap(self) -> int:
        """A rough count of tokens that costs nothing, to show progress: four characters are one."""
        return -(-self.chars // 4)

    def tokens(self) -> int:
        """The estimate, in tokens, four for each tool call. It may be asked at any time, at up to some milliseconds."""
        return self._folded + estimate("".join(self._pieces)) + 4 * self.tools


class SignsOfLife(Protocol):
    """Signs of life of a stream: what its bytes were, for the idle deadlines."""

    events: int
    """Data events seen so far."""
    comments: int
    """Comments seen so far."""


class AnswerFacts(Protocol):
    """What is known of an answer so far."""

    @property
    def tally(self) -> OutputCounter:
        """The output that passed."""

    @property
    def reported(self) -> Usage | None:
        """Usage as the upstream reported it so far; None if it did not."""

    @property
    def finish(self) -> str:
        """finish_reason of the first choice, or empty."""

    @property
    def upstream_id(self) -> str:
        """The answer's id at the upstream, or empty."""

    @property
    def marks(self) -> tuple[str, ...]:
        """Peculiarities for the record."""


class AnswerStream(SignsOfLife, AnswerFacts, Protocol):
    """One streamed answer on its way: upstream bytes in at any split, client bytes out. Pure."""

    started: bool
    """The first event with something for the client was seen."""
    finished: bool
    """The answer is complete: ``[DONE]`` was seen, or the stream ended with every choice finished."""
    failure: Failure | None
    """Set when the upstream said or was wrong. Nothing more is to be read. Its kind counts only while not started."""
    held: int
    """Bytes that are kept for later: of an event that is not complete, or of a whole answer."""

    def feed(self, data: bytes) -> bytes:
        """What may go to the client now: complete, normalised events; never the usage chunk, never ``[DONE]``."""

    def end(self) -> bytes:
        """The upstream's end of file. Returns last bytes for the client and sets either ``finished`` or ``failure``."""

    def cut_short(self) -> bytes:
        """End the answer here by our own will: last events with ``finish_reason`` ``length``; then it is finished."""

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        """How a good answer ends: usage, if it was requested, the upstream's own unless ``estimated``; ``[DONE]``."""


class WholeAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One whole answer, normalised."""

    body: bytes
    """The client's bytes. Without usage if none was ``reported``; see ``parts``."""
    reported: Usage | None
    finish: str
    upstream_id: str
    tally: OutputCounter
    marks: tuple[str, ...] = ()

    def parts(self, usage: Usage) -> tuple[Buffer, ...]:
        """The client's bytes, uncopied; where the upstream reported no usage, with this estimate."""
        if self.reported is not None:
            return (self.body,)
        estimate = msgspec.json.encode(as_object(usage))
        return memoryview(self.body)[:-1], b',"usage":' + estimate + b"}"


class RequestWriter(Protocol):
    """Writes requests, and reads refusals of them. Pure."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """The request as this channel wants it."""

    def recalled(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """Input tokens that ``prepare`` may put back into a request from memory, at most. Most remember nothing."""
        return 0

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """What an answer of another status means. Header names are lower-case."""


class Adapter(RequestWriter, Protocol):
    """How a channel is called for one API. Pure."""

    def stream(self, order: Order, channel: Channel) -> AnswerStream:
        """A new decoder and normaliser for one attempt. It also takes a whole JSON answer (to a stream request)."""

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """A plain answer of status 2xx. It also takes an event stream (to a plain request). Raises AttemptFailed."""


class Memory(Protocol):
    """What one answer may take of this machine's memory while it is gathered."""

    def take(self, size: int) -> bool:
        """Count so many bytes more, if that is possible now."""

    async def wait(self, size: int) -> None:
        """Count them when others have ended. Raises AnswerMemoryFull when that takes too long."""


class UnlimitedMemory:
    """Implements ``Memory`` where nothing else is gathered."""

    def take(self, size: int) -> bool:
        return True

    async def wait(self, size: int) -> None:
        return


class Reply(Protocol):
    """An upstream's answer whose head has arrived. It must end: read to its end, ``release`` or ``abort``."""

    status: int
    headers: Mapping[str, str]
    """To be asked by lower-case names."""

    async def read(self, limit: int, memory: Memory) -> bytes:
        """The whole body, decompressed, at most ``limit`` bytes, counted while it arrives.

        Raises AttemptFailed, and AnswerMemoryFull.
        """

    def chunks(self, signs: SignsOfLife) -> AsyncIterator[bytes]:
        """The body in pieces as they arrive, decompressed.

        ``signs`` (the AnswerStream that is fed with them) says what the bytes were, so that comments and trickled
        fragments do not count as progress. Raises AttemptFailed.
        """

    def release(self) -> None:
        """Nothing more is wanted; the connection is kept if the rest of the body comes at once. Never waits."""

    def abort(self) -> None:
        """Close the connection at once."""
