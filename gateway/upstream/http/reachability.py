"""Reachability: how far a channel's host can be reached: its name, a connection, its certificate. Nothing is requested
from it.
"""

import asyncio
import ssl
from enum import StrEnum

import msgspec

from gateway.domain.urls import Proxy
from gateway.upstream.http.connection import target_of
from gateway.upstream.http.dial import Dialer, text_of


class Stage(StrEnum):
    """What has to succeed, in this order."""

    NAME = "name"
    CONNECTION = "connection"
    CERTIFICATE = "certificate"


class Reachability(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out. ``failed`` is None if all succeeded."""

    host: str
    port: int
    failed: Stage | None = None
    text: str = ""
    """Why it failed."""
    addresses: tuple[str, ...] = ()
    """The addresses of a name."""
    tls: str = ""
    """The TLS version; empty without TLS."""
    expires_s: float | None = None
    """When the certificate ends, in seconds since the epoch."""


class _Peek(asyncio.Protocol):
    """A connection that is only inspected."""

    transport: asyncio.BaseTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport


async def check_reachability(base_url: str, seconds: float, proxy: Proxy | None = None) -> Reachability:
    """Go up to the point at which a request could be sent, within so many seconds for each stage.

    Through a proxy only the proxy's own name is looked up here.
    """
    place, most = target_of(base_url).place, min(seconds, 5.0)
    reached = Reachability(host=place.host, port=place.port)
    dialer = Dialer(proxy)
    try:
        async with asyncio.timeout(most):
            addresses = await dialer.addresses(place.host, place.port) if proxy is None else ()
            names = dict.fromkeys(address for _, _, address, _ in addresses if address != place.host)
            reached = msgspec.structs.replace(reached, addresses=tuple(names))
    except OSError as exc:
        return _fail(reached, Stage.NAME, exc, most)
    try:
        async with asyncio.timeout(most):
            peek = await dialer.dial(place, _Peek)
    except OSError as exc:
        stage = Stage.CERTIFICATE if isinstance(exc, ssl.SSLError) else Stage.CONNECTION
        return _fail(reached, stage, exc, most)
    tls = peek.transport.get_extra_info("ssl_object")
    peek.transport.close()
    if tls is None:
        return reached
    ends = (tls.getpeercert() or {}).get("notAfter")
    expires_s = float(ssl.cert_time_to_seconds(ends)) if ends else None
    return msgspec.structs.replace(reached, tls=tls.version() or "", expires_s=expires_s)


def _fail(reached: Reachability, stage: Stage, exc: OSError, seconds: float) -> Reachability:
    slow = isinstance(exc, TimeoutError) and not exc.strerror
    text = f"no answer within {seconds:g} s" if slow else text_of(exc)
    return msgspec.structs.replace(reached, failed=stage, text=text)
