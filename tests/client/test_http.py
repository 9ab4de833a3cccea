import asyncio
from pathlib import Path

import pytest

from gateway.client import http
from gateway.client.http import ClientRequest, exchange, request
from gateway.domain.errors import BadRequest, GatewayError, RateLimited, TooLarge, Unavailable
from gateway.runfile import Address
from tests.client.scripted import saying, talking

GET = ClientRequest(method="GET", path="/x")

ANSWERS = {
    "by length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "in chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=1\r\nllo\r\n0\r\n\r\n",
        b"hello",
    ),
    "with trailers": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
        b"hello",
    ),
    "until the end": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", b"hello"),
    "after an interim answer": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"hello",
    ),
    "with bytes after it": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello?!", b"hello"),
    "empty": (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", b""),
}


@pytest.mark.parametrize(("answer", "body"), ANSWERS.values(), ids=ANSWERS)
async def test_bodies_are_read_at_every_split(answer: bytes, body: bytes) -> None:
    for split in range(1, len(answer) + 1):
        async with saying(answer[:split], answer[split:]) as place:
            assert (await request(place, GET)).body == body


async def test_headers_are_reported() -> None:
    async with saying(b"HTTP/1.1 200 OK\r\nX-Request-Id: a:b\r\ncontent-length: 0\r\n\r\n") as place:
        assert (await request(place, GET)).headers["x-request-id"] == "a:b"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"slower"}}', "slower; try again in 7 s"),
        (b'{"error":{"message":"slower: again in 7 s"}}', "slower: again in 7 s"),
        (b"<html>", "the server answered with status 429; try again in 7 s"),
    ],
)
async def test_an_error_of_the_server_is_raised_and_says_when_to_try_again(body: bytes, message: str) -> None:
    async with saying(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n\r\n" + body) as place:
        with pytest.raises(RateLimited) as complete:
            await request(place, GET)
    async with saying(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n\r\n" + body) as place:
        with pytest.raises(RateLimited) as streamed:
            async with exchange(place, GET):
                pass
    assert (complete.value.message, streamed.value.message) == (message, message)


async def test_the_request_is_well_formed() -> None:
    seen: list[bytes] = []
    async with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", seen=seen) as place:
        await request(place, ClientRequest(method="POST", path="/a?b=c", headers={"X-A": "b"}, body=b"{}"))
    assert seen == [
        b"POST /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\nX-A: b\r\nContent-Length: 2\r\n\r\n"
        % place.port
    ]


async def test_a_request_goes_over_a_unix_socket(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + head.split(b"\r\n")[1])
        writer.close()

    async with await asyncio.start_unix_server(serve, tmp_path / "s"):
        assert (await request(Address(socket=str(tmp_path / "s")), GET)).body == b"Host: localhost"


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ((b"a\nb\n",), [b"a", b"b"]),
        ((b"a", b"b\nc", b"\n"), [b"ab", b"c"]),
        ((b"a\n\n\nb",), [b"a", b"b"]),
        ((b"\n",), []),
        ((b"x" * 300_000 + b"\n", b"y\n"), [b"x" * 300_000, b"y"]),
    ],
)
async def test_lines_come_whole(parts: tuple[bytes, ...], lines: list[bytes]) -> None:
    async with saying(b"HTTP/1.1 200 OK\r\n\r\n", *parts) as place, exchange(place, GET) as stream:
        assert [line async for line in stream.lines()] == lines


async def test_a_line_is_given_before_the_stream_ends() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n")
        await reader.read()

    async with talking(talk) as place, exchange(place, GET) as stream:
        assert await anext(stream.lines()) == b"first"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "server_gone"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "server_gone"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "server_gone"),
        (b"HTTP/1.1 200 OK\r\nContent-", "server_gone"),
        (b"", "server_gone"),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "server_strange"),
        (b"HTTP/1.1 abc\r\n\r\n", "server_strange"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "server_strange"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "server_strange"),
        (b"x" * 200_000, "server_strange"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000 + b"\r\n\r\n", "server_strange"),
    ],
)
async def test_an_answer_that_is_cut_off_or_makes_no_sense_is_an_error(answer: bytes, code: str) -> None:
    async with saying(answer) as place:
        with pytest.raises(Unavailable) as caught:
            await request(place, GET)
    assert caught.value.code == code


async def test_a_missing_server_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        await request(Address(socket=str(tmp_path / "nothing")), GET)
    assert caught.value.code == "server_gone"


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"], ids=["no head", "no body"])
async def test_a_silent_server_is_abandoned(sent: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        await reader.read()

    async with talking(talk) as place:
        with pytest.raises(Unavailable) as caught:
            await request(place, GET, timeout_s=0.05)
    assert caught.value.code == "server_slow"


async def test_an_endless_body_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_LIMIT", 1000)
    async with saying(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 2000) as place:
        with pytest.raises(TooLarge):
            await request(place, GET)
    async with saying(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 2000) as place, exchange(place, GET) as stream:
        with pytest.raises(TooLarge):
            await anext(stream.lines())


async def test_a_header_with_a_line_break_is_refused() -> None:
    async with saying(b"") as place:
        with pytest.raises(BadRequest):
            await request(place, ClientRequest(method="GET", path="/", headers={"A": "b\r\nC: d"}))


async def test_an_answer_that_is_cut_off_names_the_lost_connection() -> None:
    async with saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") as place:
        with pytest.raises(Unavailable, match="is gone: the connection was lost"):
            await request(place, GET)


async def test_a_full_disk_of_the_caller_is_not_the_servers_fault() -> None:
    async def printed(place: Address) -> None:
        async with exchange(place, GET) as stream:
            async for _ in stream.lines():
                raise OSError(28, "full")

    async with saying(b"HTTP/1.1 200 OK\r\n\r\nx\ny\n") as place:
        with pytest.raises(OSError, match="full"):
            await printed(place)


async def test_errors_of_the_caller_are_not_translated() -> None:
    class Own(GatewayError):
        pass

    async with saying(b"HTTP/1.1 200 OK\r\n\r\nx") as place:
        with pytest.raises(Own):
            async with exchange(place, GET):
                raise Own("mine")
