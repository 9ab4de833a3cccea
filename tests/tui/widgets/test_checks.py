from tests.tui.widgets.stage import WidgetStage
from tui.widgets.choices import Checks

OPTIONS = [("a", "Apple"), ("b", "[b]Banana"), ("c", "Cherry")]


async def test_space_changes_the_one_under_the_cursor() -> None:
    checks = Checks(OPTIONS, ["b"])
    async with WidgetStage(checks).run_test() as pilot:
        checks.focus()
        await pilot.press("space", "j", "space", "up", "up", "space")
        assert checks.on == {"a", "c"}
        assert checks.render().plain == "[x] Apple\n[ ] [b]Banana\n[x] Cherry"


async def test_all_can_be_on_or_off() -> None:
    checks = Checks(OPTIONS, [])
    async with WidgetStage(checks).run_test() as pilot:
        checks.focus()
        await pilot.press("a")
        assert checks.on == {"a", "b", "c"}
        await pilot.press("a")
        assert checks.on == set()


async def test_a_click_changes_what_it_hits() -> None:
    checks = Checks(OPTIONS, [])
    async with WidgetStage(checks).run_test() as pilot:
        await pilot.click(checks, offset=(2, 2))
        assert checks.on == {"c"}


async def test_nothing_to_choose_from_is_no_crash() -> None:
    checks = Checks([], [])
    async with WidgetStage(checks).run_test() as pilot:
        checks.focus()
        await pilot.press("j", "space", "a")
        assert checks.on == set()
