from textual import events
from textual.command import CommandPalette
from textual.widgets import Input

from tests.tui.owner import Owner
from tests.tui.stage import console, token
from tests.tui.test_app import shown, until
from tui.global_actions import places


def test_everything_with_a_name_is_found() -> None:
    board = console().session.board
    board.apply(Owner().snapshot())
    pages = {page for _, page, _ in places(board)}
    assert pages == {"tokens", "channels", "groups", "models"}
    assert ("laptop", "tokens", "tok_laptop") in list(places(board))


async def test_choosing_a_name_goes_to_its_row() -> None:
    async with shown(console(Owner())) as (app, pilot):
        await pilot.press("ctrl+p", *"deepse")
        await pilot.pause(0.3)
        await pilot.press("enter", "enter")
        await until(app, pilot, lambda: app.page.id == "channels" and app.page.query_one("#table").has_focus)
        table = app.page.query_one("#table")
        assert getattr(table, "source").key(getattr(table, "cursor")) == "ch_deepseek"  # noqa: B009 - any table


async def test_markup_in_a_name_is_text() -> None:
    owner = Owner()
    owner.tokens_now = [token("[@click=app.quit]evil[/]")]
    async with shown(console(owner)) as (app, pilot):
        await pilot.press("ctrl+p", *"evil")
        await pilot.pause(0.5)
        assert isinstance(app.screen, CommandPalette)
        drawn = [strip.text for strip in app.screen._compositor.render_strips()]  # noqa: SLF001 - the whole screen
        assert any("[@click=app.quit]evil[/]" in line for line in drawn)


async def test_what_is_typed_behind_a_choice_goes_where_it_leads() -> None:
    async with shown(console(Owner())) as (app, pilot):
        for char in ":Groups\r/bat":
            key = {":": "colon", "\r": "enter", "/": "slash"}.get(char, char)
            app.post_message(events.Key(key, char))
        await until(app, pilot, lambda: app.page.id == "groups" and app.page.query_one(Input).value == "bat")
