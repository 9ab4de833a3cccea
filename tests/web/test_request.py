"""A request's head, key and body are taken in within their limits, and only in one reading."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import closing

import pytest
from aiohttp import web

from gateway.core.memory import BodyShare, Pressure
from gateway.domain.settings import Settings
from gateway.web import request
from gateway.web.request import BODY_S, MIN_RATE, check_head, keys_of, read_body
from tests.fakes.client import Client, read_answer
from tests.web.door import opened

PRESSURE = Pressure(lambda: 0, Settings, ())


async def look(request: web.BaseRequest) -> web.StreamResponse:
    """Everything that is read, told back."""
    check_head(request)
    keys = keys_of(request)
    with closing(BodyShare(PRESSURE)) as share:
        body = await read_body(request, share) if request.method == "POST" else b""
        assert PRESSURE.body_bytes == len(body)
    assert PRESSURE.body_bytes == 0
    return web.Response(body=json.dumps({"keys": keys, "size": len(body)}).encode())


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with opened(look) as (made, _):
        yield made


@pytest.mark.parametrize(
    ("headers", "keys"),
    [
        ({}, []),
        ({"Authorization": "Bearer k1"}, ["k1"]),
        ({"Authorization": "bearer k1"}, ["k1"]),
        ({"Authorization": "BEARER  k1 "}, ["k1"]),
        ({"Authorization": "Bearer"}, []),
        ({"api-key": "k2"}, ["k2"]),
        ({"x-api-key": "k3"}, ["k3"]),
        ({"x-api-key": ""}, []),
        ({"Authorization": "Bearer", "x-api-key": "k3"}, ["k3"]),
        ({"Authorization": "Basic dXNlcjpwYXNz", "x-api-key": "k3"}, ["k3"]),
        ({"Authorization": "Bearer k1", "x-api-key": "k1"}, ["k1"]),
        ({"Authorization": "Bearer k1", "x-api-key": "k3", "api-key": "k2"}, ["k1", "k2", "k3"]),
        ({"Authorization": "Bearer Bearer k1"}, ["k1"]),
        ({"Authorization": "Bearer 'k1'"}, ["k1"]),
        ({"Authorization": "sk-tk-k1"}, ["sk-tk-k1"]),
        ({"x-api-key": '"k3"', "api-key": "Bearer k2"}, ["k2", "k3"]),
        ({"Authorization": "Bearer ключ".encode().decode("latin-1")}, ["ключ"]),
    ],
)
async def test_the_keys_are_found(client: Client, headers: dict[str, str], keys: list[str]) -> None:
    assert (await client.get("/", headers)).json["keys"] == keys


@pytest.mark.parametrize(
    "lines",
    [
        b"Authorization: Basic dXNlcjpwYXNz",
        b"Authorization: k1",
        b"Authorization: Bearer a\r\nAuthorization: Bearer a",
        b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\nx-api-key: a",
    ],
)
async def test_an_ambiguous_key_is_none(client: Client, lines: bytes) -> None:
    answer = await client.raw(b"GET / HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n\r\n")
    assert answer.refusal == (401, "invalid_api_key", None)


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", 200, None),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400, "http_version"),
        (b"GET / HTTP/0.9\r\nHost: x\r\n\r\n", 400, "http_version"),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n", 421, "wrong_host"),
        (b"GET http://user@evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n", 421, "wrong_host"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "transfer_encoding"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", 200, None),
    ],
)
async def test_a_head_the_parser_lets_pass_is_looked_at(client: Client, head: bytes, status: int, code: str) -> None:
    answer = await client.raw(head)
    assert (answer.status, answer.json.get("error", {}).get("code")) == (status, code)


@pytest.mark.parametrize(
    ("headers", "taken"),
    [
        ({"content-type": "application/json"}, True),
        ({"content-type": "Application/JSON; charset=UTF-8"}, True),
        ({"content-type": 'application/json;charset="utf-8"'}, True),
        ({"content-type": "application/json ; charset=utf8"}, True),
        ({"content-type": 'application/json; charset="utf-8"; x=y'}, True),
        ({"content-type": "application/json; x=y; Charset=utf-8;"}, True),
        ({"content-type": "application/json; charset=utf-8; charset=utf-16"}, False),
        ({"content-type": "application/json, application/json; charset=utf-8"}, True),
        ({"content-type": "application/json, text/plain"}, False),
        ({"content-type": None}, True),
        ({"content-type": None, "origin": "http://x"}, False),
        ({"content-type": ""}, False),
        ({"content-type": "text/plain"}, False),
        ({"content-type": "application/json; charset=utf-16"}, False),
        ({"content-type": "application/x-www-form-urlencoded"}, False),
        ({"content-type": "multipart/form-data; boundary=x"}, False),
        ({"content-type": "application/jsonp"}, False),
        ({"content-encoding": "gzip"}, False),
        ({"content-encoding": "identity"}, True),
    ],
)
async def test_only_plain_json_is_taken(client: Client, headers: dict[str, str | None], taken: bool) -> None:
    answer = await client.ask("POST", "/", b"{}", headers)
    assert answer.status == (200 if taken else 415)


@pytest.mark.parametrize(("kind", "status"), [("application/json", 503), ("text/plain", 415)])
async def test_without_memory_a_body_is_refused_unless_its_type_is_wrong_anyway(kind: str, status: int) -> None:
    """A client that gets a 503 tries again, which does not help a wrong type."""
    pressure = Pressure(lambda: 2 << 20, lambda: Settings(memory_mib=1), ["a call"])

    async def read(request: web.BaseRequest) -> web.StreamResponse:
        with closing(BodyShare(pressure)) as share:
            return web.Response(body=await read_body(request, share, 0.0))

    async with opened(read) as (client, _):
        answer = await client.ask("POST", "/", b"{}", {"content-type": kind})
    assert answer.status == status


@pytest.mark.parametrize(
    ("headers", "advice"),
    [
        ({"content-type": "application/x-www-form-urlencoded"}, b"; with curl: -H 'Content-Type: application/json'"),
        ({"content-encoding": "zstd"}, b"send it uncompressed; with Codex: --disable enable_request_compression"),
    ],
)
async def test_what_programs_send_by_default_is_refused_with_the_option_that_helps(
    client: Client, headers: dict[str, str | None], advice: bytes
) -> None:
    answer = await client.ask("POST", "/", b"{}", headers)
    assert answer.status == 415
    assert advice in answer.body


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_is_read_whole(client: Client, size: int, chunked: bool) -> None:
    body = b"x" * size
    if chunked:
        framed = (b"%x\r\n%b\r\n" % (size, body) if size else b"") + b"0\r\n\r\n"
        headers = {"transfer-encoding": "chunked", "content-length": None, "content-type": "application/json"}
        answer = await client.ask("POST", "/", framed, headers)
    else:
        answer = await client.ask("POST", "/", body, {"content-length": str(size), "content-type": "application/json"})
    assert answer.json["size"] == size


async def test_a_body_in_pieces_is_read_whole(client: Client) -> None:
    peer = await client.connect()
    await peer.write_slowly(client.request("POST", "/", b"x" * 5000), 700)
    assert (await read_answer(peer)).json["size"] == 5000
    peer.close()


@pytest.mark.parametrize(("over", "status"), [(-1, 200), (0, 200), (1, 413)])
@pytest.mark.parametrize("chunked", [False, True])
async def test_the_limit_is_exact(
    client: Client, monkeypatch: pytest.MonkeyPatch, over: int, status: int, chunked: bool
) -> None:
    monkeypatch.setattr(request, "MAX_BODY", 100_000)
    body = b"x" * (100_000 + over)
    headers: dict[str, str | None] = {}
    if chunked:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        headers = {"transfer-encoding": "chunked", "content-length": None}
    assert (await client.ask("POST", "/", body, headers)).status == status


@pytest.mark.parametrize("length", [str((32 << 20) + 1), str(2**63)])
async def test_a_declared_length_beyond_the_limit_is_refused_unread(client: Client, length: str) -> None:
    answer = await client.raw(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + length.encode() + b"\r\n\r\n")
    assert answer.refusal == (413, "request_too_large", None)


async def test_a_client_that_expects_a_continue_gets_it(client: Client) -> None:
    request = client.request("POST", "/", b"{}", {"expect": "100-continue"})
    peer = await client.send(request[:-2])
    assert (await peer.read_head()).status == 100
    await peer.write(b"{}")
    assert (await read_answer(peer)).json["size"] == 2
    peer.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"expect": "100-continue", "content-length": str(2**40)}, 413),
        ({"expect": "100-continue", "authorization": "Basic x"}, 401),
        ({"expect": "100-continue", "content-type": "text/plain"}, 415),
        ({"expect": "the-spanish-inquisition"}, 417),
    ],
)
async def test_a_refused_client_is_not_asked_to_continue(client: Client, headers: dict[str, str], status: int) -> None:
    peer = await client.send(client.request("POST", "/", b"{}", headers)[:-2])
    assert (await peer.read_head()).status == status
    peer.close()


@pytest.mark.hasty(30)
class TestSlowness:
    """On a clock thirty times as fast as the wall's."""

    @pytest.mark.parametrize("rate", [0, MIN_RATE // 2])
    async def test_a_body_below_the_least_rate_is_abandoned(self, client: Client, rate: int) -> None:
        took, answer = await _trickle(client, rate)
        assert answer == (408, "request_timeout", None)
        assert 5 <= took < 3 * 5

    async def test_a_body_that_trickles_for_too_long_is_abandoned(self, client: Client) -> None:
        took, answer = await _trickle(client, 4 * MIN_RATE)
        assert answer == (408, "request_timeout", None)
        assert 58 <= took < 65


async def _trickle(client: Client, rate: int) -> tuple[float, tuple[int, str | None, str | None]]:
    """Send so many bytes a second of a body that never ends; how long that was borne, and the answer."""
    loop = asyncio.get_running_loop()
    peer = await client.send(client.request("POST", "/", b"{}", {"content-length": "1000000"})[:-2])
    began = loop.time()
    while not peer.buffer and loop.time() - began < 2 * BODY_S:
        await peer.write(b"x" * rate)
        await asyncio.sleep(1)
    took = loop.time() - began
    answer = await read_answer(peer)
    peer.close()
    return took, answer.refusal
