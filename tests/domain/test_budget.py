"""Windows begin and end by the local calendar, also where a day has 23 or 25 hours."""

import sys
from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given, strategies as st

from gateway.domain.budget import Window, budget_name, window_end, window_start
from gateway.domain.units import Millis
from tests.domain.zones import BERLIN, ZONES, local_time_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="local time cannot be changed there")

HOUR = 3_600_000
CALENDAR = [window for window in Window if window.info.first]


@pytest.fixture
def berlin() -> Iterator[None]:
    with local_time_of(BERLIN):
        yield


def at(text: str) -> Millis:
    """A moment of local time."""
    return Millis(int(datetime.fromisoformat(text).timestamp() * 1000))


@pytest.mark.parametrize(
    ("window", "begin", "end"),
    [
        (Window.DAY, "2026-11-20", "2026-11-21"),
        (Window.WEEK, "2026-11-16", "2026-11-23"),
        (Window.MONTH, "2026-11-01", "2026-12-01"),
    ],
)
@pytest.mark.parametrize("clock", ["00:00:00", "00:00:00.001", "12:34:56.789", "23:59:59.999"])
def test_a_window_holds_its_moment(berlin: None, window: Window, begin: str, end: str, clock: str) -> None:
    now = at(f"2026-11-20T{clock}")
    assert (window_start(window, now), window_end(window, now)) == (at(begin), at(end))


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-07-01", 24)])
def test_a_day_is_as_long_as_the_calendar_says(berlin: None, day: str, hours: int) -> None:
    now = at(f"{day}T12:00")
    end = window_end(Window.DAY, now)
    assert end is not None
    assert end - window_start(Window.DAY, now) == hours * HOUR


def test_the_hour_that_comes_twice_belongs_to_one_day(berlin: None) -> None:
    first = at("2026-10-25T02:30")
    assert {window_start(Window.DAY, Millis(first + n * HOUR)) for n in (0, 1)} == {at("2026-10-25")}


@pytest.mark.parametrize(("now", "end"), [("2026-12-15", "2027-01-01"), ("2028-02-29", "2028-03-01")])
def test_months_end_where_the_next_begins(berlin: None, now: str, end: str) -> None:
    assert window_end(Window.MONTH, at(now)) == at(end)


def test_weeks_begin_on_monday(berlin: None) -> None:
    starts = {window_start(Window.WEEK, at(f"2026-11-{day}T08:00")) for day in range(16, 23)}
    assert starts == {at("2026-11-16")}


def test_for_ever_began_at_the_beginning_and_has_no_end() -> None:
    assert (window_start(Window.EVER, Millis(5)), window_end(Window.EVER, Millis(5))) == (0, None)


@pytest.mark.parametrize("window", Window)
def test_every_window_is_described(window: Window) -> None:
    assert (window.info.current != "", window.info.rate != "", window.info.example > 0) == (True, True, True)


@pytest.mark.parametrize(
    ("window", "name"), [(Window.DAY, "daily budget of token 'ci'"), (Window.EVER, "budget of token 'ci'")]
)
def test_a_budget_is_called_by_its_window_and_its_owner(window: Window, name: str) -> None:
    assert budget_name(window, "token 'ci'") == name


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("window", CALENDAR)
@given(st.integers(946_684_800_000, 4_102_444_800_000))
def test_windows_tile_all_time(zone: str, window: Window, now: int) -> None:
    """Every moment is in one window, and where one ends the next begins."""
    with local_time_of(zone):
        begin, end = window_start(window, Millis(now)), window_end(window, Millis(now))
        assert end is not None
        assert begin <= now < end
        assert window_start(window, end) == end
        assert window_start(window, Millis(end - 1)) == begin
        assert window_start(window, begin) == begin
