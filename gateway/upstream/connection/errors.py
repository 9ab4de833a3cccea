"""Errors: what sockets, TLS and the wire raise, turned into failures of an attempt. Everything foreign ends here."""

import ssl

import msgspec

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.upstream import failures
from gateway.upstream.adapter import Failure
from gateway.upstream.connection.wire import Broken


def connect_failure(channel: Channel, exc: Exception, seconds: float) -> Failure:
    """Why there is no connection: nothing was sent."""
    if isinstance(exc, TimeoutError) and not exc.strerror:
        slow = failures.too_slow(channel, "connect", seconds, sent=False)
        return msgspec.structs.replace(slow, kind=FailureKind.NETWORK)
    return failures.unreachable(channel, text_of(exc), sent=False)


def exchange_failure(channel: Channel, exc: Broken) -> Failure:
    """Why a request that was sent has no answer."""
    if exc.malformed:
        return failures.bad_response(channel, exc.text)
    return failures.unreachable(channel, exc.text, sent=True)


def text_of(exc: Exception) -> str:
    """What went wrong, in a few words."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        return f"TLS failed: {exc.reason or exc}"
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror
    return str(exc) or type(exc).__name__
