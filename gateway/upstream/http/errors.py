"""Turns what sockets, TLS and connections raise into failures of an attempt. No foreign exception passes."""

import os
import socket
import ssl

import msgspec

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.failure import Failure
from gateway.upstream import failures


class ConnectionBroken(ConnectionError):
    """Why an answer will not come, or not completely."""

    def __init__(self, text: str, *, sent: bool = True, spoke: bool = False, malformed: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.sent = sent
        """Whether the request may have reached the upstream."""
        self.spoke = spoke
        """Whether at least a byte of an answer came."""
        self.malformed = malformed
        """Whether it was not HTTP."""


def text_of(exc: Exception) -> str:
    """Returns what went wrong, in a few words."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        return f"TLS failed: {exc.reason or exc}"
    if isinstance(exc, OSError):
        return _system_text(exc)
    return str(exc) or type(exc).__name__


def _system_text(exc: OSError) -> str:
    """Returns the system's words, which asyncio replaces. Errors of look-ups have numbers of their own."""
    if exc.errno and not isinstance(exc, socket.gaierror):
        return os.strerror(exc.errno)
    closed = "it closed the connection" if isinstance(exc, ConnectionError) else type(exc).__name__
    return exc.strerror or str(exc) or closed


def connect_failure(channel: Channel, exc: Exception, seconds: float, address: str) -> Failure:
    """Returns why there is no connection: nothing was sent. ``address`` is what was to be reached."""
    if isinstance(exc, TimeoutError) and not exc.strerror:
        slow = failures.too_slow(channel, "connect", seconds, sent=False)
        return msgspec.structs.replace(slow, kind=FailureKind.NETWORK)
    return failures.unreachable(channel, f"{text_of(exc)} ({address})", sent=False)


def exchange_failure(channel: Channel, exc: ConnectionBroken) -> Failure:
    """Returns why a request has no answer."""
    if exc.malformed:
        return failures.bad_response(channel, exc.text)
    return failures.unreachable(channel, exc.text, sent=exc.sent)
