import pytest

from tests.tui.test_app import shown
from tui.actions import Action, actions_in
from tui.widgets.footer import Footer, action_at, fit_actions

LIVE = [*actions_in("live"), *actions_in("list"), *actions_in("app")]


def test_as_many_keys_are_shown_as_fit() -> None:
    widths = [len(fit_actions(LIVE, width)) for width in (20, 60, 80, 100, 200)]
    assert widths == sorted(widths)
    assert widths[0] == 0


def test_help_and_leave_are_always_there() -> None:
    assert [action.verb for action in (action_at(LIVE, 79, 80), action_at(LIVE, 69, 80)) if action] == ["leave", "help"]


def test_a_click_finds_what_is_there() -> None:
    found = action_at(LIVE, 2, 80)
    assert isinstance(found, Action)
    assert found.verb == "pause"
    assert action_at([], 5, 80) is None


@pytest.mark.parametrize(("offset", "state"), [((2, 29), "paused")])
async def test_clicking_a_key_does_it(offset: tuple[int, int], state: str) -> None:
    async with shown() as (app, pilot):
        assert "space Pause" in app.query_one(Footer).render().plain
        await pilot.click(offset=offset)
        await pilot.pause()
        assert state in str(app.page.query_one(".lead").render())
