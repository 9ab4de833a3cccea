"""Whether a request was meant for this gateway and does not come from a stranger's web page.

The Host header must name this machine or a host the owner added: a rebound DNS name of a web page does not
(``reliability.md`` T-05). Browsers say where a request comes from in Origin: none is accepted unless listed (T-06).
"""

import ipaddress
import re
from functools import lru_cache

from gateway.domain.errors import Refused
from gateway.domain.text import plain

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_NAMES = re.compile(r"[a-z0-9_-]{1,64}(?: ?, ?[a-z0-9_-]{1,64}){0,63}", re.ASCII | re.IGNORECASE)


def check_host(header: str, bound: str, allowed: tuple[str, ...], port: int) -> None:
    """Raises Refused (``wrong_host``) unless the header names loopback, the bound address or an allowed host.

    A port, if given, must be the one that listens; an owner's host may name its own port as ``host:port``.
    """
    if not _names_us(header, bound, allowed, port):
        msg = f"the Host header '{plain(header, 80)}' does not name this gateway; use http://127.0.0.1:{port}/v1"
        raise Refused(msg, code="wrong_host")


@lru_cache(maxsize=256)
def _names_us(header: str, bound: str, allowed: tuple[str, ...], port: int) -> bool:
    name, given_port = split_host(header)
    full = f"{name}:{given_port}" if given_port else name
    if full in allowed:
        return True
    any_address = _any_address(bound)
    ours = name in LOOPBACK or name in allowed or (_address(name) if any_address else name == bound)
    return bool(name) and ours and given_port in ("", str(port))


def split_host(header: str) -> tuple[str, str]:
    """Name in lower case without brackets, and port or empty. An empty name means the header is malformed."""
    text = header.strip().lower()
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        return (name, rest[1:]) if bracket and (not rest or rest.startswith(":")) else ("", "")
    name, colon, port = text.partition(":")
    if colon and not port.isdecimal():
        return "", ""
    return name, port


def check_origin(header: str | None, allowed: tuple[str, ...]) -> None:
    """Raises Refused (``origin_not_allowed``) if a web page sent this and its origin is not listed."""
    if header is not None and header not in allowed:
        msg = f"web pages of '{plain(header, 80)}' may not call this gateway; the owner can list the origin"
        raise Refused(msg, code="origin_not_allowed")


def readable_by(origin: str) -> dict[str, str]:
    """Headers by which a browser lets the page of a listed origin read an answer and its headers."""
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": "*", "Vary": "Origin"}


def preflight(wanted: str) -> dict[str, str]:
    """Headers of the answer to a listed page that asks beforehand: SDKs send many headers of their own, all are fine.

    ``wanted`` are the names it wants to send; what is not a list of names is not repeated.
    """
    names = wanted if _NAMES.fullmatch(wanted) else "authorization, content-type, api-key, x-api-key"
    return {
        "Access-Control-Allow-Methods": "GET, POST",
        "Access-Control-Allow-Headers": names,
        "Access-Control-Max-Age": "600",
    }


def _any_address(bound: str) -> bool:
    return bound in ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to


def _address(name: str) -> bool:
    """Whether it is a literal address: bound to all interfaces, any of them may be named, but no DNS name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
