"""Redaction: the one way out of this layer for what upstreams say when something goes wrong.

It knows the gateway's secrets: the keys, header values and proxy passwords of all channels, the control surface's
secret, and the token of the call in question. Every message is cleared of them, by their very values (see
``secret_search``); codes, parameters and ids pass only as identifiers. What is kept of a message (records, health,
events, logs) is cleared of quotes of the request, too (see ``quotes``); the client may read those, because it sent
them. What the channel's owner added to the request is not for the client, and quotes of that are blanked for everyone.

**Secret values** of a channel, as they go over the wire, are its keys and the values of its own headers, references
resolved; of its proxy the password, what stands before the ``@``, and the Base64 of both. What everyone knows is left
out: the words that local servers want instead of a key, and headers that name a version, a program or a format.
"""

import logging
import re
import traceback
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from urllib.parse import unquote, urlsplit

from gateway.domain import rawjson
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import BadRequest, UpstreamError, UpstreamTimeout
from gateway.domain.failure import AttemptFailed, Failure, OrderOrigin, UpstreamText
from gateway.domain.screen import NO_SCREEN, Screen
from gateway.domain.secret_search import Needles, blank_spans, join_needles, needles
from gateway.domain.text import REFERENCE, plain
from gateway.domain.units import ChannelId
from gateway.domain.urls import parse_proxy
from gateway.upstream.failures import BAD_RESPONSE, REJECTED, TIMEOUT
from gateway.upstream.redaction.quotes import Fields, Quotes

PLACEHOLDERS = frozenset(
    {
        *("anything", "api-key-not-set", "dummy-key", "fake-key", "llama-cpp", "llama.cpp", "lm-studio", "lmstudio"),
        *("no-key-required", "not-needed", "not-required", "placeholder", "sk-dummy", "sk-no-key-required"),
        *("test-key", "undefined", "your-api-key"),
    }
)
"""Long enough to be searched for, but not secret."""

PUBLIC_HEADERS = frozenset(
    {
        *("accept", "accept-language", "anthropic-beta", "anthropic-version", "http-referer", "openai-beta"),
        *("referer", "user-agent", "x-title"),
    }
)


def secrets_of(channel: Channel, environ: Mapping[str, str]) -> frozenset[str]:
    """Returns the secrets, of any length, without references to unset variables."""
    secrets = set(keys_of(channel, environ))
    for name, value in channel.headers.items():
        if name.lower() not in PUBLIC_HEADERS:
            secrets.update(_of_header(_resolve(value, environ)))
    if channel.proxy:
        secrets.update(_of_proxy(_resolve(channel.proxy, environ)))
    return _searchable(secrets)


def keys_of(channel: Channel, environ: Mapping[str, str]) -> frozenset[str]:
    """Returns only the keys."""
    return _searchable(_resolve(key, environ) for key in channel.all_keys)


def _searchable(values: Iterable[str]) -> frozenset[str]:
    return frozenset(value for value in values if value and value.lower() not in PLACEHOLDERS)


def _resolve(value: str, environ: Mapping[str, str]) -> str:
    """Returns the value as ``credentials`` sends it."""
    if value.startswith(REFERENCE):
        value = environ.get(value.removeprefix(REFERENCE), "")
    return value.strip()


def _of_header(value: str) -> Iterator[str]:
    """Yields the value, the credentials after a scheme (``Bearer ...``), and what those of HTTP's Basic scheme stand
    for.
    """
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
        authorization = parse_proxy(url).authorization
        parts = urlsplit(url)
    except (BadRequest, ValueError):  # it is never used
        return
    pair = parts.netloc.rpartition("@")[0]
    yield from (pair, unquote(pair), parts.password or "", unquote(parts.password or ""))
    yield authorization.partition(" ")[2]


_IDENTIFIER = re.compile(r"[A-Za-z0-9_.\-\[\]/:]{1,64}")
"""Matches a code, a type, the path of a parameter."""
_ID = re.compile(r"[A-Za-z0-9_.\-/:+=]{1,120}")

