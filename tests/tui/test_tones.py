from tui.text import TONES, content, lines


def test_texts_are_put_together_with_their_styles() -> None:
    made = content(("bad news", "bad"), " and more")
    assert made.plain == "bad news and more"
    assert made.spans[0].style == TONES["bad"]


def test_markup_is_text() -> None:
    assert content(("[bold]x[/]", "ok"), "[@click=app.quit]y[/]").plain == "[bold]x[/][@click=app.quit]y[/]"


def test_lines_stand_under_each_other() -> None:
    assert lines(content("a"), content("b")).plain == "a\nb"
