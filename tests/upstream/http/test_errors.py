"""What breaks a connection is named in the system's words."""

import errno
import os
import socket
import ssl

import pytest

from gateway.upstream.http.dial import error_text, is_lasting

CASES: list[tuple[Exception, str]] = [
    (OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), os.strerror(errno.ECONNREFUSED)),
    (ConnectionResetError(errno.ECONNRESET, "x"), os.strerror(errno.ECONNRESET)),
    (OSError(None, "the name was not found within 5 s"), "the name was not found within 5 s"),
    (OSError("Multiple exceptions: a, b"), "Multiple exceptions: a, b"),
    (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
    (ConnectionResetError(), "it closed the connection"),
    (ValueError("odd"), "odd"),
]


@pytest.mark.parametrize(("exc", "text"), CASES, ids=range(len(CASES)))
def test_each_exception_has_a_plain_reason(exc: Exception, text: str) -> None:
    assert error_text(exc).startswith(text)


@pytest.mark.parametrize(
    ("reason", "text", "lasting"),
    [
        ("WRONG_VERSION_NUMBER", "it does not speak TLS there; a base URL without TLS begins with http://", True),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "TLS failed: TLSV1_ALERT_PROTOCOL_VERSION", False),
    ],
)
def test_tls_is_reported_with_its_reason(reason: str, text: str, *, lasting: bool) -> None:
    exc = ssl.SSLError(1, "[SSL] wrong")
    exc.reason = reason
    assert (error_text(exc), is_lasting(exc)) == (text, lasting)


def test_a_certificate_is_reported_with_its_reason() -> None:
    exc = ssl.SSLCertVerificationError(1, "x")
    exc.verify_message = "certificate has expired"
    assert error_text(exc) == "its certificate is not accepted: certificate has expired"
