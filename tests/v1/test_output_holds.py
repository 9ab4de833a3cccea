"""What calls hold for their output: the refusal names who holds the money, and a token may have its calls hold less."""

import asyncio
from typing import Any

import pytest

from gateway.domain.channel import Dialect
from gateway.domain.units import DOLLAR, MILLION, Nanos
from tests.fakes.client import Answer, Client
from tests.fakes.gateway import GRANTED, Gateway
from tests.fakes.messages import speak_messages
from tests.fakes.provider import Provider
from tests.fakes.replies import dumps, fail, speak, speak_after
from tests.v1.test_every_api import upstream

CAP = 64_000
APIS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": CAP}),
    "messages": ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": CAP}),
    "responses": ("/v1/responses", {"input": "Hi", "max_output_tokens": CAP}),
    "completions": ("/v1/completions", {"prompt": "Hi", "max_tokens": CAP}),
    "ollama": ("/api/generate", {"prompt": "Hi", "stream": False, "options": {"num_predict": CAP}}),
}
EVERY = pytest.mark.parametrize("api", APIS)


async def call(client: Client, api: str) -> Answer:
    path, body = APIS[api]
    return await client.ask("POST", path, dumps({"model": "m", **body}), {"anthropic-version": "2023-06-01"})


def poor(gateway: Gateway) -> None:
    """Two dollars are left, and a million output tokens cost 25."""
    gateway.price(input=Nanos(0), output=Nanos(25 * DOLLAR))
    gateway.grant(2 * DOLLAR - GRANTED)


@EVERY
async def test_the_refusal_names_the_call_that_holds_the_money(gateway: Gateway, provider: Provider, api: str) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC if api == "messages" else Dialect.OPENAI)
    poor(gateway)
    go_on, answer = asyncio.Event(), speak_messages() if api == "messages" else upstream()
    provider.on("m", speak_after(go_on, answer))
    first = asyncio.ensure_future(call(gateway.client, api))
    await provider.asked()
    (running,) = gateway.engine.store.books.running.values()
    refused = await call(gateway.client, api)
    assert (refused.status, refused.head.get("x-should-retry")) == (429, "false")
    said = refused.body.decode()
    assert (
        f"the account has $0.40 left, and this call may need $1.60; running calls hold $1.60: {running.id} (m)" in said
    )
    assert "'tollkeeper token edit laptop --hold-output 8000'" in said
    go_on.set()
    assert (await first).status == 200


@EVERY
async def test_with_a_smaller_hold_both_run_and_their_caps_stay(gateway: Gateway, provider: Provider, api: str) -> None:
    native = api == "messages"
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC if native else Dialect.OPENAI)
    poor(gateway)
    client = gateway.token(hold_output=8000)
    go_on, answer = asyncio.Event(), speak_messages() if native else upstream()
    provider.on("m", speak_after(go_on, answer))
    calls = [asyncio.ensure_future(call(client, api)) for _ in range(2)]
    await provider.asked(2)
    held = [running.held for running in gateway.engine.store.books.running.values()]
    assert held == [8000 * 25_000] * 2
    for exchange in provider.exchanges[:2]:
        caps = [exchange.json.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")]
        assert CAP in caps
    go_on.set()
    assert [answer.status for answer in await asyncio.gather(*calls)] == [200, 200]


async def test_a_call_without_a_limit_holds_what_the_tokens_owner_says(gateway: Gateway, provider: Provider) -> None:
    gateway.price(input=Nanos(0), output=Nanos(25 * MILLION))
    body = dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    for hold_output, held in ((0, 4096), (100, 100), (20_000, 20_000)):
        await gateway.token(hold_output=hold_output).ask("POST", "/v1/chat/completions", body)
        assert gateway.records[-1].held == held * 25


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_call_without_a_limit_gets_that_of_the_rest(gateway: Gateway, provider: Provider, api: str) -> None:
    gateway.price(input=Nanos(0), output=Nanos(25 * MILLION))
    gateway.grant(25 * 100 - GRANTED)
    provider.on("m", upstream())
    path, body = APIS[api]
    body = {field: value for field, value in body.items() if value != CAP}
    answer = await gateway.client.ask("POST", path, dumps({"model": "m", **body}))
    assert (answer.status, provider.last.json["max_tokens"]) == (200, 100)
    assert dict(answer.head.headers)["x-gateway-output-limit"] == "100"
    assert gateway.engine.store.books.available() >= 0


async def test_a_limit_that_the_rest_pays_for_is_not_above_the_models_own(gateway: Gateway, provider: Provider) -> None:
    gateway.price(input=Nanos(0), output=Nanos(25 * MILLION))
    gateway.grant(25 * 100 - GRANTED)
    provider.on(
        "m", fail(400, "max_tokens is too large: 100. This model supports at most 64 completion tokens"), speak()
    )
    body = dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    answer = await gateway.client.ask("POST", "/v1/chat/completions", body)
    assert (answer.status, [exchange.json["max_tokens"] for exchange in provider.exchanges]) == (200, [100, 64])
    assert dict(answer.head.headers)["x-gateway-output-limit"] == "64"
