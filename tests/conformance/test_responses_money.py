"""The promises about money and size hold for the Responses API as they do for chats."""

import json
from typing import Any

import pytest

from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import choice, dumps, reply, speak, usage, whole
from tests.fakes.responses import either, message, respond, spent

SPOKEN = either(respond(message("Hello"), usage=spent(9, 12)), speak())


@pytest.fixture(params=["vllm", "cerebras"], ids=["native", "translated"])
def preset(request: pytest.FixtureRequest, gateway: Gateway, provider: Provider) -> str:
    """Of a channel that speaks the API, or of one that does not."""
    gateway.channel(provider.base_url, preset=request.param)
    return str(request.param)


async def call(gateway: Gateway, **fields: Any) -> Answer:
    return await gateway.client.ask("POST", "/v1/responses", dumps({"model": "m", "input": "hi", **fields}))


LONG = 'long text with \\ and " and \u00e9 \U0001f600 ' * 9000


async def test_a_large_request_arrives_whole(gateway: Gateway, provider: Provider, preset: str) -> None:
    provider.on("m", either(respond(), reply(whole("m", choice("Hi"), spent=usage(1_000_000, 5)))))
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": LONG}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": json.dumps({"text": LONG})},
        {"type": "function_call_output", "call_id": "a", "output": LONG + "!"},
        {"type": "custom_tool_call", "call_id": "b", "name": "patch", "input": LONG + "?"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "ok"}]},
    ]
    answer = await call(gateway, input=items, instructions=LONG)
    assert answer.status == 200
    sent = provider.last.json
    if preset == "vllm":
        assert (sent["input"], sent["instructions"]) == (items, LONG)
        return
    assert answer.json["instructions"] == LONG
    system, user, first, result, second, _ = sent["messages"]
    assert (system["content"], user["content"], result["content"]) == (LONG, LONG, LONG + "!")
    assert json.loads(first["tool_calls"][0]["function"]["arguments"]) == {"text": LONG}
    assert json.loads(second["tool_calls"][0]["function"]["arguments"]) == {"input": LONG + "?"}
