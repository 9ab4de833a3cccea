"""Percentiles of any span are those of its calls, within the width of a bucket; what was counted is kept."""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import quantiles

import pytest

from gateway.domain.call import Outcome, Record
from gateway.domain.units import DAY_MS, HOUR_MS, Millis
from gateway.store.calls import CallLog
from gateway.store.latency import CACHE_BYTES, Histogram, LatencyCache, LatencyCounts, bucket_of, percentile, time_of
from gateway.store.segment import Segment
from gateway.store.sums import FOREVER, Span
from tests.store.samples import T0, busy, log_of, sealed_log

CALLS = list(busy(11, 600, days=4))


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[CallLog]:
    found = sealed_log(tmp_path, CALLS)
    yield found
    found.log.close()


@pytest.mark.parametrize("ms", [0, 1, 63, 64, 65, 127, 128, 999, 1_000, 59_999, 3_600_000, 1 << 40])
def test_a_bucket_is_within_two_per_cent_of_its_times(ms: int) -> None:
    assert abs(time_of(bucket_of(ms)) - ms) <= ms * 0.02


def test_buckets_are_in_the_order_of_their_times() -> None:
    buckets = [bucket_of(ms) for ms in range(5_000)]
    assert buckets == sorted(buckets)
    assert len(set(buckets[:64])) == 64


def test_a_percentile_is_the_time_that_a_share_of_the_calls_did_not_exceed() -> None:
    chance = random.Random(3)
    times = [int(chance.lognormvariate(7, 1)) for _ in range(5_000)]
    counts = LatencyCounts({}, {})
    for ms in times:
        counts.add(ms, None)
    cuts = quantiles(times, n=20)
    for share, exact in ((0.5, cuts[9]), (0.95, cuts[18])):
        found = percentile(counts.durations, share)
        assert found is not None
        assert abs(found - exact) <= exact * 0.03
    assert percentile(counts.first_bytes, 0.5) is None


SPANS = [
    Span(),
    Span(T0 // HOUR_MS * HOUR_MS),
    Span(T0 // DAY_MS * DAY_MS + DAY_MS, T0 // DAY_MS * DAY_MS + 2 * DAY_MS),
    Span(T0 + DAY_MS + 1, T0 + 3 * DAY_MS + 12_345),
    Span(T0 + 9 * DAY_MS, FOREVER),
]


@pytest.mark.parametrize("by", ["token", "model", "group", "api"])
@pytest.mark.parametrize("span", SPANS, ids=repr)
def test_every_call_of_the_span_is_counted_once(calls: CallLog, by: str, span: Span) -> None:
    for step in ("", "hour", "day", "month") * 2:  # the second time from what was kept
        table = calls.latency(by, Millis(span.since), Millis(span.until), step)  # type: ignore[arg-type]
        found = {value: _durations(counts for counts in cells.values()) for value, cells in table.items()}
        assert found == expected(by, span)


def test_calls_that_come_later_are_added(calls: CallLog) -> None:
    before = calls.latency("token", Millis(0), Millis(FOREVER), "hour")
    more = [Record(id=f"req_{n:026x}", ts=Millis(T0 + 9 * DAY_MS + n), token="late", ms=Millis(70)) for n in range(3)]  # type: ignore[arg-type]
    for record in more:
        calls.log.append([record])
        calls.latency("token", Millis(0), Millis(FOREVER), "hour")
    after = calls.latency("token", Millis(0), Millis(FOREVER), "hour")
    assert _durations(after.pop("late").values()) == {bucket_of(70): 3}
    assert after == before


def test_sealed_segments_are_read_once(calls: CallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    calls.latency("model", Millis(0), Millis(FOREVER), "day")

    def unread(*_: object) -> None:
        raise AssertionError("it was read again")

    monkeypatch.setattr(Segment, "blocks", unread)
    assert calls.latency("model", Millis(0), Millis(FOREVER), "day")


def test_refused_and_lost_calls_have_no_latency(tmp_path: Path) -> None:
    calls = log_of(tmp_path)
    for n, outcome in enumerate((Outcome.DONE, Outcome.REFUSED, Outcome.LOST, Outcome.ERROR)):
        calls.log.append([Record(id=f"req_{n:026x}", ts=Millis(T0), outcome=outcome, ms=Millis(10 * n))])  # type: ignore[arg-type]
    table = calls.latency("token", Millis(0), Millis(FOREVER), "")
    assert _durations(table[""].values()) == {0: 1, 30: 1}


def test_deleted_records_have_no_percentiles(calls: CallLog) -> None:
    for segment in calls.log.segments:
        segment.deleted = True
    assert calls.latency("model", Millis(0), Millis(FOREVER), "") == {}


def test_a_damaged_line_is_left_out(tmp_path: Path) -> None:
    calls = log_of(tmp_path)
    for n in range(3):
        calls.log.append([Record(id=f"req_{n:026x}", ts=Millis(T0), ms=Millis(n))])  # type: ignore[arg-type]
    path = calls.log.segments[0].path
    path.write_bytes(path.read_bytes().replace(b'"ms":1', b'"ms":x', 1))
    table = calls.latency("token", Millis(0), Millis(FOREVER), "")
    assert _durations(table[""].values()) == {0: 1, 2: 1}


def test_the_cache_is_bounded(calls: CallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CACHE_BYTES == 16 << 20
    monkeypatch.setattr("gateway.store.latency.CACHE_BYTES", 400)
    cache = LatencyCache()
    table = cache.table(calls.log.segments, "model", Span(), "", lambda _: 0)
    assert len(cache._tables) < len(calls.log.segments)  # noqa: SLF001 - what is kept cannot be seen from outside
    assert {value: _durations(cells.values()) for value, cells in table.items()} == expected("model", Span())


def expected(by: str, span: Span) -> dict[str, Histogram]:
    rows: dict[str, Histogram] = {}
    for call in CALLS:
        if span.since <= call.ts < span.until and call.outcome not in (Outcome.REFUSED, Outcome.LOST):
            row = rows.setdefault(getattr(call, by), {})
            row[bucket_of(call.ms)] = row.get(bucket_of(call.ms), 0) + 1
    return rows


def _durations(parts: Iterable[LatencyCounts]) -> Histogram:
    whole = LatencyCounts({}, {})
    for part in parts:
        whole.merge(part)
    return whole.durations
