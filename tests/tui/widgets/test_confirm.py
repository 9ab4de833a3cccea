import pytest

from tests.tui.widgets.stage import WidgetStage
from tui.widgets.dialogs import Confirm


@pytest.mark.parametrize(
    ("keys", "done"),
    [
        (["enter"], False),
        (["escape"], False),
        (["n"], False),
        (["y"], True),
        (["tab", "enter"], True),
        (["l", "enter"], True),
    ],
)
async def test_cancel_has_the_focus_and_only_a_yes_does_it(keys: list[str], done: bool) -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(Confirm("Delete [b]laptop[/]?", "Its clients get 401.", "Delete"))
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        assert app.answers == [done]
