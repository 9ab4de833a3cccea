"""Proxy: the HTTP proxy through which a channel is reached, as it is written and as it may be shown."""

import base64
from urllib.parse import unquote, urlsplit

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.text import plain

REFERENCE = "env:"


class Proxy(msgspec.Struct, frozen=True):
    """Where it is, and what opens it."""

    host: str
    port: int
    authorization: str = ""
    """Value of ``Proxy-Authorization``; empty: it wants none."""


def proxy_of(text: str) -> Proxy:
    """Of ``http://user:password@host:port``. Raises BadRequest, which never repeats user and password."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        raise _bad("its port is none") from exc
    if parts.scheme != "http":
        raise _bad("it must begin with http:// (what goes through it is still encrypted as the channel's URL says)")
    if not parts.hostname or text != plain(text, 2000) or not text.isascii() or " " in text:
        raise _bad("it has no host, or characters that a URL cannot have")
    if parts.path.strip("/") or "?" in text or "#" in text:
        raise _bad("it must have neither path nor query")
    if not port:
        raise _bad("its port is missing: http://host:3128")
    return Proxy(parts.hostname, port, _authorization(parts.username, parts.password))


def shown(text: str) -> str:
    """What may be shown of a proxy: references as they are, user and password never."""
    if not text or text.startswith(REFERENCE):
        return plain(text)
    _, at, place = text.rpartition("@")
    return plain(f"http://…@{place}" if at else text)


def _authorization(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _bad(why: str) -> BadRequest:
    return BadRequest(f"proxy: {why}", param="proxy")
