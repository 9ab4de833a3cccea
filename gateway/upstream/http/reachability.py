"""Reachability: checks whether a channel's host can be reached: its name, a connection, its certificate.

No request is sent.
"""

import asyncio
import ssl
from enum import StrEnum

import msgspec

from gateway.domain.urls import Proxy
from gateway.upstream.http.dial import Dialer, error_text, target_of


class Stage(StrEnum):
    """The stages of a connection, in their order."""

    NAME = "name"
    CONNECTION = "connection"
    CERTIFICATE = "certificate"


class Reachability(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check."""

    host: str
    port: int
    failed: Stage | None = None
    """The stage that failed; None if none did."""
    text: str = ""
    """Why it failed."""
    addresses: tuple[str, ...] = ()
    """The addresses of the host's name."""
    tls: str = ""
    """The TLS version; empty if TLS is not used."""
    expires_s: float | None = None
    """When the certificate expires, in seconds since the epoch."""


async def check_reachability(base_url: str, seconds: float, proxy: Proxy | None = None) -> Reachability:
    """Returns how far the host of a URL can be reached, with at most ``seconds`` for each stage, and 5.

    With a proxy, the host's name is not looked up, because the proxy does that.
    """
    target, limit_s = target_of(base_url), min(seconds, 5.0)
    result = Reachability(host=target.host, port=target.port)
    dialer, stage = Dialer(proxy), Stage.NAME
    try:
        async with asyncio.timeout(limit_s):
            addresses = await dialer.addresses(target.host, target.port) if proxy is None else ()
        unique = dict.fromkeys(address for _, _, address, _ in addresses if address != target.host)
        result = msgspec.structs.replace(result, addresses=tuple(unique))
        stage = Stage.CONNECTION
        async with asyncio.timeout(limit_s):
            transport, _ = await dialer.dial(target, asyncio.Protocol)
    except OSError as exc:
        stage = Stage.CERTIFICATE if isinstance(exc, ssl.SSLError) else stage
        is_slow = isinstance(exc, TimeoutError) and not exc.strerror
        text = f"no answer within {limit_s:g} s" if is_slow else error_text(exc)
        return msgspec.structs.replace(result, failed=stage, text=text)
    tls = transport.get_extra_info("ssl_object")
    transport.close()
    if tls is None:
        return result
    not_after = (tls.getpeercert() or {}).get("notAfter")
    expires_s = float(ssl.cert_time_to_seconds(str(not_after))) if not_after else None
    return msgspec.structs.replace(result, tls=tls.version() or "", expires_s=expires_s)
