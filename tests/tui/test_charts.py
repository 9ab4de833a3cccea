import itertools

import pytest

from tui import charts


def test_a_sparkline_shows_the_highest_as_full_and_nothing_as_low() -> None:
    assert charts.spark([0, 4, 8], 3) == "▁▄█"


def test_a_sparkline_is_as_wide_as_asked() -> None:
    assert charts.spark([], 4) == "    "
    assert charts.spark([1], 4) == "   █"
    assert charts.spark([1, 9, 1, 1, 1, 1], 3) == "█▁▁"


def test_gauges_are_filled_by_eighths_and_never_overflow() -> None:
    assert charts.gauge(0.5, 4) == "██░░"
    assert charts.gauge(0.33, 4) == "█▍░░"
    assert charts.gauge(7, 4) == "████"
    assert charts.gauge(-1, 4) == "░░░░"


@pytest.mark.parametrize("height", range(2, 24))
@pytest.mark.parametrize("highest", [0, 0.003, 1, 7, 9.99, 10, 13, 50, 155.1, 9_999, 1_000_001, 3.7e11])
def test_ticks_are_round_and_reach_the_highest_value(highest: float, height: int) -> None:
    found = charts.ticks(highest, height)
    assert f"{found.step:.0e}"[0] in "125"
    assert found.top >= highest
    assert found.height <= height
    assert found.rows >= 1


def test_ticks_use_the_height() -> None:
    assert charts.ticks(13, 9) == charts.Ticks(5, 3, 3)
    assert charts.ticks(25, 7) == charts.Ticks(10, 3, 2)


def test_ticks_of_counts_are_whole_and_those_of_times_are_minutes_after_seconds() -> None:
    assert charts.ticks(2, 12, whole=True).step == 1
    assert charts.ticks(170_000, 9, times=True) == charts.Ticks(60_000, 3, 3)
    assert charts.ticks(13_000_000, 9, times=True).top >= 13_000_000


@pytest.mark.parametrize(("count", "width"), [(30, 188), (30, 68), (24, 68), (1, 40), (90, 91), (7, 7)])
def test_bars_take_the_whole_width(count: int, width: int) -> None:
    spans = charts.spread_bars(count, width)
    assert spans[0].start == 0
    assert sum(span.whole for span in spans) == width
    assert all(one.start + one.whole == next_.start for one, next_ in itertools.pairwise(spans))
    assert len({span.bar for span in spans}) == 1 or width < 3 * count
    assert all(span.bar < span.whole or width < 3 * count for span in spans)


def test_bars_without_a_cell_each_are_one_cell_wide() -> None:
    assert {(span.bar, span.whole) for span in charts.spread_bars(10, 5)} == {(1, 1)}
    assert charts.spread_bars(0, 5) == []


def drawn(rows: list[list[charts.ChartCell]]) -> list[str]:
    return ["".join(cell.text for cell in row) for row in rows]


def test_without_colours_stacked_bars_tell_series_by_their_fill() -> None:
    rows = charts.stack_bars([[2, 2], [4, 0]], 2, 4, patterns=True)
    assert drawn(rows) == ["░█", "██"]
    assert [[cell.series for cell in row] for row in rows] == [[1, 0], [0, 0]]


def test_without_colours_the_top_of_a_bar_is_the_fill_of_its_series_in_whole_cells() -> None:
    rows = charts.stack_bars([[2, 1], [2, 0.5], [0, 0.1]], 2, 4, patterns=True)
    assert drawn(rows) == ["░  ", "██░"]


def test_with_colours_all_fills_are_alike() -> None:
    assert drawn(charts.stack_bars([[2, 2], [4, 0]], 2, 4)) == ["██", "██"]


def test_with_colours_a_cell_shows_two_series() -> None:
    (row,) = charts.stack_bars([[3, 5], [8, 0], [0, 8]], 1, 8)
    assert row == [charts.ChartCell("▃", 0, 1), charts.ChartCell("█", 0), charts.ChartCell("█", 1)]


def test_the_top_of_a_stack_is_drawn_in_eighths() -> None:
    rows = charts.stack_bars([[1, 0.5], [4, 0]], 4, 4)
    assert [row[0].text for row in rows] == [" ", " ", "▄", "█"]
    assert [row[0].series for row in rows] == [-1, -1, 1, 0]


def test_the_end_of_a_bar_has_the_colour_of_its_larger_part() -> None:
    (row,) = charts.stack_bars([[4, 1, 0]], 1, top=8)
    assert row == [charts.ChartCell("▅", 0)]


def test_little_is_more_than_nothing() -> None:
    (row,) = charts.stack_bars([[0, 0.01], [0, 0]], 1, top=8)
    assert row == [charts.ChartCell("▁", 1), charts.BLANK]


def test_an_empty_stack_is_empty() -> None:
    for patterns in (False, True):
        assert drawn(charts.stack_bars([[], [0, 0]], 2, 1, patterns=patterns)) == ["  ", "  "]


def test_a_line_goes_from_the_bottom_to_the_top() -> None:
    assert drawn(charts.lines([[0, 1, 2, 3]], 2, 1, 3)) == ["⡠⠊"]


def test_a_line_has_gaps_and_its_blank_cells_are_spaces() -> None:
    (row,) = drawn(charts.lines([[1, 1, None, None, 1, 1]], 6, 1, 2))
    assert row[2:4] == "  "
    assert " " not in row[:2] + row[4:]
    assert drawn(charts.lines([[None, None]], 4, 2, 1)) == ["    ", "    "]


def test_the_first_line_is_in_front() -> None:
    (row,) = charts.lines([[1, 1], [1, None]], 2, 1, 1)
    assert [cell.series for cell in row] == [0, 0]
    upper, lower = charts.lines([[2, 2], [0, 0]], 2, 2, 2)
    assert ({cell.series for cell in upper}, {cell.series for cell in lower}) == ({0}, {1})


def test_all_lines_have_the_same_width() -> None:
    assert [len(row) for row in charts.lines([[1, 5, 2, 8, 3]], 17, 4, 8)] == [17] * 4


def test_shades_go_from_nothing_to_most() -> None:
    assert [charts.shade_of(value, 10, 5) for value in (0, 0.1, 2, 2.1, 9, 10, 11)] == [0, 1, 1, 2, 5, 5, 5]
    assert charts.shade_of(1, 0, 5) == 0


def test_lines_without_colours_differ_by_their_dots() -> None:
    def dots(number: int) -> int:
        level = [[None] * 12] * number + [[1.0] * 12]
        (row,) = charts.lines(level, 12, 1, 1, patterns=True)
        return sum((ord(one.text) - 0x2800).bit_count() for one in row if one.series >= 0)

    assert dots(0) > dots(1) > dots(2) > 0


@pytest.mark.parametrize("at", range(12))
def test_a_value_without_neighbours_is_drawn_in_every_line_without_colours(at: int) -> None:
    values: list[float | None] = [None] * 12
    values[at] = 1.0
    for number in range(3):
        (row,) = charts.lines([[None] * 12] * number + [values], 12, 1, 1, patterns=True)
        assert [i for i, one in enumerate(row) if one.series >= 0] == [at]
