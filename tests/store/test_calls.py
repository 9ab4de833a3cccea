"""The call log gives records back as they went in, the newest first, for any filter, page by page."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.domain.call import Attempt, FailureKind, Outcome, Record
from gateway.domain.price import Rates
from gateway.domain.query import EVERYTHING, CallOrder, Query
from gateway.domain.units import DAY_MS, HOUR_MS, CallId, Millis, Nanos
from gateway.domain.usage import UsageSource
from gateway.domain.views import call_view
from gateway.store.calls import CallLog, filtered_sums_of
from gateway.store.line_format import body_of, join_lines, pack
from gateway.store.rollup import Counts, SealedSegment, to_daily
from gateway.store.search import SearchDeadline
from gateway.store.segment import HEAD
from gateway.store.sums import FOREVER, Step, Sums
from tests.store.samples import T0, busy, call_id, log_of, record, seal, segments, sums_of, where

CALLS = list(busy(5, 300, days=3))

FULL = Record(
    id=call_id(7),
    ts=Millis(T0),
    token="tok",
    status=200,
    outcome=Outcome.UPSTREAM_CUT,
    error='it said "status":200, \\ and\nmore',
    source=UsageSource.PARTIAL,
    ttft=Millis(0),
    rates=Rates(1, 2, 3, 4, 5, 6),
    balance=Nanos(-5),
    attempts=(Attempt(channel="a", status=429, kind=FailureKind.RATE), Attempt(channel="b", billed=True)),
    marks=("no_done",),
)


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[CallLog]:
    found = log_of(tmp_path, limit=8000)
    for call in CALLS:
        found.log.append([call])
    yield found
    found.log.close()


def test_a_record_comes_back_as_it_went_in(tmp_path: Path) -> None:
    calls = log_of(tmp_path)
    calls.log.append([FULL, msgspec.structs.replace(FULL, id=call_id(8), outcome=Outcome.DONE)])
    assert calls.get(FULL.id) == FULL
    assert calls.find(limit=1)[0].outcome is Outcome.DONE


@pytest.mark.parametrize(
    "text", ["", "req_", "req_" + "g" * 26, "req_" + "A" * 26, '"token":"tok_1"', "req_" + "0" * 27]
)
def test_wrong_ids_are_not_searched(calls: CallLog, text: str) -> None:
    assert calls.get(CallId(text)) is None


def test_a_record_is_found_even_if_its_id_tells_another_time(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 30, limit=3000)
    odd = msgspec.structs.replace(record(30), id=call_id(30, 5))
    calls.log.append([odd])
    assert calls.get(odd.id) == odd


FILTERS: list[dict[str, Any]] = [
    {},
    {"token": "tok_3"},
    {"token": ""},
    {"model": "m-tiny", "channel": "ch_1"},
    {"model": "m-tiny", "app": "curl"},
    {"status": 429},
    {"status": 0},
    {"status": 200, "token": "tok_2"},
    {"failed": True},
    {"failed": False, "model": "m-large"},
    {"outcome": Outcome.DONE},
    {"outcome": Outcome.LOST},
    {"since": Millis(T0 + DAY_MS)},
    {"until": Millis(T0 + DAY_MS), "token": "tok_1"},
    {"since": Millis(T0 + HOUR_MS), "until": Millis(T0 + 2 * HOUR_MS)},
    {"since": Millis(T0 + 9 * DAY_MS)},
    {"token": 'no"body\n'},
    {"api": "chat", "failed": False},
    {"api": "messages"},
]


def fits(call: Record, *, since: int = 0, until: int = FOREVER, **exact: object) -> bool:
    return since <= call.ts < until and all(getattr(call, name) == value for name, value in exact.items())


@pytest.mark.parametrize("values", FILTERS, ids=repr)
def test_a_query_finds_exactly_what_fits_newest_first(calls: CallLog, values: dict[str, Any]) -> None:
    expected = [call for call in reversed(CALLS) if fits(call, **values)]
    assert calls.find(where(**values), limit=1000) == expected
    assert calls.find(where(**values), limit=7) == expected[:7]


@pytest.mark.parametrize("values", FILTERS[:6], ids=repr)
def test_pages_are_the_whole(calls: CallLog, values: dict[str, Any]) -> None:
    assert list(pages(calls, where(**values), 11)) == calls.find(where(**values), limit=1000)


def test_a_page_does_not_shift_while_calls_come_in(calls: CallLog) -> None:
    first = calls.find(limit=5)
    calls.log.append([record(1000 + i, ts=T0 + 4 * DAY_MS) for i in range(3)])
    assert earlier(calls, first[-1].id, 5) == CALLS[-6:-11:-1]


@pytest.mark.parametrize("top", [1, 7, 150, 10**6])
def test_any_record_is_reached_by_its_number(calls: CallLog, top: int) -> None:
    oldest_first = calls.find(limit=10**6)[::-1]
    wanted = oldest_first[max(0, min(top, calls.count) - 5) : top][::-1]
    assert calls.by_number(top, 5) == wanted


def test_a_full_page_says_how_many_records_are_older(calls: CallLog) -> None:
    for limit in range(1, calls.count + 1):
        assert calls.search(limit=limit, deadline=SearchDeadline())[1].left == calls.count - limit


def test_a_failed_call_is_found_whatever_its_attempts_and_texts_say(tmp_path: Path) -> None:
    calls = log_of(tmp_path)
    good, bad = Attempt(channel="a", status=200), Attempt(channel="b", status=500)
    failed = [
        record(1, status=0, attempts=(good,)),
        record(2, status=500, attempts=(good, bad)),
        record(3, status=429, error='"status":200'),
        record(4, status=0, app='"status":200,"attempts":'),
        record(5, status=199),
        record(6, status=300),
    ]
    calls.log.append([*failed, record(7, status=200, attempts=(bad,)), record(9, status=299)])
    assert calls.find(where(failed=True), limit=99) == failed[::-1]
    assert [call.status for call in calls.find(where(failed=False), limit=99)] == [299, 200]


def test_before_an_unknown_call_there_is_nothing(calls: CallLog) -> None:
    assert earlier(calls, call_id(999), 5) == []


def test_a_damaged_record_is_not_shown(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 5)
    path = segments(tmp_path)[0]
    path.write_bytes(path.read_bytes().replace(b'"cost":1003', b'"cost":1"03'))
    assert [call.cost for call in calls.find(limit=9)] == [1004, 1002, 1001, 1000]
    assert calls.get(record(3).id) is None


def test_present_tells_which_calls_have_a_record(calls: CallLog) -> None:
    wanted = {CALLS[3].id, CALLS[200].id, call_id(999)}
    assert calls.recorded_ids(wanted, Millis(0)) == {CALLS[3].id, CALLS[200].id}
    assert calls.recorded_ids(set(), Millis(0)) == set()


@pytest.fixture(params=["UTC", "Asia/Kolkata", "America/St_Johns"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def cells_of(sums: Sums) -> list[tuple[int, Counts]]:
    cells = ((start, counts) for cells in sums.table.values() for start, counts in cells.items())
    return sorted(cells, key=lambda cell: cell[0])


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(("step", "begin"), [("day", (0, 0, 0)), ("month", (1, 0, 0, 0))])
def test_steps_of_a_series_begin_at_local_midnight(calls: CallLog, step: Step, begin: tuple[int, ...]) -> None:
    sums = sums_of(calls, "model", step)
    cells = cells_of(sums)
    assert sum(counts.cost for _, counts in cells) == sums.total.cost == sum(call.cost for call in CALLS)
    assert {time.localtime(start / 1000)[6 - len(begin) : 6] for start, _ in cells} == {begin}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"], indirect=True)
def test_months_are_exact_also_where_sums_are_by_day(tmp_path: Path, zone: str) -> None:
    """The last and first half hours of months lie in days of UTC that belong to two of them."""
    moments = ["10-31 23:30", "11-01 00:30", "11-30 12:00", "11-30 23:30", "12-01 00:15", "12-31 23:59"]
    starts = [int(time.mktime(time.strptime(f"2025-{moment}", "%Y-%m-%d %H:%M")) * 1000) for moment in moments]
    calls = log_of(tmp_path, limit=300)
    for number, start in enumerate(starts):
        calls.log.append([record(number, ts=start)])
    seal(calls)
    for segment in calls.log.segments:
        if isinstance(segment.sums, SealedSegment):
            segment.sums = to_daily(segment.sums)
    for since, expected in ((0, [1, 3, 2]), (starts[1] - 1_800_000, [3, 2])):
        months: dict[int, int] = {}
        for start, counts in cells_of(calls.sums("group", Millis(since), Millis(FOREVER), "month")):
            months[start] = months.get(start, 0) + counts.calls
        assert [*months.values()] == expected, zone
        assert [time.localtime(start / 1000)[1:4] for start in months][-2:] == [(11, 1, 0), (12, 1, 0)]
    assert calls.sums("group", Millis(starts[1] - 1_800_000), Millis(starts[4]), "month").total.calls == 3
    assert calls.sums("group", Millis(FOREVER - 1), Millis(FOREVER), "month").rows == {}


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns"], indirect=True)
def test_a_call_after_local_midnight_is_of_that_day_also_inside_an_hour_of_utc(
    tmp_path: Path, zone: str, sealed: bool
) -> None:
    moments = ["12 23:50", "13 00:05", "13 23:20", "13 23:50", "14 00:10"]
    starts = [int(time.mktime(time.strptime(f"2025-11-{moment}", "%Y-%m-%d %H:%M")) * 1000) for moment in moments]
    calls = log_of(tmp_path, limit=300)
    for number, start in enumerate(starts):
        calls.log.append([record(number, ts=start, group="g", outcome=Outcome.DONE)])
    if sealed:
        seal(calls)
    midnight = Millis(starts[0] - (23 * 60 + 50) * 60_000)
    sums = calls.sums("group", midnight, Millis(FOREVER), "day")
    filtered, filtered_latency = filtered_sums_of(calls, Query(since=midnight), "group", "day", SearchDeadline())
    latency = calls.latency("group", midnight, Millis(FOREVER), "day")
    for begun in (sums.table["g"], latency["g"], filtered.table["g"], filtered_latency["g"]):
        days = [time.localtime(start / 1000)[2:5] for start in sorted(begun)]
        assert days == [(12, 0, 0), (13, 0, 0), (14, 0, 0)], zone
    for found in (sums, filtered):
        assert [counts.calls for _, counts in cells_of(found)] == [1, 3, 1], zone
        assert found.total.calls == 5


@pytest.mark.parametrize("since", ["1970-01-02 00:00", "2025-03-01 00:00"])
@pytest.mark.parametrize("zone", ["Australia/Lord_Howe"], indirect=True)
@pytest.mark.usefixtures("zone")
def test_days_are_exact_where_the_time_is_off_by_half_an_hour_in_winter_only(tmp_path: Path, since: str) -> None:
    moments = [since, "2025-03-01 12:00", "2025-06-13 23:50", "2025-06-14 00:10"]
    begin, *starts = [int(time.mktime(time.strptime(moment, "%Y-%m-%d %H:%M")) * 1000) for moment in moments]
    calls = log_of(tmp_path, limit=300)
    for number, start in enumerate(starts):
        calls.log.append([record(number, ts=start)])
    days = [start for start, _ in cells_of(calls.sums("group", Millis(begin), Millis(FOREVER), "day"))]
    assert [time.localtime(start / 1000)[1:5] for start in days] == [(3, 1, 0, 0), (6, 13, 0, 0), (6, 14, 0, 0)]


@pytest.mark.parametrize("sealed", [False, True])
def test_what_earlier_tries_may_have_cost_is_of_their_channels(tmp_path: Path, sealed: bool) -> None:
    calls = log_of(tmp_path, limit=600)
    for number in range(4):
        elsewhere = {"ch_lost": Nanos(70), "ch_0": Nanos(5)} if number % 2 else {}
        calls.log.append([record(number, channel="ch_1", model="m", possible=Nanos(1), possible_elsewhere=elsewhere)])
    if sealed:
        seal(calls)
    for since, lost in ((0, 140), (T0 + 2, 70)):
        rows = calls.sums("channel", Millis(since), Millis(FOREVER), "").rows
        assert {name: counts.possible for name, counts in rows.items()} == {
            "ch_1": 4 - 2 * bool(since),
            "ch_lost": lost,
            "ch_0": lost // 14,
        }
        assert (rows["ch_lost"].calls, rows["ch_lost"].cost) == (0, 0)
        whole = calls.sums("model", Millis(since), Millis(FOREVER), "").total.possible
        assert whole == sum(counts.possible for counts in rows.values())


def test_steps_by_the_hour_begin_at_full_hours(calls: CallLog) -> None:
    sums = sums_of(calls, "token", "hour")
    assert {start % HOUR_MS for start, _ in cells_of(sums)} == {0}
    assert sum(counts.calls for counts in sums.rows.values()) == sums.total.calls == 300


def earlier(calls: CallLog, before: CallId, limit: int, query: Query = EVERYTHING) -> list[Record]:
    """The calls that ended before this one."""
    return calls.search(query, limit=limit, below=calls.number_of(before), deadline=SearchDeadline())[0]


def pages(calls: CallLog, query: Query, size: int) -> Iterator[Record]:
    page = calls.find(query, limit=size)
    while page:
        yield from page
        page = earlier(calls, page[-1].id, size, query)


@pytest.mark.parametrize("order", [CallOrder("cost"), CallOrder("duration", ascending=True), CallOrder("model")])
def test_the_first_of_all_in_an_order_are_found_in_one_search_or_in_many(calls: CallLog, order: CallOrder) -> None:
    wanted = order.best([call_view(call) for call in reversed(CALLS)], 20)
    at_once, progress = calls.best(EVERYTHING, order, limit=20, deadline=SearchDeadline())
    assert (at_once, progress.cursor) == (wanted, None)
    found, below = [], FOREVER
    for _ in range(len(CALLS)):
        part, progress = calls.best(EVERYTHING, order, limit=20, below=below, deadline=SearchDeadline(0))
        found += part
        if progress.cursor is None:
            break
        below = progress.cursor
    assert order.best(found, 20) == wanted


def test_a_call_with_words_that_only_a_newer_version_knows_is_listed_and_counted(tmp_path: Path) -> None:
    log_of(tmp_path).log.append([msgspec.structs.replace(FULL, error="")])
    (path,) = segments(tmp_path)
    _, line, tail = path.read_bytes().split(b"\n", 2)
    body = msgspec.json.decode(body_of(line)) | {"outcome": "new", "source": "new"}
    del body["_crc"]
    body["attempts"][0]["kind"] = "new"
    path.write_bytes(HEAD + join_lines([pack(1, msgspec.json.encode(body))], first=True) + b"\n" + tail)
    (call,) = (again := log_of(tmp_path)).find(limit=9)
    assert (call.outcome, call.source) == (Outcome.ERROR, UsageSource.PARTIAL)
    assert call.attempts[0].kind is FailureKind.SERVER
    assert sums_of(again, "token").total.calls == 1
