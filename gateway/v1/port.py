"""Port: a TCP port at which a ``PublicApp`` answers requests. The public port and that for Ollama are such ports."""

from gateway.core.auth import new_call_id
from gateway.core.engine import Engine
from gateway.v1.app import PublicApp
from gateway.web.connection_limits import ConnectionLimits
from gateway.web.listener import Acceptor, Listener, listening

LAST_ANSWERS_S = 0.4
"""Seconds for answers that are being sent when the port closes."""
CANCELLED_S = 0.05
"""Seconds for handlers that are cancelled after that."""


class Port:
    """An open port."""

    def __init__(self, acceptor: Acceptor, listener: Listener) -> None:
        self._acceptor = acceptor
        self._listener = listener
        self.number = acceptor.port

    def refuse_connections(self) -> None:
        """Accept no more connections. Accepted ones stay open."""
        self._acceptor.close()

    async def close_connections(self) -> None:
        """Close every connection after its answer. Returns when all are closed."""
        await self._listener.close_connections()

    async def shutdown(self) -> None:
        """Cancel the handlers that still run, and close their connections."""
        await self._listener.shutdown(CANCELLED_S)


def open_port(engine: Engine, host: str, number: int, limits: ConnectionLimits, *, keyless: bool = False) -> Port:
    """Open a port; number 0 means any free one. ``keyless``: see ``PublicApp``. Raises OSError."""
    app = PublicApp(engine, host, keyless=keyless)
    listener = Listener(app.handle, limits, lambda: new_call_id(engine.clock.wall()))
    acceptor = Acceptor(listening(host, number), listener)
    app.port = acceptor.port
    engine.tasks.spawn(acceptor.run(), f"accepting connections on port {acceptor.port}")
    return Port(acceptor, listener)
