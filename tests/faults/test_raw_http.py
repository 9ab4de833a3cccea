"""Bytes that are not HTTP, or HTTP that two readers read differently; many requests in one packet.

The vectors are those of the public advisories against HTTP servers. Whatever is sent, the answer is a refusal in JSON
or a closed connection, never a bug and never a call.
"""

from contextlib import suppress

import pytest

from tests.conformance.shapes import error_faults
from tests.fakes.client import Answer, Client, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import speak
from tests.fakes.wire import Gone
from tests.faults.refusals import nothing_happened

CHAT = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'


def get(*lines: bytes, first: bytes = b"GET /v1/models HTTP/1.1", host: bytes = b"Host: 127.0.0.1:PORT\r\n") -> bytes:
    """A request for the models with these further header lines, each with its line end."""
    return first + b"\r\n" + host + b"Authorization: Bearer KEY\r\n" + b"".join(lines) + b"\r\n"


def post(*lines: bytes, body: bytes = CHAT) -> bytes:
    """A call with these header lines, which must include the body's length."""
    first = b"POST /v1/chat/completions HTTP/1.1"
    return get(b"Content-Type: application/json\r\n", *lines, first=first) + body


LENGTH = b"Content-Length: %d\r\n" % len(CHAT)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(CHAT), CHAT)

VECTORS: dict[str, bytes] = {
    "no host": get(host=b""),
    "two hosts": get(b"Host: evil.example\r\n"),
    "two equal hosts": get(b"Host: 127.0.0.1:PORT\r\n"),
    "empty host": get(host=b"Host:\r\n"),
    "length and chunks": post(LENGTH, CHUNKED, body=CHUNKS),
    "chunks and length": post(CHUNKED, LENGTH, body=CHUNKS),
    "two lengths": post(LENGTH, b"Content-Length: 5\r\n"),
    "two equal lengths": post(LENGTH, LENGTH),
    "length list": post(b"Content-Length: %d, %d\r\n" % (len(CHAT), len(CHAT))),
    "length +": post(b"Content-Length: +%d\r\n" % len(CHAT)),
    "length -": post(b"Content-Length: -1\r\n"),
    "length hex": post(b"Content-Length: 0x38\r\n"),
    "length underscore": post(b"Content-Length: 5_6\r\n"),
    "length 2^64": post(b"Content-Length: 18446744073709551616\r\n"),
    "length 2^63": post(b"Content-Length: 9223372036854775808\r\n"),
    "length empty": post(b"Content-Length:\r\n"),
    "xchunked": post(b"Transfer-Encoding: xchunked\r\n", body=CHUNKS),
    "chunked, identity": post(b"Transfer-Encoding: chunked, identity\r\n", body=CHUNKS),
    "gzip, chunked": post(b"Transfer-Encoding: gzip, chunked\r\n", body=CHUNKS),
    "two codings": post(CHUNKED, CHUNKED, body=CHUNKS),
    "tab before chunked": post(b"Transfer-Encoding:\x0bchunked\r\n", body=CHUNKS),
    "folded coding": post(b"Transfer-Encoding:\r\n chunked\r\n", body=CHUNKS),
    "folded length": post(b"Content-Length:\r\n %d\r\n" % len(CHAT)),
    "chunked twice": post(b"Transfer-Encoding: chunked, chunked\r\n", body=CHUNKS),
    "empty coding": post(b"Transfer-Encoding:\r\n", body=CHUNKS),
    "chunks in 1.0": post(CHUNKED, body=CHUNKS).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "chunks in 1.0, kept": post(CHUNKED, b"Connection: keep-alive\r\n", body=CHUNKS).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "chunks and length in 1.0": post(CHUNKED, LENGTH, body=CHUNKS).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "blank before colon": get(b"X-A : b\r\n"),
    "coding blank colon": post(b"Transfer-Encoding : chunked\r\n", body=CHUNKS),
    "bare cr": get(b"X-A: b\rc\r\n"),
    "nul": get(b"X-A: b\x00c\r\n"),
    "escape": get(b"X-A: \x1b[31m\r\n"),
    "folded": get(b"X-A: b\r\n c\r\n"),
    "no colon": get(b"X-A\r\n"),
    "blank in name": get(b"X A: b\r\n"),
    "empty name": get(b": b\r\n"),
    "utf-8 name": get("X-Ä: b\r\n".encode()),
    "200 headers": get(*(b"X-%d: b\r\n" % n for n in range(200))),
    "long header": get(b"X-A: " + b"b" * 9_000 + b"\r\n"),
    "long line": get(first=b"GET /v1/models?" + b"x" * 9_000 + b" HTTP/1.1"),
    "bad chunk size": post(CHUNKED, body=b"zz\r\n" + CHAT),
    "chunk size +": post(CHUNKED, body=b"+5\r\n" + CHAT),
    "chunk size huge": post(CHUNKED, body=b"fffffffffffffffff\r\n" + CHAT),
    "chunk without end": post(CHUNKED, body=b"%x\r\n%bxx0\r\n\r\n" % (len(CHAT), CHAT)),
    "garbage": b"\x00\x01\x02garbage\r\n\r\n",
    "lower-case method": get(first=b"get /v1/models HTTP/1.1"),
    "method with blank": get(first=b"GE T /v1/models HTTP/1.1"),
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
    "http/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http/0.9": b"GET /v1/models\r\n\r\n",
    "http/0.9 named": get(first=b"GET /v1/models HTTP/0.9"),
    "http/2.0": get(first=b"GET /v1/models HTTP/2.0"),
    "http/1.9": get(first=b"GET /v1/models HTTP/1.9"),
    "http/x": get(first=b"GET /v1/models HTTQ/1.1"),
    "absolute, foreign": get(first=b"GET http://evil.example/v1/models HTTP/1.1"),
    "absolute, user": get(first=b"GET http://127.0.0.1@evil.example/v1/models HTTP/1.1"),
    "absolute, own": get(first=b"GET http://127.0.0.1:PORT/v1/models HTTP/1.1"),
    "authority": get(first=b"CONNECT evil.example:443 HTTP/1.1"),
    "star": get(first=b"OPTIONS * HTTP/1.1"),
    "nul in path": get(first=b"GET /v1/models\x00 HTTP/1.1"),
    "blank in path": get(first=b"GET /v1/models /x HTTP/1.1"),
    "no path": get(first=b"GET  HTTP/1.1"),
    "relative path": get(first=b"GET v1/models HTTP/1.1"),
    "dot segments": get(first=b"GET /v1/../../v1/models/../../../etc/passwd HTTP/1.1"),
    "expect foo": post(LENGTH, b"Expect: foo\r\n"),
    "bytes after the body": post(LENGTH, body=CHAT + b"extra bytes\r\n\r\n"),
    "body on get": get(b"Content-Length: 5\r\n") + b"hello",
}
"""Requests that must not be answered as if they were good."""

