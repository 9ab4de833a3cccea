from datetime import datetime

import msgspec
import pytest

from gateway.domain.budget import Window
from gateway.domain.forecast import balance_forecast, forecast, pace_start
from gateway.domain.units import Millis, Nanos
from tests.tui.stage import DOLLAR, NOW, budget
from tui.budgets import amounts, budget_line, budget_parts, budget_tone, by_unit, tightest

DAY = 86_400_000
LONG_AGO = Millis(NOW - 40 * DAY)


def test_a_budget_is_a_gauge_with_words() -> None:
    assert budget_line(budget(5, 20), 8) == "██░░░░░░  25% $5.00/20"


@pytest.mark.parametrize(
    ("spent", "limit", "text"),
    [
        (12.44, 20, "$12.44/20"),
        (29.5, 200, "$29.50/200"),
        (4.7, 5, "$4.70/5"),
        (1, 2.5, "$1.00/2.5"),
        (6.8594, 5, "$6.86/5"),
        (4.999, 5, "$4.99/5"),
        (1.07, 5, "$1.07/5"),
        (6.9, 5, "$6.90/5"),
        (123.45, 200, "$123.5/200"),
        (0.078, 2, "$0.08/2"),
        (0.998, 1, "$0.99/1"),
        (0.0183, 0.02, "$0.018/0.02"),
        (0.0199999, 0.02, "$0.019/0.02"),
        (0.0512, 0.055, "$0.051/0.055"),
        (0.0534, 0.055, "$0.053/0.055"),
        (0.05499, 0.055, "$0.054/0.055"),
        (0.06, 0.055, "$0.060/0.055"),
        (0.04, 0.0525, "$0.0400/0.0525"),
        (0.7, 1.005, "$0.70/1.005"),
        (1.9951, 1.999, "$1.9/1.999"),
        (0.5, 1, "$0.50/1"),
        (0.998, 5, "$1.00/5"),
        (1234.56, 2000, "$1235/2000"),
        (0.04, 5, "$0.04/5"),
        (1250, 2000, "$1250/2000"),
        (0, 3, "$0/3"),
        (0.0004, 0.002, "$0.0004/0.002"),
        (1e-9, 1, "$<0.0001/1"),
        (0.5, 0.99999, "$0.50/1"),
    ],
)
def test_amounts_are_brief(spent: float, limit: float, text: str) -> None:
    assert amounts(budget(spent, limit)) == text


def test_the_amount_that_is_short_is_shown() -> None:
    both = msgspec.structs.replace(budget(1, 20), tokens=1_000_000, spent_tokens=900_000)
    shown = tightest([both])
    assert shown is not None
    assert amounts(shown) == "900k/1M tok"


def test_no_amount_hides_another() -> None:
    both = msgspec.structs.replace(budget(1, 20), tokens=1_000_000, spent_tokens=900_000)
    assert [amounts(one) for one in by_unit([both, budget(4, 5)])] == ["$1.00/20", "900k/1M tok", "$4.00/5"]


def test_the_tightest_counts() -> None:
    assert tightest([budget(1, 20), budget(4, 5), budget(5, 20)]) == budget(4, 5)
    assert tightest([]) is None
    assert [budget_tone(part) for part in (0.5, 0.95, 1.2)] == ["", "warn", "bad"]


def test_the_forecast_is_that_of_the_pace_so_far() -> None:
    """NOW is Monday the 21st, 14:13: 20.6 of 30 days of the month are over."""
    assert forecast(budget(4.87, 5), NOW, LONG_AGO) == "at this pace used up on Tue 03:24"
    assert forecast(budget(2, 5), NOW, LONG_AGO) == "lasts at this pace"
    assert forecast(budget(0, 5), NOW, LONG_AGO) == ""
    assert forecast(budget(6, 5), NOW, LONG_AGO) == "used up; resets 1 Oct"


def test_a_weekday_names_one_day_only() -> None:
    """The 30th of August is a Sunday, and so is the 6th of September."""
    sunday = Millis(NOW - 22 * DAY)
    for days, shown_as in ((6, "Sat 14:13"), (7, "6 Sep")):
        spent = msgspec.structs.replace(budget(6, 5), resets_at_ms=Millis(sunday + days * DAY))
        assert forecast(spent, sunday, LONG_AGO) == f"used up; resets {shown_as}"


def test_a_window_without_end_began_with_its_owner() -> None:
    assert forecast(budget(5, 20, Window.EVER), NOW, Millis(NOW - 10 * DAY)) == "at this pace used up on 21 Oct"
    assert forecast(budget(5, 20, Window.EVER), NOW, NOW) == ""
    assert forecast(budget(20, 20, Window.EVER), NOW, LONG_AGO) == "used up"


def test_a_balance_lasts_by_what_was_spent_lately() -> None:
    week = "at the pace of the last 7 days"
    assert balance_forecast(10 * DOLLAR, 7 * DOLLAR, LONG_AGO, NOW) == f"{week} used up on 1 Oct"
    assert balance_forecast(200 * DOLLAR, 7 * DOLLAR, LONG_AGO, NOW).endswith(" 2027")
    assert balance_forecast(10 * DOLLAR, DOLLAR // 100, LONG_AGO, NOW) == f"lasts over a year {week}"
    assert balance_forecast(10 * DOLLAR, 0, LONG_AGO, NOW) == ""
    assert balance_forecast(0, DOLLAR, LONG_AGO, NOW) == "empty"
    assert balance_forecast(DOLLAR, DOLLAR, None, NOW) == ""


def test_the_time_before_the_first_call_is_not_part_of_the_pace() -> None:
    """What was spent in 13 minutes was not spent in a week."""
    for minutes in (13, 23 * 60):
        assert balance_forecast(DOLLAR * 97 // 10, DOLLAR * 3 // 10, Millis(NOW - minutes * 60_000), NOW) == ""
    two_days = balance_forecast(10 * DOLLAR, 2 * DOLLAR, Millis(NOW - 2 * DAY), NOW)
    assert two_days == "at the pace of the last 2 days used up on 1 Oct"
    assert balance_forecast(DOLLAR, DOLLAR, Millis(NOW - DAY), NOW).startswith("at the pace of the last day used up")


def test_the_pace_of_a_budget_begins_with_its_owner() -> None:
    """A dollar of a token of yesterday was not spent since the first of the month."""
    assert forecast(budget(1, 5), NOW, LONG_AGO) == "lasts at this pace"
    assert forecast(budget(1, 5), NOW, Millis(NOW - DAY)) == "at this pace used up on Fri 14:13"
    assert forecast(budget(1, 5), NOW, Millis(NOW - 13 * 60_000)) == ""


def test_the_days_of_the_pace_are_those_of_the_calendar() -> None:
    assert datetime.fromtimestamp(pace_start(NOW) / 1000).astimezone().strftime("%a %H:%M") == "Tue 00:00"


def test_what_running_calls_hold_is_shown_beside_what_is_spent() -> None:
    """The gauge, the amounts and the forecast do not jump with every call that begins and ends."""
    held = msgspec.structs.replace(budget(1, 20), held_nanos=Nanos(3 * DOLLAR))
    assert budget_line(held, 8) == budget_line(budget(1, 20), 8) == "▍░░░░░░░ 5.0% $1.00/20"
    assert forecast(held, NOW, LONG_AGO) == forecast(budget(1, 20), NOW, LONG_AGO)
    assert "".join(text for text, _ in budget_parts(held, 8, "lasts")).endswith(
        "$1.00/20 + $3.00 held by running calls   lasts"
    )
