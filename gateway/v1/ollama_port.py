"""OllamaPort: a second port for programs that expect Ollama and cannot send a key (``Settings.ollama_port``).

It is open while a port and a token are set, on the loopback address only, and is opened and closed as the settings
change. If another program has the port, ``status`` reports that, and the gateway runs without it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from gateway.core.engine import Engine
from gateway.domain.events import StatusChanged
from gateway.v1.public_port import CANCELLED_S, LAST_ANSWERS_S, Port, open_port
from gateway.web.connection_limits import ConnectionLimits

_log = logging.getLogger("tollkeeper")

HOST = "127.0.0.1"


class OllamaPort:
    """The port, open or not."""

    def __init__(self, engine: Engine, limits: ConnectionLimits) -> None:
        self._engine = engine
        self._limits = limits
        self.settings_changed = asyncio.Event()
        """To be set when the settings may have changed; then the port is opened or closed soon."""
        self._tried_number = 0
        """The port that was tried last; 0 if it should be closed."""
        self._port: Port | None = None

    async def run(self) -> None:
        """Open and close the port as the settings say, until cancelled."""
        while True:
            await self._apply_settings()
            await self.settings_changed.wait()
            self.settings_changed.clear()

    async def _apply_settings(self) -> None:
        """Open or close the port if the settings differ from its state."""
        settings = self._engine.settings()
        number = settings.ollama_port if settings.ollama_token else 0
        if number == self._tried_number and (self._port is not None or not number):
            return
        await self.close()
        self._tried_number = number
        self._engine.ollama_address = self._engine.ollama_error = ""
        if number:
            self._open(number)
        self._engine.bus.publish(StatusChanged(status=self._engine.status()))

    def _open(self, number: int) -> None:
        """Open the port. If that fails, the engine's status gets the error."""
        engine = self._engine
        try:
            self._port = open_port(engine, HOST, number, self._limits, keyless=True)
        except OSError as error:
            engine.ollama_error = f"cannot listen on {HOST}:{number}: {error.strerror}; another program may use it"
            _log.warning("Ollama's port: %s", engine.ollama_error)
            return
        engine.ollama_address = f"http://{HOST}:{self._port.acceptor.port}"

    async def close(self) -> None:
        """Close the port and its connections, if it is open."""
        port, self._port = self._port, None
        if port is None:
            return
        port.acceptor.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_ANSWERS_S):
                await port.listener.close_connections()
        await port.listener.shutdown(CANCELLED_S)


@asynccontextmanager
async def open_ollama_port(engine: Engine) -> AsyncIterator[OllamaPort]:
    """Run the port while the block runs."""
    limits = ConnectionLimits(engine.settings, most=engine.files.clients)
    port = OllamaPort(engine, limits)
    engine.on_settings_change = port.settings_changed.set
    task = engine.tasks.spawn(port.run(), "Ollama's port")
    try:
        yield port
    finally:
        engine.on_settings_change = lambda: None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await port.close()
