import msgspec

from gateway.domain.units import Millis, Nanos
from gateway.domain.views import SumRow
from tests.tui.stage import sums
from tui.glyphs import ASCII
from tui.pages.usage_chart import AXIS, MEASURES, chart, largest_first, legend, ranking, side_by_side, totals
from tui.text import content
from tui.trends import DAY_MS, Trends

COST = MEASURES["cost"]
STARTS = tuple(Millis(day * DAY_MS) for day in range(4))


def row(key: str, cost: int, *, waited: int = 0, calls: int = 1) -> SumRow:
    return msgspec.structs.replace(sums(key), cost_nanos=Nanos(cost * 10**9), calls=calls, first_byte_ms=waited)


def some(keys: int = 2) -> Trends:
    """Each key costs as many dollars as its number, on the first and the last day."""
    names = [f"key{i}" for i in range(1, keys + 1)]
    series = {name: {STARTS[0]: row(name, i), STARTS[3]: row(name, i)} for i, name in enumerate(names, 1)}
    return Trends(starts=STARTS, totals={name: row(name, 2 * i) for i, name in enumerate(names, 1)}, series=series)


def test_bars_are_as_high_as_the_sums() -> None:
    lines = [line.plain for line in chart(some(), COST, AXIS + 2 + 8, 3, ASCII)]
    assert lines == [
        "    $2.50 +=     = ",
        "          |#     # ",
        "          |#     # ",
        "          `--------",
        "           1 Jan ",
    ]


def test_more_days_than_cells_share_them() -> None:
    lines = [line.plain for line in chart(some(), COST, AXIS + 2 + 2, 1, ASCII)]
    assert lines[0].endswith("+##")


def test_a_mean_is_a_line() -> None:
    waits = Trends(starts=STARTS, totals={}, series={"a": {STARTS[0]: row("a", 0, waited=800, calls=2)}})
    assert totals(waits, MEASURES["latency"]) == [400.0, 0.0, 0.0, 0.0]
    assert chart(waits, MEASURES["latency"], AXIS + 2 + 4, 2, ASCII)[0].plain == "    0.30s +*   "


def test_the_largest_come_first_and_the_rest_is_summed() -> None:
    assert [one.key for one in largest_first(some(3), COST)] == ["key3", "key2", "key1"]
    assert [line.plain for line in legend(some(3), COST, 30, 2, ASCII)] == [
        "# key3             $6.00   50%",
        "= key2             $4.00   33%",
        "  1 others         $2.00   17%",
    ]


def test_a_ranking_has_bars() -> None:
    assert [line.plain for line in ranking("model", [row("a", 4), row("b", 1)], COST, 46, ASCII)] == [
        " by model" + " " * 37,
        " a              ################     $4.00    ",
        " b              ####------------     $1.00    ",
    ]
    assert "nothing yet" in ranking("model", [], COST, 40, ASCII)[1].plain


def test_blocks_stand_side_by_side() -> None:
    assert [line.plain for line in side_by_side([content("a")], [content("b"), content("c")], 4)] == ["a   b", "    c"]


def test_nothing_is_an_empty_chart() -> None:
    assert len(chart(Trends(starts=STARTS), COST, 40, 3, ASCII)) == 5
