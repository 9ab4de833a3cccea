"""Dial: from a host and a port to a connection. Names are looked up in threads of their own, addresses raced."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

import aiohappyeyeballs
import msgspec

from gateway.domain.urls import Proxy
from gateway.upstream.connection.broken import text_of
from gateway.upstream.connection.names import Address, Names
from gateway.upstream.connection.tunnel import tunnel

NAME_KEPT_S = 300.0
"""How long the addresses of a name are believed."""
HEAD_START_S = 0.25
"""What one address gets before the next is tried beside it (RFC 8305)."""

Made = TypeVar("Made", bound=asyncio.BaseProtocol)


class Place(msgspec.Struct, frozen=True):
    """Where to connect to."""

    host: str
    """Name or address."""
    port: int
    tls: ssl.SSLContext | None
    """None: without TLS."""


class Dialer:
    """The way to the hosts of one channel. Remembers the addresses of names for a while.

    With a proxy its address is the one that is looked up; it finds the hosts itself.
    """

    def __init__(self, proxy: Proxy | None = None) -> None:
        self._proxy = proxy
        self._names = Names()
        self._known: dict[tuple[str, int], tuple[float, list[Address]]] = {}

    async def dial(self, where: Place, make: Callable[[], Made]) -> Made:
        """A connection with its protocol. Raises OSError (certificate errors, too)."""
        loop = asyncio.get_running_loop()
        sock = await self._tunnel(where, self._proxy) if self._proxy else await self._connect(where.host, where.port)
        name = where.host if where.tls is not None else None
        # From here on the socket is asyncio's, which closes it on failure, too: closing it here as well would let the
        # loop forget whatever connection got its number meanwhile.
        _, protocol = await loop.create_connection(make, sock=sock, ssl=where.tls, server_hostname=name)
        return protocol

    async def _connect(self, host: str, port: int) -> socket.socket:
        addresses = await self._addresses(host, port)
        infos = [(family, socket.SOCK_STREAM, proto, "", (host, port)) for family, proto, host, port in addresses]
        try:
            return await aiohappyeyeballs.start_connection(infos, happy_eyeballs_delay=HEAD_START_S)
        except BaseException:  # its host may have moved
            self._known.pop((host, port), None)
            raise

    async def _tunnel(self, where: Place, proxy: Proxy) -> socket.socket:
        try:
            sock = await self._connect(proxy.host, proxy.port)
        except OSError as exc:
            raise OSError(None, f"the proxy {proxy.host}:{proxy.port} cannot be reached: {text_of(exc)}") from exc
        await tunnel(sock, proxy, where.host, where.port)
        return sock

    async def _addresses(self, host: str, port: int) -> list[Address]:
        try:
            family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
        except ValueError:
            return await self._look_up(host, port)
        return [(family, socket.IPPROTO_TCP, host, port)]

    async def _look_up(self, host: str, port: int) -> list[Address]:
        now = asyncio.get_running_loop().time()
        until, found = self._known.get((host, port), (0.0, []))
        if until <= now:
            found = await self._names.look_up(host, port, socket.AF_UNSPEC)
            self._known = {key: kept for key, kept in self._known.items() if kept[0] > now}
            self._known[host, port] = (now + NAME_KEPT_S, found)
        return found