DOUBTFUL = [name for name, data in VECTORS.items() if (b"oding" in data or b"Length" in data) and name != "body on get"]
"""Those with a body whose end two readers may see in different places."""


@pytest.mark.parametrize("name", VECTORS)
async def test_doubtful_http_is_refused(gateway: Gateway, provider: Provider, name: str) -> None:
    answer = await _answer(gateway, VECTORS[name])
    nothing_happened(gateway, provider)
    if answer is not None:
        assert 400 <= answer.status < 500 or answer.status == 505
        assert error_faults(answer.json) == []
    assert (await gateway.client.get("/health")).status == 200


@pytest.mark.parametrize("name", DOUBTFUL)
async def test_behind_a_body_whose_end_is_in_doubt_nothing_is_taken_for_a_request(gateway: Gateway, name: str) -> None:
    """Another reader of the same bytes may see that request elsewhere, or none."""
    peer = await gateway.client.send(_filled(gateway, VECTORS[name]))
    await peer.write(gateway.client.request("GET", "/v1/models"))
    statuses = []
    with suppress(Gone, TimeoutError):
        while True:
            statuses.append((await read_answer(peer, patience_s=0.5)).status)
    peer.reset()
    assert 200 not in statuses


async def test_http_1_0_with_a_length_may_keep_its_connection(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak(), speak())
    kept = post(LENGTH, b"Connection: keep-alive\r\n").replace(b"HTTP/1.1", b"HTTP/1.0")
    peer = await gateway.client.send(_filled(gateway, kept) * 2)
    assert [(await read_answer(peer)).text for _ in range(2)] == ["Hello", "Hello"]
    peer.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [(b"", 200), (b"Host: 127.0.0.1:PORT\r\n", 200), (b"Host: evil.example\r\n", 421), (b"Host:\r\n", 421)],
)
async def test_http_1_0_needs_no_host_as_in_the_checks_of_haproxy(gateway: Gateway, host: bytes, status: int) -> None:
    answer = await _answer(gateway, get(first=b"GET /v1/health HTTP/1.0", host=host))
    assert answer is not None
    assert answer.status == status


@pytest.mark.parametrize(
    "lines", [(b"X-A: \xff\xfe\xe9\r\n",), (b"Cookie: \xff\r\n",), (b"X-A: " + b"b" * 7_000 + b"\r\n",), (b"X-A:\r\n",)]
)
async def test_odd_but_legal_headers_do_not_matter(gateway: Gateway, lines: tuple[bytes, ...]) -> None:
    answer = await _answer(gateway, get(*lines))
    assert answer is not None
    assert answer.status == 200


async def test_a_chunked_body_is_good(gateway: Gateway, provider: Provider) -> None:
    for body in (CHUNKS, b"".join(b"1\r\n%c\r\n" % byte for byte in CHAT) + b"0\r\n\r\n"):
        answer = await _answer(gateway, post(CHUNKED, body=body))
        assert answer is not None
        assert answer.text == "Hello"


async def test_a_thousand_mutations_are_never_a_bug(gateway: Gateway, provider: Provider) -> None:
    good = _filled(gateway, post(LENGTH))
    statuses = set()
    for at in range(0, len(good), max(1, len(good) // 120)):
        for byte in (0x00, 0x0A, 0x20, 0xFF):
            answer = await _raw(gateway.client, good[:at] + bytes([byte]) + good[at + 1 :])
            statuses.add(answer.status if answer is not None else 0)
    assert 500 not in statuses
    assert 400 in statuses


async def test_a_thousand_requests_in_one_packet_are_answered_in_order(gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", *(f"m{n}" for n in range(1000)))
    peer = await gateway.client.send(b"".join(gateway.client.request("GET", f"/v1/models/m{n}") for n in range(1000)))
    for n in range(1000):
        assert (await read_answer(peer)).json["id"] == f"m{n}"
    peer.close()


async def _answer(gateway: Gateway, request: bytes) -> Answer | None:
    return await _raw(gateway.client, _filled(gateway, request))


async def _raw(client: Client, request: bytes) -> Answer | None:
    """The first answer; None if the connection was closed instead. Sees the end of input if it waits for more."""
    peer = await client.connect()
    try:
        await peer.write(request)
        return await read_answer(peer, patience_s=0.5)
    except (Gone, TimeoutError):
        return None
    finally:
        peer.reset()


def _filled(gateway: Gateway, request: bytes) -> bytes:
    return request.replace(b"PORT", b"%d" % gateway.port).replace(b"KEY", gateway.client.key.encode())
