"""Local time is UTC, nothing of the environment reaches the console, and what no test can see is not done again.

Frames that a headless console would draw and throw away are not drawn: a test that looks at the screen draws it then
(``owner.screen``), and with TOLLKEEPER_FULL=1 ``owner.shown`` draws it at its end. All are with the marker
``every_frame``.
Stylesheets that consoles have in common are parsed once. Pauses of Textual's pilot take no time (``clock``).
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from textual._compositor import Compositor
from textual.cache import LRUCache
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen

from gateway.config import DEFAULT_PORT
from tests.tui.clock import ConsoleLoop, loop_time, rest

PARSED: dict[frozenset[tuple[str, str]], LRUCache[Any, Any]] = {}
"""Rules by their text, for each set of variables."""


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A loop whose pauses take no time."""
    return {"console": ConsoleLoop}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def idle(*_: object) -> bool:
        await rest()
        return True

    monkeypatch.setattr(Pilot, "_wait_for_screen", idle)
    monkeypatch.setattr("textual.pilot.wait_for_idle", idle)
    monkeypatch.setattr("textual.app.wait_for_idle", idle)
    monkeypatch.setattr("textual._time.get_time", loop_time)


@pytest.fixture(autouse=True)
def _no_server_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real gateway may run at the address on the pictures: test calls to it are refused."""
    connect = asyncio.open_connection

    async def refuse(host: str, port: int, **more: Any) -> Any:
        if port == DEFAULT_PORT:
            raise ConnectionRefusedError
        return await connect(host, port, **more)

    monkeypatch.setattr("gateway.client.http.asyncio.open_connection", refuse)


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    for name in ("NO_COLOR", "DISPLAY", "WAYLAND_DISPLAY", "TEXTUAL", "TEXTUAL_COLOR_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def _unseen_frames(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("every_frame"):
        return
    draw = Compositor.render_update

    def forget(
        self: Compositor, full: bool = False, screen_stack: list[Screen[Any]] | None = None, simplify: bool = False
    ) -> Any:
        if full:  # for a picture
            return draw(self, full=full, screen_stack=screen_stack, simplify=simplify)
        self._dirty_regions.clear()
        return None

    monkeypatch.setattr(Compositor, "render_update", forget)


@pytest.fixture(autouse=True)
def _parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Stylesheet.set_variables

    def share(self: Stylesheet, variables: dict[str, str]) -> None:
        self._parse_cache = LRUCache(1)
        keep(self, variables)
        self._parse_cache = PARSED.setdefault(frozenset(variables.items()), LRUCache(1_000))

    monkeypatch.setattr(Stylesheet, "set_variables", share)
