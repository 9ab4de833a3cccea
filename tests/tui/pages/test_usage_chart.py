from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from textual.content import Content

from gateway.domain.units import DAY_MS, HOUR_MS, Millis, Nanos
from gateway.domain.views import SumRow
from tests.tui.stage import sums
from tui import glyphs
from tui.charts import Ticks
from tui.pages.usage_bars import ALL, AXIS, EDGE, END, MEASURES, OTHERS, ChartPlan, bars_of, is_known
from tui.pages.usage_chart import chart, tick_text
from tui.trends import Trends

MONDAY = 4 * DAY_MS
"""5 January 1970."""
STARTS = tuple(Millis(MONDAY + day * DAY_MS) for day in range(4))
EMPTY = Trends(starts=STARTS)


def row(key: str, cost: float, *, calls: int = 1, **changes: Any) -> SumRow:
    return msgspec.structs.replace(sums(key), cost_nanos=Nanos(int(cost * 10**9)), calls=calls, **changes)


def over(*cells: tuple[int, SumRow], starts: Sequence[Millis] = STARTS) -> Trends:
    """Rows on some days, by their keys."""
    series: dict[str, dict[Millis, SumRow]] = {}
    for day, one in cells:
        series.setdefault(one.key, {})[starts[day]] = one
    totals = {
        key: msgspec.structs.replace(
            next(iter(rows.values())),
            cost_nanos=Nanos(sum(one.cost_nanos for one in rows.values())),
            calls=sum(one.calls for one in rows.values()),
        )
        for key, rows in series.items()
    }
    return Trends(starts=starts, totals=totals, series=series)


def plan(trends: Trends, overall: Trends = EMPTY, value: str = "cost", **more: Any) -> ChartPlan:
    fields = {"patterns": True, "first_ms": STARTS[0], **more}
    return ChartPlan(
        trends=msgspec.structs.replace(trends, series={**trends.series, ALL: overall.series.get("", {})}),
        measure=MEASURES[value],
        **fields,
    )


def some(keys: int = 2) -> Trends:
    """Each key costs as many dollars as its number, on the first and the last day."""
    names = [(f"key{i}", i) for i in range(1, keys + 1)]
    return over(*((day, row(name, cost)) for name, cost in names for day in (0, 3)))


def text(lines: Sequence[Content]) -> list[str]:
    return [line.plain.rstrip() for line in lines]


def tones(line: Content) -> set[str]:
    return {str(span.style) for span in line.spans}


def drawn(drawing: ChartPlan, width: int, height: int = 8, bar: int | None = None, key: str = ALL) -> list[str]:
    return text(chart(drawing, bars_of(drawing, width), height, bar, key))


WHOLE = over((0, row("", 3)), (1, row("", 0)), (3, row("", 3)))


def test_bars_are_as_high_as_the_sums_the_axis_begins_at_zero_and_the_selected_bar_is_marked_on_it() -> None:
    lines = drawn(plan(some(), WHOLE), AXIS + EDGE + 16, 6)
    assert lines == [
        "      $3 ┤░░░⠁" + "⠁⠁⠁⠁" * 2 + "░░░⠁",
        "         │░░░ " + "    " * 2 + "░░░",
        "      $2 ┤███⠁" + "⠁⠁⠁⠁" * 2 + "███⠁",
        "         │███ " + "    " * 2 + "███",
        "      $1 ┤███⠁" + "⠁⠁⠁⠁" * 2 + "███⠁",
        "         │███ ▁▁▁  ·  ███",
        "       0 └┬───────────────",
        "          5 Jan",
    ]
    lines[-2] = "       0 └┬───────━━━─────"
    assert drawn(plan(some(), WHOLE), AXIS + EDGE + 16, 6, bar=2) == lines


def test_the_chart_takes_the_whole_width() -> None:
    drawing = plan(some(), WHOLE)
    for width in (60, 79, 100, 139, 199):
        lines = chart(drawing, bars_of(drawing, width), 9, None, ALL)
        assert {line.cell_length for line in lines[:-1]} == {width}


