"""The palette: everything is found by name from every page, and run where it belongs."""

import asyncio

import pytest
from msgspec.structs import replace
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import OptionList

from tests.tui.owner import KEY, Owner, press, screen, settle, shown
from tests.tui.stage import wait_until
from tui.actions import ACTIONS, PAGES
from tui.app import Console
from tui.exit_status import ExitStatus
from tui.keymap import Keymap
from tui.pages.base import page_class
from tui.palette import PaletteEntry, combined_entries, entity_entries, entries, named_rows, score_of
from tui.widgets.form import Form


async def choose(app: Console, pilot: Pilot[ExitStatus], query: str) -> None:
    """Type into the palette, take the first hit, and let it happen."""
    await pilot.press("ctrl+p", *(("space" if letter == " " else letter) for letter in query))
    async with asyncio.timeout(20):
        while not open_palette(app) or not app.screen.query_one("CommandList", OptionList).option_count:
            await pilot.pause(0.02)
        await pilot.pause(0.5)
        while open_palette(app):
            await pilot.press("enter")
            await pilot.pause(0.1)
    await settle(app, pilot)


def open_palette(app: Console) -> bool:
    return isinstance(app.screen, CommandPalette)


def texts(app: Console) -> list[str]:
    return [entry.text for entry in (*entries(app), *entity_entries(app))]


async def test_the_open_list_is_sorted_by_what_was_typed() -> None:
    async with shown("live") as (app, pilot, _):
        await choose(app, pilot, "sort cost")
        view = app.session.state.view("live")
        assert (view.sort, view.reverse) == ("cost", False)
        await choose(app, pilot, "sort cost")
        assert (view.sort, view.reverse) == ("cost", True)
        assert "Sort by Call" in texts(app)
        await app.action_page("usage")
        assert not [text for text in texts(app) if text.startswith("Sort by")]


async def test_the_selected_entry_is_seen_without_colour() -> None:
    async with shown("live", colour=False) as (app, pilot, _):
        await pilot.press("ctrl+p")
        await wait_until(pilot, lambda: open_palette(app))
        found = app.screen.query_one("CommandList", OptionList)
        await wait_until(pilot, lambda: found.highlighted is not None)
        await settle(app, pilot)
        attributes = [{(s.style.underline, s.style.reverse) for s in found.render_line(y) if s.style} for y in (0, 2)]
        assert attributes[0] != attributes[1]


@pytest.mark.parametrize("page", [info.id for info in PAGES])
async def test_every_verb_of_every_page_is_offered_from_everywhere(page: str) -> None:
    async with shown(page) as (app, _, _):
        offered = {text.partition("  (")[0].rpartition(": ")[2] for text in texts(app)}
        wanted = {
            action.label
            for info in PAGES
            for action in ACTIONS
            if action.scope == "app" or action in page_class(info.id).actions(Keymap())
        }
        assert wanted - offered == set()


async def test_settings_themes_and_every_kind_of_name_are_offered() -> None:
    async with shown("usage") as (app, _, _):
        offered = set(texts(app))
        names = {"laptop", "default", "anthropic", "gpt-5-mini", "Price of gpt-5-mini"}
        assert {"Setting: Keep records", "Setting: Theme", "Theme: light", *names} <= offered
        assert {page for page, _, _ in named_rows(app.session.board)} == {"tokens", "channels", "groups", "models"}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("laptop rotate", "laptop: Rotate  (R)"),
        ("rotate laptop", "laptop: Rotate  (R)"),
        ("disable laptop", "laptop: On/off  (space)"),
        ("anthropic test", "anthropic: Test  (t)"),
        ("gpt-5-mini price", "gpt-5-mini: Price  (e)"),
    ],
)
async def test_a_name_and_a_word_find_what_can_be_done_with_it(query: str, text: str) -> None:
    async with shown("usage") as (app, _, _):
        found = {entry.text: score_of(query, entry) for entry in combined_entries(app, query)}
        assert found[text] > 0
        assert found[text] == max(found.values())


async def test_the_action_of_another_page_is_run_there() -> None:
    async with shown("live") as (app, pilot, _):
        await choose(app, pilot, "add money")
        assert app.page.id == "account"
        assert "Add money" in screen(app)
        assert isinstance(app.screen, Form)


async def test_a_setting_is_opened_for_editing() -> None:
    async with shown("live") as (app, pilot, _):
        await choose(app, pilot, "keep records")
        await wait_until(pilot, lambda: isinstance(app.screen, Form))
        assert app.page.id == "settings"
        assert "Keep records" in screen(app)


async def test_an_action_with_a_name_selects_it_and_acts() -> None:
    async with shown("usage") as (app, pilot, owner):
        await choose(app, pilot, "laptop rotate")
        assert "Rotate the key of laptop?" in screen(app)
        await press(app, pilot, "y")
        assert owner.did == [("rotate_token", "tok_laptop")]
        assert KEY in screen(app)


async def test_a_name_that_the_filter_hides_is_shown() -> None:
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "slash", "=phone", "enter")
        await choose(app, pilot, "laptop")
        assert app.page.table.current.name == "laptop"


async def test_a_call_is_found_by_its_id_and_opened() -> None:
    owner = Owner()
    wanted = owner.records[3].id
    async with shown("models", owner) as (app, pilot, _):
        await choose(app, pilot, wanted)
        assert app.page.id == "live"
        assert app.page.table.current.id == wanted
        assert app.page.view.detail


@pytest.mark.parametrize("typed", [slice(None), slice(6, 18)], ids=["the id", "a part of it"])
async def test_a_call_that_is_only_recorded_is_found_too(typed: slice) -> None:
    owner = Owner(recent=2)
    wanted = owner.records[-1].id
    async with shown("models", owner) as (app, pilot, _):
        assert wanted not in app.session.board.calls.by_id
        await choose(app, pilot, wanted[typed])
        assert app.page.view.filter == f"id:{wanted}"
        await wait_until(pilot, lambda: getattr(app.page.table.current, "id", "") == wanted)


def entry(text: str, about: str = "") -> PaletteEntry:
    return PaletteEntry(text, about, lambda: None)


def test_better_matches_come_first() -> None:
    order = ["Theme  (T)", "Theme: light", "Setting: Theme", "Quit the them e"]
    found = sorted(map(entry, order), key=lambda one: -score_of("theme", one))
    assert [one.text for one in found][:3] == order[:3]


def test_an_action_that_begins_with_the_word_comes_before_a_token_of_that_name() -> None:
    action, token = replace(entry("First steps"), weight=1.3), replace(entry("first"), weight=1.2)
    assert score_of("first", action) > score_of("first", token)
    assert score_of("firs", token) > score_of("fir", entry("A firm"))


def test_words_of_the_explanation_count() -> None:
    assert score_of("balance", entry("Add money", "top up or correct the balance")) > 0
    assert score_of("zebra", entry("Add money", "top up or correct the balance")) == 0


def test_letters_in_order_count_least() -> None:
    assert 0 < score_of("adm", entry("Add money")) < score_of("mon", entry("Add money"))


def test_many_names_are_searched_quickly() -> None:
    """Linear in the text: no backtracking."""
    assert score_of("a" * 200 + "b", entry("a" * 300)) == 0


@pytest.mark.every_frame
@pytest.mark.parametrize("key", ["pageup", "pagedown"])
async def test_a_palette_without_room_for_its_list_has_no_pages(key: str) -> None:
    async with shown("tokens", size=(20, 2)) as (app, pilot, _):
        await press(app, pilot, "colon", key, "escape")
        assert (app.crash, app.screen.is_modal) == (None, False)
