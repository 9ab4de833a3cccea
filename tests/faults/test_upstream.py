"""Upstreams that cannot be reached, send broken HTTP, headers of their own, and odd ids."""

import pytest

from gateway.domain.call import FailureKind, Outcome
from gateway.domain.usage import UsageSource
from tests.conformance.shapes import completion_faults, error_faults
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import DONE, chunk, dumps, event, reply, speak, story, stream_bytes, usage, whole

GOOD = dumps(whole("m", spent=usage()))
SPOKEN = b"".join(map(event, [*story("Hel", "lo"), chunk(usage=usage())])) + DONE


def raw(data: bytes, *, close: bool = True) -> Script:
    """These very bytes as the answer, head and all; then the connection is closed, or kept open in silence."""

    async def script(exchange: Exchange) -> None:
        await exchange.write(data)
        if close:
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


@pytest.mark.parametrize("stream", [False, True])
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


@pytest.mark.parametrize("stream", [False, True])
async def test_only_known_headers_arrive(gateway: Gateway, provider: Provider, stream: bool) -> None:
    strange = {
        "set-cookie": "a=b",
        "location": "http://evil.example",
        "access-control-allow-origin": "*",
        "x-should-retry": "true",
        "server": "evil",
        "www-authenticate": "Basic",
        "content-security-policy": "x",
        "x-request-id": "theirs-1",
        "x-ratelimit-remaining-requests": "7",
        "openai-processing-ms": "12",
    }
    provider.on("m", stream_bytes(SPOKEN, headers=strange) if stream else reply(GOOD, headers=strange))
    answer = await gateway.client.chat(stream=stream)
    assert answer.status == 200
    names = {name for name, _ in answer.head.headers}
    assert not names & {"set-cookie", "location", "access-control-allow-origin", "x-should-retry", "www-authenticate"}
    assert "evil" not in str(answer.head)
    assert answer.head.get("x-request-id") == gateway.record.id
    assert answer.head.get("x-upstream-request-id") == "theirs-1"
    assert answer.head.get("x-ratelimit-remaining-requests") == "7"


@pytest.mark.parametrize("id", ["", "same", "x" * 1_000_000, "\x1b[31m", None, 7])
async def test_the_upstreams_ids_do_not_matter(gateway: Gateway, provider: Provider, id: object) -> None:
    provider.on("m", reply({**whole("m", spent=usage()), "id": id}))
    answers = [await gateway.client.chat() for _ in range(2)]
    assert [completion_faults(answer.json) for answer in answers] == [[], []]
    assert len({record.id for record in gateway.records}) == 2
    assert all(len(record.upstream_id) <= 80 and record.upstream_id.isprintable() for record in gateway.records)


async def test_a_refused_connection_costs_nothing_and_the_next_channel_answers(
    gateway: Gateway, provider: Provider
) -> None:
    gateway.channel("http://127.0.0.1:1/v1")
    answer = await gateway.client.chat()
    assert (answer.status, answer.error["code"], error_faults(answer.json)) == (502, "upstream_unreachable", [])
    assert "Connection refused" in answer.error["message"]
    record = gateway.record
    assert (record.outcome, record.source, record.cost, record.possible) == (Outcome.ERROR, UsageSource.NONE, 0, 0)
    assert {(a.kind, a.billed) for a in record.attempts} == {(FailureKind.NETWORK, False)}

    gateway.channel(provider.base_url, name="spare", priority=-1)
    gateway.engine.health.clear(gateway.engine.catalog.channel("up").id)
    assert (await gateway.client.chat()).text == "Hello"
    assert [a.kind for a in gateway.records[-1].attempts] == [FailureKind.NETWORK, None]
