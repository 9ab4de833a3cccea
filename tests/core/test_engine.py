"""The parts of a running gateway, and edits of its configuration while it runs."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway import __version__
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Check
from gateway.domain.errors import InternalError
from gateway.domain.registry import Change
from gateway.domain.units import CallId, Millis
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import speak


def channel_of(gateway: Gateway) -> Channel:
    return gateway.engine.catalog.channel("up")


def edit(gateway: Gateway, **fields: Any) -> None:
    channel = msgspec.structs.replace(channel_of(gateway), **fields)
    gateway.engine.change([Change("channels", channel.id, channel)])


def fail(gateway: Gateway) -> None:
    gateway.engine.health.note_failure(channel_of(gateway).id, FailureKind.AUTH, "key refused")


def state(gateway: Gateway) -> str:
    return gateway.engine.health.state(channel_of(gateway)).name


async def test_a_change_holds_for_the_next_call(gateway: Gateway, provider: Provider) -> None:
    edit(gateway, enabled=False)
    assert (await gateway.client.chat()).status == 404
    edit(gateway, enabled=True)
    assert (await gateway.client.chat()).status == 200


async def test_a_change_that_makes_no_sense_changes_nothing(gateway: Gateway) -> None:
    before = gateway.engine.catalog
    channel = channel_of(gateway)
    with pytest.raises(InternalError):
        gateway.engine.change([Change("channels", channel.id, None), Change("tokens", "x", channel)])
    assert gateway.engine.catalog is before
    assert channel_of(gateway) == channel


@pytest.mark.parametrize(
    ("fields", "health"),
    [
        ({"note": "x"}, "attention"),
        ({"priority": 3}, "attention"),
        ({"weight": 5}, "attention"),
        ({"groups": ("default", "x")}, "attention"),
        ({"last_check": Check(time=Millis(1), ok=True, ms=Millis(2))}, "attention"),
        ({"key": "sk-new"}, "ok"),
        ({"base_url": "http://127.0.0.1:1/v1"}, "ok"),
        ({"strict": True}, "ok"),
    ],
)
async def test_only_an_edit_of_the_upstream_gives_it_a_fresh_start(
    gateway: Gateway, fields: dict[str, Any], health: str
) -> None:
    fail(gateway)
    edit(gateway, **fields)
    assert state(gateway) == health


async def test_a_running_call_ends_as_it_began(gateway: Gateway, provider: Provider) -> None:
    """Its channel, price and token may be gone meanwhile."""
    gate = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await gate.wait()
        await speak("Hello")(exchange)

    provider.on("m", script)
    task = asyncio.get_running_loop().create_task(gateway.client.chat())
    await provider.asked()
    gateway.change("tokens", "tok_laptop", None)
    gateway.change("prices", "m", None)
    gateway.change("channels", "ch_up", None)
    gate.set()
    assert (await task).status == 200
    assert gateway.record.cost == 9 * 2500 + 12 * 10_000
    assert (await gateway.client.chat()).status == 401


async def test_watchers_learn_of_changes(gateway: Gateway) -> None:
    with gateway.engine.bus.watch() as watcher:
        edit(gateway, note="x")
        assert (await watcher.next_batch(0)).changed


async def test_the_status_is_the_servers(gateway: Gateway, home: Path) -> None:
    found = gateway.engine.status()
    assert (found.version, found.home, found.address, found.state) == (
        __version__,
        str(home),
        gateway.base_url,
        "serving",
    )
    assert (found.in_flight, found.records, found.channels) == (0, 0, {"ok": 1})


async def test_states_of_the_server(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.engine.refuse_calls()
    assert gateway.engine.status().state == "draining"
    monkeypatch.setattr(type(gateway.engine.store.books), "healthy", False)
    assert gateway.engine.status().state == "store_failed"


async def test_only_a_running_call_can_be_cancelled(gateway: Gateway) -> None:
    assert gateway.engine.cancel(CallId("req_none")) is False
