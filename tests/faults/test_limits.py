"""Limits: what is at a limit passes, one more does not; nobody is forgotten, nothing is lost."""

import asyncio

import pytest

from gateway.control.views import token_view
from gateway.domain.limits import Limits
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.faults.test_races import walled


@pytest.mark.parametrize("owner", ["token", "group", "channel"])
async def test_exactly_so_many_calls_a_minute_pass(gateway: Gateway, provider: Provider, owner: str) -> None:
    limits = Limits(rpm=20)
    client = gateway.token("fast", limits=limits) if owner == "token" else gateway.client
    if owner == "group":
        gateway.group("default", limits=limits)
    if owner == "channel":
        gateway.channel(provider.base_url, limits=limits)
    answers = await asyncio.gather(*(client.chat() for _ in range(70)))
    statuses = [answer.status for answer in answers]
    assert (statuses.count(200), statuses.count(429), len(provider.exchanges)) == (20, 50, 20)
    refused = next(answer for answer in answers if answer.status == 429)
    assert refused.error["code"] == "rate_limit_exceeded"
    assert 1 <= int(refused.head.get("retry-after")) <= 60
    assert refused.head.get("x-ratelimit-remaining-requests") == "0"


async def test_a_stopping_gateway_ends_waiting_calls_and_not_running_ones(gateway: Gateway, provider: Provider) -> None:
    script, wall = walled()
    provider.on("m", script)
    client = gateway.token("slow", limits=Limits(concurrent=1))
    running = asyncio.create_task(client.chat())
    await provider.asked(1)
    waiting = asyncio.create_task(client.chat())
    await gateway.until(lambda: gateway.engine.limiter.concurrency.waiting(("token", "tok_slow")) == 1)
    assert token_view(gateway.engine, gateway.engine.catalog.token("slow")).waiting == 1
    gateway.engine.refuse_calls()
    refused = await waiting
    assert (refused.status, refused.error["code"]) == (503, "gateway_stopping")
    wall.set()
    assert (await running).status == 200