_WORDS = re.compile(r"[a-z_]*")
"""Matches terms such as ``content_policy_violation``, which a request may contain too."""

_NOTHING: Fields = {}

_Key = tuple[ChannelId, str]
"""Channel and key: each of several keys has a channel of its own."""


class Redaction:
    """Clears what upstreams say. ``environ`` resolves ``env:NAME`` references."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._channels: Mapping[ChannelId, Channel] = {}
        self._own: tuple[str, ...] = ()
        self._known: Needles | None = None
        """All secrets, once they were needed."""
        self._screens: dict[_Key, tuple[Channel, Screen]] = {}

    def adopt(self, channels: Mapping[ChannelId, Channel]) -> None:
        """Use these channels from now on."""
        self._channels, self._known = channels, None
        self._screens = {key: made for key, made in self._screens.items() if key[0] in channels}

    def protect(self, secret: str) -> None:
        """Add a secret of the gateway itself."""
        self._own, self._known = (*self._own, secret), None

    def screen(self, channel: Channel) -> Screen:
        """Returns the check of its successful answers."""
        key = channel.id, channel.key
        known, screen = self._screens.get(key, (None, NO_SCREEN))
        if known is channel:
            return screen
        if known is None or (known.keys, known.headers, known.proxy) != (channel.keys, channel.headers, channel.proxy):
            screen = Screen(needles(sorted(secrets_of(channel, self._environ))))
            self._screens[key] = channel, screen
        return screen

    def error(self, failure: Failure, channel: Channel, fields: Fields = _NOTHING, token: str = "") -> UpstreamError:
        """Returns the error of a failure for client and record. ``fields`` is the client's request, ``token``
        its key.
        """
        return self.maker(failure, channel, fields, token)()

    def maker(self, failure: Failure, channel: Channel, fields: Fields, token: str) -> Callable[[], UpstreamError]:
        """Returns a function that makes the same error. Any thread may call it: it does not use this object."""
        return partial(_error, failure, channel, fields, self._search(channel, token))

    @contextmanager
    def errors_of(self, channel: Channel) -> Iterator[None]:
        """Turns AttemptFailed of this channel inside of the block into UpstreamError."""
        try:
            yield
        except AttemptFailed as failed:
            raise self.error(failed.failure, channel) from failed

    def text(self, text: str, channel: Channel | None = None) -> str:
        """Returns any text without secrets."""
        return _clear_text(self._search(channel, ""), text)

    def trace(self, error: BaseException, fields: Fields) -> str:
        """Returns a bug's traceback for the log, without secrets and without quotes of the client's request."""
        text = _clear_text(self._search(None, ""), "".join(traceback.format_exception(error)))
        quotes = Quotes(fields)
        return blank_spans(text, quotes.spans(text)) if quotes.comparable else type(error).__name__

    def models(self, models: Iterable[ServedModel], channel: Channel) -> list[ServedModel]:
        """Returns a list of models without those whose names show a key of the channel or a piece of one, or another
        secret.

        Another secret counts only as a whole: a header may well name a model.
        """
        keys, secrets = needles(sorted(keys_of(channel, self._environ))), self.screen(channel).needles
        return [model for model in models if not keys.spans(model.name) and not secrets.has_value(model.name)]

    def _search(self, channel: Channel | None, token: str) -> list[Needles]:
        """Returns what is searched for in a text about a channel and a token."""
        if self._known is None:
            parts = [self.screen(other).needles for other in self._channels.values()]
            self._known = join_needles([*parts, needles(self._own)])
        out = [self._known]
        if channel is not None and not self.screen(channel).needles.values <= self._known.values:
            out.append(self.screen(channel).needles)  # not saved yet, or changed since the call began
        return [*out, needles((token,))] if token else out


class LogFilter(logging.Filter):
    """Removes secrets from log lines: exceptions may quote an upstream."""

    LOGGERS = ("tollkeeper", "asyncio", "aiohttp.server")

    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self._redaction = redaction

    def install(self) -> None:
        """Install it until ``remove``."""
        for name in self.LOGGERS:
            logging.getLogger(name).addFilter(self)

    def remove(self) -> None:
        for name in self.LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redaction.text(record.getMessage()), None
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            record.exc_text, record.exc_info = self._redaction.text(trace), None
        return True


def _clear_text(search: Iterable[Needles], text: str) -> str:
    return blank_spans(text, [span for group in search for span in group.spans(text)])


def _error(failure: Failure, channel: Channel, fields: Fields, search: Sequence[Needles]) -> UpstreamError:
    quotes = Quotes(fields) if _repeats(failure) else Quotes(_NOTHING)
    message = _message(failure.text, channel, search)
    kept = message if failure.for_owner is None else _message(failure.for_owner, channel, search)
    make = UpstreamTimeout if failure.code == TIMEOUT else UpstreamError
    origin = _identifiers(failure.origin or OrderOrigin(), search, quotes)
    param = origin.pop("param")
    code = failure.code if failure.code != REJECTED else origin["code"] or REJECTED
    error = make(
        message,
        code=REJECTED if failure.code == REJECTED and code.startswith("upstream_") else code,
        param=failure.param or param,
        retry_after_s=failure.retry_after_s,
        details=dict(failure.details),
        status=failure.status,
        quoteless=_quoteless(kept, quotes, failure, channel) or (kept if kept != message else None),
    )
    if failure.origin is not None:
        status = failure.origin.status
        error.details["upstream"] = {"name": channel.name, "status": status, **origin}
    error.kind, error.sent = failure.kind, failure.sent
    error.verbatim = failure.verbatim.cleared(partial(_clear_text, search))
    if channel.overrides and error.verbatim:
        error.verbatim = blank_spans(error.verbatim, Quotes(_added_fields(channel)).spans(error.verbatim))
    return error


def _message(text: UpstreamText, channel: Channel, search: Sequence[Needles]) -> str:
    message = text.cleared(partial(_clear_text, search))
    if channel.overrides:
        message = blank_spans(message, Quotes(_added_fields(channel)).spans(message))
    return plain(message, 2200)


def _repeats(failure: Failure) -> bool:
    """Returns whether its message may quote the request; otherwise it has only our own words."""
    if failure.kind in (FailureKind.AUTH, FailureKind.QUOTA):
        return failure.for_owner is not None
    return bool(failure.status) or failure.code == BAD_RESPONSE


def _quoteless(message: str, quotes: Quotes, failure: Failure, channel: Channel) -> str | None:
    if not quotes.comparable:
        answered = f"HTTP {failure.status}" if failure.status else "a bad answer"
        why = "its text is not kept, because the request is too long to search for quotes of it"
        return f"channel '{channel.name}': the upstream sent {answered} ({why})"
    spans = quotes.spans(message)
    return blank_spans(message, spans) if spans else None


def _identifiers(origin: OrderOrigin, search: Iterable[Needles], quotes: Quotes) -> dict[str, str | None]:
    """Returns the upstream's identifiers; None for anything else, or what shows a secret or the request."""

    def read(text: UpstreamText, form: re.Pattern[str]) -> str | None:
        raw = text.cleared(lambda found: found if form.fullmatch(found) else "")
        if not raw:
            return None
        shows = any(group.spans(raw) for group in search) or (not _WORDS.fullmatch(raw) and quotes.hold(raw))
        return None if shows else raw

    return {
        "type": read(origin.type, _IDENTIFIER),
        "code": read(origin.code, _IDENTIFIER),
        "request_id": read(origin.request_id, _ID),
        "param": read(origin.param, _IDENTIFIER),
    }


def _added_fields(channel: Channel) -> Fields:
    """Returns what the channel's owner adds to every request."""
    overrides = channel.overrides
    if overrides is None:
        return _NOTHING
    values = {**overrides.default, **overrides.set}
    return {"system": rawjson.raw(overrides.system), "values": rawjson.raw(list(values.values()))}
