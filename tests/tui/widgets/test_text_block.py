import pytest
from textual.widgets import Static

from gateway.domain.events import IncidentChanged
from gateway.domain.incidents import Incidents
from tests.domain.test_incidents import moved
from tests.tui.owner import press, screen, see, settle, shown
from tests.tui.widgets.stage import WidgetStage
from tui.actions import PAGE_IDS
from tui.text import content, lines
from tui.widgets.text_block import Detail, TextBlock, TextDialog


@pytest.mark.parametrize("block", [TextBlock(), Detail()])
async def test_it_is_drawn_for_its_width_and_again_when_that_changes(block: TextBlock) -> None:
    async with WidgetStage(block).run_test(size=(40, 20)) as pilot:
        block.show(lambda width: content(f"{width} cells"))
        await pilot.pause()
        first = str(block.query_one(Static).visual)
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert (first, str(block.query_one(Static).visual)) == ("39 cells", "59 cells")


@pytest.mark.parametrize("page", PAGE_IDS)
async def test_a_page_on_which_nothing_changes_is_not_drawn_again(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(page) as (app, pilot, _):
        await settle(app, pilot)
        drawn: list[Static] = []
        monkeypatch.setattr(Static, "update", lambda static, *_, **_options: drawn.append(static))
        await settle(app, pilot)
        assert drawn == []


async def test_it_scrolls_with_the_usual_keys() -> None:
    drawn = TextBlock()
    async with WidgetStage(drawn).run_test(size=(40, 10)) as pilot:
        drawn.show(lambda _: lines(*(content(str(i)) for i in range(50))))
        drawn.focus()
        await pilot.pause()
        await pilot.press("j", "j")
        await pilot.wait_for_animation()
        assert drawn.scroll_target_y == 2
        await pilot.press("G")
        assert drawn.scroll_target_y == 40


async def test_incidents_are_reported_and_go_on_while_one_reads() -> None:
    async with shown("channels") as (app, pilot, _):
        await see(app, pilot, "deepseek paused; retry in 12m00s", "i")
        found = Incidents(app.session.board.incidents.newest()[::-1])
        found.add_failures(moved())
        app.session.board.apply(IncidentChanged(incident=found.newest()[0]))
        assert isinstance(app.screen, TextDialog)
        app.screen.draw()
        await pilot.pause()
        assert "a rate-limited" in screen(app)
        assert "1 call retried at b" in screen(app)
        await press(app, pilot, "escape")
        assert not app.screen.is_modal