def test_no_calls_nothing_to_pay_and_unknown_differ() -> None:
    drawing = plan(some(), WHOLE, first_ms=STARTS[1])
    assert is_known(drawing, bars_of(drawing, 30), 1)
    late = plan(some(), over((3, row("", 3))), first_ms=STARTS[1] + 1)
    *_, bottom, axis, _ = drawn(late, AXIS + EDGE + 16, 6)
    assert axis == "       0 └┬┄┄┄" + "─" * 12
    assert drawn(late, AXIS + EDGE + 16, 6, bar=0)[-2] == "       0 └━━━┄" + "─" * 12
    assert bottom[AXIS + EDGE + 4 :] == " ·   ·  ███"
    assert drawn(plan(some(), WHOLE), AXIS + EDGE + 16, 6)[-3].endswith("███ ▁▁▁  ·  ███")


def test_blank_cells_are_spaces() -> None:
    for value in MEASURES:
        assert "\u2800" not in "".join(drawn(plan(some(), WHOLE, value), 80, 9))


def test_series_have_colours_of_the_palette() -> None:
    drawing = plan(some(9), WHOLE, patterns=False)
    used = set().union(*map(tones, chart(drawing, bars_of(drawing, 100), 20, None, ALL)))
    fronts = {tone.split(" on ")[0] for tone in used if tone.startswith("$chart")} - {"$chart-grid"}
    assert fronts == {f"$chart-{number}" for number in range(1, 8)}


def test_more_days_than_cells_share_them() -> None:
    drawing = plan(some(), WHOLE)
    bars = bars_of(drawing, AXIS + EDGE + 2)
    assert (bars.chunk, list(bars.starts), list(bars.ends)) == (
        2,
        [STARTS[0], STARTS[2]],
        [STARTS[2], MONDAY + 4 * DAY_MS],
    )
    assert bars.rows["key2"][0].cost_nanos == 2 * 10**9


def test_the_newest_bar_is_whole_when_days_do_not_divide() -> None:
    starts = tuple(Millis(MONDAY + day * DAY_MS) for day in range(5))
    drawing = plan(Trends(starts=starts))
    bars = bars_of(drawing, AXIS + EDGE + 3)
    assert list(bars.starts) == [starts[0], starts[1], starts[3]]
    assert [bars.bar_at(x) for x in (0, 1, 2, 3)] == [0, 1, 2, None]


TIMES: dict[str, Any] = {"calls": 10, "duration_ms": 20_000, "duration_p50_ms": 1_000, "duration_p95_ms": 4_000}


def timed(*days: tuple[int, dict[str, Any]], **more: Any) -> ChartPlan:
    """How long the calls of some days took."""
    return plan(EMPTY, over(*((day, row("", 0, **times)) for day, times in days)), "duration", **more)


def names(lines: list[str], at: int = -1) -> list[str]:
    """The names of the lines, or the signs before them."""
    return [line.split()[at] for line in lines if line.endswith(("p95", "avg", "p50"))]


def test_times_are_lines_with_their_names_and_gaps() -> None:
    lines = drawn(timed((0, TIMES), (1, TIMES), (3, TIMES)), AXIS + EDGE + END + 8)
    assert lines[0] == "      4s ┤ ⠉ ⠁   ⠁ ╌ p95"
    assert names(lines) == ["p95", "avg", "p50"]
    assert all(line[AXIS + EDGE + 4 : AXIS + EDGE + 6].strip() == "" for line in lines[:-2])
    assert lines[5].rstrip().endswith("─ p50")


def test_the_lines_are_those_of_the_selected_series() -> None:
    slow: dict[str, Any] = {**TIMES, "duration_p95_ms": 90_000}
    drawing = plan(over((0, row("slow", 1, **slow))), over((0, row("", 1, **TIMES))), "duration")
    assert [drawn(drawing, 60, key=key)[0].split()[0] for key in (ALL, "slow")] == ["4s", "90s"]


def test_a_bar_of_several_days_shows_the_slowest() -> None:
    drawing = timed((0, TIMES), (1, {**TIMES, "duration_p95_ms": 9_000}))
    assert drawn(drawing, AXIS + EDGE + END + 2)[0].split()[0] == "10s"
    assert bars_of(drawing, AXIS + EDGE + END + 2).rows[ALL][0].duration_p95_ms == 9_000


def test_an_unknown_percentile_has_no_line() -> None:
    unknown = {**TIMES, "duration_p50_ms": None, "duration_p95_ms": None}
    assert names(drawn(timed((0, unknown)), 60)) == ["avg"]


