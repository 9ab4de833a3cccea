from tui.listing import Column, fit, sorting

COLUMNS = [
    Column[str]("name", "Name", 10, str, flex=True),
    Column[str]("note", "Note", 10, str, rank=3),
    Column[str]("cost", "Cost", 6, str, rank=1, right=True, sort=len),
    Column[str]("more", "More", 5, str, rank=9, extra=True),
]


def ids(width: int, *chosen: str) -> list[tuple[str, int]]:
    return [(place.column.id, place.width) for place in fit(COLUMNS, width, chosen)]


def test_columns_leave_by_rank_when_it_gets_narrow() -> None:
    assert ids(28) == [("name", 10), ("note", 10), ("cost", 6)]
    assert ids(27) == [("name", 20), ("cost", 6)]
    assert ids(16) == [("name", 16)]


def test_what_never_leaves_stays_however_narrow_it_is() -> None:
    assert ids(3) == [("name", 10)]


def test_flexible_columns_take_what_is_left() -> None:
    assert ids(40)[0] == ("name", 22)


def test_chosen_columns_replace_the_usual_ones() -> None:
    assert ids(40, "more", "cost") == [("cost", 6), ("more", 5)]


def test_only_some_columns_sort() -> None:
    assert [column.id for column in sorting(COLUMNS)] == ["cost"]
