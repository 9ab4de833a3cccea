"""Sums over any span equal the calls added up one by one, at borders that are not full hours, too."""

import random
from pathlib import Path

import pytest

from gateway.store.calls import CallLog
from gateway.store.rollup import DAY, DIMENSIONS, HOUR, Counts, Dimension
from gateway.store.sums import FOREVER, Span, by_value, over_time, total, value_of
from tests.house import amount
from tests.store.samples import T0, busy, log_of, seal, sealed_log

CALLS = list(busy(11, 600, days=4))
HALF = HOUR // 2


def random_span(number: int) -> Span:
    since = T0 + random.Random(number).randrange(4 * DAY)
    return Span(since, since + 1 + 977_777 * number * number)


SPANS = [
    Span(),
    Span(T0),
    Span(T0 // HOUR * HOUR + HALF),
    Span(T0 // DAY * DAY + DAY, T0 // DAY * DAY + 2 * DAY),
    Span(T0 + DAY + HALF + 1, T0 + DAY + HALF + 7),
    Span(T0 + 1, T0 + 3 * DAY + 12_345),
    Span(T0 + 9 * DAY, FOREVER),
    *(random_span(number) for number in range(amount(4, 12))),
]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> CallLog:
    return sealed_log(tmp_path_factory.mktemp("log"), CALLS)


@pytest.mark.parametrize("by", DIMENSIONS)
@pytest.mark.parametrize("span", SPANS, ids=repr)
def test_sums_by_value_are_exact(calls: CallLog, by: Dimension, span: Span) -> None:
    assert by_value(calls.log.segments, by, span) == added(by, span)


@pytest.mark.parametrize("span", SPANS, ids=repr)
def test_sums_over_time_add_up_to_the_same(calls: CallLog, span: Span) -> None:
    table = over_time(calls.log.segments, "token", span)
    assert {value: total(rows.values()) for value, rows in table.items()} == added("token", span)


def test_of_deleted_calls_an_hour_counts_where_it_begins(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 20, limit=3000)
    seal(calls)
    calls.log.segments[0].deleted = True
    whole = total(by_value(calls.log.segments, "app", Span(T0 // HOUR * HOUR)).values())
    none = total(by_value(calls.log.segments[:1], "app", Span(T0 // HOUR * HOUR + 1)).values())
    assert (whole.calls, none.calls) == (20, 12 if T0 // HOUR * HOUR + 1 <= T0 else 0)


def added(by: Dimension, span: Span) -> dict[str, Counts]:
    rows: dict[str, Counts] = {}
    for call in CALLS:
        if span.since <= call.ts < span.until:
            rows.setdefault(value_of(call, by), Counts()).add(call)
    return rows
