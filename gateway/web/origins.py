"""Origins: checks that a request is meant for this gateway, and that its web page or app may make it (CORS).

The Host header must name this machine or a host that the owner added. That stops a web page whose own DNS name leads to
this machine (DNS rebinding). Browsers, and apps built on one, name the page in the Origin header. By default no page
may call the gateway. The owner permits single origins, all apps and extensions, or all web pages of this machine; a
request still needs a token's key. An error names the command that permits what was refused.
"""

import re
from functools import lru_cache

from gateway.domain.addresses import ALL_ADDRESSES, own_address
from gateway.domain.errors import RequestRefused
from gateway.domain.settings import Settings
from gateway.domain.text import plain, word
from gateway.domain.urls import address_of

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

APP_ORIGIN = re.compile(
    r"null|(?:app|capacitor|chrome-extension|file|moz-extension|safari-web-extension|tauri|vscode-file|vscode-webview)"
    r"://[!-~]*|https?://tauri\.localhost(?::[0-9]{1,5})?"
)
"""The origins of desktop apps and browser extensions. A local file sends ``null``; Tauri's hosts differ by system."""
LOOPBACK_ORIGIN = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")
"""The origins of web pages served by this machine."""

_HEADER_NAMES = re.compile(r"[a-z0-9_-]{1,64}(?: ?, ?[a-z0-9_-]{1,64}){0,63}", re.ASCII | re.IGNORECASE)
_PORT = re.compile(r"(?:[1-9][0-9]{0,4})?", re.ASCII)


@lru_cache(maxsize=256)
def check_host(header: str, bound: str, allowed: tuple[str, ...], port: int) -> None:
    """Raises RequestRefused (``wrong_host``) unless the header names loopback, the bound address or an allowed host.

    A loopback name may have any port, because tunnels and containers listen on their own. Other names must have the
    listening port or none; the owner may add a host with another port, as ``host:port``. Accepted headers are cached.
    """
    if not _names_gateway(header, bound, allowed, port):
        msg = (  # the name is quoted, because the command may be pasted into a shell
            f"the Host header '{plain(header, 80)}' does not name this gateway; use {own_address(bound, port)}, or "
            f"accept the name with 'tollkeeper settings set --add-host {word(plain(header.strip().lower(), 80))}'"
        )
        raise RequestRefused(msg, code="wrong_host")


def _names_gateway(header: str, bound: str, allowed: tuple[str, ...], port: int) -> bool:
    name, header_port = split_host(header)
    if name in LOOPBACK:
        return _PORT.fullmatch(header_port) is not None
    listed = set(map(split_host, allowed))
    # an address, and not a DNS name, which a page could have of its own
    is_bound = address_of(name) is not None if bound in ALL_ADDRESSES else name == bound
    is_ours = (is_bound or (name, "") in listed) and header_port in ("", str(port))
    return bool(name) and (is_ours or (name, header_port) in listed)


def split_host(header: str) -> tuple[str, str]:
    """Returns the name in a Host header, in lower case and without brackets, and the port; both empty if malformed."""
    text = header.strip().lower()
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        return (name, rest[1:]) if bracket and (not rest or rest.startswith(":")) else ("", "")
    name, colon, port = text.partition(":")
    if colon and not port.isdecimal():
        return "", ""
    return name.removesuffix("."), port  # DNS names may end with a dot


def check_origin(header: str, settings: Settings) -> None:
    """Raises RequestRefused (``origin_not_allowed``) if the owner does not permit the page or app with this origin."""
    if _is_permitted(header, settings.origins, apps=settings.app_origins, pages=settings.loopback_origins):
        return
    caller = "the web page"
    command = f"'tollkeeper settings set --add-origin {word(plain(header, 80))}'"
    if APP_ORIGIN.fullmatch(header):
        caller = "the app or extension"
        command += ", or all apps and extensions with 'tollkeeper settings set --app-origins'"
    elif LOOPBACK_ORIGIN.fullmatch(header):
        command += ", or all pages of this machine with 'tollkeeper settings set --loopback-origins'"
    msg = f"{caller} '{plain(header, 80)}' may not call this gateway; permit it with {command}"
    raise RequestRefused(msg, code="origin_not_allowed")


@lru_cache(maxsize=256)
def _is_permitted(origin: str, listed: tuple[str, ...], *, apps: bool, pages: bool) -> bool:
    if origin in listed or (apps and APP_ORIGIN.fullmatch(origin)):
        return True
    return pages and LOOPBACK_ORIGIN.fullmatch(origin) is not None


def cors_headers(origin: str) -> dict[str, str]:
    """Returns the headers that let a permitted page read an answer and its headers."""
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": "*", "Vary": "Origin"}


def preflight_headers(requested: str, *, private: bool = False) -> dict[str, str]:
    """Returns the headers of the answer to a preflight request: the page may send all headers that it asked for.

    ``requested`` lists their names; anything else is not repeated. ``private``: the browser asks whether a page of a
    public network may call a private one.
    """
    names = requested if _HEADER_NAMES.fullmatch(requested) else "authorization, content-type, api-key, x-api-key"
    headers = {
        "Access-Control-Allow-Methods": "GET, POST, DELETE",
        "Access-Control-Allow-Headers": names,
        "Access-Control-Max-Age": "600",
        "Vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    }
    return {**headers, "Access-Control-Allow-Private-Network": "true"} if private else headers
