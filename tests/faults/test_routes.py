"""Many calls over channels of several weights and priorities, and over channels that are all down."""

import asyncio
from collections import Counter

import pytest

from tests.fakes.client import Answer, Client, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, speak

CALLS = 1_000


async def many(gateway: Gateway, count: int, at_once: int = 20) -> list[Answer]:
    """So many calls, some at a time."""
    left = iter(range(count))

    async def caller() -> list[Answer]:
        return [await gateway.client.chat() for _ in left]

    return [answer for answers in await asyncio.gather(*(caller() for _ in range(at_once))) for answer in answers]


async def test_weights_are_shares_and_priority_is_strict(gateway: Gateway, provider: Provider) -> None:
    gateway.grant(10**12)
    for name, weight, priority in (("up", 1, 5), ("three", 3, 5), ("never", 0, 5), ("low", 99, 4)):
        gateway.channel(provider.base_url, name=name, weight=weight, priority=priority)
    provider.on("m", speak())
    counts = Counter(answer.head.get("x-gateway-channel") for answer in await many(gateway, CALLS))
    assert set(counts) == {"up", "three"}
    assert abs(counts["up"] - CALLS / 4) <= 4 * (CALLS * 0.25 * 0.75) ** 0.5


async def chat_patiently(client: Client) -> Answer:
    """The answer to a call. A busy machine may take long for hundreds of them, and the clock is a hasty one."""
    peer = await client.connect()
    await peer.write(client.chat_bytes())
    answer = await read_answer(peer, patience_s=400)
    peer.close()
    return answer


@pytest.mark.slow
@pytest.mark.hasty(4)
async def test_a_storm_on_broken_channels_is_not_made_worse(gateway: Gateway, provider: Provider) -> None:
    """A hundred calls a second for six seconds; each could be tried three times."""
    gateway.grant(10**12)
    provider.on("m", fail(503))
    for name in ("b", "c"):
        gateway.channel(provider.base_url, name=name)
    loop = asyncio.get_running_loop()
    began, calls = loop.time(), 0
    tasks = []
    while (now := loop.time() - began) < 6:
        while calls < 100 * now:
            calls += 1
            tasks.append(asyncio.create_task(chat_patiently(gateway.client)))
        await asyncio.sleep(0.1)
    answers = [await task for task in tasks]
    assert {(answer.status, answer.error["code"]) for answer in answers} <= {
        (503, "upstream_overloaded"),
        (503, "overloaded"),
    }
    opening = 3 * 3 * 2  # while the breakers are not open yet, nothing is known of the storm
    stalls = 0.25 * calls  # a loop that is held up for a moment counts calls in flight that are over
    assert len(provider.exchanges) <= 1.2 * calls + 3 * (loop.time() - began) + opening + stalls
    assert sum(record.cost for record in gateway.records) == 0
