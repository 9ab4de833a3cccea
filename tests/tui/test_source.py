from tui.listing import Column, ListSource


def made() -> ListSource[str]:
    source: ListSource[str] = ListSource(str.lower)
    source.put(["b", "A", "c"])
    return source


def rows(source: ListSource[str]) -> list[str | None]:
    return [source.row(i) for i in range(source.count)]


def test_rows_come_in_their_order() -> None:
    assert rows(made()) == ["b", "A", "c"]


def test_a_row_is_found_by_its_key() -> None:
    source = made()
    assert source.key(1) == "a"
    assert source.index("a") == 1
    assert source.index("z") is None


def test_a_filter_hides_rows() -> None:
    source = made()
    source.wanted = lambda row: row != "b"
    source.arrange()
    assert rows(source) == ["A", "c"]
    assert source.hidden == 1


def test_only_some_rows_can_be_kept() -> None:
    source = made()
    source.keep({"a", "c"})
    assert rows(source) == ["A", "c"]
    source.keep(None)
    assert rows(source) == ["b", "A", "c"]


def test_rows_can_be_sorted_both_ways() -> None:
    source = made()
    column = Column("name", "Name", 5, str, sort=str.lower)
    source.order(column, reverse=False)
    assert rows(source) == ["A", "b", "c"]
    source.order(column, reverse=True)
    assert rows(source) == ["c", "b", "A"]
