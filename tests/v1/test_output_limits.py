"""Output limits: what a call holds for its own, and how one is lowered that too little is left for."""

import asyncio
from typing import Any

import pytest

from gateway.domain.budget import Budget
from gateway.domain.channel import Dialect
from gateway.domain.group import Fallback
from gateway.domain.units import DOLLAR, MILLION, Nanos
from tests.fakes.client import Answer, Client
from tests.fakes.gateway import GRANTED, Gateway
from tests.fakes.messages import speak_messages
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import Doc, dumps, fail, speak, speak_after
from tests.v1.test_every_api import upstream

PRICE = 25_000
"""Nano-dollars of one output token; input is free."""


CAP = 64_000
APIS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": CAP}),
    "messages": ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": CAP}),
    "responses": ("/v1/responses", {"input": "Hi", "max_output_tokens": CAP}),
    "completions": ("/v1/completions", {"prompt": "Hi", "max_tokens": CAP}),
    "ollama": ("/api/generate", {"prompt": "Hi", "stream": False, "options": {"num_predict": CAP}}),
}
EVERY = pytest.mark.parametrize("api", APIS)


async def call(client: Client, api: str, **more: Any) -> Answer:
    path, body = APIS[api]
    head = {"anthropic-version": "2023-06-01"}
    return await client.ask("POST", path, dumps({"model": "m", **body, **more}), head)


def poor(gateway: Gateway, tokens: int, **fields: Any) -> Client:
    """A token whose budget pays for so many output tokens."""
    gateway.price(input=Nanos(0), output=Nanos(25 * DOLLAR))
    return gateway.token("poor", budgets=(Budget(nanos=Nanos(tokens * PRICE)),), **{"fit_output": True, **fields})


def caps(body: Doc) -> list[object]:
    config = body.get("generationConfig") or {}
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    return [body[name] for name in names if name in body] + [v for k, v in config.items() if k == "maxOutputTokens"]


def answer_of(dialect: Dialect) -> Script:
    return speak_messages() if dialect is Dialect.ANTHROPIC else speak()


@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.ANTHROPIC])
@EVERY
async def test_the_limit_that_goes_out_is_what_the_rest_pays_for(
    gateway: Gateway, provider: Provider, api: str, dialect: Dialect
) -> None:
    gateway.channel(provider.base_url, dialect=dialect, preset="mistral" if dialect is Dialect.OPENAI else "")
    client = poor(gateway, 10_000)
    provider.on("m", answer_of(dialect))
    answer = await call(client, api)
    (record,) = await gateway.settled()
    assert (answer.status, answer.head.get("x-gateway-output-limit")) == (200, "10000")
    assert (caps(provider.last.json), record.held) == ([10_000], 10_000 * PRICE)
    assert "output_limit=10000" in record.marks


@pytest.mark.parametrize("native", ["chat", "messages", "responses"])
async def test_native_limits_are_lowered_too(
    gateway: Gateway, provider: Provider, native: str, *, stream: bool
) -> None:
    dialect = Dialect.ANTHROPIC if native == "messages" else Dialect.OPENAI
    gateway.channel(provider.base_url, dialect=dialect)
    client = poor(gateway, 2_000)
    provider.on("m", speak_messages() if native == "messages" else upstream())
    await call(client, native, stream=stream)
    assert [caps(one.json) for one in provider.exchanges] == [[2_000]] * (2 if native == "responses" else 1)


@pytest.mark.parametrize(("left", "status"), [(1_024, 200), (1_023, 429), (0, 429)])
@EVERY
async def test_less_than_a_useful_answer_is_refused(
    gateway: Gateway, provider: Provider, api: str, left: int, status: int
) -> None:
    gateway.channel(provider.base_url, preset="mistral")
    assert (await call(poor(gateway, left), api)).status == status
    assert len(provider.exchanges) == (status == 200)


