"""What is wrong with broken HTTP is told in our words, whatever the parser says."""

import pytest
from aiohttp import web

from gateway.web.connection import fault
from tests.web.door import opened

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"

FAULTS: list[tuple[bytes, str]] = [
    (b"rubbish\r\n\r\n", "its first line does not begin with a method"),
    (b"GET / HTTQ/1.1\r\n\r\n", "its first line is not 'METHOD /path HTTP/1.1'"),
    (b"GET v1 HTTP/1.1\r\nHost: a\r\n\r\n", "the target in its first line is no path"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "it is no HTTP/1.1"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50, "use http:// in the base URL"),
    (b"GET / HTTP/1.1\r\n\r\n", "it has no Host header"),
    (GET + b"Host: b\r\n\r\n", "a header that can be given once is given twice"),
    (GET + b"no colon\r\n\r\n", "a header line is malformed"),
    (GET + b"X: x\r\n" * 200 + b"\r\n", "it has more than 100 headers"),
    (GET + b"X: " + b"x" * 9000 + b"\r\n\r\n", "a line of its head is longer than 8704 bytes"),
    (GET + b"Content-Length: -1\r\n\r\n", "its Content-Length or Transfer-Encoding is malformed, or both are given"),
    (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "a chunk of its body is malformed"),
]


@pytest.mark.parametrize(("sent", "told"), FAULTS, ids=[told for _, told in FAULTS])
async def test_every_kind_of_broken_http_has_its_words(sent: bytes, told: str) -> None:
    async def hello(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"{}")

    async with opened(hello) as (client, _):
        message = (await client.raw(sent)).error["message"]
    assert message == f"this is not a request that can be read: {message.partition(': ')[2]}"
    assert told in message


def test_what_has_no_words_of_its_own_is_no_http() -> None:
    assert fault(None) == fault(ValueError("header: secret")) == "it is no HTTP/1.1"
