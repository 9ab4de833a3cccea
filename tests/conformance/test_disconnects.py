"""Plain calls whose client leaves, and upstreams that never answer."""

import asyncio

import pytest

from gateway.domain.call import Outcome
from gateway.domain.channel import Timeouts
from gateway.domain.usage import UsageSource
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import silence

SOON_S = 1.0
"""Within this the upstream's connection must be closed once the client is gone; the goal on a quiet machine is 0.5."""


async def test_an_abandoned_plain_call_is_cancelled_where_the_channel_wants_it(
    gateway: Gateway, provider: Provider
) -> None:
    gateway.channel(provider.base_url, finish_abandoned=False)
    provider.on("m", silence)
    peer = await gateway.client.connect()
    await peer.write(gateway.client.chat_bytes())
    exchange = await provider.asked()
    peer.reset()
    left_at = asyncio.get_running_loop().time()
    assert await exchange.left() - left_at < SOON_S
    (record,) = await gateway.settled()
    assert (record.status, record.outcome, record.source) == (499, Outcome.CLIENT_CLOSED, UsageSource.ESTIMATED)
    assert record.input > 0
    assert record.output == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_an_upstream_that_never_answers_is_abandoned(gateway: Gateway, provider: Provider, stream: bool) -> None:
    gateway.channel(provider.base_url, timeouts=Timeouts(head=0.2))
    provider.on("m", silence)
    answer = await gateway.client.chat(stream=stream)
    assert (answer.status, answer.error["code"]) == (504, "upstream_timeout")
    assert answer.head.get("x-should-retry") == "false"
    await provider.last.left()
    (record,) = await gateway.settled()
    assert (record.outcome, record.cost, record.possible) == (Outcome.TIMEOUT, 0, record.held)
