"""Broken: a connection that ended too early, or over which came no HTTP; and what sockets say, in a few words."""

import os
import socket
import ssl


class Broken(ConnectionError):
    """Why an answer will not come, or not whole."""

    def __init__(self, text: str, *, sent: bool = True, spoke: bool = False, malformed: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.sent = sent
        """The request may have reached the upstream."""
        self.spoke = spoke
        """At least a byte of an answer had come."""
        self.malformed = malformed
        """It was no HTTP."""


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
