"""What sockets, TLS and connections raise, turned into failures of an attempt. Everything foreign ends here."""

import os
import socket
import ssl

import msgspec

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.failure import Failure
from gateway.upstream import failures


class ConnectionBroken(ConnectionError):
    """Why an answer will not come, or not whole."""

    def __init__(self, text: str, *, sent: bool = True, spoke: bool = False, malformed: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.sent = sent
        """The request may have reached the upstream."""
        self.spoke = spoke
        """At least a byte of an answer had come."""
        self.malformed = malformed
        """It was not HTTP."""


def text_of(exc: Exception) -> str:
    """What went wrong, in a few words."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        return f"TLS failed: {exc.reason or exc}"
    if isinstance(exc, OSError):
        return _system_text(exc)
    return str(exc) or type(exc).__name__


def _system_text(exc: OSError) -> str:
    """The system's words: asyncio puts others in their place. Errors of look-ups have numbers of their own."""
    if exc.errno and not isinstance(exc, socket.gaierror):
        return os.strerror(exc.errno)
    closed = "it closed the connection" if isinstance(exc, ConnectionError) else type(exc).__name__
    return exc.strerror or str(exc) or closed


def connect_failure(channel: Channel, exc: Exception, seconds: float, address: str) -> Failure:
    """Why there is no connection: nothing was sent. ``address`` is what was to be reached."""
    if isinstance(exc, TimeoutError) and not exc.strerror:
        slow = failures.too_slow(channel, "connect", seconds, sent=False)
        return msgspec.structs.replace(slow, kind=FailureKind.NETWORK)
    return failures.unreachable(channel, f"{text_of(exc)} ({address})", sent=False)


def exchange_failure(channel: Channel, exc: ConnectionBroken) -> Failure:
    """Why a request has no answer."""
    if exc.malformed:
        return failures.bad_response(channel, exc.text)
    return failures.unreachable(channel, exc.text, sent=exc.sent)
