"""Errors: what aiohttp raises, turned into failures of an attempt. Everything foreign ends here."""

import aiohttp
import msgspec

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.upstream import failures
from gateway.upstream.adapter import Failure

FOREIGN = (aiohttp.ClientError, OSError, ValueError)
"""Its own family, timeouts and broken sockets, and headers that cannot be sent."""


def failure_of(channel: Channel, exc: Exception, head_s: float, *, sent: bool) -> Failure:
    """What an exception before the answer's head means."""
    if isinstance(exc, aiohttp.ConnectionTimeoutError):
        slow = failures.too_slow(channel, "connect", channel.timeouts.connect, sent=False)
        return msgspec.structs.replace(slow, kind=FailureKind.NETWORK)
    if isinstance(exc, TimeoutError):
        return failures.too_slow(channel, "response head", head_s, sent=True)
    if isinstance(exc, aiohttp.ClientResponseError):
        return failures.bad_response(channel, f"no valid HTTP: {text_of(exc)}")
    return failures.unreachable(channel, text_of(exc), sent=sent)


def text_of(exc: Exception) -> str:
    """What went wrong, in a few words."""
    if isinstance(exc, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not accepted: {exc.certificate_error}"
    if isinstance(exc, aiohttp.ClientConnectorDNSError):
        return f"the name '{exc.host}' cannot be resolved: {exc.os_error.strerror or exc.os_error}"
    if isinstance(exc, aiohttp.ClientConnectorError):
        return f"{exc.host}:{exc.port}: {exc.os_error.strerror or exc.os_error}"
    if isinstance(exc, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    if isinstance(exc, aiohttp.ClientResponseError):
        return exc.message
    return (isinstance(exc, OSError) and exc.strerror) or str(exc) or type(exc).__name__
