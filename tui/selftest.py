"""Selftest: the console drawn once without a terminal, to prove that an executable contains all of it."""

import asyncio
from contextlib import suppress

from gateway.config import Config
from tui.actions import PAGE_IDS
from tui.app import Console, now
from tui.exit_status import ExitStatus
from tui.saved_state import SavedState
from tui.session import ConsoleSession, ServerLauncher


def draw(config: Config) -> str:
    """Returns the console's text after every page was opened; empty if its server never answered."""
    return asyncio.run(_draw(config))


async def _draw(config: Config) -> str:
    session = ConsoleSession(config, now, SavedState())
    app = Console(session, ServerLauncher(config))
    async with app.run_test(size=(100, 30)) as pilot:
        with suppress(TimeoutError):
            async with asyncio.timeout(20.0):
                while session.board.status is None:
                    await pilot.pause(0.05)
        if session.board.status is None:
            return ""
        for page in PAGE_IDS:
            await app.action_page(page)
            await pilot.pause()
        lines = [strip.text for strip in app.screen._compositor.render_strips()]  # noqa: SLF001 - what is on the screen
        app.exit(ExitStatus())
    client = session.client
    with suppress(Exception):
        await client.stop(now=True)
    return "\n".join(lines)
