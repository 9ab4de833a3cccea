"""The promises about money and size hold for the Responses API as they do for chats."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.settings import Durability
from tests.fakes.client import Answer
from tests.fakes.disk import REASONS, Disk
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import choice, dumps, reply, speak, usage, whole
from tests.fakes.responses import either, message, parsed, respond, spent
from tests.inbound.responses.grammar import TERMINAL, checked
from tests.v1.test_store_failure import healthy

SPOKEN = either(respond(message("Hello"), usage=spent(9, 12)), speak())


@pytest.fixture
def disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk under the gateway's home."""
    return Disk(monkeypatch, home)


@pytest.fixture(params=["vllm", "cerebras"], ids=["native", "translated"])
def preset(request: pytest.FixtureRequest, gateway: Gateway, provider: Provider) -> str:
    """Of a channel that speaks the API, or of one that does not."""
    gateway.channel(provider.base_url, preset=request.param)
    return str(request.param)


async def call(gateway: Gateway, **fields: Any) -> Answer:
    return await gateway.client.ask("POST", "/v1/responses", dumps({"model": "m", "input": "hi", **fields}))


@pytest.mark.parametrize("durability", Durability)
async def test_no_response_ends_before_its_record_is_written(
    gateway: Gateway, provider: Provider, disk: Disk, preset: str, durability: Durability
) -> None:
    go_on = asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        await exchange.until(go_on)
        await SPOKEN(exchange)

    gateway.settings(durability=durability)
    provider.on("m", SPOKEN, wait)
    assert (await call(gateway)).status == 200
    balance = gateway.engine.store.books.balance()
    calls = [asyncio.ensure_future(call(gateway, stream=bool(n % 2))) for n in range(6)]
    await provider.asked(7)
    disk.judge = lambda operation: REASONS["EIO"] if operation.file.startswith("usage/") else None
    go_on.set()
    answers = await asyncio.gather(*calls)
    assert [(answer.status, answer.error["code"]) for answer in answers[::2]] == [(503, "store_failed")] * 3
    for answer in answers[1::2]:
        events = parsed(answer.body)
        assert [one["type"] for one in events if one["type"] in TERMINAL] == ["response.failed"]
        assert events[-1]["error"]["code"] == "store_failed"
        assert [one["sequence_number"] for one in events] == list(range(len(events)))
    assert gateway.engine.store.books.balance() == balance
    disk.heal()
    await healthy(gateway)


async def test_the_ledger_has_what_a_chat_would_have(gateway: Gateway, provider: Provider, preset: str) -> None:
    provider.on("m", SPOKEN)
    for stream in (False, True):
        assert (await call(gateway, stream=stream)).status == 200
        assert (await gateway.client.chat(stream=stream)).status == 200
    costs = {(record.input, record.output, record.cost, record.source) for record in gateway.records}
    assert len(costs) == 1


async def test_a_client_that_leaves_pays_for_what_it_got(gateway: Gateway, provider: Provider, preset: str) -> None:
    half = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        socket = exchange.piece
        count = 0

        async def piece(data: bytes) -> None:
            nonlocal count
            await socket(data)
            count += 1
            if count == (5 if exchange.path.endswith("/responses") else 2):
                half.set()
                await exchange.left()

        exchange.piece = piece  # type: ignore[method-assign]
        await SPOKEN(exchange)

    provider.on("m", script)
    peer = await gateway.client.connect()
    body = dumps({"model": "m", "input": "hi", "stream": True})
    await peer.write(gateway.client.request("POST", "/v1/responses", body))
    await half.wait()
    (running,) = gateway.engine.live.calls.values()
    await gateway.until(lambda: running.delivery.content_sent)
    peer.reset()
    (record,) = await gateway.settled()
    assert (record.outcome, record.status) == ("client_closed", 499)
    assert record.output > 0


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


async def test_streams_at_once_are_not_mixed(gateway: Gateway, provider: Provider) -> None:
    async def script(exchange: Exchange) -> None:
        asked = exchange.json
        said = asked["input"] if "input" in asked else asked["messages"][0]["content"]
        await either(respond(message(f"you said {said}")), speak("you ", "said ", said))(exchange)

    for model, preset in (("native", "vllm"), ("translated", "cerebras")):
        gateway.channel(provider.base_url, model, name=model, preset=preset)
        gateway.price(model)
        provider.on(model, script)

    async def one(number: int) -> bool:
        model = ("native", "translated")[number % 2]
        answer = await call(gateway, model=model, input=f"word-{number}", stream=True)
        made = checked(answer.body).response if model == "translated" else parsed(answer.body)[-1]["response"]
        return bool(made["output"][0]["content"][0]["text"] == f"you said word-{number}")

    assert all(await asyncio.gather(*(one(number) for number in range(50))))
    assert len(await gateway.settled(50)) == 50
