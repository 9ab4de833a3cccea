"""Values: which strings of a channel are secret, as they go over the wire.

Its keys and the values of its own headers, references resolved; of its proxy the password, what stands before the
``@``, and the Base64 of both. What everybody knows is left out: the words that local servers want instead of a key,
and headers that name a version, a program or a format.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote, urlsplit

from gateway.domain.channel import Channel
from gateway.domain.errors import BadRequest
from gateway.domain.urls import proxy_of
from gateway.upstream.credentials import REFERENCE

PLACEHOLDERS = frozenset(
    {
        *("anything", "api-key-not-set", "dummy-key", "fake-key", "llama-cpp", "llama.cpp", "lm-studio", "lmstudio"),
        *("no-key-required", "not-needed", "not-required", "placeholder", "sk-dummy", "sk-no-key-required"),
        *("test-key", "undefined", "your-api-key"),
    }
)
"""Long enough to be looked for, but no secret."""

PUBLIC_HEADERS = frozenset(
    {
        *("accept", "accept-language", "anthropic-beta", "anthropic-version", "http-referer", "openai-beta"),
        *("referer", "user-agent", "x-title"),
    }
)


def secrets_of(channel: Channel, environ: Mapping[str, str]) -> frozenset[str]:
    """The secrets, of any length; a reference that leads nowhere is none."""
    found = set(keys_of(channel, environ))
    for name, value in channel.headers.items():
        if name.lower() not in PUBLIC_HEADERS:
            found.update(_of_header(_resolved(value, environ)))
    if channel.proxy:
        found.update(_of_proxy(_resolved(channel.proxy, environ)))
    return _true(found)


def keys_of(channel: Channel, environ: Mapping[str, str]) -> frozenset[str]:
    """The keys alone."""
    return _true(_resolved(key, environ) for key in channel.all_keys)


def _true(values: Iterable[str]) -> frozenset[str]:
    return frozenset(value for value in values if value and value.lower() not in PLACEHOLDERS)


def _resolved(value: str, environ: Mapping[str, str]) -> str:
    """As ``credentials`` sends it."""
    if value.startswith(REFERENCE):
        value = environ.get(value.removeprefix(REFERENCE), "")
    return value.strip()


def _of_header(value: str) -> Iterator[str]:
    """The value, the credentials behind a scheme (``Bearer ...``), and what those of ``Basic`` stand for."""
    yield value
    scheme, _, credentials = value.partition(" ")
    yield credentials.strip()
    if scheme.lower() == "basic":
        try:
            pair = b64decode(credentials, validate=True).decode()
        except (Base64Error, ValueError):
            return
        yield pair
        yield pair.partition(":")[2]


def _of_proxy(url: str) -> Iterator[str]:
    try:
        authorization = proxy_of(url).authorization
        parts = urlsplit(url)
    except (BadRequest, ValueError):  # it is never used
        return
    pair = parts.netloc.rpartition("@")[0]
    yield from (pair, unquote(pair), parts.password or "", unquote(parts.password or ""))
    yield authorization.partition(" ")[2]
