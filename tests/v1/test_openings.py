"""A stream that only begins before it fails: another channel answers, and otherwise it costs nothing."""

import asyncio
from pathlib import Path

import pytest

from gateway.core.live_calls import CallDeadlines
from gateway.domain.call import FailureKind, Outcome
from gateway.domain.channel import Dialect
from tests.fakes.client import Doc
from tests.fakes.gateway import Gateway, running
from tests.fakes.messages import message, message_events
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import DONE, chunk, delta, dumps, event, speak, stream_bytes
from tests.v1.test_every_api import CASES, call, docs_of

ROLE = event(chunk(delta("", role="assistant")))
BUSY: Doc = {
    "type": "error",
    "error": {"type": "overloaded_error", "message": "Overloaded", "code": "server_is_overloaded"},
}
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
RESPONSE = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
RESPONSE_BEGAN = [
    event({"type": f"response.{name}", "response": RESPONSE, "sequence_number": number})
    for number, name in enumerate(("created", "in_progress"))
]
FAILED = {**RESPONSE, "status": "failed", "error": {"code": "server_is_overloaded", "message": "Overloaded"}}
OPENED = {
    "chat": ROLE + event({"error": {"message": "Overloaded", "code": 529}}),
    "messages": message_events(message())[0] + PING + event(BUSY),
    "messages translated": ROLE + event({"error": {"message": "Overloaded", "code": 529}}),
    "responses": b"".join(RESPONSE_BEGAN) + event(BUSY),
    "responses that failed": b"".join(RESPONSE_BEGAN) + event({"type": "response.failed", "response": FAILED}),
}
"""Answers that only begin before they fail."""
CASE = pytest.mark.parametrize("case", OPENED)


def open_busy(gateway: Gateway, provider: Provider, case: str) -> str:
    """Have one channel, whose answers only begin. Returns the API that is called."""
    gateway.change("channels", "ch_up", None)
    dialect = Dialect.ANTHROPIC if case == "messages" else Dialect.OPENAI
    gateway.channel(provider.base_url, "m=busy", name="busy", dialect=dialect, priority=9)
    provider.on("busy", stream_bytes(OPENED[case], size=40))
    return case.partition(" ")[0]


async def speak_chat(exchange: Exchange) -> None:
    """Answer chats alone."""
    if exchange.path.endswith("/chat/completions"):
        await speak()(exchange)
    else:
        await exchange.answer(b'{"detail":"Not Found"}', status=404)


@CASE
async def test_an_answer_that_fails_before_its_content_comes_from_another_channel(
    gateway: Gateway, provider: Provider, case: str
) -> None:
    api = open_busy(gateway, provider, case)
    gateway.channel(provider.base_url, "m=free", name="free")
    provider.on("free", speak_chat)
    answer = await call(gateway.client, api, stream=True)
    assert (answer.status, answer.head.get("x-gateway-channel")) == (200, "free")
    assert CASES[api].text(docs_of(answer)) == "Hello"
    assert b"verloaded" not in answer.body
    assert [attempt.kind for attempt in gateway.record.attempts] == [FailureKind.SERVER, None]


@CASE
async def test_an_answer_that_fails_before_its_content_costs_nothing(
    gateway: Gateway, provider: Provider, case: str
) -> None:
    """Codex acts on how a response breaks that has begun, others on the status."""
    api = open_busy(gateway, provider, case)
    answer = await call(gateway.client, api, stream=True)
    if api == "responses":
        docs = docs_of(answer)
        assert [doc["type"] for doc in docs] == ["response.created", "response.in_progress", "response.failed"]
        own_words = "server_is_overloaded" if case == "responses that failed" else "server_error"
        assert docs[-1]["response"]["error"]["code"] == own_words
    else:
        assert answer.status == (529 if api == "messages" else 503)
    assert (gateway.record.outcome, gateway.record.cost) == (Outcome.ERROR, 0)


@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
async def test_a_beginning_does_not_wait_longer_than_a_head(provider: Provider, home: Path, api: str) -> None:
    seen = asyncio.Event()
    end = event(chunk(delta("Hello", finish="stop"))) + DONE
    begins, ends = {
        "chat": (ROLE, end),
        "messages": (
            message_events(message())[0],
            b"".join(message_events(message({"type": "text", "text": "Hello"}))[1:]),
        ),
        "responses": (RESPONSE_BEGAN[0], event({"type": "response.failed", "response": FAILED})),
    }[api]

    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.piece(begins)
        await exchange.until(seen)
        await exchange.piece(ends)
        await exchange.finish()

    quick = CallDeadlines(first_event=0.05, keep_alive=9, stall=20, tick=0.01)
    async with running(home / "quick", patience=quick) as gateway:
        gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC if api == "messages" else Dialect.OPENAI)
        provider.on("m", script)
        case, client = CASES[api], gateway.client
        peer = await client.connect()
        body = {"model": "m", **case.body, "stream": True}
        await peer.write(client.request("POST", case.path, dumps(body), dict(case.headers)))
        head = await peer.read_head()
        assert head.get("x-gateway-channel") == "up"
        pieces = peer.pieces(head, answer=True)
        first = await anext(pieces)
        assert begins.rstrip().rpartition(b"data: ")[2][:20] in first
        seen.set()
        rest = b"".join([piece async for piece in pieces])
        assert (b"verloaded" if api == "responses" else b"lo") in rest
        peer.reset()
