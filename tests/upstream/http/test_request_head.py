"""What stands on the wire before a body."""

import pytest

from gateway.upstream.http.connection import header_lines, request_head
from gateway.upstream.http.dial import target_of, tls_context

CASES = {
    "http://a.test/v1/x": (b"/v1/x HTTP/1.1\r\nHost: a.test", "a.test", 80),
    "https://a.test/v1/x?y=z": (b"/v1/x?y=z HTTP/1.1\r\nHost: a.test", "a.test", 443),
    "http://127.0.0.1:8080": (b"/ HTTP/1.1\r\nHost: 127.0.0.1:8080", "127.0.0.1", 8080),
    "http://[::1]:8080/v1": (b"/v1 HTTP/1.1\r\nHost: [::1]:8080", "::1", 8080),
    "https://a.test:443/": (b"/ HTTP/1.1\r\nHost: a.test", "a.test", 443),
    "http://a.test/v1/a b\r\nX: y": (b"/v1/a%20bX:%20y HTTP/1.1\r\nHost: a.test", "a.test", 80),
}


@pytest.mark.parametrize("url", CASES, ids=range(len(CASES)))
def test_a_url_is_split_into_request_line_host_and_port(url: str) -> None:
    target = target_of(url)
    assert (target.line, target.host, target.port) == CASES[url]
    assert target.tls is (tls_context() if url.startswith("https") else None)


TARGET = target_of("http://a.test/x")


def test_a_head_is_the_channels_headers_the_requests_and_the_length() -> None:
    lines = header_lines({"A": "1", "B": "2"}, (("B", "3"), ("C", "4")))
    head = request_head("POST", TARGET, lines, b"{}")
    assert head == b"POST /x HTTP/1.1\r\nHost: a.test\r\nA: 1\r\nB: 3\r\nC: 4\r\nContent-Length: 2\r\n\r\n"


def test_only_a_post_says_that_its_body_is_empty() -> None:
    lengths = [b"Content-Length: 0" in request_head(method, TARGET, b"", b"") for method in ("POST", "GET")]
    assert lengths == [True, False]


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\0b", "\xe4"], ids=["crlf", "lf", "nul", "umlaut"])
def test_a_header_that_cannot_be_sent_is_named_and_its_value_not_shown(value: str) -> None:
    with pytest.raises(ValueError, match="header 'Secret'") as caught:
        header_lines({"Secret": value}, ())
    assert value not in str(caught.value)
