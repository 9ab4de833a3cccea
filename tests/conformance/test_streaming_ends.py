"""Cases 39 to 46: how streams end, well and badly, and answers of the wrong kind."""

import asyncio
import gzip
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from openai import APIError, RateLimitError

from gateway.domain.call import Outcome
from gateway.domain.usage import UsageSource
from tests.conformance.sdk import gathered, openai, raised
from tests.conformance.shapes import error_faults, stream_faults
from tests.fakes.client import Answer, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import EVENTS, Exchange, Provider, Script
from tests.fakes.replies import (
    DONE,
    Doc,
    choice,
    chunk,
    cut,
    delta,
    event,
    fail,
    reply,
    speak,
    story,
    stream,
    stream_bytes,
    usage,
    whole,
)

BEGUN = story("Hel", "lo")[:3]


async def streamed(gateway: Gateway, provider: Provider, script: Script, **fields: Any) -> Answer:
    provider.on("m", script)
    return await gateway.client.chat(stream=True, **fields)


@pytest.mark.parametrize("reported", [True, False])
async def test_39_a_missing_done_is_added(gateway: Gateway, provider: Provider, reported: bool) -> None:
    tail = [chunk(usage=usage())] if reported else []
    asked = {"stream_options": {"include_usage": True}}
    answer = await streamed(gateway, provider, stream(*story("Hel", "lo"), *tail, done=False), **asked)
    assert stream_faults(answer.body, usage="yes") == []
    record = gateway.record
    assert (record.outcome, record.marks) == (Outcome.DONE, ("no_done",))
    assert record.source is (UsageSource.REPORTED if reported else UsageSource.ESTIMATED)


async def ends_mid_air(exchange: Exchange) -> None:
    """Closes the connection without the end of the chunked body."""
    await exchange.begin_stream()
    await exchange.piece(b"".join(map(event, BEGUN)))
    exchange.socket.close()


async def breaks_chunking(exchange: Exchange) -> None:
    """Sends a chunk size that is none."""
    await exchange.begin_stream()
    await exchange.piece(b"".join(map(event, BEGUN)))
    await asyncio.sleep(0.02)  # what is in the same read is lost with it
    await exchange.write(b"zz\r\nnonsense\r\n")
    await exchange.left()


TRUNCATED = {
    "clean close": stream(*BEGUN, done=False),
    "done too early": stream(*BEGUN),
    "reset": cut(*BEGUN),
    "no last chunk": ends_mid_air,
    "broken chunking": breaks_chunking,
    "ollama's empty chunk": stream(*BEGUN, chunk(delta(""), model=""), done=False),
}


@pytest.mark.parametrize("name", TRUNCATED)
async def test_40_a_truncated_answer_ends_in_an_error(gateway: Gateway, provider: Provider, name: str) -> None:
    answer = await streamed(gateway, provider, TRUNCATED[name])
    assert stream_faults(answer.body, error=True) == []
    assert answer.chunks[-1]["error"]["code"] == "upstream_stream_truncated"
    record = gateway.record
    assert (record.outcome, record.source) == (Outcome.UPSTREAM_CUT, UsageSource.ESTIMATED)
    assert record.output > 0
    assert record.cost > 0


async def test_40_usage_that_came_early_makes_it_partial(gateway: Gateway, provider: Provider) -> None:
    await streamed(gateway, provider, stream(*({**doc, "usage": usage(9, 1)} for doc in BEGUN), done=False))
    assert (gateway.record.input, gateway.record.source) == (9, UsageSource.PARTIAL)


