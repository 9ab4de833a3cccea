"""Sums of picked calls are those of the calls themselves, by any dimension and over time."""

from collections.abc import Callable

import pytest

from gateway.domain.call import Record
from gateway.domain.query import EVERYTHING, Query, parse
from gateway.domain.units import Millis
from gateway.store.calls import CallLog, filtered_sums_of
from gateway.store.rollup import DIMENSIONS, HOUR, Dimension
from gateway.store.search import SearchDeadline
from gateway.store.sums import value_of
from tests.store.samples import busy, sealed_log, where
from tests.store.test_rollup import added

CALLS = list(busy(11, 600, days=4))
EVEN = CALLS[0].model


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> CallLog:
    return sealed_log(tmp_path_factory.mktemp("log"), CALLS)


SELECTIONS: list[tuple[Query, Callable[[Record], bool]]] = [
    (EVERYTHING, lambda _: True),
    (where(model=EVEN), lambda call: call.model == EVEN),
    (parse("st:err", Millis(0)), lambda call: not 200 <= call.status < 300),
    (
        where(since=CALLS[100].ts, until=CALLS[500].ts, token=CALLS[7].token),
        lambda call: CALLS[100].ts <= call.ts < CALLS[500].ts and call.token == CALLS[7].token,
    ),
]


@pytest.mark.parametrize("by", DIMENSIONS)
@pytest.mark.parametrize(("picked", "fits"), SELECTIONS)
def test_rows_are_the_sums_of_the_calls_that_fit(
    calls: CallLog, picked: Query, fits: Callable[[Record], bool], by: Dimension
) -> None:
    wanted = [call for call in CALLS if fits(call)]
    sums, latency = filtered_sums_of(calls, picked, by, "", SearchDeadline())
    values = {value_of(call, by) for call in wanted}
    assert wanted
    assert sums.rows == {value: added([c for c in wanted if value_of(c, by) == value]) for value in values}
    assert sums.total == added(wanted)
    assert latency.keys() <= values


@pytest.mark.parametrize("by", ["model", "token"])
@pytest.mark.parametrize("step", ["hour", "day", "month"])
def test_all_calls_picked_come_to_what_the_rollups_say(calls: CallLog, by: Dimension, step: str) -> None:
    picked, timed = filtered_sums_of(calls, EVERYTHING, by, step, SearchDeadline())  # type: ignore[arg-type]
    everything = calls.sums(by, Millis(0), Millis(1 << 62), step)  # type: ignore[arg-type]
    assert picked == everything
    assert timed == calls.latency(by, Millis(0), Millis(1 << 62), step)  # type: ignore[arg-type]


def test_hours_begin_at_full_hours(calls: CallLog) -> None:
    sums, latency = filtered_sums_of(calls, where(model=EVEN), "model", "hour", SearchDeadline())
    assert {bucket.start % HOUR for bucket in sums.series} == {0}
    assert set(latency[EVEN]) <= {bucket.start for bucket in sums.series}


def test_who_left_is_not_searched_for(calls: CallLog) -> None:
    deadline = SearchDeadline()
    deadline.cancel()
    assert filtered_sums_of(calls, EVERYTHING, "model", "", deadline)[0].total.calls < len(CALLS)
