"""Upstreams that send broken HTTP."""

import pytest

from gateway.domain.usage import UsageSource
from tests.conformance.shapes import error_faults
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import dumps, speak, usage, whole

GOOD = dumps(whole("m", spent=usage()))


def raw(data: bytes) -> Script:
    """These very bytes as the answer, head and all; then the connection is closed."""

    async def script(exchange: Exchange) -> None:
        await exchange.write(data)
        exchange.socket.close()
        await exchange.left()

    return script


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(GOOD)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)

BROKEN: dict[str, bytes] = {
    "length too long": HEAD + b"Content-Length: 100000\r\n\r\n" + GOOD,
    "bad chunk": HEAD + CHUNKED + b"\r\nzz\r\n" + GOOD,
    "no last chunk": HEAD + CHUNKED + b"\r\n" + CHUNKS[:-5],
    "garbage": b"\x00\x01\x02\x03\r\n\r\n",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "nothing": b"",
    "endless 103": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 1000,
    "long header": HEAD + b"X: " + b"y" * (1 << 20) + b"\r\n" + LENGTH + b"\r\n" + GOOD,
}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_http_is_a_failed_attempt(gateway: Gateway, provider: Provider, name: str, stream: bool) -> None:
    provider.on("m", raw(BROKEN[name]))
    answer = await gateway.client.chat(stream=stream)
    assert answer.status == 502, answer.body
    assert error_faults(answer.json) == []
    assert answer.error["code"].startswith("upstream_")
    assert (gateway.record.cost, gateway.record.source) == (0, UsageSource.NONE)
    provider.on("m", speak())
    gateway.engine.health.clear(gateway.engine.catalog.channel("up").id)
    assert (await gateway.client.chat(stream=stream)).text == "Hello"
