from pathlib import Path

from textual import events
from textual.command import CommandList, CommandPalette
from textual.widgets import Input

from gateway.domain.settings import Settings
from tests.tui.owner import screen, shown
from tests.tui.stage import token, words
from tests.tui.test_app import farewell, until
from tui.actions import PAGES
from tui.app import Console
from tui.global_actions import apply_theme, restart, save_state, use_symbols
from tui.saved_state import NAME, SavedState, load, save
from tui.widgets.text_block import TextDialog


async def test_without_colours_what_was_remembered_stays() -> None:
    async with shown("live", theme="light", colour=False) as (app, _, _):
        assert (app.theme, app.session.state.theme) == ("plain", "light")


async def test_starting_a_server_that_runs_is_nothing() -> None:
    async with shown("live") as (app, pilot, _):
        restart(app)
        await pilot.pause()
        assert words(app) == ["The server is running."]


async def test_what_is_remembered_is_written_down_while_it_runs(tmp_path: Path) -> None:
    async with shown("live", home=tmp_path) as (app, _, _):
        apply_theme(app, "light")
        save_state(app)
        assert load(tmp_path)[0].theme == "light"
        (tmp_path / NAME).unlink()
        save_state(app)
        assert not (tmp_path / NAME).exists()


async def test_a_theme_that_another_console_saved_meanwhile_stays(tmp_path: Path) -> None:
    async with shown("live", home=tmp_path) as (app, pilot, _):
        save(tmp_path, SavedState(theme="contrast"))
        await pilot.press("4")
        save_state(app)
        assert (load(tmp_path)[0].theme, load(tmp_path)[0].page) == ("contrast", "channels")


async def test_switched_while_it_runs_the_screen_is_as_if_it_had_begun_in_ascii() -> None:
    """Except for the Settings page, which shows that it was switched."""
    found: list[list[str]] = []
    pages = [page for page in PAGES if page.id != "settings"]
    for begins in (False, True):
        async with shown("live", in_ascii=begins) as (app, pilot, _):
            for page in pages:
                await app.action_page(page.id)
                await pilot.pause()
            if not begins:
                use_symbols(app, "ascii")
                await pilot.pause()
                app.clear_notifications()
            screens = []
            for page in pages:
                await app.action_page(page.id)
                await until(app, pilot, lambda: app.page.id == page.id)  # noqa: B023 - it is called at once
                screens.append(screen(app))
            found.append(screens)
    assert found[0] == found[1]


async def test_help_is_the_pages_own() -> None:
    async with shown("live") as (app, pilot, _):
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, TextDialog)
        await pilot.press("question_mark")
        await pilot.pause()
        assert not app.screen.is_modal


async def test_detaching_leaves_in_any_case() -> None:
    async with shown("live", settings_now=Settings(stop_on_leave=True)) as (app, pilot, _):
        app.action_act("detach")
        await pilot.pause()
    assert farewell(app).startswith("console closed; still serving")


async def test_markup_in_a_name_is_text() -> None:
    async with shown("live", tokens_now=[token("[@click=app.quit]evil[/]")]) as (app, pilot, _):
        await pilot.press("ctrl+p", *"evil")
        await pilot.pause(0.5)
        assert isinstance(app.screen, CommandPalette)
        drawn = [strip.text for strip in app.screen._compositor.render_strips()]  # noqa: SLF001 - the whole screen
        assert any("[@click=app.quit]evil[/]" in line for line in drawn)


def first_hit(app: Console) -> str:
    """What enter would choose in the palette."""
    hits = app.screen.query(CommandList)
    return str(hits.first().get_option_at_index(0).prompt) if hits and hits.first().option_count else ""


async def test_what_is_typed_behind_a_choice_goes_where_it_leads() -> None:
    async with shown("live") as (app, pilot, _):
        await until(app, pilot, lambda: "Groups" in first_hit(app), "colon", *"Groups")
        for key, char in (("enter", "\r"), ("slash", "/"), *zip("bat", "bat", strict=True)):
            app.post_message(events.Key(key, char))
        await until(app, pilot, lambda: app.page.id == "groups" and app.page.query_one(Input).value == "bat")
