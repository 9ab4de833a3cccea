"""Credentials: the request headers that belong to a channel: its key and its own headers, references resolved."""

from collections.abc import Mapping, Sequence

from gateway import __version__
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.errors import BadRequest
from gateway.domain.urls import Proxy, proxy_of
from gateway.upstream.adapter import AttemptFailed, Failure, UpstreamText
from gateway.upstream.vendors import Auth, vendor_of

REFERENCE = "env:"

_NEVER = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "cookie", "accept-encoding", "keep-alive", "te"),
        *("proxy-authorization", "proxy-connection", "trailer", "upgrade", "expect"),
    }
)
"""Headers of a channel that would break the connection or leak; they are left out."""


def headers_of(channel: Channel, environ: Mapping[str, str]) -> dict[str, str]:
    """The headers. Raises AttemptFailed (``auth``, not sent) when a variable is missing or a value cannot be sent."""
    out = {"User-Agent": f"tollkeeper/{__version__}"}
    for name, value in channel.headers.items():
        if name.lower() not in _NEVER:
            out[name] = _resolve(channel, value, environ, "header")
    key = _resolve(channel, channel.key, environ, "key")
    if key:
        out |= _key_header(channel, key)
    return out


def missing_variables(channel: Channel, environ: Mapping[str, str]) -> list[str]:
    """The variables that its keys, headers and proxy refer to and that are not set."""
    secrets = (*channel.all_keys, *channel.headers.values(), channel.proxy)
    names = (secret.removeprefix(REFERENCE) for secret in secrets if secret.startswith(REFERENCE))
    return [name for name in dict.fromkeys(names) if not environ.get(name)]


def unset(channel: Channel, environ: Mapping[str, str]) -> list[str]:
    """Variables without which no call can be made there, and that are not set; none if another key is usable."""
    missing = missing_variables(channel, environ)
    keys = [key.removeprefix(REFERENCE) for key in channel.all_keys]
    if not missing or (set(missing) <= set(keys) and not set(keys) <= set(missing)):
        return []
    return missing


def unset_text(names: Sequence[str]) -> str:
    """Why such a channel cannot be used; empty if there are none."""
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not set where the server runs" if names else ""


def proxy_to(channel: Channel, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy to go through. Raises AttemptFailed (``auth``, not sent) when its reference leads nowhere."""
    if not channel.proxy:
        return None
    try:
        return proxy_of(_resolve(channel, channel.proxy, environ, "proxy"))
    except BadRequest as exc:
        raise _unusable(channel, exc.message, {"setting": "proxy"}) from exc


def _key_header(channel: Channel, key: str) -> dict[str, str]:
    if header := channel.dialect.info.key_header:
        return {header: key}
    auth = vendor_of(channel.preset, channel.base_url).auth
    return {"api-key": key} if auth is Auth.API_KEY else {"Authorization": f"Bearer {key}"}


def _resolve(channel: Channel, value: str, environ: Mapping[str, str], setting: str) -> str:
    """``setting`` is what the value is of the channel: ``key``, ``header`` or ``proxy``."""
    if value.startswith(REFERENCE):
        name = value.removeprefix(REFERENCE)
        value = environ.get(name, "")
        if not value:
            why = f"the environment variable {name} is not set where the server runs; set it and restart"
            raise _unusable(channel, why, {"setting": setting, "variable": name})
    value = value.strip()
    if not (value.isascii() and value.isprintable()):
        raise _unusable(channel, f"its {setting} has characters that cannot be sent", {"setting": setting})
    return value


def _unusable(channel: Channel, why: str, details: Mapping[str, object]) -> AttemptFailed:
    text = UpstreamText(f"channel '{channel.name}': {why}")
    return AttemptFailed(
        Failure(kind=FailureKind.AUTH, code="upstream_auth_failed", text=text, details=details, sent=False)
    )