def test_series_without_value_have_no_colour_of_their_own() -> None:
    free = over((0, row("dear", 2)), *((0, row(f"free{i}", 0)) for i in range(4)))
    assert [one.key for one in plan(free).largest] == ["dear"]
    assert [one.key for one in plan(free).others] == [f"free{i}" for i in range(4)]
    assert bars_of(plan(free), 60).rows[OTHERS][0].calls == 4


def test_the_largest_come_first() -> None:
    assert [one.key for one in ChartPlan(trends=some(3), measure=MEASURES["cost"]).largest] == ["key3", "key2", "key1"]


@pytest.mark.parametrize(
    ("value", "ticks", "expected"),
    [
        ("cost", Ticks(5 * 10**8, 4, 3), ["$2.00", "$1.50", "$1.00", "$0.50"]),
        ("cost", Ticks(5 * 10**9, 3, 3), ["$15", "$10", "$5"]),
        ("cost", Ticks(2 * 10**6, 2, 3), ["$0.004", "$0.002"]),
        ("cost", Ticks(10**12, 2, 3), ["$2,000", "$1,000"]),
        ("cost", Ticks(10**4, 2, 3), ["$0.00002", "$0.00001"]),
        ("cost", Ticks(5 * 10**3, 3, 3), ["0.0015¢", "0.0010¢", "0.0005¢"]),
        ("calls", Ticks(500, 3, 3), ["1.5k", "1k", "500"]),
        ("duration", Ticks(500, 3, 3), ["1.5s", "1.0s", "0.5s"]),
        ("duration", Ticks(200, 2, 3), ["400ms", "200ms"]),
        ("duration", Ticks(30_000, 3, 3), ["90s", "60s", "30s"]),
        ("duration", Ticks(60_000, 2, 3), ["2m", "1m"]),
    ],
)
def test_ticks_are_written_alike(value: str, ticks: Ticks, expected: list[str]) -> None:
    assert [tick_text(MEASURES[value], ticks, number) for number in range(ticks.count)] == expected


def dates(starts: Sequence[Millis], width: int) -> str:
    return drawn(plan(Trends(starts=starts)), width, 6)[-1].strip()


def test_labels_of_the_time_are_round() -> None:
    month = [Millis(MONDAY + day * DAY_MS) for day in range(30)]
    assert dates(month, 100).split("  ")[0] == "5 Jan"
    found = [part.strip() for part in dates(month, 100).split("  ") if part]
    assert found == ["5 Jan", "12 Jan", "19 Jan", "26 Jan", "2 Feb"]
    day = [Millis(MONDAY + (hour + 18) * HOUR_MS) for hour in range(24)]
    assert dates(day, 80).split("  ")[0] == "18:00"
    assert "Tue 6" in dates(day, 80)
    year = [Millis(MONDAY + number * DAY_MS) for number in range(365)]
    assert [part for part in dates(year, 199).split() if not part.isdigit()][:3] == ["Feb", "Mar", "Apr"]
    assert drawn(plan(Trends(starts=year)), 199, 6)[-2].count("┬") == 12


def test_each_day_of_a_week_has_its_date_on_a_narrow_screen_too() -> None:
    week = [Millis(MONDAY + day * DAY_MS) for day in range(7)]
    assert dates(week, 79).split() == [part for day in range(7) for part in (str(5 + day), "Jan")]


def test_costs_of_zero_have_an_axis_in_dollars_and_nothing_is_an_empty_chart() -> None:
    assert drawn(plan(over((0, row("free", 0)))), 60)[0].split()[0] == "$1.00"
    assert len(drawn(plan(EMPTY), 40, 3)) == 5


@pytest.mark.parametrize(("patterns", "signs"), [(True, {"─", "╌", "┈"}), (False, {"─"})])
def test_the_name_of_a_line_has_its_sign(patterns: bool, signs: set[str]) -> None:
    lines = drawn(timed((0, TIMES), (1, TIMES), patterns=patterns), AXIS + EDGE + END + 8)
    assert {*names(lines, -2)} == signs


def test_every_line_has_its_name_though_all_end_at_the_bottom() -> None:
    low = {**TIMES, "duration_p50_ms": 1, "duration_p95_ms": 2, "duration_ms": 20}
    assert names(drawn(timed((0, TIMES), (1, low)), AXIS + EDGE + END + 8)) == ["p95", "avg", "p50"]


def test_without_colours_ticks_are_fainter_than_values() -> None:
    found = "".join(drawn(plan(some(), WHOLE), 60))
    assert (glyphs.GRID in found, glyphs.GRID_DOTS in found) == (False, True)
