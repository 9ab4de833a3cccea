"""The law itself: it must see each kind of breach, or its silence would mean nothing."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gateway.domain.call import Running
from gateway.domain.units import CallId, Nanos
from tests.fakes import law
from tests.fakes.gateway import Gateway, running
from tests.fakes.provider import Bill, Provider
from tests.fakes.replies import speak

HELD = Running(id=CallId("req_" + "0" * 26), ts=1, token="tok_laptop", group="default", held=Nanos(7))  # type: ignore[arg-type]


@pytest.fixture
async def lawless(home: Path, provider: Provider) -> AsyncIterator[Gateway]:
    """A gateway that nobody checks at the end; one good call was made."""
    async with running(home) as gateway:
        gateway.channel(provider.base_url)
        gateway.price()
        provider.on("m", speak())
        assert (await gateway.client.chat()).status == 200
        await gateway.settled()
        assert law.breaches(gateway, [provider]) == []
        yield gateway


async def test_a_hold_without_a_call_is_a_breach(lawless: Gateway, provider: Provider) -> None:
    lawless.engine.store.books.open(HELD)
    assert any("open holds" in breach for breach in law.breaches(lawless, [provider]))


async def test_a_wrong_cost_is_a_breach(lawless: Gateway, provider: Provider) -> None:
    lawless.engine.store.books.open(HELD)
    wrong = msgspec.structs.replace(lawless.record, id=HELD.id, cost=Nanos(lawless.record.cost + 1))
    lawless.engine.store.books.settle(wrong)
    assert any("cost of" in breach for breach in law.breaches(lawless, [provider]))


async def test_a_bill_that_nobody_recorded_is_a_breach(lawless: Gateway, provider: Provider) -> None:
    provider.last.bill = Bill("chatcmpl-other", 1, 1)
    assert any("not recorded" in breach for breach in law.breaches(lawless, [provider]))


async def test_a_usage_other_than_billed_is_a_breach(lawless: Gateway, provider: Provider) -> None:
    provider.last.bill = Bill(lawless.record.upstream_id, 9, 13)
    assert any("usage of" in breach for breach in law.breaches(lawless, [provider]))


async def test_a_grant_behind_the_books_back_is_a_breach(lawless: Gateway, provider: Provider) -> None:
    registry = lawless.engine.catalog.registry
    lawless.engine.catalog.registry = msgspec.structs.replace(registry, grants={})
    assert any("balance" in breach for breach in law.breaches(lawless, [provider]))


async def test_a_record_changed_on_disk_is_a_breach(lawless: Gateway, provider: Provider, home: Path) -> None:
    provider.on("m", speak(completion=77))
    await lawless.client.chat()
    await lawless.settled(2)
    (segment,) = (home / "usage").glob("calls-*.json")
    segment.write_bytes(segment.read_bytes().replace(b'"output":12', b'"output":13'))
    lawless.engine.store.close()
    assert law.on_disk(home) != []


async def test_open_resources_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(law, "MOMENT_S", 0.05)
    ajar = law.Ajar()
    await ajar.closed()
    task = asyncio.ensure_future(asyncio.sleep(60))
    with pytest.raises(AssertionError, match="left open"):
        await ajar.closed()
    task.cancel()
    with socket.socket(), pytest.raises(AssertionError, match="1 files"):
        await ajar.closed()
