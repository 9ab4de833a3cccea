"""No budget and no balance is passed, whatever a request asks of an upstream that obeys it most generously."""

import asyncio
import json
from collections.abc import Collection
from typing import Any

import pytest

from gateway.domain.budget import Budget, Window
from gateway.domain.channel import Dialect
from gateway.domain.group import Fallback
from gateway.domain.units import Nanos
from tests.domain.test_media_size import PAGE, pdf
from tests.fakes.client import HELLO
from tests.fakes.gateway import GRANTED, Gateway
from tests.fakes.obedient import obey
from tests.fakes.provider import Provider

Doc = dict[str, Any]

CENT = 10_000_000
MILLION = 1_000_000
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "high"}}
BOOK = {"type": "base64", "media_type": "application/pdf", "data": pdf(PAGE * 9).decode()}

MESSAGES: Doc = {"messages": HELLO, "max_tokens": 1}
RESPONSES: Doc = {"input": "Say hello.", "max_output_tokens": 16}
COMPLETIONS: Doc = {"prompt": "Say", "max_tokens": 1}
CHAT: Doc = {"messages": HELLO, "max_tokens": 1}

REQUESTS: list[tuple[Dialect, str, Doc]] = [
    (Dialect.ANTHROPIC, "messages", {**MESSAGES, "best_of": 128, "n": 128}),
    (Dialect.ANTHROPIC, "messages", {**MESSAGES, "thinking": {"type": "enabled", "budget_tokens": MILLION}}),
    (
        *(Dialect.ANTHROPIC, "messages"),
        {**MESSAGES, "messages": [{"role": "user", "content": [{"type": "document", "source": BOOK}]}]},
    ),
    (Dialect.OPENAI, "responses", {**RESPONSES, "text": {"verbosity": "low", "max_tokens": MILLION}}),
    (Dialect.OPENAI, "embeddings", {"input": "a", "instruction": "x" * 40_000}),
    (Dialect.OPENAI, "embeddings", {"input": [5], "texts": [[1, 2, 3] * 5000]}),
    (Dialect.OPENAI, "completions", {**COMPLETIONS, "prompt": ["a"] * 100, "n": 128}),
    (Dialect.OPENAI, "chat/completions", {**CHAT, "generationConfig": {"candidateCount": "5000"}}),
    (Dialect.OPENAI, "chat/completions", {**CHAT, "messages": [{"role": "user", "content": [PICTURE] * 3}]}),
    (Dialect.GEMINI, "chat/completions", {**CHAT, "reasoning_effort": "high"}),
]
"""One of each kind, for each way through the gateway; all kinds are tried in ``tests/core/test_holds_of_all_apis``."""


def upstream(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    provider.other = obey
    root = provider.base_url.removesuffix("/v1") if dialect is Dialect.GEMINI else provider.base_url
    gateway.channel(root, "m=gpt-4o-mini" if dialect is Dialect.OPENAI else "m=gemini-2.5-pro", dialect=dialect)
    gateway.price("m")


async def spent_by(
    gateway: Gateway, path: str, request: Doc, *, calls: int = 4, statuses: Collection[int] = (200, 429)
) -> int:
    """Nano-dollars that calls at once cost a token with a budget of a cent."""
    client = gateway.token(budgets=(Budget(window=Window.EVER, nanos=Nanos(CENT)),))
    before = gateway.engine.store.books.available()
    body = json.dumps({"model": "m", **request}).encode()
    answers = await asyncio.gather(*(client.ask("POST", f"/v1/{path}", body) for _ in range(calls)))
    assert {answer.status for answer in answers} <= {*statuses}, answers
    await gateway.settled()
    return before - gateway.engine.store.books.available()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(("dialect", "path", "request_body"), REQUESTS, ids=range(len(REQUESTS)))
async def test_no_budget_is_passed(
    gateway: Gateway, provider: Provider, dialect: Dialect, path: str, request_body: Doc, *, stream: bool
) -> None:
    upstream(gateway, provider, dialect)
    more = {"stream": True} if stream and path != "embeddings" else {}
    assert await spent_by(gateway, path, {**request_body, **more}) <= CENT


async def test_no_budget_is_passed_at_a_fallback(gateway: Gateway, provider: Provider) -> None:
    upstream(gateway, provider, Dialect.ANTHROPIC)
    gateway.channel("http://127.0.0.1:9", "first", name="down")
    gateway.price("first")
    gateway.group("default", fallbacks=(Fallback(model="first", to=("m",)),))
    dear, cheap = ({**MESSAGES, "model": "first", "num_predict": tokens} for tokens in (MILLION, 300))
    assert await spent_by(gateway, "messages", dear, statuses={429, 502}) == 0
    assert 0 < await spent_by(gateway, "messages", cheap, statuses={200, 429, 502}) <= CENT


async def test_the_balance_does_not_fall_below_zero(gateway: Gateway, provider: Provider) -> None:
    upstream(gateway, provider, Dialect.ANTHROPIC)
    gateway.grant(CENT - GRANTED)
    body = json.dumps({"model": "m", **MESSAGES, "max_output_tokens": 300}).encode()
    answers = await asyncio.gather(*(gateway.client.ask("POST", "/v1/messages", body) for _ in range(9)))
    assert sorted({answer.status for answer in answers}) == [200, 429]
    await gateway.settled()
    assert 0 <= gateway.engine.store.books.available() < CENT


async def test_what_goes_out_without_more_is_held_without_more(gateway: Gateway, provider: Provider) -> None:
    """Fields that a translation leaves out cost nothing."""
    upstream(gateway, provider, Dialect.ANTHROPIC)
    answer = await gateway.client.chat(max_tokens=1, num_predict=MILLION, options={"n": 5000})
    assert answer.status == 200
    assert await spent_by(gateway, "chat/completions", {**CHAT, "num_predict": MILLION}, calls=1) > 0
