"""A server that is killed in the midst of its calls: whatever reached the provider is on record at the next start."""

import asyncio
import signal
from pathlib import Path

import pytest

from gateway.domain.call import Outcome
from tests.fakes import law
from tests.fakes.client import Client
from tests.fakes.gateway import running
from tests.fakes.provider import Bill, Exchange, Provider
from tests.fakes.replies import speak
from tests.fakes.wire import Gone
from tests.server import serving


@pytest.mark.slow
async def test_what_reached_the_provider_is_on_record_after_a_kill(home: Path, provider: Provider) -> None:
    async def hang_half(exchange: Exchange) -> None:
        if exchange.number % 2:
            await exchange.left()
        await speak(prompt=7, completion=5)(exchange)

    async with running(home) as before:
        before.channel(provider.base_url)
        before.price()
        key = before.client.key
    provider.on("m", hang_half)
    async with serving(home) as child:
        client = Client(child.port, key)
        ways = [client.chat, client.messages]
        calls = [asyncio.ensure_future(ways[n // 3 % 2](stream=bool(n % 3))) for n in range(40)]
        await provider.asked(40)
        await asyncio.wait(calls, timeout=0.5)
        child.signal(signal.SIGKILL)
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(answer, Gone) for answer in answers)
    answered = sum(not isinstance(answer, BaseException) and answer.status == 200 for answer in answers)
    async with running(home) as after:
        records = after.records
        assert len(records) == 40
        assert law.breaches(after) == []
        lost = [record for record in records if record.outcome is Outcome.LOST]
        done = [record for record in records if record.outcome is Outcome.DONE]
        assert len(done) >= answered
        assert all(record.cost == 0 and record.possible == record.held > 0 for record in lost)
        assert any("lost" in note for note in after.engine.store.notes)
    bills: dict[str, Bill] = {e.bill.id: e.bill for e in provider.exchanges if e.bill}
    assert {record.upstream_id for record in done} <= set(bills)
    assert law.on_disk(home) == []
