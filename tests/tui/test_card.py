from tui.text import Card


def test_labels_stand_in_front() -> None:
    card = Card(40)
    card.row("cost", "$1")
    card.row("", ("held", "dim"))
    assert card.content().plain == " cost    $1\n         held"


def test_long_lines_go_on_under_their_beginning() -> None:
    card = Card(22)
    card.row("error", "one two three four five")
    assert [row.rstrip() for row in card.content().plain.splitlines()] == [
        " error   one two three",
        "         four five",
    ]


def test_a_line_without_a_label_hangs_a_little() -> None:
    card = Card(14)
    card.line("one two three")
    assert [row.rstrip() for row in card.content().plain.splitlines()] == [" one two", "   three"]


def test_an_empty_line_is_a_line() -> None:
    card = Card(20)
    card.line("")
    assert card.content().plain.strip() == ""
