"""Tunnel: the way through an HTTP proxy (CONNECT, RFC 9110 section 9.3.6), on a socket that nobody else reads yet.

Whatever fails here was never sent to the upstream.
"""

import asyncio
import re
import socket

from gateway.domain.urls import Proxy

HEAD_LIMIT = 16 * 1024

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r\n")


async def tunnel(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Have the proxy connect to a host. Raises OSError saying what it answered; then the socket is closed."""
    try:
        await asyncio.get_running_loop().sock_sendall(sock, _request(proxy, host, port))
        _check(await _head(sock), proxy)
    except BaseException:
        sock.close()
        raise


async def _head(sock: socket.socket) -> bytes:
    """All that comes up to the end of the head, or to where it makes no sense any more."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) < HEAD_LIMIT:
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
    found = _STATUS.match(head)
    status = int(found[1]) if found else 0
    name = _name(proxy.host, proxy.port)
    if status == 407:
        raise OSError(None, f"the proxy {name} does not accept the user and password it was given")
    if not status or b"\r\n\r\n" not in head:
        raise OSError(None, f"the proxy {name} gave no answer that makes sense")
    if not 200 <= status < 300:
        raise OSError(None, f"the proxy {name} does not lead there (HTTP {status})")
    if not head.endswith(b"\r\n\r\n"):
        raise OSError(None, f"the proxy {name} sent bytes that nobody asked for")


def _name(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
