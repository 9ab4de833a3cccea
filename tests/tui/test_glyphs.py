import subprocess
import sys

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from tui import glyphs
from tui.glyphs import Asciify, ascii_of, wants_ascii

MARKS = {name: mark for name, mark in vars(glyphs).items() if name.isupper() and isinstance(mark, str)}


def test_marks_are_one_cell_wide_in_ascii_too() -> None:
    for name, mark in MARKS.items():
        assert cell_len(mark) == len(mark) == len(ascii_of(mark)), name
        assert "?" not in ascii_of(mark), name


@pytest.mark.parametrize("fills", [glyphs.FILLS, ascii_of(glyphs.FILLS)])
def test_each_series_has_its_own_fill(fills: str) -> None:
    assert len({*fills, glyphs.NOTHING, ascii_of(glyphs.NOTHING)}) == 7 + 2


def test_shades_and_states_differ_in_ascii_too() -> None:
    assert ascii_of(glyphs.SHADES) == "-:%=#"
    states = (glyphs.ON, glyphs.OFF, glyphs.FAILED, glyphs.WARNING, glyphs.HALF, glyphs.OK)
    assert ascii_of("".join(states)) == "*ox!%+"
    assert ascii_of(glyphs.ASCENDING + glyphs.DESCENDING) == "/\\"


@pytest.mark.parametrize("mirrored", ["▞▚", "▌▐", "▙▟", "▛▜"])
def test_no_fill_is_the_mirror_image_of_another(mirrored: str) -> None:
    """In a row they would be the same pattern."""
    assert not set(mirrored) <= set(glyphs.FILLS)


def test_lines_of_a_chart_are_stars_and_its_grid_is_fainter() -> None:
    assert ascii_of("⡠⠊⣿ ⠁▔") == "*** ' "


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
    assert wants_ascii(environ, None) == ascii_only
    assert wants_ascii(environ, setting=not ascii_only) != ascii_only  # what was chosen in the console wins


@pytest.mark.parametrize(
    ("environ", "ascii_only"),
    [({"LANG": "C"}, "True"), ({"LC_ALL": "POSIX"}, "True"), ({"LANG": "C.UTF-8"}, "False"), ({}, "False")],
)
def test_python_replaces_the_locale_c_but_it_still_decides(environ: dict[str, str], ascii_only: str) -> None:
    """Python sets LC_CTYPE to C.UTF-8 in a process that starts in the locale C."""
    program = "import os; from tui.glyphs import wants_ascii; print(wants_ascii(os.environ, None))"
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stdout.strip() == ascii_only


def test_lines_keep_their_widths() -> None:
    for text in ("plain", "╭──╮ │ ✓200 │", "日本語 x", "▁▂▃█ …", "e\u0301"):
        assert cell_len(ascii_of(text)) == cell_len(text), text
        assert ascii_of(text).isascii()


def test_frames_and_marks_have_a_likeness() -> None:
    assert ascii_of("╭─╮│→…") == "+-+|>~"
    assert ascii_of("日") == "??"


def test_a_glyph_in_ascii_keeps_its_style() -> None:
    bold = Style(bold=True)
    (segment,) = Asciify().apply([Segment("│", bold)], Color(0, 0, 0))
    assert segment == Segment("|", bold)
