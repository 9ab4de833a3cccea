from typing import Any

import msgspec
import pytest

from gateway.domain.units import Nanos
from tests.tui.pages.test_usage_chart import over, plan, row, some, text, tones
from tests.tui.stage import sums
from tui import glyphs
from tui.pages.usage_chart import MEASURES, OTHERS, SERIES
from tui.pages.usage_table import column_at, series_rows, series_table, shown_columns

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


def test_series_have_their_marks_sums_and_shares() -> None:
    drawing = plan(some(3))
    rows = series_rows(drawing, TOTAL)
    lines = text(series_table(drawing, rows, "cost", "key2", 70, "model"))
    assert lines[0].split() == ["by", "model", "cost▾", "share", "calls", "tokens", "errors"]
    assert lines[1].split()[:2] == ["all", "$12.00"]
    assert lines[2].split()[:4] == ["█", "key3", "$6.00", "50%"]
    assert lines[3].startswith(" ▸░ key2")
    assert lines[4].split()[:4] == ["▓", "key1", "$2.00", "17%"]
    by_calls = text(series_table(drawing, rows, "calls", "key2", 70, "model"))
    assert by_calls[0].split() == ["by", "model", "cost", "calls▾", "share", "tokens", "errors"]


def test_with_colours_the_marks_are_alike() -> None:
    drawing = plan(some(2), patterns=False)
    lines = series_table(drawing, series_rows(drawing, TOTAL), "cost", None, 100, "model")
    assert [line.plain[2] for line in lines[2:]] == ["■", "■"]
    assert [tones(line) & {"$chart-1", "$chart-2"} for line in lines[2:]] == [{"$chart-1"}, {"$chart-2"}]


def test_percentiles_are_shown_beside_averages() -> None:
    timed = row("m", 1, calls=10, **TIMED)
    drawing = plan(over((0, timed)))
    head, _, line = text(series_table(drawing, series_rows(drawing, timed), "cost", None, 140, "model"))
    assert head.split()[-8:] == ["dur", "p50", "p95", "avg", "first", "p50", "p95", "avg"]
    assert line.split()[-6:] == ["0.90s", "3.00s", "3.00s", "0.40s", "0.80s", "0.50s"]


def test_columns_of_the_measure_are_kept_when_there_is_little_room() -> None:
    assert [column.title for column in shown_columns("first token", 56)] == ["first p50", "p95", "avg"]
    assert len(shown_columns("cost", 79)) == 6
    assert len(shown_columns("cost", 140)) == 10


def test_series_without_value_are_among_the_others() -> None:
    drawing = plan(over((0, row("dear", 2)), *((0, row(f"free{i}", 0)) for i in range(3))))
    rows = series_rows(drawing, TOTAL)
    assert [(one.key, one.name, one.series) for one in rows[1:]] == [("dear", "dear", 0), (OTHERS, "3 others", SERIES)]


def test_only_lines_have_colours_where_times_are_drawn() -> None:
    for measure, coloured in (("cost", True), ("duration", False)):
        drawing = plan(over((0, row("dear", 2))), value=measure)
        table = series_table(drawing, series_rows(drawing, TOTAL), measure, None, 100, "model")
        assert any("chart" in str(span.style) for span in table[2].spans) is coloured


def test_one_other_has_its_name() -> None:
    drawing = plan(over((0, row("dear", 2)), (0, row("", 0))))
    assert [(one.key, one.name) for one in series_rows(drawing, TOTAL)[1:]] == [("dear", "dear"), ("", "none")]


def test_wide_screens_show_each_series_over_time() -> None:
    drawing = plan(some(2), some(2))
    lines = text(series_table(drawing, series_rows(drawing, TOTAL), "cost", None, 199, "model"))
    assert lines[0].endswith("over time")
    assert lines[2].endswith("█▁▁█")
    assert "over time" not in text(series_table(drawing, series_rows(drawing, TOTAL), "cost", None, 120, "model"))[0]


def test_a_title_is_found_by_its_place() -> None:
    drawing = plan(some(3))
    titles = {"cost": "cost", "calls": "calls", "dur p50": "duration", "first p50": "first token"}
    for by in ("cost", "errors"):
        head = series_table(drawing, series_rows(drawing, TOTAL), by, None, 139, "model")[0].plain
        for title, measure in titles.items():
            found = column_at(by, 139, head.index(title) + 1)
            assert found is not None
            assert found.measure == measure
        assert column_at(by, 139, 0) is None


@pytest.mark.parametrize("measure", ["cost", "calls", "tokens", "errors", "duration", "first token"])
def test_titles_never_touch(measure: str) -> None:
    drawing = plan(some(2), value=measure)
    for width in (79, 99, 139, 199):
        head = series_table(drawing, series_rows(drawing, TOTAL), measure, None, width, "model")[0].plain
        titles = {column.title for column in shown_columns(measure, width)}
        titles |= set() if measure in ("duration", "first token") else {"share"}
        words = {word for title in titles for word in title.split()}
        shown = {word.removesuffix(glyphs.DESCENDING) for word in head.split()}
        assert shown - {"by", "model", "over", "time"} == words, width
