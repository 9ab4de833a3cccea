"""Dialling: from a host and a port to a connection: names are looked up in threads, addresses raced, a proxy's tunnel
opened.

The event loop's executor has a handful of threads and is shared; a name server that does not answer blocks one for half
a minute. Here a look-up has a deadline, a thread of its own, and holds up only its own channel. The threads are
daemons: a stuck one does not keep the process alive. A tunnel (CONNECT, RFC 9110 section 9.3.6) is opened on a socket
that nothing else reads yet; if it fails, nothing was sent to the upstream.
"""

import asyncio
import ipaddress
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import aiohappyeyeballs
import msgspec

from gateway.domain.urls import Proxy

LOOK_UP_S = 5.0

Address = tuple[socket.AddressFamily, int, str, int]
"""Family, protocol, address and port."""


async def look_up(host: str, port: int) -> list[Address]:
    """Looks a name up in a thread of its own. Raises OSError with a text for people."""
    future: Future[list[Address]] = Future()
    future.set_running_or_notify_cancel()  # who stops waiting does not cancel it
    threading.Thread(target=_ask, args=(future, host, port), name=f"name of {host}", daemon=True).start()
    try:
        async with asyncio.timeout(LOOK_UP_S):
            return await asyncio.wrap_future(future)
    except TimeoutError as exc:
        if exc.errno is not None:  # the resolver's own
            raise
        raise OSError(None, f"the name was not found within {LOOK_UP_S:g} s") from exc
    except UnicodeError as exc:
        raise OSError(None, "the name is not a host name") from exc


def _ask(future: Future[list[Address]], host: str, port: int) -> None:
    """Runs in the thread."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        future.set_exception(exc)
    else:
        future.set_result([(info[0], info[2], str(info[4][0]), int(info[4][1])) for info in infos])


_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r\n")


async def tunnel(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Have the proxy connect to a host. Raises OSError with its answer; then the socket is closed."""
    try:
        await asyncio.get_running_loop().sock_sendall(sock, _request(proxy, host, port))
        _check(await _head(sock), proxy)
    except BaseException:
        sock.close()
        raise


async def _head(sock: socket.socket) -> bytes:
    """Returns everything up to the end of the head, or to where it becomes invalid."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) < 16 * 1024:
        data = await asyncio.get_running_loop().sock_recv(sock, 4096)
        if not data:
            break
        head += data
    return head


def _request(proxy: Proxy, host: str, port: int) -> bytes:
    place = _name(host, port)
    opens = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
    return f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{opens}\r\n".encode()


def _check(head: bytes, proxy: Proxy) -> None:
    match = _STATUS.match(head)
    status = int(match[1]) if match else 0
    name = _name(proxy.host, proxy.port)
    if status == 407:
        raise OSError(None, f"the proxy {name} does not accept the user and password it was given")
    if not status or b"\r\n\r\n" not in head:
        raise OSError(None, f"the proxy {name} sent an answer that is not valid")
    if not 200 <= status < 300:
        raise OSError(None, f"the proxy {name} refuses to connect there (HTTP {status})")
    if not head.endswith(b"\r\n\r\n"):
        raise OSError(None, f"the proxy {name} sent unexpected data")


def _name(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


Made = TypeVar("Made", bound=asyncio.BaseProtocol)


class DialTarget(msgspec.Struct, frozen=True):
    """Where to connect to."""

    host: str
    """A name or an address."""
    port: int
    tls: ssl.SSLContext | None
    """None: without TLS."""


class Dialer:
    """Connects to the hosts of one channel. Remembers the addresses of names for a while.

    With a proxy, its address is looked up; it finds the hosts itself.
    """

    def __init__(self, proxy: Proxy | None = None) -> None:
        self._proxy = proxy
        self._asking = asyncio.Lock()
        self._known: dict[tuple[str, int], tuple[float, list[Address]]] = {}

    async def dial(self, where: DialTarget, make: Callable[[], Made]) -> Made:
        """Returns a connection with its protocol. Raises OSError (certificate errors too)."""
        loop = asyncio.get_running_loop()
        sock = await self._tunnel(where, self._proxy) if self._proxy else await self._connect(where.host, where.port)
        name = where.host if where.tls is not None else None
        # From here on the socket is asyncio's, which closes it on failure, too: closing it here as well would let the
        # loop forget whatever connection got its number meanwhile.
        _, protocol = await loop.create_connection(make, sock=sock, ssl=where.tls, server_hostname=name)
        return protocol

    async def _connect(self, host: str, port: int) -> socket.socket:
        addresses = await self.addresses(host, port)
        infos = [(family, socket.SOCK_STREAM, proto, "", (host, port)) for family, proto, host, port in addresses]
        try:  # each address gets a quarter of a second before the next one is tried in parallel (RFC 8305)
            return await aiohappyeyeballs.start_connection(infos, happy_eyeballs_delay=0.25)
        except BaseException:  # its host may have moved
            self._known.pop((host, port), None)
            raise

    async def _tunnel(self, where: DialTarget, proxy: Proxy) -> socket.socket:
        try:
            sock = await self._connect(proxy.host, proxy.port)
        except OSError as exc:
            raise OSError(None, f"the proxy {proxy.host}:{proxy.port} cannot be reached: {text_of(exc)}") from exc
        await tunnel(sock, proxy, where.host, where.port)
        return sock

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Returns the addresses of a name or an address. Raises OSError."""
        try:
            family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
        except ValueError:
            return await self._look_up(host, port)
        return [(family, socket.IPPROTO_TCP, host, port)]

    async def _look_up(self, host: str, port: int) -> list[Address]:
        """Looks one name up at a time: whoever waits for the same name finds its addresses."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            until, known = self._known.get((host, port), (0.0, []))
            if until <= now:
                known = await look_up(host, port)
                self._known[host, port] = (now + 300.0, known)  # seconds that they are believed
        return known


def text_of(exc: Exception) -> str:
    """Returns what went wrong, in a few words."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        return f"TLS failed: {exc.reason or exc}"
    if isinstance(exc, OSError):
        return _system_text(exc)
    return str(exc) or type(exc).__name__


def _system_text(exc: OSError) -> str:
    """Returns the system's words, which asyncio replaces. Errors of look-ups have numbers of their own."""
    if exc.errno and not isinstance(exc, socket.gaierror):
        return os.strerror(exc.errno)
    closed = "it closed the connection" if isinstance(exc, ConnectionError) else type(exc).__name__
    return exc.strerror or str(exc) or closed
