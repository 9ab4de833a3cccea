"""What a wide terminal shows: more columns before any column is wider than its texts need."""

import pytest

from tests.tui.owner import screen, shown

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


@pytest.mark.parametrize("page", EXTRA)
async def test_the_least_terminal_keeps_the_columns_that_matter(page: str) -> None:
    async with shown(page, size=(80, 24)) as (app, _, _):
        narrow = screen(app).splitlines()[3]
        assert [title for title in EXTRA[page] if title in narrow] == []
