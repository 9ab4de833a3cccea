from rich.cells import cell_len

from tui.text import (
    TONES,
    TextCard,
    cell,
    content,
    cut,
    cut_middle,
    cut_pair,
    fit_groups,
    lines,
    safe,
    safe_lines,
    side_by_side,
)


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


def test_a_name_that_is_cut_keeps_its_end() -> None:
    assert [cut_middle("claude-proj-a12b97", width) for width in (18, 10, 4, 2)] == [
        "claude-proj-a12b97",
        "claud…2b97",
        "cl…7",
        "c…",
    ]
    assert cut_middle("名前名前名前", 7) == "名 …前"


def test_two_names_share_the_room() -> None:
    pair = "claude-haiku-4-5", "gpt-4o"
    assert [cut_pair(*pair, width) for width in (26, 25, 18, 12)] == [
        "claude-haiku-4-5 as gpt-4o",
        "claude-…iku-4-5 as gpt-4o",
        "clau…4-5 as gpt-4o",
        "cl…5 as gp…o",
    ]
    assert cut_pair("gpt-4o", "claude-sonnet-4-5", 18) == "gpt-4o as clau…4-5"
    assert cut_pair("claude-haiku-4-5", "claude-sonnet-4-5", 24) == "claud…-4-5 as claud…-4-5"
    assert all(cell_len(cut_pair("名前名前", "名前名前", width)) <= width for width in range(6, 21))
    assert cell_len(cut_middle("名前名前名前", 7)) == 6


def test_numbers_stand_at_the_right() -> None:
    assert cell("12", 4, right=True) == "  12"


def test_texts_are_put_together_with_their_styles() -> None:
    made = content(("bad news", "bad"), " and more")
    assert made.plain == "bad news and more"
    assert made.spans[0].style == TONES["bad"]


def test_markup_is_text() -> None:
    assert content(("[bold]x[/]", "ok"), "[@click=app.quit]y[/]").plain == "[bold]x[/][@click=app.quit]y[/]"


def test_lines_stand_under_each_other() -> None:
    assert lines(content("a"), content("b")).plain == "a\nb"


def test_labels_come_first() -> None:
    card = TextCard(40)
    card.row("cost", "$1")
    card.row("", ("held", "dim"))
    assert card.content().plain == " cost    $1\n         held"


def test_long_lines_go_on_under_their_beginning() -> None:
    card = TextCard(22)
    card.row("error", "one two three four five")
    assert [row.rstrip() for row in card.content().plain.splitlines()] == [
        " error   one two three",
        "         four five",
    ]


def test_a_line_without_a_label_hangs_a_little() -> None:
    card = TextCard(14)
    card.line("one two three")
    assert [row.rstrip() for row in card.content().plain.splitlines()] == [" one two", "   three"]


def test_an_empty_line_is_a_line() -> None:
    card = TextCard(20)
    card.line("")
    assert card.content().plain.strip() == ""


def test_a_line_loses_whole_parts_where_there_is_no_room() -> None:
    groups = [[("one", "")], [(" two", "dim")], [(" 3", "")]]
    assert [len(fit_groups(width, *groups)) for width in (9, 8, 6, 1)] == [3, 2, 1, 1]


def test_blocks_stand_side_by_side() -> None:
    assert [line.plain for line in side_by_side([content("a")], [content("b"), content("c")], 4)] == ["a   b", "    c"]
