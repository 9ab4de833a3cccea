"""The Settings page: every setting, its value, default and meaning; edited in place and reset."""

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from gateway.domain.errors import BadRequest, Unavailable
from gateway.domain.fields import SETTINGS
from gateway.domain.settings import ExpiringRecords, Settings
from gateway.domain.units import Millis
from tests.tui.owner import Owner, press, screen, settle, shown, text_of, until
from tests.tui.stage import NOW, console, status, words
from tui.app import Console
from tui.exit_status import ExitStatus
from tui.pages.base import AnyPage
from tui.pages.list_page import select_row
from tui.pages.settings import ORDER, SettingsPage, gateway_rows, server_rows
from tui.palette import entries
from tui.preferences import NAME, Preferences


async def act(app: Console, pilot: Pilot[ExitStatus], name: str, *keys: str) -> None:
    """Select a setting and press keys."""
    select_row(app.page, name)
    await press(app, pilot, *keys)


def row_of(app: Console, name: str) -> Any:
    return next(row for row in app.page.rows() if row.name == name)


def test_every_setting_of_the_gateway_is_listed() -> None:
    rows = {row.name: row for row in gateway_rows(Settings())}
    assert set(rows) == set(Settings.__struct_fields__) == {field.name for field in SETTINGS}
    assert [row.name for row in rows.values() if not (row.meaning and row.value and row.default and row.change)] == []
    assert [row.name for row in rows.values() if row.changed or row.section not in ORDER] == []
    assert rows["queue_s"].section == "Limits"


def test_a_changed_setting_shows_value_default_and_unit() -> None:
    rows = {row.name: row for row in gateway_rows(Settings(keep_days=30))}
    row = rows["keep_days"]
    assert (row.value, row.default, row.unit, row.changed) == ("30 days", "400 days", "days", True)
    assert row.change == "tollkeeper settings set --keep-days NUMBER"


async def test_the_server_is_asked_for_them_again_only_after_an_error_or_a_change() -> None:
    class Counting(Owner):
        count = 0

        async def settings(self) -> Settings:
            self.count += 1
            if self.count == 1:
                raise Unavailable("the server is busy")
            return Settings()

    owner = Counting()
    async with shown("settings", owner) as (app, pilot, _):
        await until(app, pilot, "today $")
        owner.count = 0
        app.page.fetched = None
        await settle(app, pilot)
        app.session.now = lambda: Millis(NOW + 60_000)
        await settle(app, pilot)
        assert owner.count == 2
        app.session.board.tables_version += 1
        await settle(app, pilot)
        assert owner.count == 3


@pytest.mark.parametrize("size", [(80, 24), (140, 40), (200, 50)])
async def test_the_page_explains_the_selected_setting(size: tuple[int, int]) -> None:
    async with shown("settings", size=size) as (app, pilot, _):
        await press(app, pilot)
        await act(app, pilot, "queue_s")
        text = screen(app)
        assert "Seconds a call may wait for a slot; 0: rejected immediately." in text
        assert "at once" in text


def test_the_ollama_port_says_why_it_is_closed() -> None:
    session = console().session
    session.board.status = status(0, ollama_error="cannot listen on 127.0.0.1:11434")
    listing = SettingsPage(session)
    details = {row.name: listing.detail(row, 100).plain for row in gateway_rows(Settings())}
    assert [name for name, text in details.items() if "cannot listen on 127.0.0.1:11434" in text] == ["ollama_port"]


async def test_a_number_is_edited_in_place_and_can_be_undone() -> None:
    async with shown("settings") as (app, pilot, owner):
        await act(app, pilot, "keep_days", "e")
        assert "Default: 400 days." in screen(app)
        await press(app, pilot, "end", "backspace", "backspace", "backspace", "=30")
        assert text_of(app, ".command") == "$ tollkeeper settings set --keep-days 30"
        await press(app, pilot, "enter")
        assert owner.did == [("set_settings", {"keep_days": 30})]
        assert words(app) == ["Keep records: 30 days. Press u to undo."]
        assert "30 days" in screen(app)


@pytest.mark.parametrize("keys", [("e", "end", *["backspace"] * 4, "=30", "enter"), ("d",)])
async def test_records_are_deleted_only_if_confirmed(keys: tuple[str, ...]) -> None:
    owner = Owner(settings_now=Settings(keep_days=1000), expiring=ExpiringRecords(records=6596, days=21))
    async with shown("settings", owner) as (app, pilot, _):
        await act(app, pilot, "keep_days", *keys)
        await until(app, pilot, "6,596 records of 21 days are deleted for good.")
        await press(app, pilot, "n")
        assert owner.did == []
        await press(app, pilot, keys[-1], "y")
        assert owner.did == [("set_settings", {"keep_days": 30 if keys[0] == "e" else 400})]


async def test_what_the_server_refuses_is_shown_at_the_field() -> None:
    async with shown("settings", refuses=BadRequest("'a b' is not a host name", param="hosts")) as (app, pilot, _):
        await act(app, pilot, "hosts", "e", "=a", "enter")
        assert text_of(app, "#wrong-hosts") == "'a b' is not a host name"


