from tests.tui.widgets.stage import WidgetStage
from tui.actions import actions_in
from tui.widgets.help import Help, help_text


def test_every_key_of_the_page_is_there_with_its_command() -> None:
    page, rows = list(actions_in("live")), list(actions_in("list"))
    shown = help_text(page, rows, 90).plain
    for action in (*page, *rows, *actions_in("app")):
        assert action.help in " ".join(shown.split()), action.id
    assert "tollkeeper usage tail" in " ".join(shown.split())


def test_commands_name_what_the_page_is_about() -> None:
    assert "tollkeeper channel enable NAME" in " ".join(
        help_text(list(actions_in("entity")), [], 90, "channel").plain.split()
    )


def test_the_filters_words_are_explained() -> None:
    assert "tok: grp: ch:" in help_text([], [], 90).plain


def test_it_fits_its_width() -> None:
    assert max(line.cell_length for line in help_text(list(actions_in("live")), [], 60).split()) <= 60


async def test_it_scrolls_and_closes() -> None:
    app = WidgetStage()
    async with app.run_test(size=(80, 24)) as pilot:
        app.ask(Help(["live"], ["pause"], "call"))
        await pilot.pause()
        await pilot.press("j")
        await pilot.pause()
        assert app.screen.query_one("Detail").scroll_offset.y > 0
        await pilot.press("escape")
        await pilot.pause()
        assert app.answers == [None]
