from gateway.domain.events import CallSettled
from tests.tui.owner import Owner, press, screen, shown
from tests.tui.test_incidents import moved
from tui.widgets.text_block import IncidentList


async def test_incidents_are_told_and_go_on_while_one_reads() -> None:
    async with shown("channels") as (app, pilot, _):
        await press(app, pilot, "i")
        assert "deepseek out; asked again in 12m00s" in screen(app)
        app.session.board.apply(CallSettled(seq=9, call=moved()))
        assert isinstance(app.screen, IncidentList)
        app.screen.draw()
        await pilot.pause()
        assert "a rate-limited" in screen(app)
        assert "1 call moved to b" in screen(app)
        await press(app, pilot, "escape")
        assert not app.screen.is_modal


async def test_without_any_it_says_so() -> None:
    owner = Owner(0)
    owner.channels_now = owner.channels_now[:1]
    async with shown("channels", owner) as (app, pilot, _):
        await press(app, pilot, "i")
        assert "every channel answered" in screen(app)
