"""Wire: one HTTP/1.1 connection to an upstream: requests out, one at a time, and the bytes that answer them in.

What is kept here is when a connection may serve again: only after an answer that came whole, that did not ask to
close, and behind which nothing followed. Everything else is closed, so that no answer can ever reach the wrong call.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from gateway.domain.long_strings import Buffer
from gateway.upstream.connection.answer import Answer
from gateway.upstream.connection.broken import Broken, text_of
from gateway.upstream.connection.parser import Parser
from gateway.upstream.connection.upload import Upload, is_large

READ_SIZE = 64 * 1024
"""Bytes that one read may bring: what waits for a reader who is slower is never more than a few of them."""


class Wire(asyncio.BufferedProtocol):
    """One connection. ``idle`` is called when it may serve again, ``gone`` once when it is lost.

    It reads into a ``buffer`` of ``READ_SIZE`` that it shares with other connections: whatever comes leaves it before
    the loop looks at the next one.
    """

    def __init__(
        self, idle: Callable[["Wire"], None], gone: Callable[["Wire"], None], buffer: memoryview | None = None
    ) -> None:
        self._idle = idle
        self._gone = gone
        self._buffer = memoryview(bytearray(READ_SIZE)) if buffer is None else buffer
        self._transport: asyncio.Transport | None = None
        self._parser = Parser()
        self._answer: Answer | None = None
        self._paused = False
        self._upload: Upload | None = None
        """Of the last request, if it was a large one."""
        self.used = False
        """It has served before."""
        self.idle_since = 0.0

    @property
    def alive(self) -> bool:
        """Whether it is connected."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, request: Sequence[Buffer], *, together: bool = False) -> Answer:
        """Send a request, head and body. Raises Broken if the connection is closed.

        A large one goes as the upstream takes it.

        ``together``: in the loop's next turn, with what others send then. To wake the receiver costs more than to send,
        and it is woken once for all of them.
        """
        if self._transport is None or self._transport.is_closing():
            raise Broken("it closed the connection", sent=False)
        answer = self._answer = Answer(self)
        self._parser.begin(answer)
        self._upload = None
        if is_large(request):
            self._upload = Upload(self._transport, request)
        elif together:
            asyncio.get_running_loop().call_soon(self._send, request)
        else:
            self._transport.writelines(request)
        return answer

    def go_on(self) -> None:
        """The reader has room again."""
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once; what was not sent is not sent."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio. Bytes that nobody asked for close the connection."""
        answer = self._answer
        if answer is None:
            self.abort()
            return
        try:
            self._parser.feed(self._buffer[:nbytes])
        except Broken as broken:
            self._break(answer, broken)
            return
        if answer.complete:
            self._served()
        elif answer.full and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """See asyncio. Close at once: an upstream that has said its last word will not take what is still to send."""
        self.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio. A body of unknown length ends with its connection; any other one was cut."""
        self._transport = self._upload = None
        answer, self._answer = self._answer, None
        if answer is not None:
            if exc is None and self._parser.ends():
                answer.finish()
            else:
                answer.lose(_loss(answer, exc, spoke=self._parser.spoke))
        self._parser.close()
        self._gone(self)

    def pause_writing(self) -> None:
        """See asyncio."""
        if self._upload is not None:
            self._upload.pause()

    def resume_writing(self) -> None:
        """See asyncio."""
        if self._upload is not None:
            self._upload.resume()

    def _send(self, request: Sequence[Buffer]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(request)

    def _served(self) -> None:
        """The answer is whole, and nothing came behind it."""
        self._answer = None
        self.go_on()
        sent = self._upload is None or self._upload.complete
        self._upload = None
        if (
            self._parser.reusable
            and sent
            and self._transport is not None
            and not self._transport.get_write_buffer_size()
        ):
            self.used = True
            self._idle(self)
        else:  # the upstream wants no more, or answered before it had the whole request
            self.abort()

    def _break(self, answer: Answer, broken: Broken) -> None:
        self._answer = None
        if not answer.complete:
            answer.lose(broken)
        self.abort()


def _loss(answer: Answer, exc: Exception | None, *, spoke: bool) -> Broken:
    text = "it broke off" if answer.status else "it closed the connection without an answer"
    return Broken(text if exc is None else text_of(exc), spoke=spoke)
