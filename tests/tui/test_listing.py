import pytest

from tests.tui.stage import console
from tui.columns import Column, fit_columns, sortable_columns
from tui.listing import PageListing, row_filter

COLUMNS = [
    Column[str]("name", "Name", 10, str, flex=True),
    Column[str]("note", "Note", 10, str, rank=3),
    Column[str]("cost", "Cost", 6, str, rank=1, right=True, sort=len),
    Column[str]("more", "More", 5, str, rank=9, extra=True),
]


def ids(width: int, *chosen: str) -> list[tuple[str, int]]:
    return [(column.id, column.width) for column in fit_columns(COLUMNS, width, chosen)]


def test_columns_leave_by_rank_when_it_gets_narrow_and_one_stays() -> None:
    assert ids(28) == [("name", 10), ("note", 10), ("cost", 6)]
    assert ids(27) == [("name", 20), ("cost", 6)]
    assert ids(16) == [("name", 16)]
    assert ids(3) == [("name", 10)]


def test_on_a_very_narrow_screen_the_flexible_column_yields_then_whole_columns_leave_from_the_right() -> None:
    columns = [
        Column[str]("time", "Time", 8, str),
        Column[str]("name", "Name", 18, str, flex=True),
        Column[str]("cost", "Cost", 9, str, right=True),
    ]
    found = {width: [(c.id, c.width) for c in fit_columns(columns, width)] for width in (37, 31, 30, 20)}
    assert found == {
        37: [("time", 8), ("name", 18), ("cost", 9)],
        31: [("time", 8), ("name", 12), ("cost", 9)],
        30: [("time", 8), ("name", 21)],
        20: [("name", 20)],
    }


def test_flexible_columns_take_what_is_left_and_extra_ones_come_in_before_they_grow() -> None:
    assert ids(33) == [("name", 15), ("note", 10), ("cost", 6)]
    assert ids(34) == [("name", 10), ("note", 10), ("cost", 6), ("more", 5)]
    assert ids(50) == [("name", 26), ("note", 10), ("cost", 6), ("more", 5)]


def test_a_wider_screen_never_shows_fewer_columns() -> None:
    columns = [
        Column[str](str(i), "T", 3 + i * 7 % 5, str, rank=i % 4, extra=i > 3, max_width=i * 3) for i in range(12)
    ]
    counts = [len(fit_columns(columns, width)) for width in range(4, 160)]
    assert counts == sorted(counts)
    assert counts[-1] == len(columns)


def test_columns_grow_then_extra_ones_come_in_and_the_flexible_one_takes_the_rest() -> None:
    columns = [
        Column[str]("a", "A", 10, str, flex=True),
        Column[str]("b", "B", 4, str, max_width=8),
        Column[str]("c", "C", 4, str, max_width=6, extra=True),
    ]
    widths = {width: [place.width for place in fit_columns(columns, width)] for width in (15, 18, 23, 24, 26, 30)}
    assert widths == {15: [10, 4], 18: [10, 7], 23: [14, 8], 24: [10, 8, 4], 26: [10, 8, 6], 30: [14, 8, 6]}


NAMES = [
    Column[str]("a", "A", 4, str, max_width=10),
    Column[str]("b", "B", 4, str, max_width=8),
    Column[str]("c", "C", 4, str, extra=True),
    Column[str]("d", "D", 4, str, flex=True),
]


def widths(width: int, **needs: int) -> list[int]:
    return [place.width for place in fit_columns(NAMES, width, (), needs)]


def test_what_other_columns_leave_empty_and_no_more_goes_to_texts_that_are_cut() -> None:
    assert widths(40) == [10, 8, 4, 15]
    assert widths(40, a=10, b=8, c=4, d=15) == [10, 8, 4, 15]
    assert widths(40, a=3, b=20, c=4, d=6) == [5, 20, 4, 8]
    assert widths(40, a=10, b=8, c=12, d=6) == [10, 8, 12, 7]
    assert widths(40, a=10, b=30, c=4, d=15) == [10, 8, 4, 15]


def test_chosen_columns_replace_the_usual_ones() -> None:
    assert ids(40, "more", "cost") == [("cost", 6), ("more", 5)]


def test_only_some_columns_sort() -> None:
    assert [column.id for column in sortable_columns(COLUMNS)] == ["cost"]


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("lap", True),
        ("LAPTOP default", True),
        ("laptop batch", False),
        ("!batch", True),
        ("!laptop", False),
        ("!", True),
    ],
)
def test_all_words_must_be_there_and_negated_ones_not(text: str, fits: bool) -> None:
    assert row_filter(text)("Laptop default active") == fits


class Fruits(PageListing[str]):
    noun = "fruit"


def test_the_filter_looks_once_in_all_columns_without_numbers() -> None:
    texts: list[str] = []

    def text(row: str) -> str:
        texts.append(row)
        return row

    columns = [Column("name", "Name", 8, text), Column("size", "Size", 4, text, right=True)]
    fruits = Fruits()
    fruits.session = console().session
    assert fruits.search_text("apple", columns).split() == ["apple"]
    assert texts == ["apple"]
