"""What a wide terminal shows: more columns before any column is wider than its texts need."""

import pytest

from tests.tui.owner import Owner, screen, shown, until
from tests.tui.stage import call, channel, group, token
from tests.tui.widgets.stage import press_keys
from tui import glyphs
from tui.widgets.table import LiveTable
from tui.widgets.text_block import Detail

EXTRA = {
    "live": ("App", "Group", "Try", "End"),
    "tokens": ("Spent", "Calls", "Limits", "Note"),
    "groups": ("Spent", "Routing order", "Note"),
    "channels": ("Groups", "Base URL", "Note"),
    "models": ("Calls", "Groups"),
}


@pytest.mark.parametrize("page", EXTRA)
async def test_a_wide_terminal_shows_extra_columns(page: str) -> None:
    async with shown(page, size=(200, 50)) as (app, _, _):
        wide = screen(app).splitlines()[3]
        assert [title for title in EXTRA[page] if title not in wide] == []


NAME = "production-openai"


@pytest.mark.parametrize("page", ["channels", "tokens"])
async def test_a_name_is_whole_where_there_is_room(page: str) -> None:
    owner = Owner()
    owner.channels_now.append(channel(NAME))
    owner.tokens_now.append(token(NAME))
    async with shown(page, owner, size=(200, 50)) as (app, _, _):
        assert f" {NAME} " in screen(app)


@pytest.mark.parametrize(("name", "channels"), [("research-and-development", 3), ("default", 4)])
async def test_a_route_is_whole_where_there_is_room(name: str, channels: int) -> None:
    owner = Owner()
    route = [f"{NAME}-{number}" for number in range(channels)]
    owner.channels_now += map(channel, route)
    owner.groups_now = [group(name, channels=route)]
    async with shown("groups", owner, size=(200, 50)) as (app, _, _):
        assert f" {' → '.join(route)} " in screen(app)
        assert f" {name} " in screen(app)


async def test_names_that_are_longer_than_usual_have_the_width_that_there_is() -> None:
    model = "meta-llama/Llama-4-Maverick-17B-128E"
    records = [call(1, model=model), call(2, status=502, code="upstream_unreachable", finish_reason="")]
    async with shown("live", records=records, size=(200, 50)) as (app, pilot, _):
        await until(app, pilot, "Llama")
        app.page.query_one(LiveTable).renew()
        await pilot.pause()
        assert f" {model} " in screen(app)
        assert " upstream_unreachable" in screen(app)


async def test_the_title_of_the_sorted_column_is_whole_beside_its_arrow() -> None:
    async with shown("channels", size=(100, 30)) as (app, _, _):
        app.page.query_one(LiveTable).request_sort("models")
        assert f" Models{glyphs.DESCENDING}" in screen(app)


async def test_a_default_is_whole_where_there_is_room() -> None:
    async with shown("settings", size=(200, 50)) as (app, _, _):
        assert screen(app).count(" loopback names only ") == 2


async def test_the_pane_can_have_the_least_terminal() -> None:
    async with shown("tokens", size=(80, 24)) as (app, pilot, _):
        await pilot.press("enter")
        pane = app.page.query_one(Detail)
        await pilot.pause()
        before = pane.size.height
        await press_keys(pilot, "f")
        assert pane.size.height > before


async def test_the_line_above_a_list_is_never_cut() -> None:
    async with shown("tokens", size=(80, 24)) as (app, pilot, _):
        await press_keys(pilot, "m")
        assert "marked" in screen(app)
        assert glyphs.ELLIPSIS not in screen(app).splitlines()[2]
