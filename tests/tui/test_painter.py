from rich.style import Style
from textual.strip import Strip

from tui.glyphs import UNICODE
from tui.listing import Column, fit
from tui.live_table import Look, Painter, selected, text_of

COLUMNS = [
    Column[tuple[str, int]]("name", "Name", 6, lambda row: row[0], flex=True),
    Column[tuple[str, int]]("size", "Size", 5, lambda row: str(row[1]), right=True, tone=lambda _: "bad"),
]
STYLES = {"bad": Style(color="red"), "cursor": Style(reverse=True), "rest": Style(underline=True)}


def painter(width: int = 14) -> Painter[tuple[str, int]]:
    made: Painter[tuple[str, int]] = Painter(lambda name: STYLES.get(name, Style()), UNICODE)
    made.place(fit(COLUMNS, width - 1), width)
    return made


def test_cells_are_cut_and_padded_to_their_columns() -> None:
    strip = painter().row(1, ("a long name", 42), Look())
    assert strip.text == " a long…    42"
    assert strip.cell_length == 14


def test_titles_stand_over_their_columns_and_show_the_sorting() -> None:
    assert painter().head("size", reverse=True).text == " Name    Size▼"


def test_a_tone_colours_its_cell_only() -> None:
    segments = list(painter().row(1, ("a", 42), Look()))
    assert [segment.text.strip() for segment in segments if segment.style == STYLES["bad"]] == ["42"]


def test_the_cursors_line_has_the_cursors_colours() -> None:
    line = painter().row(1, ("a", 42), Look(cursor=True, focus=True))
    assert {segment.style for segment in line} == {STYLES["cursor"]}


def test_a_marked_row_says_so() -> None:
    assert painter().row(1, ("a", 42), Look(marked=True)).text.startswith("◆")


def test_the_same_row_is_painted_once() -> None:
    made, row = painter(), ("a", 42)
    assert made.row(1, row, Look()) is made.row(1, row, Look())
    assert made.row(1, row, Look()) is not made.row(1, row, Look(cursor=True))


def test_a_row_that_is_not_here_yet_is_an_ellipsis() -> None:
    assert painter().missing(Look()).text.strip() == "…"
    assert painter().blank().text.strip() == ""


def test_a_selection_is_a_span_of_cells() -> None:
    strip = Strip.blank(4).join([Strip(painter().row(1, ("abcdef", 42), Look()))])
    chosen = selected(strip, (2, 5), Style(reverse=True))
    assert [segment.text for segment in chosen if segment.style and segment.style.reverse] == ["bcd"]
    assert chosen.text == strip.text
    assert selected(strip, (2, -1), Style(reverse=True)).text == strip.text


def test_the_text_of_a_line_has_no_space_at_its_end() -> None:
    assert text_of(painter().row(1, ("a", 42), Look())) == " a          42"
