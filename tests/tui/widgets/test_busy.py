import asyncio

from gateway.domain.errors import UpstreamError
from gateway.domain.units import Millis
from tests.tui.widgets.stage import WidgetStage
from tui.widgets.dialogs import Busy


def now() -> Millis:
    return Millis(0)


async def test_the_result_is_the_answer() -> None:
    async def work() -> str:
        return "done"

    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(Busy("Testing [b]x[/]", work, now))
        await pilot.pause()
        assert app.answers == ["done"]


async def test_a_failure_is_the_answer_too() -> None:
    error = UpstreamError("no answer")

    async def work() -> str:
        raise error

    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(Busy("Testing", work, now))
        await pilot.pause()
        assert app.answers == [error]


async def test_it_can_be_left() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(Busy("Testing", work, now))
        await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        assert app.answers == [None]
        async with asyncio.timeout(5):
            await ended.wait()