async def test_nothing_is_sent_if_nothing_changed_or_is_wrong() -> None:
    async with shown("settings") as (app, pilot, owner):
        await act(app, pilot, "keep_days", "e", "enter")
        assert (owner.did, words(app)) == ([], ["Nothing was changed."])
        await press(app, pilot, "enter", "end", "=x", "enter")
        assert text_of(app, "#wrong-keep_days")
        assert owner.did == []


async def test_space_switches_a_flag_and_a_choice() -> None:
    async with shown("settings") as (app, pilot, owner):
        await act(app, pilot, "refuse_unpriced", "space")
        await act(app, pilot, "durability", "space")
        assert owner.did == [("set_settings", {"refuse_unpriced": True}), ("set_settings", {"durability": "call"})]


async def test_a_setting_is_reset_to_its_default() -> None:
    async with shown("settings", settings_now=Settings(keep_days=30)) as (app, pilot, owner):
        await act(app, pilot, "keep_days", "d", "d")
        assert owner.did == [("set_settings", {"keep_days": 400})]
        assert words(app) == [
            "Keep records: 400 days. Press u to undo.",
            "Keep records already has its default: 400 days",
        ]


async def test_settings_of_this_console_are_changed_here() -> None:
    async with shown("settings") as (app, pilot, owner):
        await act(app, pilot, "theme", "space")
        assert (app.theme, app.session.state.theme) == ("light", "light")
        await press(app, pilot, "d")
        assert app.theme == "dark"
        await act(app, pilot, "mouse", "space")
        assert not app.session.state.mouse
        assert words(app) == ["Mouse: terminal, from the next start of the console."]
        await act(app, pilot, "symbols", "space", "space")
        assert app.session.ascii
        await act(app, pilot, "mouse", "e", "up", "enter")
        assert words(app)[-1] == "Mouse: used here, from the next start of the console."
        assert owner.did == []


async def test_choosing_a_theme_previews_it_and_esc_leaves_it() -> None:
    async with shown("settings") as (app, pilot, _):
        await act(app, pilot, "theme", "e", "down")
        assert app.theme == "light"
        await press(app, pilot, "escape")
        assert app.theme == "dark"
        await press(app, pilot, "e", "down", "enter")
        assert app.session.state.theme == "light"


async def test_what_needs_a_restart_says_so_and_how_to_change_it() -> None:
    async with shown("settings", size=(140, 40)) as (app, pilot, _):
        await act(app, pilot, "address", "e")
        assert words(app)[0].startswith("Address is set when the server starts: tollkeeper serve --host HOST")
        assert "after a restart of the server" in screen(app)


def test_the_wait_of_a_stopping_server_is_the_server_s_own() -> None:
    session = console(Owner()).session
    session.board.status = status(0, drain_s=7.5)
    row = next(row for row in server_rows(session) if row.name == "drain_s")
    assert (row.value, row.change) == ("7.5 s", "tollkeeper serve --drain SECONDS, or TOLLKEEPER_DRAIN_S")


async def test_the_file_of_keys_is_created_with_examples(tmp_path: Path) -> None:
    async with shown("settings", home=tmp_path) as (app, pilot, _):
        await act(app, pilot, "file", "e")
        assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
        assert '"live.pause"' in (tmp_path / NAME).read_text()


async def test_problems_of_the_file_stay_on_the_page() -> None:
    wrong = Preferences(problems=("unknown action 'live.puase'",))
    async with shown("settings", size=(140, 40), preferences=wrong) as (app, pilot, _):
        await act(app, pilot, "file")
        assert "unknown action 'live.puase'" in screen(app)
        assert row_of(app, "file").wrong


async def test_the_palette_knows_every_row() -> None:
    async with shown("settings") as (app, _, _):
        page: AnyPage = app.page
        rows = [page.source.row(at) for at in range(page.source.count)]
        found = {entry.text.removeprefix("Setting: ") for entry in entries(app) if entry.text.startswith("Setting: ")}
        assert found == {row.label for row in rows}


def test_the_command_gives_a_setting_the_value_it_has() -> None:
    now = Settings(keep_days=30, refuse_unpriced=True, hosts=("a.lan", "b.lan"))
    commands = {row.name: row.command for row in gateway_rows(now)}
    assert commands["keep_days"] == "tollkeeper settings set --keep-days 30"
    assert commands["refuse_unpriced"] == "tollkeeper settings set --refuse-unpriced"
    assert commands["strict_streams"] == "tollkeeper settings set --lenient-streams"
    assert commands["hosts"] == "tollkeeper settings set --hosts a.lan,b.lan"


async def test_what_a_command_changes_is_shown_soon() -> None:
    """An undo, another console or a command may change a setting while the page is open."""
    async with shown("settings") as (app, pilot, owner):
        owner.settings_now = Settings(keep_days=3)
        owner.changed()
        await press(app, pilot)
        assert "3 days" in screen(app)


async def test_without_colours_the_theme_is_plain_and_says_why() -> None:
    async with shown("settings", theme="", colour=False) as (app, pilot, _):
        await act(app, pilot, "theme", "T", "space", "e")
        assert words(app) == [told := "NO_COLOR is set, so there is only one theme"]
        assert told in screen(app)
        assert not row_of(app, "theme").changed
        assert app.theme == "plain"
