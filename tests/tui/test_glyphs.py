import msgspec
import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from tui.glyphs import ASCII, UNICODE, Asciify, Glyphs, ascii_of, wants_ascii

WIDE = ("pause", "blocks", "parts", "fills", "shades", "marks", "axis", "enter", "ascii")


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_marks_are_one_cell_wide(glyphs: Glyphs) -> None:
    marks = {name: mark for name, mark in msgspec.structs.asdict(glyphs).items() if name not in WIDE}
    assert {name: cell_len(mark) for name, mark in marks.items()} == dict.fromkeys(marks, 1)


def test_marks_of_charts_differ() -> None:
    for glyphs in (UNICODE, ASCII):
        assert len({*glyphs.fills, glyphs.nothing}) == len(glyphs.fills) + 1
        assert not glyphs.descending.isalnum()


@pytest.mark.parametrize("mirrored", ["▞▚", "▌▐", "▙▟", "▛▜"])
def test_no_fill_is_the_mirror_image_of_another(mirrored: str) -> None:
    """In a row they would be the same pattern."""
    assert not set(mirrored) <= set(UNICODE.fills)


def test_ascii_marks_are_ascii() -> None:
    assert all(str(mark).isascii() for mark in msgspec.structs.astuple(ASCII))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_scales_have_nine_steps_and_series_seven_fills(glyphs: Glyphs) -> None:
    assert (len(glyphs.blocks), len(glyphs.parts), len(set(glyphs.fills))) == (9, 9, 7)


@pytest.mark.parametrize(
    ("environ", "ascii_only"),
    [
        ({}, False),
        ({"LANG": "C"}, True),
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "POSIX"}, True),
        ({"LANG": "C", "TOLLKEEPER_ASCII": "0"}, False),
        ({"LANG": "de_DE.UTF-8", "TOLLKEEPER_ASCII": "1"}, True),
    ],
)
def test_the_environment_decides(environ: dict[str, str], ascii_only: bool) -> None:
    assert wants_ascii(environ) == ascii_only


def test_lines_keep_their_widths() -> None:
    for text in ("plain", "╭──╮ │ ✓200 │", "日本語 x", "▁▂▃█ …", "e\u0301"):
        assert cell_len(ascii_of(text)) == cell_len(text), text
        assert ascii_of(text).isascii()


def test_frames_and_marks_have_a_likeness() -> None:
    assert ascii_of("╭─╮│→…") == "+-+|>~"
    assert ascii_of("日") == "??"


def test_styles_stay() -> None:
    bold = Style(bold=True)
    (segment,) = Asciify().apply([Segment("│", bold)], Color(0, 0, 0))
    assert segment == Segment("|", bold)
