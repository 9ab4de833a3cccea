from textual.widgets import Static

from tests.tui.widgets.stage import WidgetStage
from tui.text import content, lines
from tui.widgets.text_block import TextBlock


async def test_it_is_drawn_for_its_size_and_again_when_that_changes() -> None:
    drawn = TextBlock()
    async with WidgetStage(drawn).run_test(size=(40, 10)) as pilot:
        drawn.show(lambda width, height: content(f"{width} {height}"))
        first = str(drawn.query_one(Static).visual)
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert (first, str(drawn.query_one(Static).visual)) == ("39 10", "59 20")


async def test_it_scrolls_with_the_usual_keys() -> None:
    drawn = TextBlock()
    async with WidgetStage(drawn).run_test(size=(40, 10)) as pilot:
        drawn.show(lambda _width, _height: lines(*(content(str(i)) for i in range(50))))
        drawn.focus()
        await pilot.pause()
        await pilot.press("j", "j")
        await pilot.wait_for_animation()
        assert drawn.scroll_target_y == 2
        await pilot.press("G")
        assert drawn.scroll_target_y == 40