@pytest.mark.parametrize(
    ("api", "left", "wanted", "fields"),
    [
        ("chat", 10_000, False, {}),
        ("chat", 10_000, True, {"n_predict": 60_000}),
        ("messages", 2_047, True, {"thinking": {"type": "enabled", "budget_tokens": 2_000}}),
    ],
    ids=["the token does not want it", "another cap cannot be lowered", "too little to think"],
)
async def test_a_limit_that_is_not_lowered_is_refused(
    gateway: Gateway, provider: Provider, api: str, left: int, fields: Doc, *, wanted: bool
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC if api == "messages" else Dialect.OPENAI)
    answer = await call(poor(gateway, left, fit_output=wanted), api, **fields)
    assert (answer.status, provider.exchanges) == (429, [])


async def test_a_limit_that_can_be_paid_goes_out_as_it_came(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    client = poor(gateway, 64_000)
    provider.on("m", speak_messages())
    answer = await call(client, "messages")
    _, body = APIS["messages"]
    assert (provider.last.body, answer.head.get("x-gateway-output-limit")) == (dumps({"model": "m", **body}), "")


@pytest.mark.parametrize(
    ("left", "budget", "sent"),
    [(10_000, 63_999, 8_976), (10_000, 4_000, 4_000), (10_000, 9_500, 8_976), (2_048, 63_999, 1_024)],
)
async def test_a_thinking_budget_stays_below_the_limit_with_room_for_an_answer(
    gateway: Gateway, provider: Provider, left: int, budget: int, sent: int
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    client = poor(gateway, left)
    provider.on("m", speak_messages())
    answer = await call(client, "messages", thinking={"type": "enabled", "budget_tokens": budget})
    found = provider.last.json
    assert (answer.status, found["max_tokens"], found["thinking"]["budget_tokens"]) == (200, left, sent)


@pytest.mark.parametrize(
    ("left", "fields", "sent"),
    [
        (10_001, {"n": 2}, {5_000}),
        (10_000, {"max_completion_tokens": 50_000}, {10_000}),
        (10_000, {"model": "best"}, {10_000}),
        (10_000, {"messages": [{"role": "user", "content": "x" * 2_000_000}]}, {10_000}),
    ],
    ids=["several answers share the rest", "both names", "an alias, by its model's price", "a large request"],
)
async def test_every_limit_is_lowered(gateway: Gateway, provider: Provider, left: int, fields: Doc, sent: Any) -> None:
    client = poor(gateway, left)
    gateway.group("default", fallbacks=(Fallback(model="best", to=("m",)),))
    assert (await call(client, "chat", **fields)).status == 200
    assert set(caps(provider.last.json)) == sent
    assert provider.last.json["messages"] == fields.get("messages", APIS["chat"][1]["messages"])


async def test_a_budget_of_tokens_lowers_it_as_well(gateway: Gateway, provider: Provider) -> None:
    gateway.price(input=Nanos(0), output=Nanos(25 * DOLLAR))
    client = gateway.token("poor", budgets=(Budget(tokens=5_000),), fit_output=True)
    assert (await call(client, "chat")).status == 200
    (cap,) = caps(provider.last.json)
    assert isinstance(cap, int)
    assert 4_900 < cap < 5_000


async def test_calls_at_the_same_time_never_pass_the_budget(gateway: Gateway, provider: Provider) -> None:
    client = poor(gateway, 70_000)
    go_on = asyncio.Event()
    provider.on("m", speak_after(go_on, speak(completion=5_000)))
    calls = [asyncio.ensure_future(call(client, "chat")) for _ in range(4)]
    await provider.asked(2)
    held = sum(one.held for one in gateway.engine.store.books.running.values())
    go_on.set()
    statuses = sorted([(await one).status for one in calls])
    assert (held <= 70_000 * PRICE, statuses) == (True, [200, 200, 429, 429])


def almost_spent(gateway: Gateway) -> None:
    """Two dollars are left, and a million output tokens cost 25."""
    gateway.price(input=Nanos(0), output=Nanos(25 * DOLLAR))
    gateway.grant(2 * DOLLAR - GRANTED)


@EVERY
async def test_the_refusal_names_the_call_that_holds_the_money(gateway: Gateway, provider: Provider, api: str) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC if api == "messages" else Dialect.OPENAI)
    almost_spent(gateway)
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
    almost_spent(gateway)
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
