"""Redaction: removes secrets from the errors of upstreams. Their words leave this layer only through it.

The secrets are the keys, header values and proxy passwords of all channels, the secret of the control API, and the
token of the call. They are removed from every message, by their values (see ``secret_search``). Codes, parameters and
ids pass only if they are identifiers. What is stored of a message (records, health, events, logs) has no quotes of the
request either (see ``quotes``). The client gets these, because it sent the request, but never quotes of what the
channel's owner added.

The secret values of a channel are its keys and its own headers, with references resolved, and of its proxy the
password, everything before the ``@``, and the Base64 of that. Public values are not secrets: the words that local
servers want instead of a key, and headers with a version, a program or a format.
"""

import logging
import re
import traceback
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from urllib.parse import unquote, urlsplit

from gateway.domain import rawjson
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import BadRequest, UpstreamError, UpstreamTimeout
from gateway.domain.failure import NO_TEXT, AttemptFailed, Failure, ResponsesNeed, UpstreamText
from gateway.domain.rawjson import Fields
from gateway.domain.screen import NO_SCREEN, Screen
from gateway.domain.secret_search import Needles, blank_spans, needles
from gateway.domain.text import bare_key, plain, setting_value
from gateway.domain.units import ChannelId
from gateway.domain.urls import parse_proxy
from gateway.upstream.failures import BAD_RESPONSE, REJECTED, TIMEOUT
from gateway.upstream.redaction.quotes import Quotes
from gateway.upstream.translation import refusal_of

PLACEHOLDERS = frozenset(
    {
        *("anything", "api-key-not-set", "dummy-key", "fake-key", "llama-cpp", "llama.cpp", "lm-studio", "lmstudio"),
        *("no-key-required", "not-needed", "not-required", "placeholder", "sk-dummy", "sk-no-key-required"),
        *("test-key", "undefined", "your-api-key"),
    }
)
"""Keys that are long enough to be searched for, but are not secret."""

PUBLIC_HEADERS = frozenset(
    {
        *("accept", "accept-language", "anthropic-beta", "anthropic-version", "http-referer", "openai-beta"),
        *("referer", "user-agent", "x-title"),
    }
)


def secrets_of(channel: Channel, environ: Mapping[str, str]) -> frozenset[str]:
    """Returns the secret values of a channel. References to unset variables have none."""
    secrets = set(keys_of(channel, environ))
    for name, value in channel.headers.items():
        if name.lower() not in PUBLIC_HEADERS:
            secrets.update(_header_secrets(setting_value(value, environ)))
    if channel.proxy:
        secrets.update(_proxy_secrets(setting_value(channel.proxy, environ)))
    return _without_public(secrets)


def keys_of(channel: Channel, environ: Mapping[str, str]) -> frozenset[str]:
    """Returns the secret keys of a channel."""
    return _without_public(bare_key(setting_value(key, environ)) for key in channel.all_keys)


def _without_public(values: Iterable[str]) -> frozenset[str]:
    return frozenset(value for value in values if value and value.lower() not in PLACEHOLDERS)


def _header_secrets(value: str) -> Iterator[str]:
    """Yields a header's value, the credentials after a scheme (``Bearer ...``), and those of Basic decoded."""
    yield value
    scheme, _, credentials = value.partition(" ")
    yield credentials.strip()
    if scheme.lower() == "basic":
        with suppress(ValueError):
            pair = b64decode(credentials, validate=True).decode()
            yield pair
            yield pair.partition(":")[2]


def _proxy_secrets(url: str) -> Iterator[str]:
    """Yields the password of a proxy, its user and password, and the Base64 of both."""
    try:
        authorization = parse_proxy(url).authorization
        parts = urlsplit(url)
    except (BadRequest, ValueError):  # such a proxy is never used
        return
    pair = parts.netloc.rpartition("@")[0]
    yield from (pair, unquote(pair), parts.password or "", unquote(parts.password or ""))
    yield authorization.partition(" ")[2]


_IDENTIFIER = re.compile(r"[A-Za-z0-9_.\-\[\]/:]{1,64}")
"""Matches a code, a type, or the path of a parameter."""
_ID = re.compile(r"[A-Za-z0-9_.\-/:+=]{1,120}")

_NO_FIELDS: Fields = {}


