"""Rollups give the same sums as adding the calls up one by one."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from gateway.domain.call import Outcome, Record
from gateway.domain.units import DAY_MS, HOUR_MS
from gateway.store.rollup import DIMENSIONS, Counts, Dimension, Rollup, SealedSegment, encode_sums, to_daily
from gateway.store.sums import value_of
from tests.store.samples import T0, busy, record

CALLS = list(busy(1, 400, days=3))


def rollup() -> Rollup:
    sums = Rollup()
    for call in CALLS:
        sums.add(call)
    return sums


def sealed(sums: Rollup) -> SealedSegment:
    return SealedSegment(
        name="calls-20251120-0000.json",
        count=len(CALLS),
        first=1,
        last=len(CALLS),
        earliest=T0,
        latest=T0,
        end=0,
        hourly=True,
        last_used=sums.last_used,
        raw_totals=encode_sums(sums.totals),
        raw_tables=encode_sums(sums.table),
    )


def test_counts_of_a_call() -> None:
    counts = Counts()
    counts.add(record(0, status=500, cached=3, possible=9))
    counts.add(record(1))
    assert (counts.calls, counts.errors, counts.cached, counts.possible, counts.cost) == (2, 1, 3, 9, 2001)
    assert (counts.ttft, counts.firsts) == (101, 1)


@pytest.mark.parametrize(
    ("outcome", "status", "aborts"),
    [
        (Outcome.CLIENT_CLOSED, 499, 1),
        (Outcome.CANCELLED, 503, 1),
        (Outcome.STOPPED, 503, 1),
        (Outcome.STOPPED, 200, 0),
        (Outcome.ERROR, 500, 0),
        (Outcome.TIMEOUT, 504, 0),
    ],
)
def test_a_call_that_its_client_or_the_owner_ended_is_an_abort(outcome: Outcome, status: int, aborts: int) -> None:
    counts = Counts()
    counts.add(record(1, status=status, outcome=outcome))
    assert (counts.calls, counts.errors, counts.aborts) == (1, int(status != 200), aborts)
    counts.merge(counts)
    assert counts.aborts == 2 * aborts


REFUSED: dict[str, Any] = {"status": 503, "outcome": Outcome.REFUSED}
WAITED = ("waited=52000:channel 'up' (1 call at once)",)


@pytest.mark.parametrize(
    ("first", "second", "names", "sums"),
    [
        ({"ms": 8_000}, {"ms": 3_000, **REFUSED}, ("ms", "refused_ms"), (22_000, 6_000)),
        ({"ttft": 52_400, "marks": WAITED}, {"ttft": 400}, ("ttft", "firsts", "waited"), (105_600, 4, 104_000)),
        ({}, {**REFUSED, "marks": ("repeated=6", "skipped=up")}, ("calls", "refused", "repeats"), (4, 2, 12)),
    ],
    ids=["waits of refused calls", "waits for a place", "refusals for which another stands"],
)
def test_these_are_counted_by_themselves(
    first: dict[str, Any], second: dict[str, Any], names: tuple[str, ...], sums: tuple[int, ...]
) -> None:
    counts = Counts()
    counts.add(record(1, **first))
    counts.add(record(2, **second))
    counts.merge(counts)
    assert tuple(getattr(counts, name) for name in names) == sums


def test_a_lost_call_is_counted_by_itself() -> None:
    counts = Counts()
    counts.add(record(1, status=0, outcome=Outcome.LOST))
    counts.merge(counts)
    assert (counts.errors, counts.aborts, counts.lost) == (2, 0, 2)


@pytest.mark.parametrize("by", DIMENSIONS)
def test_totals_and_tables_are_the_sums_of_the_calls(by: Dimension) -> None:
    sums = rollup()
    for value in {value_of(call, by) for call in CALLS}:
        mine = [call for call in CALLS if value_of(call, by) == value]
        assert sums.totals(by)[value] == added(mine)
        for start, counts in sums.table(by)[value].items():
            assert counts == added([call for call in mine if start <= call.ts < start + sums.step(by)])


@pytest.mark.parametrize("by", DIMENSIONS)
def test_sealing_and_writing_keeps_every_sum(by: Dimension) -> None:
    sums = rollup()
    kept = msgspec.json.decode(msgspec.json.encode(sealed(sums)), type=SealedSegment)
    assert (kept.totals(by), kept.table(by), kept.step(by)) == (sums.totals(by), sums.table(by), sums.step(by))


def test_hours_become_days() -> None:
    days = to_daily(sealed(rollup()))
    assert days.step("token") == DAY_MS
    assert all(start % DAY_MS == 0 for rows in days.table("token").values() for start in rows)
    assert {value: added_rows(rows.values()) for value, rows in days.table("token").items()} == days.totals("token")


def test_tokens_by_model_are_kept_by_day() -> None:
    assert (Rollup().step("token|model"), Rollup().step("app")) == (DAY_MS, HOUR_MS)
    assert "tok_1|m-large" in rollup().totals("token|model")


def test_the_latest_use_of_a_token_is_known() -> None:
    assert rollup().last_used["tok_3"] == max(call.ts for call in CALLS if call.token == "tok_3")


def test_a_copy_does_not_grow_with_the_original() -> None:
    sums = rollup()
    copied = sums.copy()
    sums.add(CALLS[0])
    assert added_rows(copied.totals("app").values()) == added(CALLS)


def added(calls: list[Record]) -> Counts:
    counts = Counts()
    for call in calls:
        counts.add(call)
    return counts


def added_rows(rows: Iterable[Counts]) -> Counts:
    counts = Counts()
    for row in rows:
        counts.merge(row)
    return counts
