"""Errors of the Responses API: each has the status, the code and the advice that Codex and the SDKs act on."""

import asyncio
import json
from typing import Any

import pytest

from gateway.domain.channel import Dialect
from tests.cases.anthropic import streams as anthropic
from tests.fakes.client import Answer, Client
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import DONE, chunk, delta, dumps, event, fail, in_steps, story, stream_bytes
from tests.fakes.responses import message, parsed, respond
from tests.inbound.responses.grammar import checked


async def call(gateway: Gateway, client: Client | None = None, **fields: Any) -> Answer:
    body = dumps({"model": "m", "input": "hi", **fields})
    return await (client or gateway.client).ask("POST", "/v1/responses", body, {"user-agent": "OpenAI/Python"})


@pytest.fixture(params=["native", "translated"])
def upstream(request: pytest.FixtureRequest, gateway: Gateway, provider: Provider) -> str:
    """A channel that speaks the API, or one that does not."""
    gateway.channel(provider.base_url, preset="vllm" if request.param == "native" else "cerebras")
    return str(request.param)


@pytest.mark.parametrize(("status", "wanted"), [(400, 400), (403, 400), (413, 400), (422, 400)])
async def test_mistakes_are_400(gateway: Gateway, provider: Provider, upstream: str, status: int, wanted: int) -> None:
    provider.on("m", fail(status, "your content was flagged", code="moderation"))
    answer = await call(gateway)
    assert (answer.status, answer.error["code"]) == (wanted, "moderation")


async def test_a_body_that_is_too_large_is_400_and_the_connection_ends(gateway: Gateway) -> None:
    head = {"content-length": str(10**9), "content-type": "application/json"}
    answer = await gateway.client.raw(gateway.client.request("POST", "/v1/responses", b"", head))
    assert (answer.status, answer.error["code"]) == (400, "request_too_large")
    assert answer.head.get("connection") == "close"


async def test_failed_channels_keep_their_status(gateway: Gateway, provider: Provider, upstream: str) -> None:
    provider.on("m", fail(500, "it broke"))
    answer = await call(gateway)
    assert (answer.status, answer.head.get("x-should-retry")) == (502, "false")


async def test_a_broken_stream_ends_in_a_failed_response(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, preset="cerebras")
    provider.on("m", stream_bytes(b"".join(map(event, story("Hel", "lo")[:-1]))))
    found = checked((await call(gateway, stream=True)).body)
    assert found.ending == "response.failed"
    assert found.response["error"]["code"] == "server_error"
    error = found.events[-1]["error"]
    assert (error["code"], error["type"]) == ("upstream_stream_truncated", "server_error")  # Continue reads the type
    assert found.items == []


@pytest.mark.parametrize(
    ("agent", "path", "stream", "status"),
    [
        ("codex_exec/0.158.0 (Debian 12)", "/v1/responses", True, 200),
        ("codex_exec/0.158.0 (Debian 12)", "/v1/responses", False, 400),
        ("codex_exec/0.158.0 (Debian 12)", "/v1/chat/completions", True, 400),
        ("OpenAI/Python 3.52.0", "/v1/responses", True, 400),
    ],
)
@pytest.mark.usefixtures("upstream")
async def test_only_a_stream_tells_codex_that_its_conversation_is_too_long(
    gateway: Gateway, provider: Provider, agent: str, path: str, stream: bool, status: int
) -> None:
    """Up to 0.158, it compacts after a failed response, and shows the JSON of an HTTP error."""
    provider.on("m", fail(400, "This model's maximum context length is 8 tokens", code="context_length_exceeded"))
    body = {"model": "m", "input": "hi", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    answer = await gateway.client.ask("POST", path, dumps(body), {"user-agent": agent})
    assert answer.status == status
    error = parsed(answer.body)[-1]["response"]["error"] if status == 200 else answer.error
    assert (error["code"], "maximum context length" in error["message"]) == ("context_length_exceeded", True)
    assert (gateway.record.status, gateway.record.code, gateway.record.cost) == (400, "context_length_exceeded", 0)


async def test_events_that_show_life_keep_the_numbers_dense(gateway: Gateway, provider: Provider) -> None:
    """After two minutes of silence an event is sent again: comments alone do not count for Codex."""
    gateway.channel(provider.base_url, preset="cerebras")
    silent = asyncio.Event()
    provider.on("m", in_steps(*story("Hel", "lo")[:2], silent, *story("Hel", "lo")[2:], DONE))
    body = dumps({"model": "m", "input": "hi", "stream": True})
    task = asyncio.create_task(gateway.client.ask("POST", "/v1/responses", body))
    await provider.asked()
    live = gateway.engine.live
    (running,) = live.calls.values()
    for _ in range(500):
        if not running.delivery.content_sent:
            await asyncio.sleep(0.01)
    for _ in range(17):
        await live._keep_alive(running)  # noqa: SLF001 - as the clock would, every 15 seconds
    silent.set()
    answer = await task
    found = checked(answer.body)
    assert len(found.of("in_progress")) == 3
    assert answer.body.count(b": keep-alive\n\n") == 15
    assert found.items[0]["content"][0]["text"] == "Hello"


async def test_a_session_crosses_vendors_and_comes_back(gateway: Gateway, provider: Provider) -> None:
    """What each vendor signed reaches that vendor alone."""
    root = provider.base_url.removesuffix("/v1")
    thought = anthropic.thinking("Hm", "SIG==") + anthropic.tool("c1", "f", "{}") + anthropic.end("tool_use")
    gateway.channel(root, "m=claude-sonnet-4-5", dialect=Dialect.ANTHROPIC)
    provider.on("claude-sonnet-4-5", stream_bytes(anthropic.start() + thought))
    wanted: dict[str, Any] = {"include": ["reasoning.encrypted_content"], "stream": True}
    wanted["tools"] = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    turn: list[Any] = [{"role": "user", "content": "hi"}]
    turn += checked((await call(gateway, input=turn, **wanted)).body).items
    turn.append({"type": "function_call_output", "call_id": "c1", "output": "x"})

    gateway.channel(provider.base_url, "m=gpt-x", preset="vllm")
    provider.on("gpt-x", respond(message("Hello")))
    turn += parsed((await call(gateway, input=turn, **wanted)).body)[-1]["response"]["output"]
    assert "SIG==" not in provider.last.body.decode()
    assert "tk1." not in provider.last.body.decode()
    turn.append({"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "gAAAA"})
    turn.append({"role": "user", "content": "more"})

    gateway.channel(provider.base_url, "m=plain", preset="cerebras")
    provider.on("plain", stream_bytes(event(chunk(delta("Hi", role="assistant", finish="stop"))) + DONE))
    checked((await call(gateway, input=turn, **wanted)).body)
    assert not {"tk1.", "SIG==", "gAAAA"} & set(json.dumps(provider.last.json).split('"'))
    assert all("thinking_blocks" not in one for one in provider.last.json["messages"])

    gateway.channel(root, "m=claude-sonnet-4-5", dialect=Dialect.ANTHROPIC)
    provider.on("claude-sonnet-4-5", stream_bytes(anthropic.HELLO))
    checked((await call(gateway, input=turn, **wanted)).body)
    assert provider.last.json["messages"][1]["content"][0]["signature"] == "SIG=="
    assert "gAAAA" not in provider.last.body.decode()