class Redaction:
    """Removes secrets from texts. ``environ`` resolves ``env:NAME`` references."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._channels: Mapping[ChannelId, Channel] = {}
        self._own_secrets: tuple[str, ...] = ()
        self._all_secrets: Needles | None = None
        """All secrets; None until they are needed."""
        self._screens: dict[tuple[ChannelId, str], tuple[Channel, Screen]] = {}
        """By a channel's id and one of its keys: for a call, a channel has only the key that is used."""

    def use_channels(self, channels: Mapping[ChannelId, Channel]) -> None:
        """Use the secrets of these channels from now on."""
        self._channels, self._all_secrets = channels, None
        self._screens = {key: entry for key, entry in self._screens.items() if key[0] in channels}

    def add_secret(self, secret: str) -> None:
        """Add a secret of the gateway itself."""
        self._own_secrets, self._all_secrets = (*self._own_secrets, secret), None

    def screen(self, channel: Channel) -> Screen:
        """Returns the screen for a channel's successful answers."""
        key = channel.id, channel.key
        last, screen = self._screens.get(key, (None, NO_SCREEN))
        if last is channel:
            return screen
        if last is None or (last.keys, last.headers, last.proxy) != (channel.keys, channel.headers, channel.proxy):
            screen = Screen(needles(sorted(secrets_of(channel, self._environ))))
            self._screens[key] = channel, screen
        return screen

    def error(self, failure: Failure, channel: Channel, fields: Fields = _NO_FIELDS, token: str = "") -> UpstreamError:
        """Returns the error of a failure. ``fields`` is the client's request, ``token`` its key."""
        return self.error_maker(failure, channel, fields, token)()

    def error_maker(
        self, failure: Failure, channel: Channel, fields: Fields, token: str
    ) -> Callable[[], UpstreamError]:
        """Returns a function that returns the error of a failure. Any thread may call it."""
        return partial(_error, failure, channel, fields, self._needles_for(channel, token))

    @contextmanager
    def errors_of(self, channel: Channel) -> Iterator[None]:
        """Raise UpstreamError in place of an AttemptFailed or a BadRequest of this channel in the block."""
        try:
            yield
        except AttemptFailed as failed:
            raise self.error(failed.failure, channel) from failed
        except BadRequest as fault:
            raise self.error(refusal_of(channel, fault).failure, channel) from fault

    def without_secrets(self, text: str, channel: Channel | None = None) -> str:
        return _remove_secrets(self._needles_for(channel, ""), text)

    def safe_traceback(self, error: BaseException, fields: Fields) -> str:
        """Returns an exception's traceback for the log, without secrets and without quotes of the client's request."""
        text = _remove_secrets(self._needles_for(None, ""), "".join(traceback.format_exception(error)))
        quotes = Quotes(fields)
        return blank_spans(text, quotes.spans(text)) if quotes.comparable else type(error).__name__

    def models_without_secrets(self, models: Iterable[ServedModel], channel: Channel) -> list[ServedModel]:
        """Returns the models whose names contain no secret: neither a key of the channel, nor a part of one.

        Of other secrets, only the whole is looked for, because a header may contain a model's name.
        """
        keys, secrets = needles(sorted(keys_of(channel, self._environ))), self.screen(channel).needles
        return [model for model in models if not keys.spans(model.name) and not secrets.has_value(model.name)]

    def _needles_for(self, channel: Channel | None, token: str) -> list[Needles]:
        """Returns the secrets to search for in a text about a channel and a token."""
        if self._all_secrets is None:
            secrets = (secrets_of(other, self._environ) for other in self._channels.values())
            self._all_secrets = needles(frozenset(self._own_secrets).union(*secrets))
        groups = [self._all_secrets]
        if channel is not None and not self.screen(channel).needles.values <= self._all_secrets.values:
            groups.append(self.screen(channel).needles)  # not saved yet, or changed since the call began
        return [*groups, needles((token,))] if token else groups


@contextmanager
def clean_logs(redaction: Redaction) -> Iterator[None]:
    """Remove secrets from the log lines within the block: exceptions may quote an upstream."""

    def clean(record: logging.LogRecord) -> bool:
        record.msg, record.args = redaction.without_secrets(record.getMessage()), None
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            record.exc_text, record.exc_info = redaction.without_secrets(trace), None
        return True

    loggers = [logging.getLogger(name) for name in ("tollkeeper", "asyncio", "aiohttp.server")]
    for logger in loggers:
        logger.addFilter(clean)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(clean)


