from textual.widgets import Static

from tests.tui.widgets.stage import WidgetStage
from tui.text import content
from tui.widgets.text_block import Detail


async def test_it_is_drawn_for_its_width() -> None:
    pane = Detail()
    async with WidgetStage(pane).run_test(size=(40, 20)) as pilot:
        pane.show(lambda width: content(f"{width} cells"))
        await pilot.pause()
        assert str(pane.query_one(Static).visual) == "39 cells"


async def test_it_is_drawn_anew_when_the_width_changes() -> None:
    pane = Detail()
    async with WidgetStage(pane).run_test(size=(40, 20)) as pilot:
        pane.show(lambda width: content(f"{width} cells"))
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert str(pane.query_one(Static).visual) == "59 cells"
