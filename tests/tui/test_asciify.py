from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from tui.glyphs import Asciify, ascii_of


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
