from tests.tui.widgets.stage import WidgetStage
from tui.widgets.choices import Choice


async def test_left_and_right_go_round() -> None:
    choice = Choice(["one", "two", "three"], "two", id="c")
    async with WidgetStage(choice).run_test() as pilot:
        choice.focus()
        await pilot.press("right")
        assert choice.value == "three"
        await pilot.press("space", "left", "left")
        assert choice.value == "two"


async def test_it_reads_without_colour() -> None:
    choice = Choice(["one", "two"], "one", id="c")
    async with WidgetStage(choice).run_test():
        assert choice.render().plain == "< one >   1 of 2; left, right"


async def test_a_value_that_is_no_option_is_the_first() -> None:
    assert Choice(["one", "two"], "seven", id="c").value == "one"


async def test_a_click_is_the_next() -> None:
    choice = Choice(["one", "two"], "one", id="c")
    async with WidgetStage(choice).run_test() as pilot:
        await pilot.click(choice)
        assert choice.value == "two"
