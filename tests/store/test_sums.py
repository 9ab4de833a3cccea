"""Sums over any span and of picked calls equal the calls added up one by one."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.domain.call import Record
from gateway.domain.query import EVERYTHING, Query, parse
from gateway.domain.units import DAY_MS, HOUR_MS, Millis
from gateway.store.calls import CallLog, filtered_sums_of
from gateway.store.rollup import DIMENSIONS, Counts, Dimension, total
from gateway.store.search import SearchDeadline
from gateway.store.sums import FOREVER, Span, by_value, over_time, value_of
from tests.house import amount
from tests.store.samples import T0, busy, log_of, seal, sealed_log, where
from tests.store.test_rollup import added

CALLS = list(busy(11, 600, days=4))
HALF = HOUR_MS // 2


def random_span(number: int) -> Span:
    since = T0 + random.Random(number).randrange(4 * DAY_MS)
    return Span(since, since + 1 + 977_777 * number * number)


SPANS = [
    Span(),
    Span(T0),
    Span(T0 // HOUR_MS * HOUR_MS + HALF),
    Span(T0 // DAY_MS * DAY_MS + DAY_MS, T0 // DAY_MS * DAY_MS + 2 * DAY_MS),
    Span(T0 + DAY_MS + HALF + 1, T0 + DAY_MS + HALF + 7),
    Span(T0 + 1, T0 + 3 * DAY_MS + 12_345),
    Span(T0 + 9 * DAY_MS, FOREVER),
    *(random_span(number) for number in range(amount(4, 12))),
]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> CallLog:
    return sealed_log(tmp_path_factory.mktemp("log"), CALLS)


@pytest.mark.parametrize("by", DIMENSIONS)
@pytest.mark.parametrize("span", SPANS, ids=repr)
def test_sums_by_value_are_exact(calls: CallLog, by: Dimension, span: Span) -> None:
    assert by_value(calls.log.segments, by, span) == rows_of(by, span)


@pytest.mark.parametrize("span", SPANS, ids=repr)
def test_sums_over_time_add_up_to_the_same(calls: CallLog, span: Span) -> None:
    table = over_time(calls.log.segments, "token", span, lambda start: start)
    assert {value: total(rows.values()) for value, rows in table.items()} == rows_of("token", span)


def test_an_hour_of_deleted_calls_counts_if_it_begins_in_the_span(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 20, limit=3000)
    seal(calls)
    calls.log.segments[0].deleted = True
    whole = total(by_value(calls.log.segments, "app", Span(T0 // HOUR_MS * HOUR_MS)).values())
    none = total(by_value(calls.log.segments[:1], "app", Span(T0 // HOUR_MS * HOUR_MS + 1)).values())
    assert (whole.calls, none.calls) == (20, 12 if T0 // HOUR_MS * HOUR_MS + 1 <= T0 else 0)


def rows_of(by: Dimension, span: Span) -> dict[str, Counts]:
    rows: dict[str, Counts] = {}
    for call in CALLS:
        if span.since <= call.ts < span.until:
            rows.setdefault(value_of(call, by), Counts()).add(call)
    return rows


EVEN = CALLS[0].model


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
    assert {start % HOUR_MS for cells in sums.table.values() for start in cells} == {0}
    assert set(latency[EVEN]) <= {start for cells in sums.table.values() for start in cells}


def test_a_cancelled_search_reads_no_further(calls: CallLog) -> None:
    deadline = SearchDeadline()
    deadline.cancel()
    assert filtered_sums_of(calls, EVERYTHING, "model", "", deadline)[0].total.calls < len(CALLS)
