from tui.listing import RowCache


def test_equal_rows_are_the_same_object_as_before() -> None:
    steady = RowCache[tuple[str, int]](lambda row: row[0])
    first = steady.keep([("a", 1), ("b", 1)])
    second = steady.keep([("a", int("1")), ("b", 2)])
    assert second == [("a", 1), ("b", 2)]
    assert second[0] is first[0]
    assert second[1] is not first[1]


def test_rows_that_are_gone_are_forgotten() -> None:
    steady = RowCache[tuple[str, int]](lambda row: row[0])
    first = steady.keep([("a", 1)])
    steady.keep([])
    assert steady.keep([("a", int("1"))])[0] is not first[0]
