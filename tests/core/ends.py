"""Ends: a client and an upstream, both without a network and driven by a script."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from gateway.core.attempts import AnswerSender
from gateway.domain.answer import Buffer
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.errors import GatewayError
from gateway.domain.failure import AttemptFailed, Failure, UpstreamText
from gateway.domain.order import PreparedRequest
from gateway.upstream import failures
from gateway.upstream.adapter import AnswerStream, Memory, Reply
from gateway.upstream.redaction.redaction import Redaction
from tests.fakes import replies

Piece = bytes | BaseException | asyncio.Event | Callable[[], None]
"""What a reply does next: bring bytes, break, wait, or do something to the world."""

DONE = replies.DONE


def event(**fields: Any) -> bytes:
    return replies.event({**replies.chunk(), **fields})


def says(text: str) -> bytes:
    return replies.event(replies.chunk(replies.delta(text, role="assistant")))


def ends(finish: str = "stop") -> bytes:
    return replies.event(replies.chunk(replies.delta(finish=finish)))


def counts(input: int, output: int) -> bytes:
    return replies.event(replies.chunk(usage=replies.usage(input, output)))


GOOD_STREAM = (says("Hello"), says(" there."), ends(), counts(9, 12), DONE)


def whole(text: str = "Hello there.", *, input: int = 9, output: int = 12, **fields: Any) -> bytes:
    return replies.dumps({**replies.whole("m", replies.choice(text), spent=replies.usage(input, output)), **fields})


def error_body(message: str = "it broke", **fields: Any) -> bytes:
    return json.dumps(
        {"error": {"message": message, "type": "some_error", "param": None, "code": None, **fields}}
    ).encode()


class FakeReply:
    """An upstream's answer that follows a script."""

    def __init__(self, *pieces: Piece, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.headers = headers or {}
        self.end = ""
        """``released`` or ``aborted``."""
        self._pieces = pieces

    async def read(self, limit: int, memory: Memory) -> bytes:
        body = b"".join([data async for data in self.chunks(cast("AnswerStream", replies.Seen()))])
        if not memory.take(len(body)):
            await memory.wait(len(body))
        return body

    async def chunks(self, stream: AnswerStream) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await asyncio.sleep(0)
            if isinstance(piece, bytes):
                yield piece
            elif isinstance(piece, BaseException):
                raise piece
            elif isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                piece()
        if not self.end:
            self.end = "released"

    def release(self) -> None:
        self.end = self.end or "released"

    def abort(self) -> None:
        self.end = self.end or "aborted"


Behaviour = FakeReply | BaseException | Callable[[], Awaitable[FakeReply]]


class FakeUpstreams(AnswerSender):
    """Channels by name, each with what it does at the first, second and every later request."""

    def __init__(self) -> None:
        self.redaction = Redaction({})
        self.asked: list[tuple[str, PreparedRequest]] = []
        self.replies: list[FakeReply] = []
        self._behaviours: dict[str, deque[Callable[[], Behaviour]]] = {}

    def on(self, name: str, *behaviours: Callable[[], Behaviour]) -> None:
        """The last behaviour repeats."""
        self._behaviours[name] = deque(behaviours)

    @property
    def order(self) -> list[str]:
        return [name for name, _ in self.asked]

    async def send(self, channel: Channel, prepared: PreparedRequest, *, stream: bool) -> Reply:
        self.asked.append((channel.name, prepared))
        await asyncio.sleep(0)
        behaviours = self._behaviours[channel.name]
        found = behaviours[0]()
        if len(behaviours) > 1:
            behaviours.popleft()
        if isinstance(found, BaseException):
            raise found
        reply = found if isinstance(found, FakeReply) else await found()
        self.replies.append(reply)
        return reply


def unreachable(channel: Channel, *, sent: bool = False) -> AttemptFailed:
    return AttemptFailed(failures.unreachable(channel, "connection refused", sent=sent))


def too_slow(channel: Channel) -> AttemptFailed:
    return AttemptFailed(failures.too_slow(channel, "head", 5, sent=True))


def unset(channel: Channel) -> AttemptFailed:
    text = UpstreamText(f"channel '{channel.name}': the environment variable NOPE is not set")
    failure = Failure(kind=FailureKind.UNSET, code="upstream_auth_failed", text=text, sent=False)
    return AttemptFailed(failure)


@dataclass(frozen=True)
class Answered:
    """What a plain call gave back; a stream leaves it empty."""

    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class FakeClient:
    """The client that waits for the answer, and may leave, stop reading or break."""

    def __init__(self) -> None:
        self.gone = False
        self.begun = False
        self.on_gone: Callable[[], None] | None = None
        self.heads: list[dict[str, str]] = []
        self.whole = Answered()
        self.body = b""
        self.error: GatewayError | None = None
        """The error event that ended the stream."""
        self.may_wait = False
        self.due: Answered | None = None
        """The answer that goes out in the loop's next turn."""
        self.on_answer: Callable[[], object] = list
        """Called when the whole answer goes out."""
        self.reading = asyncio.Event()
        """Cleared: writes wait."""
        self.reading.set()

    def begin(self, headers: dict[str, str]) -> None:
        assert not self.begun
        self.begun = True
        self.heads.append(headers)

    def answer(self, headers: dict[str, str], parts: tuple[Buffer, ...], *, soon: bool = False) -> None:
        body = b"".join(parts)
        if soon:
            self.due = Answered(headers, body)
            asyncio.get_running_loop().call_soon(self._flush)
            return
        self.on_answer()
        self.whole = Answered(headers, body)

    def withhold(self, error: GatewayError) -> None:
        assert self.due is not None
        self.due, self.error = None, error

    def _flush(self) -> None:
        if self.due is not None:
            self.answer(self.due.headers, (self.due.body,))

    async def wait_until_sent(self) -> None:
        with suppress(ConnectionError):
            await self._pass()

    async def write(self, data: Buffer, *, last: bool = False) -> None:
        await self._pass()
        self.body += data

    async def fail(self, error: GatewayError, before: bytes = b"", stream: AnswerStream | None = None) -> None:
        try:
            await self._pass()
        except ConnectionError:
            return
        self.body += before
        self.error = error

    def leave(self) -> None:
        self.gone = True
        self.reading.set()
        if self.on_gone is not None:
            self.on_gone()

    async def _pass(self) -> None:
        await asyncio.sleep(0)
        await self.reading.wait()
        if self.gone:
            raise ConnectionResetError("the client is gone")
