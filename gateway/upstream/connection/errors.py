"""Errors: what sockets, TLS and the wire raise, turned into failures of an attempt. Everything foreign ends here."""

import msgspec

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.upstream import failures
from gateway.upstream.adapter import Failure
from gateway.upstream.connection.broken import Broken, text_of


def connect_failure(channel: Channel, exc: Exception, seconds: float, address: str) -> Failure:
    """Why there is no connection: nothing was sent. ``address`` is what was to be reached."""
    if isinstance(exc, TimeoutError) and not exc.strerror:
        slow = failures.too_slow(channel, "connect", seconds, sent=False)
        return msgspec.structs.replace(slow, kind=FailureKind.NETWORK)
    return failures.unreachable(channel, f"{text_of(exc)} ({address})", sent=False)


def exchange_failure(channel: Channel, exc: Broken) -> Failure:
    """Why a request has no answer."""
    if exc.malformed:
        return failures.bad_response(channel, exc.text)
    return failures.unreachable(channel, exc.text, sent=exc.sent)
