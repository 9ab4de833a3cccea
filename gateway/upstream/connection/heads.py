"""Heads: what a request begins with, as bytes, and where its URL leads. Nearly every one is like the one before."""

import ssl
from collections.abc import Mapping
from functools import lru_cache

import msgspec
import yarl

from gateway.upstream.adapter import Prepared
from gateway.upstream.connection.dial import Place

KEPT = 64
"""Sets of headers of one channel that are kept encoded."""


class Target(msgspec.Struct, frozen=True):
    """What a URL means on the wire."""

    line: bytes
    """The rest of the request line, and the Host header."""
    place: Place


class Heads:
    """The request heads of one channel, whose own headers are given."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = dict(headers)
        self._known: dict[tuple[tuple[str, str], ...], bytes] = {}

    def head(self, method: str, target: Target, prepared: Prepared) -> bytes:
        """Raises ValueError for a header that cannot be sent, without showing its value."""
        key = tuple(prepared.headers.items())
        lines = self._known.get(key)
        if lines is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            lines = self._known[key] = _lines({**self._headers, **prepared.headers})
        size = sum(map(len, prepared.parts)) if prepared.parts else len(prepared.body)
        length = b"Content-Length: %d\r\n" % size if size or method == "POST" else b""
        return b"%b %b\r\n%b%b\r\n" % (method.encode(), target.line, lines, length)


def _lines(headers: Mapping[str, str]) -> bytes:
    for name, value in headers.items():
        line = name + value
        if "\r" in line or "\n" in line or "\0" in line or not line.isascii():
            raise ValueError(f"the header '{name}' of the channel, or its key, has characters that cannot be sent")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


@lru_cache(maxsize=256)
def target_of(text: str) -> Target:
    """Of a whole URL."""
    url = yarl.URL(text)
    host, port = url.raw_host or "", url.port or 0
    shown = f"[{host}]" if ":" in host else host
    name = shown if url.is_default_port() else f"{shown}:{port}"
    line = f"{url.raw_path_qs} HTTP/1.1\r\nHost: {name}".encode()
    return Target(line, Place(host, port, tls_context() if url.scheme == "https" else None))


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Certificates and names are checked, TLS 1.2 at least: Python's own defaults."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
