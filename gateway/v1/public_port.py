"""PublicPort: the port at which clients make calls. It ends its calls in order when the server stops.

``open_port`` opens a port at which a ``PublicApp`` answers requests, as this one and that for Ollama are.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from gateway.config import DEFAULT_HOST, Config
from gateway.core.auth import new_call_id
from gateway.core.engine import Engine
from gateway.domain.call import Outcome
from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.events import Stopping
from gateway.domain.text import word
from gateway.domain.units import Millis
from gateway.v1.app import PublicApp
from gateway.web.connection_limits import ConnectionLimits
from gateway.web.listener import Acceptor, Listener, listening
from gateway.web.port_owner import free_port, port_owner

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
    """The open port, and the calls of the engine."""

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
            await _wait_unless(at_once, self._idle(), limit_s)
        engine.live.cancel_all(Outcome.STOPPED)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_ANSWERS_S):  # for streams that are cut to get their error event
                await self._idle()
        await self._port.listener.shutdown(CANCELLED_S)

    async def _idle(self) -> None:
        """Wait until every answer is sent and no call runs. Some calls go on after their clients have left."""
        await self._port.listener.close_connections()
        await self._engine.live.empty.wait()


async def _wait_unless(event: asyncio.Event, work: Coroutine[object, object, None], limit_s: float) -> None:
    """Wait until the work is done, the event is set or the time is over."""
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(work), group.create_task(event.wait())]
        await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


@asynccontextmanager
async def open_public_port(engine: Engine, config: Config) -> AsyncIterator[PublicPort]:
    """Open the public port for the block. Raises Conflict if it is in use, and BadRequest for an unknown host."""
    limits = ConnectionLimits(engine.settings, most=engine.files.clients)
    try:
        port = open_port(engine, config.host, config.port, limits)
    except (UnicodeError, socket.gaierror) as error:
        msg = f"{config.host!a} is not an address of this machine; choose another with --host"
        raise BadRequest(msg, param="host") from error
    except OSError as error:
        raise _cannot_listen(config, error) from error
    engine.address = f"http://{_reachable(config.host)}:{port.acceptor.port}/v1"
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
    command = f"tollkeeper serve{config.home_option} {host_option}--port {port}"
    return Conflict(
        f"cannot listen on {config.host}:{config.port}: {reason}; use another port: {command}", code="port_in_use"
    )


def _reachable(host: str) -> str:
    """Returns the host for the base URL, given the host at which the server listens."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared with, not bound to
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
