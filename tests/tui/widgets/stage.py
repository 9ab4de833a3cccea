"""Stage for one widget or dialog in an app of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widget import Widget

from tui.app import STYLESHEET, Console
from tui.themes import DARK
from tui.widgets.form import Form, FormField, FormPlan, Values


class WidgetStage(App[Any]):
    """Shows a widget, or asks with a dialog and keeps the answer."""

    CSS_PATH = STYLESHEET
    HORIZONTAL_BREAKPOINTS = Console.HORIZONTAL_BREAKPOINTS
    VERTICAL_BREAKPOINTS = Console.VERTICAL_BREAKPOINTS

    def __init__(self, *widgets: Widget) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme = DARK.name
        self._widgets = widgets
        self.answers: list[Any] = []
        self.markup = True
        self.notices: list[tuple[str, str, float | None]] = []
        """The toasts: words, severity, seconds."""

    def compose(self) -> ComposeResult:
        yield from self._widgets

    def ask(self, dialog: ModalScreen[Any]) -> None:
        self.push_screen(dialog, self.answers.append)

    def notify(self, message: str, **how: Any) -> None:
        self.notices.append((message, how["severity"], how["timeout"]))
        self.markup = how["markup"]

    @property
    def words(self) -> list[str]:
        return [notice[0] for notice in self.notices]


@asynccontextmanager
async def asked(
    dialog: ModalScreen[Any] | Callable[[], ModalScreen[Any]], size: tuple[int, int] = (100, 30)
) -> AsyncIterator[tuple[WidgetStage, Pilot[Any]]]:
    """A stage with a dialog open; one that needs the app when it is made is given as a function."""
    app = WidgetStage()
    async with app.run_test(size=size) as pilot:
        app.ask(dialog() if callable(dialog) else dialog)
        await pilot.pause()
        yield app, pilot


@asynccontextmanager
async def form(
    *fields: FormField, size: tuple[int, int] = (100, 30), **more: Any
) -> AsyncIterator[tuple[WidgetStage, Pilot[Any], list[Values]]]:
    """A form, and what it has saved."""
    saved: list[Values] = []

    async def save(values: Values) -> str:
        saved.append(values)
        return "made"

    plan = FormPlan(**{"title": "T", "fields": fields, "save": save, **more})
    async with asked(lambda: Form(plan), size=size) as (app, pilot):
        yield app, pilot, saved


async def press_keys(pilot: Pilot[Any], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()
    await pilot.pause()
