"""Listener and Acceptor: connections are accepted, counted, and closed when the server stops.

The event loop's own server accepts all waiting connections at once, before anything can count them. If no file is free,
it closes new connections silently, or stops. Here every connection is counted before the next one is accepted, and one
too many gets an answer.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from aiohttp import web

from gateway.domain.errors import Unavailable
from gateway.domain.units import CallId
from gateway.web.connection import MAX_HEADERS, MAX_LINE, Connection, GatewayRequest
from gateway.web.connection_limits import ConnectionLimits
from gateway.web.error_responses import error_answer
from gateway.web.response import Response

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse | Response]]

_log = logging.getLogger("tollkeeper")


class Listener(web.Server):
    """Makes the connections and keeps them until they close.

    It writes no access log: the records of calls are one, and writing both costs a fifth of the throughput.
    """

    def __init__(self, handler: Handler, limits: ConnectionLimits, new_id: Callable[[], CallId]) -> None:
        """``new_id`` returns an id for an answer that is not the handler's."""
        # aiohttp names StreamResponse, and uses only what Response has
        super().__init__(handler, handler_cancellation=False)  # type: ignore[arg-type]
        self.request_factory = partial(GatewayRequest, loop=self._loop)
        self.limits = limits
        self.new_id = new_id

    def connection(self, address: str) -> Connection:
        """Returns a new connection from this address, which is already counted."""
        return Connection(
            self,
            partial(self.limits.leave, address),
            self.new_id,
            loop=self._loop,
            keepalive_timeout=75.0,
            access_log=None,
            read_bufsize=64 << 10,
            auto_decompress=False,
            lingering_time=1.0,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            max_headers=MAX_HEADERS,
        )

    async def close_connections(self) -> None:
        """Close idle connections at once, others after their answer, and return. It polls: no event says idle."""
        while self._connections:
            for connection in self.connections:
                if isinstance(connection, Connection):
                    connection.close_when_idle()
            await asyncio.sleep(0.02)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - aiohttp's
        """Cancel the handlers that still run, wait this many seconds for them, and abort what was not sent."""
        connections = dict(self._connections)
        tasks = [task for connection in connections if (task := connection._task_handler) is not None]  # noqa: SLF001 - aiohttp's
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
        for transport in connections.values():
            transport.abort()


_ADDRESS_MISSING = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""``localhost`` may have an IPv6 address although this machine has no IPv6."""
_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def listening(host: str, port: int) -> list[socket.socket]:
    """Returns sockets that listen at all addresses of a host; an empty host means all addresses of this machine.

    Raises OSError. Looking up the host's name blocks; only a starting server has a name that is not an address.
    """
    infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(infos):
        try:  # the backlog is how many connections the system holds while we are busy
            sockets.append(socket.create_server(address, family=family, backlog=1024))
        except OSError as error:
            failure = error
            if error.errno not in _ADDRESS_MISSING:
                break
    if failure is not None and (failure.errno not in _ADDRESS_MISSING or not sockets):
        for sock in sockets:
            sock.close()
        raise OSError(failure.errno, os.strerror(failure.errno or 0))  # without the address, which Python adds
    for sock in sockets:
        sock.setblocking(False)
    return sockets


class Acceptor:
    """Accepts connections until it is closed."""

    def __init__(self, sockets: list[socket.socket], listener: Listener) -> None:
        self._sockets = sockets
        self.listener = listener
        self._loop = asyncio.get_running_loop()
        self._accepting: list[asyncio.Task[None]] = []
        self._lingering = 0
        self._logged: set[str] = set()
        """The messages of the last minute."""
        self.port: int = sockets[0].getsockname()[1]

    async def run(self) -> None:
        """Accept until closed."""
        async with asyncio.TaskGroup() as group:
            self._accepting = [group.create_task(self._accept(sock, group)) for sock in self._sockets]

    def close(self) -> None:
        """Accept no more connections. Accepted ones stay open."""
        for task in self._accepting:
            task.cancel()
        for sock in self._sockets:
            self._loop.call_soon(sock.close)  # not before the cancelled tasks have released it

    async def _accept(self, listening_socket: socket.socket, group: asyncio.TaskGroup) -> None:
        """Accept the connections of one socket until it is closed."""
        while listening_socket.fileno() != -1:
            try:
                sock, peer = await self._loop.sock_accept(listening_socket)
                self._admit(sock, peer, group)
                self._accept_waiting(listening_socket, group)
            except OSError as error:
                if error.errno in _NO_RESOURCES:
                    self._warn(f"the system has no room for more connections: {error.strerror}")
                await asyncio.sleep(0.1)

    def _accept_waiting(self, listening_socket: socket.socket, group: asyncio.TaskGroup) -> None:
        """Accept the connections that wait, after a first one that has been accepted."""
        for _ in range(63):  # then other work has its turn
            try:
                sock, peer = listening_socket.accept()
            except (BlockingIOError, ConnectionError):
                return
            sock.setblocking(False)
            self._admit(sock, peer, group)

    def _admit(self, sock: socket.socket, peer: object, group: asyncio.TaskGroup) -> None:
        """Serve a new connection, or refuse it if it is one too many."""
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        if reason := self.listener.limits.enter(address):
            self._refuse(sock, reason, group)
        else:
            group.create_task(self._connect(sock, address))

    async def _connect(self, sock: socket.socket, address: str) -> None:
        connection = self.listener.connection(address)
        try:
            await self._loop.connect_accepted_socket(lambda: connection, sock)
        except OSError:  # the client has already closed it
            connection.release()
            sock.close()

    def _refuse(self, sock: socket.socket, reason: str, group: asyncio.TaskGroup) -> None:
        """Answer that there are too many connections, without waiting for a request.

        The socket stays open for a moment: closing it with an unread request would discard the answer.
        """
        self._warn(f"connections are turned away: {reason}")
        with suppress(OSError):
            sock.send(_refusal_bytes(reason, self.listener.new_id()))
            sock.shutdown(socket.SHUT_WR)
        if self._lingering < 32:  # they use the reserve of open files
            self._lingering += 1
            group.create_task(self._linger(sock))
        else:
            sock.close()

    async def _linger(self, sock: socket.socket) -> None:
        """Drop what a client sends until it closes, for a second at most, then close the socket."""
        try:
            async with asyncio.timeout(1.0):
                while await self._loop.sock_recv(sock, 1 << 16):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            self._lingering -= 1
            sock.close()

    def _warn(self, text: str) -> None:
        """Log a message, but each at most once a minute: its cause may occur thousands of times a second."""
        if text not in self._logged:
            self._logged.add(text)
            self._loop.call_later(60.0, self._logged.discard, text)
            _log.warning("%s", text)


def _refusal_bytes(reason: str, call: CallId) -> bytes:
    """Returns a whole answer with status 503."""
    _, headers, body = error_answer(Unavailable(reason, retry_after_s=1), call)
    fields = "".join(f"{name}: {value}\r\n" for name, value in {**headers, "x-request-id": call}.items())
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nServer: tollkeeper\r\nConnection: close\r\n{fields}\r\n"
    )
    return head.encode() + body
