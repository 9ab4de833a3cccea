from itertools import pairwise

from gateway.domain.units import Millis
from gateway.domain.views import Point, Summary
from tests.tui.stage import NOW, sums
from tui.trends import DAY_MS, HOUR_MS, Trends, days, hours, trends


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


def test_before_anything_was_asked_there_is_nothing() -> None:
    assert Trends().newest("a") is None
    assert Trends(starts=(Millis(0),)).values("a", lambda _: 1) == [0]
