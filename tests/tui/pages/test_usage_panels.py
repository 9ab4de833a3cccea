from typing import Any

import msgspec
import pytest

from gateway.domain.budget import Window
from gateway.domain.units import DAY_MS, DOLLAR, HOUR_MS, Millis
from tests.tui.pages.test_usage_chart import EMPTY, plan, row, text, tones
from tests.tui.stage import NOW, budget
from tui.pages.usage_bars import MEASURES
from tui.pages.usage_panels import BudgetCourse, BudgetSource, budget_chart, heat_map, heat_width, new_course
from tui.trends import Trends

MONDAY = 4 * DAY_MS
WEEK = tuple(Millis(MONDAY + hour * HOUR_MS) for hour in range(7 * 24))
FIRST: dict[str, Any] = {"first_ms": Millis(MONDAY + DAY_MS)}


def busy() -> Trends:
    """A dollar on Tuesday at 9, four on Friday at 15."""
    cells = {WEEK[24 + 9]: row("", 1), WEEK[4 * 24 + 15]: row("", 4)}
    return Trends(starts=WEEK, series={"": cells})


def test_the_map_has_a_line_for_each_weekday_and_a_cell_for_each_hour() -> None:
    lines = text(heat_map(busy(), plan(EMPTY, **FIRST), 39))
    assert lines[0] == " cost by weekday and hour  4 weeks"
    assert lines[1] == " Mon" + " " * 25 + "         ·"
    assert lines[2] == " Tue " + "·" * 9 + "▒" + "·" * 14 + "     $1.00"
    assert lines[5] == " Fri " + "·" * 15 + "█" + "·" * 8 + "     $4.00"
    assert lines[-1] == "     little ░░▒▒▓▓██ most: $4.00"
    assert text(heat_map(busy(), plan(EMPTY, **FIRST), 63))[-1].endswith("most: $4.00  Fri 15:00")


def test_hours_without_calls_differ_from_hours_before_the_first_call() -> None:
    lines = text(heat_map(busy(), plan(EMPTY, **FIRST), 39))
    assert lines[1].split() == ["Mon", "·"]
    assert lines[3] == " Wed " + "·" * 24 + "         ·"


def test_shades_are_colours_or_without_them_fills() -> None:
    coloured = heat_map(busy(), plan(EMPTY, patterns=False, **FIRST), 39)
    assert ("█" in coloured[2].plain, "█" in coloured[5].plain) == (True, True)
    assert "$heat-3" in tones(coloured[2])
    assert "$heat-5" in tones(coloured[5])
    assert heat_map(busy(), plan(EMPTY, **FIRST), 39)[2].plain[14] == "▒"


def test_the_map_is_as_wide_as_there_is_room() -> None:
    cost = MEASURES["cost"]
    assert [heat_width(cost, width) for width in (39, 62, 70, 86, 199)] == [39, 43, 63, 63, 87]
    for width in (39, 79, 99):
        lines = heat_map(busy(), plan(EMPTY, **FIRST), width)
        assert max(line.cell_length for line in lines[1:8]) == heat_width(cost, width)


@pytest.mark.parametrize("measure", MEASURES)
def test_no_line_of_the_map_is_wider_than_its_room(measure: str) -> None:
    for width in range(44, 90):
        lines = heat_map(busy(), plan(EMPTY, value=measure, **FIRST), heat_width(MEASURES[measure], width))
        assert max(line.cell_length for line in lines) <= width


@pytest.mark.parametrize("measure", MEASURES)
def test_the_title_of_the_map_says_of_which_weeks_it_is(measure: str) -> None:
    width = heat_width(MEASURES[measure], 60)
    title = heat_map(busy(), plan(EMPTY, value=measure, **FIRST), width)[0].plain
    assert title.endswith(" 4 weeks")
    assert len(title) <= width


def source(spent: float, limit: float, window: Window = Window.WEEK) -> BudgetSource:
    view = msgspec.structs.replace(budget(spent, limit, window), resets_at_ms=Millis(MONDAY + 7 * DAY_MS))
    return BudgetSource("token", "tok_1", "laptop", Millis(MONDAY - 60 * DAY_MS), view)


HALF = Millis(MONDAY + 84 * HOUR_MS)
"""The middle of the week."""
SPAN = (Millis(MONDAY), Millis(MONDAY + 7 * DAY_MS))


def course(spent: float, limit: float) -> BudgetCourse:
    """Half of it was used in the first hour, the rest a day later."""
    used = [(Millis(MONDAY), spent * DOLLAR / 2), (Millis(MONDAY + DAY_MS), spent * DOLLAR / 2)]
    return BudgetCourse(source(spent, limit), *SPAN, used)


def test_use_adds_up_and_goes_on_at_its_pace() -> None:
    half = course(6, 20)
    moments = (MONDAY, MONDAY + HOUR_MS, MONDAY + DAY_MS, MONDAY + 2 * DAY_MS, HALF, SPAN[1])
    assert [half.at(at, HALF) / DOLLAR for at in moments] == [0, 3, 3, 6, 6, 12]
    assert half.pace(Millis(MONDAY + HOUR_MS)) == 0


