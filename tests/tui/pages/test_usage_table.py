from typing import Any

import msgspec
import pytest
from textual.content import Content

from gateway.domain.units import Nanos
from gateway.domain.views import SumRow
from tests.tui.pages.test_usage_chart import over, plan, row, some, text, tones
from tests.tui.stage import sums
from tui import glyphs
from tui.pages.usage_bars import ALL, MEASURES, OTHERS, SERIES, ChartPlan
from tui.pages.usage_table import measure_at, series_columns, series_rows, series_table

COST = MEASURES["cost"]
TOTAL = msgspec.structs.replace(sums(""), cost_nanos=Nanos(12 * 10**9), calls=6)
TIMED: dict[str, Any] = {
    "duration_ms": 30_000,
    "duration_p50_ms": 900,
    "duration_p95_ms": 3_000,
    "first_byte_ms": 5_000,
    "first_bytes": 10,
    "first_byte_p50_ms": 400,
    "first_byte_p95_ms": 800,
}


def drawn(drawing: ChartPlan, width: int, total: SumRow = TOTAL, chosen: str = ALL) -> list[Content]:
    """The table of models at a width."""
    return series_table(drawing, series_rows(drawing, total), series_columns(drawing, total, "model", width), chosen)


def titles(measure: str, width: int) -> list[str]:
    """The titles of the numbers."""
    placed = series_columns(plan(some(2), value=measure), TOTAL, "model", width)
    return [column.title.removesuffix(glyphs.DESCENDING) for column in placed if ":" in column.id]


def test_series_have_their_marks_sums_and_shares() -> None:
    lines = text(drawn(plan(some(3)), 70, chosen="key2"))
    assert lines[0].split() == ["by", "model", "cost▾", "share", "calls", "tokens", "errors"]
    assert lines[1].split()[:2] == ["all", "$12.00"]
    assert lines[2].split()[:4] == ["█", "key3", "$6.00", "50%"]
    assert lines[3].startswith(" ▸░ key2")
    assert lines[4].split()[:4] == ["▓", "key1", "$2.00", "17%"]
    by_calls = text(drawn(plan(some(3), value="calls"), 70))
    assert by_calls[0].split() == ["by", "model", "cost", "calls▾", "share", "tokens", "errors"]


def test_with_colours_the_marks_are_alike() -> None:
    lines = drawn(plan(some(2), patterns=False), 100)
    assert [line.plain[2] for line in lines[2:]] == ["■", "■"]
    assert [tones(line) & {"$chart-1", "$chart-2"} for line in lines[2:]] == [{"$chart-1"}, {"$chart-2"}]


def test_percentiles_are_shown_beside_averages() -> None:
    timed = row("m", 1, calls=10, **TIMED)
    head, _, line = text(drawn(plan(over((0, timed))), 140, timed))
    assert head.split()[-8:] == ["dur", "p50", "p95", "avg", "first", "p50", "p95", "avg"]
    assert line.split()[-6:] == ["0.90s", "3.00s", "3.00s", "0.40s", "0.80s", "0.50s"]


def test_columns_of_the_measure_are_kept_when_there_is_little_room() -> None:
    assert titles("first token", 56) == ["first p50", "p95", "avg"]
    assert len(titles("cost", 79)) == 6
    assert len(titles("cost", 140)) == 10


def test_series_without_value_are_among_the_others() -> None:
    drawing = plan(over((0, row("dear", 2)), *((0, row(f"free{i}", 0)) for i in range(3))))
    rows = series_rows(drawing, TOTAL)
    assert [(one.key, one.name, one.series) for one in rows[1:]] == [("dear", "dear", 0), (OTHERS, "3 others", SERIES)]


def test_only_lines_have_colours_where_times_are_drawn() -> None:
    for measure, coloured in (("cost", True), ("duration", False)):
        drawing = plan(over((0, row("dear", 2))), value=measure)
        assert any("chart" in str(span.style) for span in drawn(drawing, 100)[2].spans) is coloured


def test_one_other_has_its_name() -> None:
    drawing = plan(over((0, row("dear", 2)), (0, row("", 0))))
    assert [(one.key, one.name) for one in series_rows(drawing, TOTAL)[1:]] == [("dear", "dear"), ("", "none")]


def test_wide_screens_show_each_series_over_time() -> None:
    drawing = plan(some(2), some(2))
    lines = text(drawn(drawing, 199))
    assert lines[0].endswith("over time")
    assert lines[2].endswith("█▁▁█")
    assert "over time" not in text(drawn(drawing, 120))[0]


def test_a_title_is_found_by_its_place() -> None:
    found = {"cost": "cost", "calls": "calls", "dur p50": "duration", "first p50": "first token"}
    for by in ("cost", "errors"):
        drawing = plan(some(3), value=by)
        columns, head = series_columns(drawing, TOTAL, "model", 139), drawn(drawing, 139)[0].plain
        assert {title: measure_at(columns, head.index(title) + 1) for title in found} == found
        assert measure_at(columns, 0) == ""


@pytest.mark.parametrize("measure", ["cost", "calls", "tokens", "errors", "duration", "first token"])
def test_titles_never_touch(measure: str) -> None:
    drawing = plan(some(2), value=measure)
    for width in (79, 99, 139, 199):
        head = drawn(drawing, width)[0].plain
        words = {word for title in titles(measure, width) for word in title.split()}
        words |= set() if measure in ("duration", "first token") else {"share"}
        shown = {word.removesuffix(glyphs.DESCENDING) for word in head.split()}
        assert shown - {"by", "model", "over", "time"} == words, width
