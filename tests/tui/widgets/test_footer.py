import pytest

from tests.tui.owner import settle, shown
from tui.actions import actions_in
from tui.widgets.footer import Footer, fit_actions

LIVE = [*actions_in("live"), *actions_in("list"), *actions_in("app")]


def test_as_many_keys_are_shown_as_fit() -> None:
    widths = [len(fit_actions(LIVE, width)) for width in (20, 60, 80, 100, 200)]
    assert widths == sorted(widths)
    assert widths[0] == 0


@pytest.mark.parametrize("width", [20, 80, 200])
async def test_help_and_leave_are_always_there(width: int) -> None:
    async with shown("live", size=(width, 30)) as (app, _, _):
        assert app.query_one(Footer).render().plain.endswith("? Help  q Quit ")


@pytest.mark.parametrize(("key", "opened"), [("? Help", "TextDialog"), ("W Why", "WhyScreen")])
async def test_a_click_on_a_key_of_every_page_or_of_a_list_does_it(key: str, opened: str) -> None:
    async with shown("live", size=(160, 30)) as (app, pilot, _):
        await pilot.click(Footer, offset=(app.query_one(Footer).render().plain.index(key) + 1, 0))
        await settle(app, pilot)
        assert type(app.screen).__name__ == opened


@pytest.mark.parametrize(("offset", "state"), [((2, 29), "paused")])
async def test_clicking_a_key_does_it(offset: tuple[int, int], state: str) -> None:
    async with shown("live") as (app, pilot, _):
        assert "space Pause" in app.query_one(Footer).render().plain
        await pilot.click(offset=offset)
        await pilot.pause()
        assert state in str(app.page.query_one(".lead").render())
