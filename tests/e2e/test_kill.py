"""A server that is killed in the middle of its calls: whatever reached the provider is on record at the next start."""

import asyncio
import signal
from pathlib import Path

import pytest

from gateway.domain.call import Outcome
from tests.fakes import law
from tests.fakes.client import Client
from tests.fakes.gateway import running
from tests.fakes.provider import Bill, Exchange, Provider
from tests.fakes.wire import Gone
from tests.server import serving
from tests.v1.test_every_api import CASES, call, upstream


@pytest.mark.slow
async def test_what_reached_the_provider_is_on_record_after_a_kill(home: Path, provider: Provider) -> None:
    """Calls of every API, streams and plain ones."""
    answering = upstream()

    async def hang(exchange: Exchange) -> None:
        if not exchange.path.endswith("responses"):
            await exchange.left()
        await answering(exchange)

    async with running(home) as before:
        before.channel(provider.base_url, "m", "stuck")
        before.price()
        before.price("stuck")
        key = before.client.key
    provider.on("m", answering)
    provider.on("stuck", hang)
    async with serving(home) as child:
        client = Client(child.port, key)
        ways = [(name, stream) for name, case in CASES.items() for stream in {False, case.streams}]
        calls = [
            asyncio.ensure_future(call(client, name, stream=stream, model=model))
            for name, stream in 2 * ways
            for model in ("m", "stuck")
        ]
        await provider.asked(len(calls))
        await asyncio.wait(calls, timeout=0.5)
        child.signal(signal.SIGKILL)
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(answer, Gone) for answer in answers)
    answered = sum(not isinstance(answer, BaseException) and answer.status == 200 for answer in answers)
    async with running(home) as after:
        records = after.records
        assert len(records) == len(calls)
        assert {record.api for record in records if record.outcome is Outcome.LOST} == set(CASES)
        assert law.breaches(after) == []
        lost = [record for record in records if record.outcome is Outcome.LOST]
        done = [record for record in records if record.outcome is Outcome.DONE]
        assert len(done) >= answered
        assert all(record.cost == 0 and record.possible == record.held > 0 for record in lost)
        assert any("lost" in note for note in after.engine.store.notes)
    bills: dict[str, Bill] = {e.bill.id: e.bill for e in provider.exchanges if e.bill}
    billed = [record for record in done if record.api not in ("completions", "embeddings")]  # their fakes send no bills
    assert {record.upstream_id for record in billed} <= set(bills)
    assert law.on_disk(home) == []
