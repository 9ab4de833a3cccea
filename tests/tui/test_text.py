from tui.text import TONES, TextCard, content, fit_groups, lines, safe, safe_lines, side_by_side


def test_control_characters_variation_selectors_and_skin_tones_do_not_pass() -> None:
    assert safe("a\x1b]0;pwned\x07b\u202ec") == "a�]0;pwned�b�c"
    assert safe("\u2764\ufe0f! \U0001f44d\U0001f3fd") == "\u2764! \U0001f44d"
    assert safe_lines("a\nb\x1b") == "a\nb�"
    assert safe_lines("\n".join("abc"), lines=2) == "a\nb\n…"


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
