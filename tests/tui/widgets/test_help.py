import pytest

from tests.tui.owner import press, screen, shown
from tests.tui.widgets.stage import asked, press_keys
from tests.web.door import until
from tui.actions import actions_in
from tui.widgets.help import help_dialog, help_text, sections

LIVE = [*actions_in("live"), *actions_in("list"), *actions_in("app")]


def text(width: int = 76) -> str:
    return help_text(sections("Live", LIVE), width).plain


def test_every_key_of_the_page_is_there() -> None:
    shown_text = " ".join(text(200).split())
    assert [a.id for a in LIVE if a.help not in shown_text and a.help not in " ".join(text(76).split())] == []


def test_commands_are_listed_apart_from_keys() -> None:
    before, _, after = text().partition("The same as a command")
    assert "usage tail" not in before
    assert "usage tail" in after


def test_commands_name_what_the_page_is_about() -> None:
    parts = dict(sections("Channels", list(actions_in("entity")), "channel"))
    assert ("", "On/off", "channel enable NAME") in parts["The same as a command: tollkeeper ..."]


def test_the_words_of_the_filter_are_those_of_the_page() -> None:
    parts = dict(sections("Tokens", list(actions_in("tokens", "list"))))
    assert [key for key, _, _ in parts["Filter words"]] == ["words", "!word"]
    assert "tok: grp: ch:" in text()


@pytest.mark.parametrize("width", [44, 54, 72, 126, 180])
def test_no_line_of_the_help_is_wider_than_the_screen(width: int) -> None:
    assert max(line.cell_length for line in help_text(sections("Live", LIVE), width).split()) <= width


def test_a_wide_screen_shows_two_columns() -> None:
    assert len(text(126).splitlines()) < 0.7 * len(text(76).splitlines())


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (140, 40), (200, 50)])
async def test_no_line_of_it_is_cut(size: tuple[int, int]) -> None:
    async with shown("live", size=size) as (app, pilot, _):
        await press(app, pilot, "question_mark")
        rows = screen(app).splitlines()
        assert any("Keys: Live" in row for row in rows)
        assert [row for row in rows if len(row) > size[0]] == []


async def test_the_help_scrolls_and_closes() -> None:
    async with asked(help_dialog("Live", LIVE, "call"), size=(80, 24)) as (app, pilot):
        await press_keys(pilot, "space")
        assert app.screen.query_one("TextBlock").scroll_offset.y > 0
        await press_keys(pilot, "escape")
        assert app.answers == [None]


@pytest.mark.parametrize(("first", "last"), [("g", "G"), ("home", "end")])
async def test_keys_of_a_list_go_to_its_first_and_last_line(first: str, last: str) -> None:
    async with asked(help_dialog("Live", LIVE, "call"), size=(80, 24)) as (app, pilot):
        pane = app.screen.query_one("TextBlock")
        await pilot.press(last)
        await until(lambda: pane.scroll_offset.y == pane.max_scroll_y > 0)
        await pilot.press(first)
        await until(lambda: pane.scroll_offset.y == 0)
