"""Clients that say that they send no more, and go on reading: what they have asked for in whole is answered."""

import asyncio
import json

import pytest

from gateway.domain.call import Outcome
from tests.fakes.client import Answer, Client, events, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import DONE, chunk, delta, endless, event, in_steps, silence, speak, speak_after, story, usage
from tests.fakes.wire import Gone, Socket
from tests.faults.refusals import nothing_happened

CHAT: dict[str, object] = {"model": "m", "messages": [{"role": "user", "content": "Say hello."}]}
BODIES: dict[str, dict[str, object]] = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": {**CHAT, "max_tokens": 100},
    "/api/chat": {**CHAT, "stream": False},
}


async def asked(client: Client, data: bytes) -> Socket:
    """A connection on which this was sent, and nothing will follow."""
    peer = await client.send(data)
    peer.half_close()
    return peer


def slow(seconds: float) -> Script:
    """A good answer, plain or streamed, after some time."""
    return speak_after(seconds, speak("Hello", prompt=9, completion=12))


@pytest.mark.parametrize("seconds", [0.0, 0.6])
@pytest.mark.parametrize("path", BODIES)
async def test_every_api_answers_a_client_that_sends_no_more(
    gateway: Gateway, provider: Provider, path: str, stream: bool, seconds: float
) -> None:
    provider.on("m", slow(seconds))
    body = json.dumps({**BODIES[path], "stream": stream}).encode()
    peer = await asked(gateway.client, gateway.client.request("POST", path, body))
    answer = await read_answer(peer)
    assert (answer.status, b"Hello" in answer.body) == (200, True)
    (record,) = await gateway.settled()
    assert (record.status, record.outcome, record.output) == (200, Outcome.DONE, 12)
    peer.reset()


async def test_http_1_0_gets_no_interim_answer(gateway: Gateway, provider: Provider, stream: bool) -> None:
    provider.on("m", slow(0.6))
    data = gateway.client.chat_bytes(stream=stream).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    peer = await asked(gateway.client, data)
    head = await peer.read_head()
    assert (head.status, b"Hello" in await peer.read_body(head, answer=True)) == (200, True)
    (record,) = await gateway.settled()
    assert record.outcome is Outcome.DONE
    peer.reset()


async def test_a_quick_answer_has_no_interim_one_and_ends_the_connection(gateway: Gateway, provider: Provider) -> None:
    peer = await asked(gateway.client, gateway.client.chat_bytes())
    head = await peer.read_head()
    assert (head.status, head.get("connection")) == (200, "close")
    await peer.read_body(head, answer=True)
    await ended(peer)


async def test_requests_that_were_sent_together_are_all_answered(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", *[slow(0.4)] * 3)
    peer = await asked(gateway.client, gateway.client.chat_bytes() * 3)
    answers = [await read_answer(peer) for _ in range(3)]
    assert [answer.text for answer in answers] == ["Hello"] * 3
    await ended(peer)


async def test_a_stream_that_pauses_goes_on(gateway: Gateway, provider: Provider) -> None:
    docs = story(*"abcdefghij")
    provider.on("m", in_steps(*docs[:5], 0.7, *docs[5:], chunk(usage=usage(9, 12)), DONE))
    peer = await asked(gateway.client, gateway.client.chat_bytes(stream=True))
    answer = await read_answer(peer)
    assert (answer.text, events(answer.body)[-1]) == ("abcdefghij", b"[DONE]")
    assert b": keep-alive\n\n" in answer.body
    peer.reset()


async def test_one_that_leaves_after_all_ends_its_stream(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", endless(event(chunk(delta(content="a"))), pause=0.05))
    peer = await asked(gateway.client, gateway.client.chat_bytes(stream=True))
    await peer.read_head()
    peer.reset()
    await provider.last.left()
    (record,) = await gateway.settled()
    assert record.outcome is Outcome.CLIENT_CLOSED


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
async def test_a_request_that_is_not_complete_makes_no_call(gateway: Gateway, provider: Provider, share: float) -> None:
    request = gateway.client.chat_bytes()
    peer = await asked(gateway.client, request[: int(len(request) * share)])
    await ended(peer)
    nothing_happened(gateway, provider)


async def test_a_call_of_one_that_reads_on_can_be_cancelled(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", silence)
    peer = await asked(gateway.client, gateway.client.chat_bytes())
    await provider.asked()
    await asyncio.sleep(0.5)
    gateway.engine.live.cancel_all(Outcome.CANCELLED)
    assert (await read_answer(peer)).status >= 400
    await ended(peer)


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/v1/nothing"])
async def test_requests_without_a_call_are_answered_too(gateway: Gateway, path: str) -> None:
    peer = await asked(gateway.client, gateway.client.request("GET", path))
    answer: Answer = await read_answer(peer)
    assert answer.status in (200, 404)
    await ended(peer)


async def ended(peer: Socket) -> None:
    """The gateway has closed the connection, soon."""
    try:
        async with asyncio.timeout(2):
            while True:
                await peer.more()
    except Gone:
        peer.reset()
