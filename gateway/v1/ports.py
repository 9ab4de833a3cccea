"""The ports of a ``PublicApp``.

Clients make calls at the ``PublicPort``, which ends its calls in order when the server stops. ``OllamaPort`` is for
programs that expect Ollama and cannot send a key (``Settings.ollama_port``). It is open while a port and a token are
set, on the loopback address only, and is opened and closed as the settings change. If another program has the port,
``status`` reports that, and the gateway runs without it.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from gateway.config import DEFAULT_HOST, Config
from gateway.core.auth import new_call_id
from gateway.core.engine import Engine
from gateway.domain.addresses import own_address
from gateway.domain.call import Outcome
from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.events import StatusChanged, Stopping
from gateway.domain.text import word
from gateway.domain.units import Millis
from gateway.v1.app import PublicApp
from gateway.web.connection_limits import ConnectionLimits
from gateway.web.listener import Acceptor, Listener, listening
from gateway.web.port_owner import free_port, port_owner

_log = logging.getLogger("tollkeeper")

OLLAMA_HOST = "127.0.0.1"
LAST_ANSWERS_S = 0.4
"""Seconds for answers that are being sent when the port closes."""
CANCELLED_S = 0.05
"""Seconds for handlers that are cancelled after that."""


class Port(NamedTuple):
    """An open port, and its connections."""

    acceptor: Acceptor
    listener: Listener


def open_port(engine: Engine, host: str, number: int, limits: ConnectionLimits, *, keyless: bool = False) -> Port:
    """Open a port; number 0 means any free one. ``keyless``: see ``PublicApp``. Raises OSError."""
    app = PublicApp(engine, host, keyless=keyless)
    listener = Listener(app.handle, limits, lambda: new_call_id(engine.clock.wall()))
    acceptor = Acceptor(listening(host, number), listener)
    app.port = acceptor.port
    engine.tasks.spawn(acceptor.run(), f"accepting connections on port {acceptor.port}")
    return Port(acceptor, listener)


class PublicPort:
    """The open public port. ``drain`` closes it and ends the engine's calls."""

    def __init__(self, engine: Engine, port: Port) -> None:
        self._engine = engine
        self._port = port

    async def drain(self, limit_s: float, at_once: asyncio.Event) -> None:
        """Accept nothing new. After ``limit_s`` seconds, or ``at_once``, end calls with an error. All are settled."""
        engine = self._engine
        engine.refuse_calls()
        self._port.acceptor.close()
        until = Millis(engine.now() + round(limit_s * 1000))
        engine.bus.publish(Stopping(until_ms=until, running=list(engine.store.books.running)))
        if limit_s and not at_once.is_set():
            async with asyncio.TaskGroup() as group:
                waits = [group.create_task(self._wait_until_idle()), group.create_task(at_once.wait())]
                await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
                for wait in waits:
                    wait.cancel()
        engine.live.cancel_all(Outcome.STOPPED)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_ANSWERS_S):  # for streams that are cut to get their error event
                await self._wait_until_idle()
        await self._port.listener.shutdown(CANCELLED_S)

    async def _wait_until_idle(self) -> None:
        """Wait until every answer is sent and no call runs. Some calls go on after their clients have left."""
        await self._port.listener.close_connections()
        await self._engine.live.empty.wait()


@asynccontextmanager
async def open_public_port(engine: Engine, config: Config) -> AsyncIterator[PublicPort]:
    """Open the public port for the block. Raises Conflict if it is in use, and BadRequest for an unknown host."""
    limits = ConnectionLimits(engine.settings, engine.files.clients)
    try:
        port = open_port(engine, config.host, config.port, limits)
    except (UnicodeError, socket.gaierror) as error:
        msg = f"{config.host!a} is not an address of this machine; choose another with --host"
        raise BadRequest(msg, param="host") from error
    except OSError as error:
        raise _cannot_listen(config, error) from error
    engine.address = own_address(config.host, port.acceptor.port)
    engine.incident_watch.serving = True
    engine.open_connections = lambda: limits.open
    public_port = PublicPort(engine, port)
    try:
        yield public_port
    finally:
        await public_port.drain(0.0, asyncio.Event())


def _cannot_listen(config: Config, error: OSError) -> Conflict:
    """Returns the error of a port that cannot be opened: why, and the command that starts the server at another one."""
    reason = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        reason = f"{port_owner(config.port) or 'another program'} already listens there"
    port = free_port(config.host, config.port) or "PORT"
    host_option = f"--host {word(config.host)} " if config.host != DEFAULT_HOST else ""
    serve = " serve" if config.first_token else ""  # a console starts servers without one
    command = f"tollkeeper{serve}{config.home_option} {host_option}--port {port}"
    return Conflict(
        f"cannot listen on {config.host}:{config.port}: {reason}; use another port: {command}", code="port_in_use"
    )


class OllamaPort:
    """Ollama's port, open or not."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limits = ConnectionLimits(engine.settings, engine.files.clients)
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
        engine, settings = self._engine, self._engine.settings()
        number = settings.ollama_port if settings.ollama_token else 0
        if number == self._tried_number and (self._port is not None or not number):
            return
        await self.close()
        self._tried_number = number
        engine.ollama_address = engine.ollama_error = ""
        if number:
            place = f"{OLLAMA_HOST}:{number}"
            try:
                self._port = open_port(engine, OLLAMA_HOST, number, self._limits, keyless=True)
                engine.ollama_address = f"http://{place}"
            except OSError as error:
                engine.ollama_error = f"cannot listen on {place}: {error.strerror}; another program may use it"
                _log.warning("Ollama's port: %s", engine.ollama_error)
        engine.bus.publish(StatusChanged(status=engine.status()))

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
    """Run Ollama's port while the block runs."""
    port = OllamaPort(engine)
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