def _remove_secrets(secrets: Iterable[Needles], text: str) -> str:
    return blank_spans(text, [span for group in secrets for span in group.spans(text)])


def _error(failure: Failure, channel: Channel, fields: Fields, secrets: Sequence[Needles]) -> UpstreamError:
    """Returns the error of a failure for the client and the record, without these secrets."""
    quotes = Quotes(fields if _may_quote(failure) else _NO_FIELDS)
    message = plain(_redact(failure.text, channel, secrets), 2200)
    owners_message = plain(_redact(failure.for_owner or failure.text, channel, secrets), 2200)
    stored = _without_quotes(owners_message, quotes, failure, channel)
    identifiers = _identifiers(failure.origin or {}, secrets, quotes)
    param = identifiers.pop("param")
    make = UpstreamTimeout if failure.code == TIMEOUT else UpstreamError
    error = make(
        message,
        code=_error_code(failure, identifiers["code"]),
        param=failure.param or param,
        retry_after_s=failure.retry_after_s,
        details=dict(failure.details),
    )
    error.status, error.owner_message = failure.status, stored if stored != message else ""
    if failure.origin is not None:
        error.details["upstream"] = {"name": channel.name, "status": failure.status or None, **identifiers}
    error.kind, error.sent, error.lasting = failure.kind, failure.sent, failure.lasting
    error.may_be_response = failure.needs_responses not in (None, ResponsesNeed.NOTHING)
    error.verbatim = _redact(failure.verbatim, channel, secrets)
    return error


def _error_code(failure: Failure, upstream_code: str | None) -> str:
    """Returns our code, or the upstream's own if the client's request was at fault and it does not look like ours."""
    if failure.code != REJECTED or not upstream_code or upstream_code.startswith("upstream_"):
        return failure.code
    return upstream_code


def _redact(text: UpstreamText, channel: Channel, secrets: Sequence[Needles]) -> str:
    """Returns a text without secrets and without quotes of what the channel's owner added to the request."""
    cleared = text.apply(partial(_remove_secrets, secrets))
    overrides = channel.overrides
    if overrides is None or not cleared:
        return cleared
    values = [*{**overrides.default, **overrides.set}.values()]
    added = {"system": rawjson.raw(overrides.system), "values": rawjson.raw(values)}
    return blank_spans(cleared, Quotes(added).spans(cleared))


def _may_quote(failure: Failure) -> bool:
    """Returns whether a failure's text may quote the request, because it is the upstream's and not our own."""
    if failure.kind in (FailureKind.AUTH, FailureKind.QUOTA):
        return failure.for_owner is not None
    return bool(failure.status) or failure.code == BAD_RESPONSE


def _without_quotes(message: str, quotes: Quotes, failure: Failure, channel: Channel) -> str:
    """Returns a message without quotes of the request, or another message if the request is too long to search for."""
    if not quotes.comparable:
        answered = f"HTTP {failure.status}" if failure.status else "a bad answer"
        reason = "its text is not kept, because the request is too long to search for quotes of it"
        return f"channel '{channel.name}': the upstream sent {answered} ({reason})"
    return blank_spans(message, quotes.spans(message))


def _identifiers(
    origin: Mapping[str, UpstreamText], secrets: Iterable[Needles], quotes: Quotes
) -> dict[str, str | None]:
    """Returns the upstream's identifiers. One is None if it is invalid, or has a secret or a part of the request."""

    def identifier(name: str, pattern: re.Pattern[str]) -> str | None:
        value = origin.get(name, NO_TEXT).apply(lambda raw: raw if pattern.fullmatch(raw) else "")
        if not value or any(group.spans(value) for group in secrets):
            return None
        is_term = re.fullmatch("[a-z_]*", value)  # such as content_policy_violation, which a request may contain too
        return None if not is_term and quotes.contains(value) else value

    identifiers = {name: identifier(name, _IDENTIFIER) for name in ("type", "code", "param")}
    return {**identifiers, "request_id": identifier("request_id", _ID)}