async def test_40_the_sdk_raises(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", cut(*BEGUN))
    async with openai(gateway) as client:
        with pytest.raises(APIError, match="before the answer was complete"):
            await gathered(client, lambda chunk: chunk)
    assert len(provider.exchanges) == 1


ERROR: Doc = {"message": "no room", "type": "server_error", "code": 503}
FAILED = {
    "error chunk": stream(*BEGUN, {"error": ERROR}, done=False),
    "named event": stream_bytes(b"".join(map(event, BEGUN)) + b"event: error\n" + event({"error": ERROR})),
    "beside choices": stream(*BEGUN, chunk(delta("", finish="error"), error=ERROR)),
    "then done": stream(*BEGUN, {"error": ERROR}),
    "flat": stream(*BEGUN, {"object": "error", "message": "no room", "type": "x", "code": 503}),
    "then more": stream(*BEGUN, {"error": ERROR}, *story("not to be seen")),
}


@pytest.mark.parametrize("name", FAILED)
async def test_41_an_error_in_the_stream_is_its_end(gateway: Gateway, provider: Provider, name: str) -> None:
    answer = await streamed(gateway, provider, FAILED[name])
    assert stream_faults(answer.body, error=True) == []
    assert "no room" in answer.chunks[-1]["error"]["message"]
    assert b"not to be seen" not in answer.body
    assert gateway.record.outcome is Outcome.UPSTREAM_CUT


async def test_41_an_error_as_first_event_keeps_its_status(gateway: Gateway, provider: Provider) -> None:
    answer = await streamed(gateway, provider, stream({"error": {"message": "slow down", "code": 429}}))
    assert (answer.status, answer.error["code"]) == (429, "upstream_rate_limited")
    assert gateway.record.cost == 0


@pytest.mark.parametrize("size", [0, 1])
async def test_42_garbage_at_the_end_is_an_error(gateway: Gateway, provider: Provider, size: int) -> None:
    body = b"".join(map(event, BEGUN)) + b'data: {"id": \n\n'
    answer = await streamed(gateway, provider, stream_bytes(body, size=size))
    assert stream_faults(answer.body, error=True) == []
    assert answer.chunks[-1]["error"]["code"] == "upstream_bad_response"


async def test_42_one_garbled_event_inside_a_good_answer_is_left_out_and_noted(
    gateway: Gateway, provider: Provider
) -> None:
    # One such event is left out and counted (docs/http.md, Streams).
    *said, last = map(event, story("Hel", "lo"))
    answer = await streamed(gateway, provider, stream_bytes(b"".join([*said, b"data: {oops\n\n", last, DONE])))
    assert stream_faults(answer.body) == []
    assert gateway.record.marks == ("bad_chunks=1",)
    assert b"\n\n: x-gateway-lost-events: 1\n" in answer.body


async def test_42_strict_streams_end_with_an_error(gateway: Gateway, provider: Provider) -> None:
    gateway.settings(strict_streams=True)
    *said, last = map(event, story("Hel", "lo"))
    answer = await streamed(gateway, provider, stream_bytes(b"".join([*said, b"data: {oops\n\n", last, DONE])))
    assert stream_faults(answer.body, error=True) == []
    assert answer.chunks[-1]["error"]["code"] == "upstream_bad_response"
    assert gateway.record.outcome is Outcome.UPSTREAM_CUT


async def test_42_garbage_before_anything_good_is_a_failed_attempt(gateway: Gateway, provider: Provider) -> None:
    answer = await streamed(gateway, provider, stream_bytes(b"data: {oops\n\n" * 3))
    assert (answer.status, answer.error["code"]) == (502, "upstream_bad_response")


async def test_43_a_json_answer_to_a_stream_request_becomes_a_stream(gateway: Gateway, provider: Provider) -> None:
    calls = [{"id": "call_a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    doc = whole("m", choice("Hello", finish="tool_calls", tool_calls=calls), spent=usage(9, 12))
    answer = await streamed(gateway, provider, reply(doc), stream_options={"include_usage": True})
    assert stream_faults(answer.body, usage="yes") == []
    assert answer.text == "Hello"
    assert answer.head.get("content-type").startswith("text/event-stream")
    assert (gateway.record.input, gateway.record.output) == (9, 12)


async def test_43_a_json_error_to_a_stream_request_is_an_error(gateway: Gateway, provider: Provider) -> None:
    answer = await streamed(gateway, provider, reply({"error": {"message": "late", "type": "server_error"}}))
    assert answer.status == 502
    assert error_faults(answer.json) == []


async def test_44_after_done_the_client_does_not_wait_for_the_upstream(gateway: Gateway, provider: Provider) -> None:
    async def lingers(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.piece(b"".join(map(event, story("Hel", "lo"))) + DONE)
        await exchange.left()

    provider.on("m", lingers)
    peer = await gateway.client.connect()
    for _ in range(2):
        await peer.write(gateway.client.chat_bytes(stream=True))
        assert (await read_answer(peer)).text == "Hello"
        assert not provider.last.gone.is_set()
    peer.close()


def _deflated(datas: Iterable[bytes], bits: int) -> list[bytes]:
    packer = zlib.compressobj(wbits=bits)
    return [packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH) for data in datas]


@pytest.mark.parametrize(("coding", "bits"), [("gzip", 31), ("deflate", 15)])
async def test_45_compressed_events_are_not_held_back(
    gateway: Gateway, provider: Provider, coding: str, bits: int
) -> None:
    taken = asyncio.Semaphore(0)

    async def packed(exchange: Exchange) -> None:
        await exchange.begin_stream({"content-encoding": coding})
        for piece in _deflated([*map(event, story("a", "b")), DONE], bits):
            await exchange.piece(piece)
            await taken.acquire()
        await exchange.finish()

    provider.on("m", packed)
    async with gateway.client.streaming() as answer, asyncio.timeout(5):
        assert answer.head.get("content-encoding") == ""
        for _ in range(4):
            assert (await answer.event()).startswith(b"data: {")
            taken.release()
        assert (await answer.rest()).endswith(b"\n\n" + DONE)
        taken.release()


async def test_45_a_stream_packed_at_once_is_unpacked(gateway: Gateway, provider: Provider) -> None:
    body = gzip.compress(b"".join(map(event, story("Hel", "lo"))) + DONE)
    answer = await streamed(gateway, provider, reply(body, kind=EVENTS, headers={"content-encoding": "gzip"}))
    assert (stream_faults(answer.body), answer.text) == ([], "Hello")


async def test_46_a_refused_stream_keeps_its_status(gateway: Gateway, provider: Provider) -> None:
    answer = await streamed(gateway, provider, fail(429, "slow down", headers={"retry-after": "1"}))
    assert (answer.status, answer.error["code"]) == (429, "upstream_rate_limited")
    provider.on("m", fail(429, "slow down"))
    async with openai(gateway, max_retries=0) as client:
        assert isinstance(await raised(client), RateLimitError)


async def test_46_a_good_call_after_a_broken_one_is_good(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", cut(*BEGUN), speak())
    await gateway.client.chat(stream=True)
    assert (await gateway.client.chat(stream=True)).text == "Hello"
