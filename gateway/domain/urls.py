"""URLs: the base URLs of channels, and the HTTP proxies that lead to them.

The owner's keys are sent to a base URL, so it is checked before it is stored. The password of a proxy is never shown.
"""

import base64
import ipaddress
import re
from functools import lru_cache
from urllib.parse import unquote, urlsplit

import msgspec

from gateway.domain.addresses import CALL_PATHS
from gateway.domain.errors import BadRequest
from gateway.domain.text import REFERENCE, plain

_METADATA = ("metadata.google.internal", "metadata.goog")
"""Names of cloud services that give the machine's credentials to any program on it."""
_METADATA_V6 = ipaddress.ip_address("fd00:ec2::254")
"""The address of such a service that is not link-local."""

_URL = re.compile(r"\s*!?[A-Za-z][A-Za-z0-9+.-]*://")
"""Matches the start of a URL, also after the exclamation mark of a pattern."""
_API_PATH = re.compile(rf"(?<=[^/:])/+(?:{CALL_PATHS})$")
"""Matches the path of a call, which documents show together with the base URL."""
_LOCAL_SUFFIXES = (".localhost", ".local", ".lan", ".home", ".internal", ".home.arpa", ".ts.net")


def checked_base_url(url: str) -> str:
    """Returns the URL without a trailing slash or the path of an API. Raises BadRequest if keys must not be sent there.

    It must be http or https with a host, and without user, query and fragment. Link-local addresses are refused,
    because clouds serve the machine's credentials there, and so are hosts such as ``127.1``, which only some resolvers
    read as an IPv4 address.
    """
    if not url:
        raise BadRequest("a base URL is required, for example https://api.openai.com/v1", param="base_url")
    if url != plain(url, 2000) or " " in url or "\\" in url:
        raise _bad_url(url, "has characters that are not allowed in a URL")
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if it is not valid
    except ValueError as exc:
        raise _bad_url(url, f"cannot be read ({exc})") from exc
    if parts.scheme not in ("http", "https"):
        raise _bad_url(url, "must begin with http:// or https://")
    if "@" in parts.netloc:
        raise _bad_url(url, "must not hold a user or a password; give the key with --key")
    if "?" in url or "#" in url:
        raise _bad_url(url, "must not have a query or a fragment; use --header for additional headers")
    _check_host(url, parts.hostname or "")
    return _API_PATH.sub("", url.rstrip("/"))


def refuse_url(name: str) -> None:
    """Raises BadRequest if the name of a model is a URL, typed into the wrong field."""
    if _URL.match(name):
        raise BadRequest(
            f"models: '{plain(name)}' is a URL, not the name of a model; give it as the base URL (--base-url)",
            param="models",
        )


def base_url_warning(url: str) -> str:
    """Returns a warning about an allowed URL, or an empty string."""
    if urlsplit(url).scheme == "http" and not is_private(url):
        effect = "everyone on the network path can read the key, the prompts and the answers"
        return f"{plain(url)} is not encrypted: {effect}"
    return ""


def _check_host(url: str, host: str) -> None:
    """Raises BadRequest if keys must not be sent to the host."""
    if not host:
        raise _bad_url(url, "has no host")
    address = address_of(host)
    last_label = host.rstrip(".").rpartition(".")[2]
    if address is None and (last_label.isdigit() or last_label.startswith("0x")):  # WHATWG URL: an IPv4 address
        raise _bad_url(url, "has a host that is neither a name nor a whole IPv4 address")
    if host.rstrip(".") in _METADATA or (address is not None and (address.is_link_local or address == _METADATA_V6)):
        raise _bad_url(url, "is a link-local address, where clouds serve machine credentials")
    if address is not None and address.is_unspecified:
        raise _bad_url(url, "is the unspecified address; 127.0.0.1 is this machine")


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns the address that a host is; None if it is a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


@lru_cache(maxsize=1024)
def is_private(url: str) -> bool:
    """Returns whether a URL leads to this machine or a private network, according to its host."""
    host = urlsplit(url).hostname or ""
    address = address_of(host)
    if address is not None:
        return address.is_private or address.is_loopback
    name = host.rstrip(".")
    return "." not in name or name.endswith(_LOCAL_SUFFIXES)


def _bad_url(url: str, reason: str) -> BadRequest:
    """Returns the error for a URL, without its user, password and query, which may hold a key."""
    shown = re.sub(r"(?s)\A(\w+://)?(?:.*\?.*@.*|.*(?=@))|(?<=\?).+", r"\1...", url)  # an @ may be in either
    return BadRequest(f"base URL '{plain(shown)}' {reason}", param="base_url")


class Proxy(msgspec.Struct, frozen=True):
    """A proxy's address and credentials."""

    host: str
    port: int
    authorization: str = ""
    """The value of ``Proxy-Authorization``; empty if it is not needed."""


def parse_proxy(text: str) -> Proxy:
    """Returns the proxy of ``http://user:password@host:port``. Raises BadRequest, which never quotes the password."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        raise _bad_proxy("its port is not valid") from exc
    if parts.scheme != "http":
        note = "what goes through it is still encrypted as the channel's URL says"
        raise _bad_proxy(f"it must begin with http:// ({note})")
    if not parts.hostname or text != plain(text, 2000) or not text.isascii() or " " in text:
        raise _bad_proxy("it has no host, or characters that are not allowed in a URL")
    if parts.path.strip("/") or "?" in text or "#" in text:
        raise _bad_proxy("it must have neither path nor query")
    if not port:
        raise _bad_proxy("its port is missing: http://host:3128")
    if parts.username is None:
        return Proxy(parts.hostname, port)
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(parts.hostname, port, "Basic " + base64.b64encode(pair.encode()).decode())


def shown_proxy(text: str) -> str:
    """Returns the URL of a proxy without user and password, or the reference to a variable."""
    if not text or text.startswith(REFERENCE):
        return plain(text)
    _, at, place = text.rpartition("@")
    return plain(f"http://…@{place}" if at else text)


def _bad_proxy(reason: str) -> BadRequest:
    return BadRequest(f"proxy: {reason}", param="proxy")
