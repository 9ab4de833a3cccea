"""What a client is shown and what its record says is the same, whatever the disk refuses."""

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.domain.account import Account
from gateway.domain.call import Outcome, Record
from gateway.domain.errors import Unavailable
from gateway.domain.limits import Limits
from gateway.domain.settings import Durability, Settings
from gateway.domain.units import DOLLAR
from gateway.domain.usage import UsageSource
from tests.core import kit
from tests.core.ends import DONE, GOOD_STREAM, FakeClient, ends, says, unreachable
from tests.core.rig import Rig
from tests.core.test_pipeline import GOOD_COST, caught, streams
from tests.fakes.disk import REASONS, Disk, Operation, Refusal
from tests.fakes.syncing import sync_store


@pytest.fixture
def disk(up: Rig, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Well again at the end, and everything is written then."""
    disk = Disk(monkeypatch, home)
    yield disk
    disk.heal()
    while not sync_store(up.store):
        pass


def fails_in_usage(disk: Disk, reason: str) -> None:
    """The call files and the place of new ones; the file of holds is elsewhere."""
    refusal = REASONS[reason]
    disk.judge = lambda operation: refusal if operation.file.startswith("usage/") else None


def watched(rig: Rig) -> list[Record]:
    """What watchers got, once the call is over."""
    told: list[Record] = []
    settled = rig.bus.publish_record

    def noted(record: Record) -> None:
        told.append(record)
        settled(record)

    rig.bus.publish_record = noted  # type: ignore[method-assign]
    return told


def withheld(record: Record) -> tuple[object, ...]:
    return (record.status, record.outcome, record.code, record.cost, record.source, record.possible)


WITHHELD = (503, Outcome.ERROR, "store_failed", 0, UsageSource.NONE, GOOD_COST)


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("durability", Durability)
async def test_without_a_record_there_is_no_good_end(
    up: Rig, disk: Disk, reason: str, durability: Durability, stream: bool
) -> None:
    up.put("settings", "", Settings(durability=durability))
    told = watched(up)
    streams(up, *GOOD_STREAM) if stream else None
    fails_in_usage(disk, reason)
    if stream:
        await up.call(stream=True)
        error = up.client.error
        assert (b"Hello" in up.client.body, DONE in up.client.body) == (True, False)
    else:
        error = await caught(up.call())
    assert isinstance(error, Unavailable)
    assert (error.code, error.retry_after_s, "nothing is charged" in error.message) == ("store_failed", 5.0, True)
    (waiting,) = up.books.counters.backlog()
    assert (withheld(waiting), waiting.error, told) == (WITHHELD, error.message, [waiting])
    assert (up.records, up.books.balance()) == ([], DOLLAR)
    assert (await caught(up.call())).code == "store_unavailable"
    disk.heal()
    sync_store(up.store)
    assert up.records[0] == waiting
    assert up.books.balance() == DOLLAR


async def test_answers_that_go_out_together_are_withheld_one_by_one(up: Rig, disk: Disk) -> None:
    """Of a write that was neither whole nor could be undone some records are there: those answers go out."""
    await up.call()
    told = watched(up)
    clients = [FakeClient() for _ in range(5)]
    for client in clients:
        client.may_wait = True

    def judge(operation: Operation) -> Refusal | None:
        if not operation.file.startswith("usage/"):
            return None
        return REASONS["short" if operation.name == "pwrite" else "EIO"]

    disk.judge = judge
    await asyncio.gather(*(up.run(kit.body(), client) for client in clients))
    await asyncio.sleep(0)
    shown = [client.whole.body != b"" for client in clients]
    errors = [client.error is not None for client in clients]
    assert [shown.count(True) > 0, errors.count(True) > 0] == [True, True]
    assert [not good for good in shown] == errors
    by_id = {record.id: record for record in [*up.records[1:], *up.books.counters.backlog()]}
    assert sorted(record.status for record in by_id.values()) == [200] * shown.count(True) + [503] * errors.count(True)
    assert {record.id: record for record in told} == by_id
    assert DOLLAR - up.books.balance() == GOOD_COST * (1 + shown.count(True))


async def test_a_withheld_answer_has_the_route_of_its_call(up: Rig, disk: Disk) -> None:
    up.change_token(limits=Limits(rpm=10))
    up.client.may_wait = True
    fails_in_usage(disk, "EIO")
    await up.call()
    await asyncio.sleep(0)
    assert (up.client.whole.body, up.client.due) == (b"", None)
    assert up.client.error is not None
    assert up.client.error.call_headers["x-gateway-channel"] == "up"
    assert "x-gateway-cost" not in up.client.error.call_headers
    assert up.client.error.call_headers["x-ratelimit-remaining-requests"] == "9"


async def test_the_rates_count_what_was_used_although_nothing_is_charged(up: Rig, disk: Disk) -> None:
    up.change_token(limits=Limits(tpm=100_000))
    fails_in_usage(disk, "EIO")
    error = await caught(up.call(max_tokens=50))
    (tokens,) = up.limiter.readings(up.catalog.call_scopes(up.token).rated_scopes)
    assert (error.code, tokens.limit - tokens.left) == ("store_failed", 21)


async def test_with_durability_call_a_record_that_cannot_be_synced_lets_the_answer_out_and_no_call_in(
    up: Rig, disk: Disk, stream: bool
) -> None:
    up.put("settings", "", Settings(durability=Durability.CALL))
    streams(up, *GOOD_STREAM) if stream else None
    settle = up.books.settle

    def settle_and_fail(record: Record, *, deferred: bool = False) -> Record:
        kept = settle(record, deferred=deferred)
        disk.refuse(errno.EIO)
        return kept

    up.books.settle = settle_and_fail  # type: ignore[method-assign]
    answered = await up.call(stream=stream)
    assert (DONE in up.client.body) if stream else answered.body
    assert (up.record.status, up.record.cost, up.client.error) == (200, GOOD_COST, None)
    assert (await caught(up.call())).code == "store_unavailable"


async def test_a_stream_that_runs_out_of_money_needs_its_record_as_well(up: Rig, disk: Disk) -> None:
    up.put("account", "", Account(stop_when_empty=True))
    up.grant(-DOLLAR + 200_000)
    streams(up, *[says("word " * 100), lambda: up.watch.advance(1)] * 10, ends(), DONE)
    fails_in_usage(disk, "ENOSPC")
    await up.call(stream=True)
    assert up.client.error is not None
    assert (up.client.error.code, DONE in up.client.body) == ("store_failed", False)
    (waiting,) = up.books.counters.backlog()
    assert (waiting.status, waiting.cost, waiting.possible > 0) == (503, 0, True)


async def test_what_broke_anyway_keeps_its_own_error_and_its_charge(up: Rig, disk: Disk) -> None:
    streams(up, says("Hello"), says(" there."), unreachable(kit.channel(), sent=True))
    fails_in_usage(disk, "EIO")
    await up.call(stream=True)
    assert up.client.error is not None
    assert up.client.error.code != "store_failed"
    (waiting,) = up.books.counters.backlog()
    assert (waiting.outcome, waiting.status, waiting.cost > 0) == (Outcome.UPSTREAM_CUT, 502, True)
