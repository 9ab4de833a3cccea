from rich.cells import cell_len

from tui.text import cell, cut, safe, safe_lines


def test_control_characters_do_not_pass() -> None:
    assert safe("a\x1b]0;pwned\x07b\u202ec") == "a�]0;pwned�b�c"


def test_variation_selectors_are_left_out() -> None:
    assert safe("\u2764\ufe0f!") == "\u2764!"


def test_lines_stay_lines_and_are_bounded() -> None:
    assert safe_lines("a\nb\x1b") == "a\nb�"
    assert safe_lines("\n".join("abc"), lines=2) == "a\nb\n…"


def test_cells_have_their_width_exactly() -> None:
    for text in ("", "abc", "abcdefgh", "日本語日本語", "e\u0301" * 9, "👩🏽 x"):
        for width in range(1, 8):
            assert cell_len(cell(safe(text), width)) == width, (text, width)
            assert cell_len(cell(safe(text), width, right=True)) == width


def test_what_is_cut_ends_in_an_ellipsis() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("日本語", 4) == "日 …"
    assert cut("abcdef", 4, "~") == "abc~"
    assert cut("abcd", 4) == "abcd"


def test_numbers_stand_at_the_right() -> None:
    assert cell("12", 4, right=True) == "  12"
