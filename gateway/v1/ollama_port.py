"""OllamaPort: a second port for programs that look for Ollama and cannot send a key (``Settings.ollama_port``).

It is open while a port and a token are set, on the loopback address only, and follows the settings while the gateway
runs. If another program has the port, ``status`` reports it and the gateway runs on without it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from gateway.core.auth import new_call_id
from gateway.core.engine import Engine
from gateway.v1.app import PublicApp
from gateway.web.connection import ConnectionLimits
from gateway.web.listener import Acceptor, Listener, listening

_log = logging.getLogger("tollkeeper")

HOST = "127.0.0.1"
LAST_WORDS_S = 0.4
"""Seconds for answers that are being sent when the port closes."""
CUT_S = 0.05


class OllamaPort:
    """The port, open or not."""

    def __init__(self, engine: Engine, limits: ConnectionLimits) -> None:
        self._engine = engine
        self._crowd = limits
        self._wake = asyncio.Event()
        self._wanted = 0
        """The port that was last tried."""
        self._open: tuple[Acceptor, Listener] | None = None

    def follow(self) -> None:
        """Apply the settings, which may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Open and close the port as the settings say, until cancelled."""
        while True:
            await self._adjust()
            await self._wake.wait()
            self._wake.clear()

    async def _adjust(self) -> None:
        settings = self._engine.catalog.registry.settings
        wanted = settings.ollama_port if settings.ollama_token else 0
        if wanted == self._wanted and (self._open is not None or not wanted):
            return
        await self.close()
        self._wanted = wanted
        self._engine.ollama_address = self._engine.ollama_error = ""
        if wanted:
            await self._listen(wanted)
        self._engine.bus.changed()

    async def _listen(self, port: int) -> None:
        engine = self._engine
        surface = PublicApp(engine, HOST, keyless=True)
        listener = Listener(surface.handle, self._crowd, lambda: new_call_id(engine.clock.wall()))
        try:
            acceptor = Acceptor(listening(HOST, port), listener)
        except OSError as error:
            engine.ollama_error = f"cannot listen on {HOST}:{port}: {error.strerror}; another program may use it"
            _log.warning("Ollama's port: %s", engine.ollama_error)
            return
        surface.port = acceptor.port
        engine.ollama_address = f"http://{HOST}:{acceptor.port}"
        engine.tasks.spawn(acceptor.run(), "accepting connections on Ollama's port")
        self._open = (acceptor, listener)

    async def close(self) -> None:
        """Accept nothing more, and close what is open."""
        if self._open is None:
            return
        (acceptor, listener), self._open = self._open, None
        acceptor.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await listener.emptied()
        await listener.shutdown(CUT_S)


@asynccontextmanager
async def open_ollama_port(engine: Engine) -> AsyncIterator[OllamaPort]:
    """Run the port while the block runs."""
    limits = ConnectionLimits(lambda: engine.catalog.registry.settings, most=engine.files.clients)
    port = OllamaPort(engine, limits)
    engine.on_settings = port.follow
    task = engine.tasks.spawn(port.run(), "Ollama's port")
    try:
        yield port
    finally:
        engine.on_settings = lambda: None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await port.close()
