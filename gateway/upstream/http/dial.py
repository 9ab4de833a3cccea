"""Dialer: connects to a host and a port: looks up the name, races the addresses, and opens a proxy's tunnel.

The event loop's executor is shared and has a handful of threads; a name server that does not answer blocks one for half
a minute. So each look-up has a deadline and a thread of its own, and delays only its own channel. The threads are
daemons, so that a stuck one does not keep the process alive. A tunnel (CONNECT, RFC 9110 section 9.3.6) is opened on a
socket that nothing else reads yet. If it fails, nothing was sent to the upstream.
"""

import asyncio
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from typing import TypeVar

import msgspec
import yarl
from aiohappyeyeballs import AddrInfoType, start_connection

from gateway.domain.urls import Proxy

LOOK_UP_S = 5.0


async def look_up(host: str, port: int) -> list[AddrInfoType]:
    """Returns the addresses of a name, looked up in a thread of its own. Raises OSError with a text for people."""
    future: Future[list[AddrInfoType]] = Future()
    future.set_running_or_notify_cancel()  # then it cannot be cancelled, which the thread would not expect
    threading.Thread(target=_resolve, args=(future, host, port), name=f"name of {host}", daemon=True).start()
    try:
        async with asyncio.timeout(LOOK_UP_S):
            return await asyncio.wrap_future(future)
    except TimeoutError as exc:
        if exc.errno is not None:  # the resolver's own
            raise
        raise OSError(None, f"the name was not found within {LOOK_UP_S:g} s") from exc
    except UnicodeError as exc:
        raise OSError(None, "the name is not a host name") from exc


def _resolve(future: Future[list[AddrInfoType]], host: str, port: int) -> None:
    """Set the future's result to the addresses. Runs in the thread."""
    try:
        future.set_result([*socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)])
    except (OSError, UnicodeError) as exc:
        future.set_exception(exc)


_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r\n")


async def tunnel(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Have the proxy connect a socket to a host. If it refuses, raises OSError, and the socket is closed."""
    authority = _authority(host, port)
    authorization = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
    request = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{authorization}\r\n"
    loop, head = asyncio.get_running_loop(), b""
    try:
        await loop.sock_sendall(sock, request.encode())
        while b"\r\n\r\n" not in head and len(head) < 16 * 1024 and (data := await loop.sock_recv(sock, 4096)):
            head += data
        _check_answer(head, proxy)
    except BaseException:
        sock.close()
        raise


def _check_answer(head: bytes, proxy: Proxy) -> None:
    """Raises OSError unless the head of the proxy's answer opens the tunnel."""
    match = _STATUS.match(head)
    status = int(match[1]) if match else 0
    name = _authority(proxy.host, proxy.port)
    if status == 407:
        problem = "requires a user and password"
        if proxy.authorization:
            problem = "does not accept the user and password it was given"
        raise OSError(None, f"the proxy {name} {problem}")
    if not status or b"\r\n\r\n" not in head:
        raise OSError(None, f"the proxy {name} sent an answer that is not valid")
    if not 200 <= status < 300:
        raise OSError(None, f"the proxy {name} refuses to connect there (HTTP {status})")
    if not head.endswith(b"\r\n\r\n"):
        raise OSError(None, f"the proxy {name} sent unexpected data")


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


AnyProtocol = TypeVar("AnyProtocol", bound=asyncio.BaseProtocol)


class Target(msgspec.Struct, frozen=True):
    """A URL: where to connect to, and how it is sent."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    line: bytes = b""
    """The request line after the method, and the Host header."""


@lru_cache(maxsize=256)
def target_of(text: str) -> Target:
    """Returns the target of a URL."""
    url = yarl.URL(text)
    line = f"{url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}".encode()
    return Target(url.raw_host or "", url.port or 0, tls_context() if url.scheme == "https" else None, line)


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Returns a context that checks certificates and names and requires TLS 1.2: Python's defaults."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


class Dialer:
    """Connects to the hosts of a channel, and remembers their addresses; with a proxy, only the proxy's."""

    def __init__(self, proxy: Proxy | None = None) -> None:
        self._proxy = proxy
        self._look_up_lock = asyncio.Lock()
        self._cache: dict[tuple[str, int], tuple[float, list[AddrInfoType]]] = {}
        """The addresses of each name, and until when they count, by the loop's clock."""

    async def dial(self, target: Target, make: Callable[[], AnyProtocol]) -> tuple[asyncio.Transport, AnyProtocol]:
        """Returns a new connection. Raises OSError, for certificates too."""
        proxy = self._proxy
        if proxy is None:
            sock = await self._connect(target.host, target.port)
        else:
            try:
                sock = await self._connect(proxy.host, proxy.port)
            except OSError as exc:
                reason = f"the proxy {proxy.host}:{proxy.port} cannot be reached: {error_text(exc)}"
                raise OSError(None, reason) from exc
            await tunnel(sock, proxy, target.host, target.port)
        name = target.host if target.tls is not None else None
        # From here on the socket is asyncio's, which closes it on failure as well. If it were closed here too, the loop
        # could forget another connection that has got its number meanwhile.
        loop = asyncio.get_running_loop()
        return await loop.create_connection(make, sock=sock, ssl=target.tls, server_hostname=name)

    async def _connect(self, host: str, port: int) -> socket.socket:
        addresses = await self.addresses(host, port)
        try:  # each address gets a quarter of a second before the next one is tried in parallel (RFC 8305)
            return await start_connection(addresses, happy_eyeballs_delay=0.25)
        except BaseException:  # the host may have moved
            self._cache.pop((host, port), None)
            raise

    async def addresses(self, host: str, port: int) -> list[AddrInfoType]:
        """Returns the addresses of a host. Calls that need the same name share one look-up. Raises OSError."""
        async with self._look_up_lock:
            now = asyncio.get_running_loop().time()
            until, addresses = self._cache.get((host, port), (0.0, []))
            if until <= now:
                addresses = await look_up(host, port)
                self._cache[host, port] = (now + 300.0, addresses)  # seconds
        return addresses


_NOT_TLS = frozenset({"HTTP_REQUEST", "WRONG_VERSION_NUMBER"})


def is_lasting(exc: Exception) -> bool:
    """Returns whether a connection failed for what the next one has as well: its certificate, or the lack of TLS."""
    return isinstance(exc, ssl.SSLCertVerificationError) or (isinstance(exc, ssl.SSLError) and exc.reason in _NOT_TLS)


def error_text(exc: Exception) -> str:
    """Returns a short text that says what failed."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError) and exc.reason in _NOT_TLS:
        return "it does not speak TLS there; a base URL without TLS begins with http://"
    if isinstance(exc, ssl.SSLError):
        return f"TLS failed: {exc.reason or exc}"
    if isinstance(exc, OSError) and exc.errno and not isinstance(exc, socket.gaierror):  # look-ups have other numbers
        return os.strerror(exc.errno)  # asyncio replaces the system's text by one of its own
    text = exc.strerror if isinstance(exc, OSError) else ""
    default = "it closed the connection" if isinstance(exc, ConnectionError) else type(exc).__name__
    return text or str(exc) or default
