from itertools import pairwise

from gateway.domain.budget import days
from gateway.domain.units import DAY_MS, HOUR_MS, Millis
from gateway.domain.views import Point, Summary
from tests.tui.stage import NOW, call, sums
from tui.trends import CallRates, Trends, hours, trends


def test_days_are_those_of_the_calendar() -> None:
    found = days(30, NOW)
    assert len(found) == 30
    assert [later - earlier for earlier, later in pairwise(found)] == [DAY_MS] * 29
    assert 0 <= NOW - found[-1] < DAY_MS


def test_hours_end_with_the_running_one() -> None:
    found = hours(24, NOW)
    assert (len(found), found[1] - found[0]) == (24, HOUR_MS)
    assert 0 <= NOW - found[-1] < HOUR_MS


def test_where_nothing_happened_there_is_nothing() -> None:
    starts = days(3, NOW)
    points = [Point(start_ms=starts[2], key="a", row=sums("a")), Point(start_ms=starts[0], key="a", row=sums("a"))]
    summary = Summary(since_ms=starts[0], until_ms=NOW, by="model", total=sums(), rows=[sums("a")], series=points)
    found = trends(summary, starts)
    assert found.values("a", lambda _: 7) == [7, 0, 7]
    assert found.values("b", lambda _: 7) == [0, 0, 0]
    assert found.newest("a") == sums("a")
    assert found.newest("b") is None


def test_before_any_request_there_is_nothing() -> None:
    assert Trends().newest("a") is None
    assert Trends(starts=(Millis(0),)).values("a", lambda _: 1) == [0]


def test_calls_a_minute_are_those_of_the_last_sixty_seconds() -> None:
    pulse = CallRates()
    for at in (NOW, NOW - 59_000, NOW - 61_000):
        pulse.add(call(1, at, duration_ms=0))
    assert [pulse.minutes(NOW + later, 3)[-1] for later in (0, 1_000, 59_000, 60_000)] == [2, 1, 1, 0]
    assert pulse.minutes(NOW, 3) == [0, 1, 2]


def test_a_record_of_many_refusals_counts_for_all_of_them() -> None:
    pulse = CallRates()
    pulse.add(call(1, NOW, duration_ms=0, status=429, marks=["repeated=59"]))
    assert pulse.minutes(NOW, 1) == [60]


def test_errors_are_a_share_of_the_newest_calls_and_what_a_client_ended_is_none() -> None:
    pulse = CallRates()
    assert pulse.failed is None
    for status, outcome in ((499, "client_closed"), (503, "cancelled"), (200, "done"), (500, "error")):
        pulse.add(call(status, status=status, outcome=outcome))
    assert pulse.failed == 0.25


def test_the_first_byte_is_a_median() -> None:
    pulse = CallRates()
    assert pulse.first_byte_ms is None
    for ms in (100, 9_000, 300):
        pulse.add(call(1, first_byte_ms=ms))
    assert pulse.first_byte_ms == 300


def test_old_minutes_are_forgotten() -> None:
    pulse = CallRates()
    for second in range(10_000):
        pulse.add(call(1, NOW + second * 1000, duration_ms=0))
    assert pulse.minutes(NOW, 1) == [0]
    assert pulse.minutes(NOW + 9_999_000, 2) == [60, 60]
