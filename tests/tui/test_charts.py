from tui import charts
from tui.glyphs import ASCII, UNICODE


def test_a_sparkline_shows_the_highest_as_full_and_nothing_as_low() -> None:
    assert charts.spark([0, 4, 8], 3, UNICODE) == "▁▄█"
    assert charts.spark([0, 4, 8], 3, ASCII) == ".:@"


def test_a_sparkline_is_as_wide_as_asked() -> None:
    assert charts.spark([], 4, UNICODE) == "    "
    assert charts.spark([1], 4, UNICODE) == "   █"
    assert charts.spark([1, 9, 1, 1, 1, 1], 3, UNICODE) == "█▁▁"


def test_a_sparkline_may_have_a_fixed_top() -> None:
    assert charts.spark([4], 1, UNICODE, top=8) == "▄"


def test_gauges_are_filled_by_eighths_and_never_overflow() -> None:
    assert charts.gauge(0.5, 4, UNICODE) == "██░░"
    assert charts.gauge(0.33, 4, UNICODE) == "█▍░░"
    assert charts.gauge(7, 4, UNICODE) == "████"
    assert charts.gauge(-1, 4, UNICODE) == "░░░░"
    assert charts.gauge(0.5, 4, ASCII) == "##--"


def test_bars_grow_from_below() -> None:
    assert charts.bars([1, 2, 4], 2, UNICODE) == ["  █", "▄██"]


def test_stacked_bars_tell_series_by_their_fill() -> None:
    rows = charts.stacked([[2, 2], [4, 0]], 2, UNICODE)
    assert ["".join(cell.text for cell in row) for row in rows] == ["▓█", "██"]
    assert [[cell.series for cell in row] for row in rows] == [[1, 0], [0, 0]]


def test_the_top_of_a_stack_is_drawn_in_eighths() -> None:
    rows = charts.stacked([[1, 0.5], [4, 0]], 4, UNICODE)
    assert [row[0].text for row in rows] == [" ", " ", "▄", "█"]


def test_an_empty_stack_is_empty() -> None:
    assert [[cell.text for cell in row] for row in charts.stacked([[], [0, 0]], 2, UNICODE)] == [[" ", " "]] * 2


def test_a_line_goes_from_the_bottom_to_the_top() -> None:
    assert charts.line([0, 1, 2, 3], 2, 1, UNICODE) == ["⣠⠞"]
    assert charts.line([0, 3], 2, 2, ASCII) == [" *", "* "]
    assert charts.line([], 2, 1, UNICODE) == ["  "]


def test_all_lines_have_the_same_width() -> None:
    for glyphs in (UNICODE, ASCII):
        rows = charts.line([1, 5, 2, 8, 3], 17, 4, glyphs)
        assert [len(row) for row in rows] == [17] * 4


def test_a_scale_names_the_middle_of_each_line() -> None:
    assert charts.scale(4, 2) == [3.0, 1.0]
