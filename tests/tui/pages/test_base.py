from collections.abc import Mapping
from typing import ClassVar

from textual.pilot import Pilot

from gateway.domain.errors import BadRequest
from tests.tui.stage import console
from tests.tui.widgets.stage import WidgetStage
from tui.pages.base import ConsolePage, Verb
from tui.widgets.choices import ChooseOne
from tui.widgets.dialogs import Confirm


def fail(_page: ConsolePage) -> None:
    raise BadRequest("that [b]cannot[/] be")


async def fail_later(page: ConsolePage) -> None:
    fail(page)


async def ask(page: ConsolePage) -> None:
    await page.confirm("Really?", "It breaks.", "Do it")
    page.border_title = "yes"


async def choose(page: ConsolePage) -> None:
    page.border_title = await page.ask(ChooseOne("Which?", [("a", ""), ("b", "")], ""))


class Sample(ConsolePage):
    verbs: ClassVar[Mapping[str, Verb]] = {"fail": fail, "fail_later": fail_later, "ask": ask, "choose": choose}


class Stage(WidgetStage):
    def __init__(self) -> None:
        self.sample = Sample(console().session)
        super().__init__(self.sample)

    async def act(self, pilot: Pilot[None], verb: str) -> None:
        self.sample.action_act(verb)
        await pilot.pause()
        await pilot.pause()


async def test_errors_of_verbs_are_shown() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        for verb in ("fail", "fail_later"):
            await app.act(pilot, verb)
            assert app.words == ["that [b]cannot[/] be"]
            app.notices.clear()


async def test_a_verb_may_ask() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        await app.act(pilot, "ask")
        assert isinstance(app.screen, Confirm)
        await pilot.press("y")
        await pilot.pause()
        assert app.sample.border_title == "yes"


async def test_a_verb_ends_without_a_message_if_its_question_is_declined_or_its_dialog_is_left() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        for verb, key in (("ask", "n"), ("choose", "escape")):
            await app.act(pilot, verb)
            await pilot.press(key)
            await pilot.pause()
            assert (app.sample.border_title, app.words) == (None, [])
