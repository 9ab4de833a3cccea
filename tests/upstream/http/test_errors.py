"""What breaks becomes a failure that says what kind it is and whether the upstream may have seen the request."""

import errno
import os
import socket
import ssl

import pytest

from gateway.domain.call import FailureKind
from gateway.upstream.http.dial import text_of
from gateway.upstream.http.parser import ConnectionBroken
from gateway.upstream.http.pool import connect_failure, exchange_failure
from tests.upstream.makers import channel, error_of

K = FailureKind


def test_a_connect_deadline_is_a_timeout_of_the_network() -> None:
    failure = connect_failure(channel(), TimeoutError(), 5, "h:1")
    assert (failure.kind, failure.sent, error_of(failure).code) == (K.NETWORK, False, "upstream_timeout")


def test_a_refused_connection_names_system_error_and_address() -> None:
    failure = connect_failure(channel(), OSError(errno.ECONNREFUSED, "Connect call failed"), 5, "h:1")
    assert (failure.kind, failure.sent, error_of(failure).code) == (K.NETWORK, False, "upstream_unreachable")
    assert error_of(failure).message.endswith(f": {os.strerror(errno.ECONNREFUSED)} (h:1)")


def test_the_systems_own_timeout_is_an_error_like_others() -> None:
    failure = connect_failure(channel(), TimeoutError(errno.ETIMEDOUT, "x"), 5, "h:1")
    assert error_of(failure).code == "upstream_unreachable"


def test_what_is_not_http_is_a_bad_answer() -> None:
    failure = exchange_failure(channel(), ConnectionBroken("no HTTP", answer_started=True, malformed=True))
    assert (failure.kind, failure.sent, error_of(failure).code) == (K.SERVER, True, "upstream_bad_response")


def test_a_break_is_sent_unless_it_was_not() -> None:
    broken = ConnectionBroken("it closed"), ConnectionBroken("it closed", sent=False)
    assert [exchange_failure(channel(), each).sent for each in broken] == [True, False]


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
def test_words(exc: Exception, text: str) -> None:
    assert text_of(exc).startswith(text)


def test_tls_is_reported_with_its_reason() -> None:
    exc = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong")
    exc.reason = "WRONG_VERSION_NUMBER"
    assert text_of(exc) == "TLS failed: WRONG_VERSION_NUMBER"


def test_a_certificate_is_reported_with_its_reason() -> None:
    exc = ssl.SSLCertVerificationError(1, "x")
    exc.verify_message = "certificate has expired"
    assert text_of(exc) == "its certificate is not accepted: certificate has expired"
