"""Credentials: a channel's key, its own headers and its proxy, with references to environment variables resolved."""

from collections.abc import Mapping

from gateway import __version__
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.errors import BadRequest
from gateway.domain.failure import AttemptFailed, Failure, UpstreamText
from gateway.domain.text import REFERENCE, bare_key, setting_value
from gateway.domain.urls import Proxy, parse_proxy
from gateway.upstream.vendors import vendor_of

FORBIDDEN_HEADERS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "cookie", "accept-encoding", "keep-alive", "te"),
        *("proxy-authorization", "proxy-connection", "trailer", "upgrade", "expect"),
    }
)
"""Headers that a channel cannot set, because they would break the connection or leak something."""


def headers_of(channel: Channel, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns a channel's headers. Raises AttemptFailed (``unset`` or ``auth``, not sent) if one cannot be sent."""
    headers = {"User-Agent": f"tollkeeper/{__version__}"}
    for name, value in channel.headers.items():
        if name.lower() not in FORBIDDEN_HEADERS:
            headers[name] = _resolve(channel, value, environ, "header")
    if key := bare_key(_resolve(channel, channel.key, environ, "key")):
        name = channel.dialect.info.key_header or vendor_of(channel).key_header
        headers |= {name: key} if name else {"Authorization": f"Bearer {key}"}
    return headers


class ChannelVariables:
    """Finds variables that channels refer to and that are not set in the server's environment."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def missing(self, channel: Channel) -> list[str]:
        """Returns the missing variables of a channel's keys, headers and proxy."""
        secrets = (*channel.all_keys, *channel.headers.values(), channel.proxy)
        return [name for name in dict.fromkeys(map(self.missing_in, secrets)) if name]

    def missing_in(self, secret: str) -> str:
        """Returns the missing variable that a key, header or proxy refers to, or an empty string."""
        is_missing = secret.startswith(REFERENCE) and not setting_value(secret, self._environ)
        return secret.removeprefix(REFERENCE) if is_missing else ""

    def blocking(self, channel: Channel) -> list[str]:
        """Returns the missing variables that stop all calls: those of keys do not if another key is usable."""
        missing, keys = self.missing(channel), [self.missing_in(key) for key in channel.all_keys]
        return [] if "" in keys and set(missing) <= set(keys) else missing


def proxy_of(channel: Channel, environ: Mapping[str, str]) -> Proxy | None:
    """Returns the proxy to use. Raises AttemptFailed (``unset`` or ``auth``, not sent) if it is not set or invalid."""
    if not channel.proxy:
        return None
    try:
        return parse_proxy(_resolve(channel, channel.proxy, environ, "proxy"))
    except BadRequest as exc:
        raise _unusable(channel, exc.message, {"setting": "proxy"}) from exc


def _resolve(channel: Channel, value: str, environ: Mapping[str, str], setting: str) -> str:
    """Returns a value, or the variable that it refers to. ``setting`` names it in errors. Raises AttemptFailed."""
    text = setting_value(value, environ)
    if not text and value.startswith(REFERENCE):
        name = value.removeprefix(REFERENCE)
        reason = f"the environment variable {name} is not set where the server runs: set it and restart the server"
        if setting == "key":
            reason += f", or give the key itself instead of {value}"
        raise _unusable(channel, reason, {"setting": setting, "variable": name}, FailureKind.UNSET)
    if not (text.isascii() and text.isprintable()):
        raise _unusable(channel, f"its {setting} has characters that cannot be sent", {"setting": setting})
    return text


def _unusable(
    channel: Channel, reason: str, details: Mapping[str, object], kind: FailureKind = FailureKind.AUTH
) -> AttemptFailed:
    text = UpstreamText(f"channel '{channel.name}': {reason}")
    return AttemptFailed(Failure(kind=kind, code="upstream_auth_failed", text=text, details=details, sent=False))