def test_the_pace_is_that_of_the_time_since_its_owner_was_created() -> None:
    week = course(6, 20)
    young = msgspec.structs.replace(week.source, since=Millis(HALF - 12 * HOUR_MS))
    assert msgspec.structs.replace(week, source=young).at(HALF + HOUR_MS, HALF) / DOLLAR == 6.5


def test_what_was_used_before_the_first_step_counts() -> None:
    rest = msgspec.structs.replace(course(6, 20), used=[(Millis(MONDAY + DAY_MS), 1.0 * DOLLAR)])
    assert rest.at(MONDAY, HALF) == 5 * DOLLAR


def test_what_was_used_after_the_fetch_moves_the_end_of_the_course() -> None:
    fetched, now = HALF, Millis(HALF + 60_000)
    later = course(6, 20).with_current([source(1, 5, Window.DAY), source(8, 20)], fetched, now)
    assert later.spent == 8 * DOLLAR
    assert later.at(fetched, now) == 6 * DOLLAR
    assert later.at(now, now) == 8 * DOLLAR
    assert later.at(MONDAY, now) == 0


def test_a_new_window_of_the_budget_begins_at_nothing() -> None:
    next_week = Millis(SPAN[1] + HOUR_MS)
    later = course(6, 20).with_current([source(0, 20)], HALF, next_week)
    assert (later.start, later.spent, later.used) == (SPAN[1], 0, ())


def test_the_cost_so_far_stands_against_the_limit_with_a_forecast() -> None:
    lines = text(budget_chart(course(6, 9), HALF, (60, 9), [("B", "key"), (" next of 2", "dim")]))
    assert lines[0].startswith(" token laptop, this week: $6.00/9")
    assert lines[1].startswith("     $15 ┤")
    limit = next(line for line in lines if "──────────" in line)
    assert lines.index(limit) < next(number for number, line in enumerate(lines) if "█" in line)
    assert any(line.rstrip().endswith("∙") for line in lines[1:6])
    assert lines[-3].startswith("       0 └")
    assert lines[-2].split() == ["Mon", "00:00", "now", "Mon", "00:00"]
    assert lines[-1].split() == ["■", "used", "──", "limit", "∙∙", "at", "this", "pace", "B", "next", "of", "2"]


def test_the_present_has_its_name_at_any_time_of_the_window() -> None:
    """What begins the window is left out where both do not fit."""
    for hours, first in ((1, "now"), (10, "now"), (40, "Mon 00:00"), (160, "Mon 00:00")):
        now = Millis(MONDAY + hours * HOUR_MS)
        *_, axis, labels, _ = text(budget_chart(course(6, 20), now, (110, 10)))
        assert labels.index("now") in (axis.index("┬") - 1, axis.index("┬"))
        assert labels.strip().startswith(first)


@pytest.mark.parametrize(("spent", "limit", "label"), [(6, 4, "$4 ┤─────"), (9, 5, "$5 ┤─────"), (2, 10, "$10 ┤────")])
def test_a_limit_is_in_the_row_of_the_tick_of_its_value(spent: float, limit: float, label: str) -> None:
    lines = text(budget_chart(course(spent, limit), HALF, (60, 12)))
    (line,) = [line for line in lines if "──────────" in line and "└" not in line]
    assert line.strip().startswith(label[:4])


def test_use_above_the_limit_is_drawn_above_its_line() -> None:
    lines = text(budget_chart(course(12, 9), HALF, (40, 9)))
    above = lines[1 : next(number for number, line in enumerate(lines) if "─────" in line)]
    assert any("█" in line for line in above)
    assert "B next" not in lines[-1]


def test_the_chart_is_as_wide_as_it_may_be() -> None:
    for width in (40, 79, 110):
        lines = budget_chart(course(6, 9), HALF, (width, 7))
        assert {line.cell_length for line in lines[1:-2]} == {width}


def test_windows_are_those_of_the_budget() -> None:
    day = new_course(source(1, 5, Window.DAY), NOW)
    assert (day.end - day.start, day.step) == (DAY_MS, "hour")
    month = new_course(source(1, 5, Window.MONTH), NOW)
    assert month.start <= NOW < month.end
    assert month.step == "day"
    ever = new_course(source(1, 5, Window.EVER), NOW)
    assert ever.start < NOW < ever.end


def test_a_budget_of_tokens_is_counted_in_tokens() -> None:
    tokens = msgspec.structs.replace(budget(0, None), tokens=2_000_000, spent_tokens=500_000)
    found = BudgetCourse(msgspec.structs.replace(source(0, 1), budget=tokens), *SPAN, [(Millis(MONDAY), 500_000.0)])
    lines = text(budget_chart(found, HALF, (60, 9)))
    assert "500k/2M tok" in lines[0]
    assert lines[1].split()[0] == "2M"
