"""OllamaPort: a second port for programs that expect Ollama and cannot send a key (``Settings.ollama_port``).

It is open while a port and a token are set, on the loopback address only, and is opened and closed as the settings
change. If another program has the port, ``status`` reports that, and the gateway runs without it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from gateway.core.auth import new_call_id
from gateway.core.engine import Engine
from gateway.v1.app import PublicApp
from gateway.web.connection_limits import ConnectionLimits
from gateway.web.listener import Acceptor, Listener, listening

_log = logging.getLogger("tollkeeper")

HOST = "127.0.0.1"
DRAIN_S = 0.4
"""Seconds for answers that are being sent when the port closes."""
CUT_S = 0.05
"""Seconds for handlers that are cancelled then."""


class OllamaPort:
    """The port, open or not."""

    def __init__(self, engine: Engine, limits: ConnectionLimits) -> None:
        self._engine = engine
        self._limits = limits
        self._settings_changed = asyncio.Event()
        self._tried_port = 0
        """The port that was tried last; 0 if it should be closed."""
        self._listening: tuple[Acceptor, Listener] | None = None

    def apply_settings(self) -> None:
        """Open or close the port soon, because the settings may have changed."""
        self._settings_changed.set()

    async def run(self) -> None:
        """Open and close the port as the settings say, until cancelled."""
        while True:
            await self._apply_settings()
            await self._settings_changed.wait()
            self._settings_changed.clear()

    async def _apply_settings(self) -> None:
        """Open or close the port if the settings differ from its state."""
        settings = self._engine.catalog.registry.settings
        port = settings.ollama_port if settings.ollama_token else 0
        if port == self._tried_port and (self._listening is not None or not port):
            return
        await self.close()
        self._tried_port = port
        self._engine.ollama_address = self._engine.ollama_error = ""
        if port:
            await self._listen(port)
        self._engine.bus.publish_change()

    async def _listen(self, port: int) -> None:
        """Open the port. If that fails, the engine's status gets the error."""
        engine = self._engine
        app = PublicApp(engine, HOST, keyless=True)
        listener = Listener(app.handle, self._limits, lambda: new_call_id(engine.clock.wall()))
        try:
            acceptor = Acceptor(listening(HOST, port), listener)
        except OSError as error:
            engine.ollama_error = f"cannot listen on {HOST}:{port}: {error.strerror}; another program may use it"
            _log.warning("Ollama's port: %s", engine.ollama_error)
            return
        app.port = acceptor.port
        engine.ollama_address = f"http://{HOST}:{acceptor.port}"
        engine.tasks.spawn(acceptor.run(), "accepting connections on Ollama's port")
        self._listening = (acceptor, listener)

    async def close(self) -> None:
        """Close the port and its connections, if it is open."""
        if self._listening is None:
            return
        (acceptor, listener), self._listening = self._listening, None
        acceptor.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await listener.emptied()
        await listener.shutdown(CUT_S)


@asynccontextmanager
async def open_ollama_port(engine: Engine) -> AsyncIterator[OllamaPort]:
    """Run the port while the block runs."""
    limits = ConnectionLimits(lambda: engine.catalog.registry.settings, most=engine.files.clients)
    port = OllamaPort(engine, limits)
    engine.on_settings = port.apply_settings
    task = engine.tasks.spawn(port.run(), "Ollama's port")
    try:
        yield port
    finally:
        engine.on_settings = lambda: None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await port.close()
