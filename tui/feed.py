"""Feed: one worker that reads the server's events and posts them in batches; it reconnects when the server is back.

Events are read as they arrive, but a message is posted only after the last batch was fetched: the app never has more
than one message of them to handle.
"""

import asyncio
from collections.abc import Callable

from textual.message import Message

from gateway.client import control
from gateway.domain.errors import GatewayError
from gateway.domain.events import AnyEvent, Snapshot
from tui.session import AttachedServer, ServerLink

STOPPED = "it stopped"
"""The reason if the connection ended without another one."""


class ConsoleFeed:
    """Runs as long as the console does."""

    class Starting(Message):
        """Posted when no server runs here and one is being started."""

    class Connected(Message):
        """Posted when a server answered; its snapshot will follow."""

        def __init__(self, attached: AttachedServer) -> None:
            self.attached = attached
            super().__init__()

    class EventsReady(Message):
        """Posted when events are waiting: fetch them with ``take_events``."""

    class Disconnected(Message):
        """Posted when the server is gone. ``fatal``: none was found at the start, and none can be started."""

        def __init__(self, reason: str, fatal: GatewayError | None = None) -> None:
            self.reason = reason
            self.fatal = fatal
            super().__init__()

    def __init__(self, link: ServerLink, post: Callable[[Message], object]) -> None:
        self._link = link
        self._post = post
        self._waiting: list[AnyEvent] = []
        self._start = asyncio.Event()
        self._received = False

    def take_events(self) -> list[AnyEvent]:
        """Returns the events since this was last called, in order."""
        events, self._waiting = self._waiting, []
        return events

    def start_server(self) -> None:
        """Start a server instead of waiting for one to come back."""
        self._start.set()

    async def run(self) -> None:
        """Attach, listen, and attach again, without end. Returns only if no first server can be found or started."""
        try:
            attached = await self._link.find()
            if attached is None:
                self._post(self.Starting())
                attached = await self._link.ensure()
        except GatewayError as error:
            self._post(self.Disconnected(error.message, error))
            return
        wait = 0.1
        while True:
            self._received = False
            self._post(self.Connected(attached))
            self._post(self.Disconnected(await self._listen(attached.client)))
            wait = 0.1 if self._received else min(2.0, wait * 2)
            attached = await self._reconnect(wait)

    async def _listen(self, client: control.ControlClient) -> str:
        """Read events until the stream ends. Returns the reason."""
        try:
            async for event in client.events(recent=1000):
                self._received = self._received or isinstance(event, Snapshot)
                self._waiting.append(event)
                if len(self._waiting) == 1:
                    self._post(self.EventsReady())
        except GatewayError as error:
            return STOPPED if error.code == "server_gone" else error.message
        return STOPPED

    async def _reconnect(self, wait: float) -> AttachedServer:
        """Returns the server once it is back, checked less and less often, or one that is started on request."""
        while True:
            if await self._start_requested(wait):
                try:
                    return await self._link.ensure()
                except GatewayError as error:
                    self._post(self.Disconnected(error.message))
            elif (server := await self._link.find()) is not None:
                return server
            wait = min(2.0, wait * 1.5)

    async def _start_requested(self, wait: float) -> bool:
        try:
            async with asyncio.timeout(wait):
                await self._start.wait()
        except TimeoutError:
            return False
        self._start.clear()
        return True
