"""ConsoleFeed: reads the server's events, in one worker, and reconnects when the server is back.

Events are collected as they arrive. A message about them is posted only after the app has taken the previous ones, so
at most one such message waits in the app's queue.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from textual.message import Message

from gateway.client import control
from gateway.domain.errors import GatewayError
from gateway.domain.events import AnyEvent
from tui.session import AttachedServer, ServerLauncher

STOPPED = "it stopped"
"""The reason for a disconnection without an error."""


class ConsoleFeed:
    """The connection to the server, for as long as the console runs."""

    class Starting(Message):
        """Posted when no server runs here and one is being started."""

    class EventsReady(Message):
        """Posted when events are waiting: fetch them with ``take_events``."""

    @dataclass
    class Disconnected(Message):
        """Posted when the server is gone. ``fatal``: the error at the start if none was found or started."""

        reason: str
        fatal: GatewayError | None = None

    def __init__(self, launcher: ServerLauncher, post: Callable[[Message], object]) -> None:
        self._launcher = launcher
        self._post = post
        self._events: list[AnyEvent] = []
        self.start_requested = asyncio.Event()
        """Set to start a server instead of waiting until one is back."""

    def take_events(self) -> list[AnyEvent]:
        """Returns the events that have arrived since this was last called, in order."""
        events, self._events = self._events, []
        return events

    async def run(self) -> None:
        """Read the events of a server and attach again, without end. Returns only if no server runs at first."""
        try:
            attached = await self._launcher.find()
            if attached is None:
                self._post(self.Starting())
                attached = await self._launcher.ensure()
        except GatewayError as error:
            self._post(self.Disconnected(error.message, error))
            return
        while True:
            self._post(attached)
            self._post(self.Disconnected(await self._listen(attached.client)))
            attached = await self._reconnect()

    async def _listen(self, client: control.ControlClient) -> str:
        """Read events until the stream ends. Returns the reason why it ended."""
        try:
            async for event in client.events(recent=1000):
                self._events.append(event)
                if len(self._events) == 1:
                    self._post(self.EventsReady())
        except GatewayError as error:
            return STOPPED if error.code == "server_gone" else error.message
        return STOPPED

    async def _reconnect(self) -> AttachedServer:
        """Look for a server until one is back, or start one if requested. Returns it."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await self.start_requested.wait()
            if self.start_requested.is_set():
                self.start_requested.clear()
                try:
                    return await self._launcher.ensure()
                except GatewayError as error:
                    self._post(self.Disconnected(error.message))
            elif (server := await self._launcher.find()) is not None:
                return server
