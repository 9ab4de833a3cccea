import msgspec
import pytest

from gateway.domain.budget import Window
from gateway.domain.forecast import balance_forecast, forecast
from gateway.domain.units import Millis, Nanos
from tests.tui.stage import DOLLAR, NOW, budget
from tui.budgets import amounts, budget_line, budget_parts, budget_tone, by_unit, tightest
from tui.glyphs import ASCII

DAY = 86_400_000
LONG_AGO = Millis(NOW - 10 * DAY)


def test_a_budget_is_a_gauge_with_words() -> None:
    assert budget_line(budget(5, 20), 8, ASCII) == "##------  25% $5/20"


@pytest.mark.parametrize(
    ("spent", "limit", "text"),
    [
        (12.44, 20, "$12.4/20"),
        (0.04, 5, "$0.04/5"),
        (1250, 2000, "$1250/2000"),
        (0, 3, "$0/3"),
        (0.0004, 0.002, "$0.0004/0.002"),
        (1e-9, 1, "$<0.0001/1"),
    ],
)
def test_amounts_are_brief(spent: float, limit: float, text: str) -> None:
    assert amounts(budget(spent, limit)) == text


def test_the_amount_that_is_short_is_shown() -> None:
    both = msgspec.structs.replace(budget(1, 20), tokens=1_000_000, spent_tokens=900_000)
    assert amounts(both) == "900k/1M tok"
    assert amounts(msgspec.structs.replace(both, nanos=None)) == "900k/1M tok"


def test_no_amount_hides_another() -> None:
    both = msgspec.structs.replace(budget(1, 20), tokens=1_000_000, spent_tokens=900_000)
    assert [amounts(one) for one in by_unit([both, budget(4, 5)])] == ["$1/20", "900k/1M tok", "$4/5"]


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


def test_a_window_without_end_began_with_its_owner() -> None:
    assert forecast(budget(5, 20, Window.EVER), NOW, LONG_AGO) == "at this pace used up on 21 Oct"
    assert forecast(budget(5, 20, Window.EVER), NOW, NOW) == ""
    assert forecast(budget(20, 20, Window.EVER), NOW, LONG_AGO) == "used up"


def test_a_balance_lasts_by_what_was_spent_lately() -> None:
    assert balance_forecast(10 * DOLLAR, 7 * DOLLAR, 7 * DAY, NOW) == "at this pace used up on 1 Oct"
    assert balance_forecast(200 * DOLLAR, 7 * DOLLAR, 7 * DAY, NOW).endswith(" 2027")
    assert balance_forecast(10 * DOLLAR, DOLLAR // 100, 7 * DAY, NOW) == "lasts over a year at this pace"
    assert balance_forecast(10 * DOLLAR, 0, 7 * DAY, NOW) == ""
    assert balance_forecast(0, DOLLAR, 7 * DAY, NOW) == "empty"


def test_what_running_calls_hold_is_shown_beside_what_is_spent() -> None:
    """The gauge, the amounts and the forecast do not jump with every call that begins and ends."""
    held = msgspec.structs.replace(budget(1, 20), held_nanos=Nanos(3 * DOLLAR))
    assert budget_line(held, 8, ASCII) == budget_line(budget(1, 20), 8, ASCII) == ".------- 5.0% $1/20"
    assert forecast(held, NOW, LONG_AGO) == forecast(budget(1, 20), NOW, LONG_AGO)
    assert "".join(text for text, _ in budget_parts(held, 8, ASCII, "lasts")).endswith(
        "$1/20 + $3.00 held by running calls   lasts"
    )
