"""The ports of a ``PublicApp``.

Clients make calls at the public port, which ends its calls in order when the server stops. Ollama's port is for
programs that expect Ollama and cannot send a key (``Settings.ollama_port``). It is open while a port and a token are
set, on the loopback address only, and is opened and closed as the settings change. If another program has the port,
``status`` reports that, and the gateway runs without it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress

from gateway.config import Config
from gateway.core.auth import new_call_id
from gateway.core.engine import Engine
from gateway.domain.addresses import own_address
from gateway.domain.call import Outcome
from gateway.domain.events import StatusChanged, Stopping
from gateway.domain.units import Millis
from gateway.v1.app import PublicApp
from gateway.web.connection_limits import ConnectionLimits
from gateway.web.listener import Acceptor, Listener, listening
from gateway.web.port_owner import listening_error

_log = logging.getLogger("tollkeeper")

OLLAMA_HOST = "127.0.0.1"
LAST_ANSWERS_S = 0.4
"""Seconds for answers that are being sent when the port closes."""
CANCELLED_S = 0.05
"""Seconds for handlers that are cancelled after that."""


def open_port(engine: Engine, host: str, number: int, limits: ConnectionLimits, *, keyless: bool = False) -> Acceptor:
    """Open a port; number 0 means any free one. ``keyless``: see ``PublicApp``. Raises OSError."""
    app = PublicApp(engine, host, keyless=keyless)
    listener = Listener(app.handle, limits, lambda: new_call_id(engine.clock.wall()))
    acceptor = Acceptor(listening(host, number), listener)
    app.port = acceptor.port
    engine.tasks.spawn(acceptor.run(), f"accepting connections on port {acceptor.port}")
    return acceptor


async def _end_handlers(acceptor: Acceptor, idle: Awaitable[None]) -> None:
    """Wait a moment for ``idle``, so that answers can be sent to their ends; then end all handlers."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_ANSWERS_S):
            await idle
    await acceptor.listener.shutdown(CANCELLED_S)


async def drain(engine: Engine, acceptor: Acceptor, limit_s: float, at_once: asyncio.Event) -> None:
    """Close the public port. After ``limit_s`` seconds, or ``at_once``, end calls with an error. All are settled."""
    engine.refuse_calls()
    acceptor.close()
    until = Millis(engine.now() + round(limit_s * 1000))
    engine.bus.publish(Stopping(until_ms=until, running=list(engine.store.books.running)))
    if limit_s and not at_once.is_set():
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(_wait_until_idle(engine, acceptor)), group.create_task(at_once.wait())]
            await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
    engine.live.cancel_all(Outcome.STOPPED)
    await _end_handlers(acceptor, _wait_until_idle(engine, acceptor))  # streams that are cut get their error event


async def _wait_until_idle(engine: Engine, acceptor: Acceptor) -> None:
    """Wait until every answer is sent and no call runs. Some calls go on after their clients have left."""
    await acceptor.listener.close_connections()
    await engine.live.empty.wait()


@asynccontextmanager
async def open_public_port(engine: Engine, config: Config) -> AsyncIterator[Acceptor]:
    """Open the public port for the block. Raises Conflict if it is in use, and BadRequest for an unknown host."""
    limits = ConnectionLimits(engine.settings, engine.files.clients)
    try:
        acceptor = open_port(engine, config.host, config.port, limits)
    except (UnicodeError, OSError) as error:
        raise listening_error(config, error) from error
    engine.address = own_address(config.host, acceptor.port)
    engine.incident_watch.serving = True
    engine.open_connections = lambda: limits.open
    try:
        yield acceptor
    finally:
        await drain(engine, acceptor, 0.0, asyncio.Event())


@asynccontextmanager
async def open_ollama_port(engine: Engine) -> AsyncIterator[None]:
    """Open and close Ollama's port as the settings say, while the block runs."""
    settings_changed = asyncio.Event()
    engine.on_settings_change = settings_changed.set
    task = engine.tasks.spawn(_follow_settings(engine, settings_changed), "Ollama's port")
    try:
        yield
    finally:
        engine.on_settings_change = lambda: None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _follow_settings(engine: Engine, changed: asyncio.Event) -> None:
    """Open and close the port until cancelled. ``changed`` is set when the settings may have changed."""
    limits = ConnectionLimits(engine.settings, engine.files.clients)
    while True:
        number = _ollama_number(engine)
        async with _ollama_port(engine, number, limits):
            is_outdated = False
            while not is_outdated:
                await changed.wait()
                changed.clear()
                is_outdated = _ollama_number(engine) != number or bool(engine.ollama_error)


def _ollama_number(engine: Engine) -> int:
    """Returns the number of the port that should be open; 0 if it should be closed."""
    settings = engine.settings()
    return settings.ollama_port if settings.ollama_token else 0


@asynccontextmanager
async def _ollama_port(engine: Engine, number: int, limits: ConnectionLimits) -> AsyncIterator[None]:
    """Open the port with this number for the block, unless it is 0. The status says whether that was possible."""
    acceptor = None
    place = f"{OLLAMA_HOST}:{number}"
    engine.ollama_address = engine.ollama_error = ""
    if number:
        try:
            acceptor = open_port(engine, OLLAMA_HOST, number, limits, keyless=True)
            engine.ollama_address = f"http://{place}"
        except OSError as error:
            engine.ollama_error = f"cannot listen on {place}: {error.strerror}; another program may use it"
            _log.warning("Ollama's port: %s", engine.ollama_error)
    engine.bus.publish(StatusChanged(status=engine.status()))
    try:
        yield
    finally:
        if acceptor is not None:
            acceptor.close()
            await _end_handlers(acceptor, acceptor.listener.close_connections())
