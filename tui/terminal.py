"""Terminal: notices when it disappears, restores it when a signal ends the process, and knows if it has few colours."""

import asyncio
import os
import select
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from io import StringIO
from typing import Any

from rich.console import Console
from textual.app import App

from tui.exit_status import ExitStatus


def is_gone(handle: int) -> bool:
    """Returns whether a terminal is gone. If the shell ignores SIGHUP, nothing else tells: reading returns at once."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    try:
        poll.register(handle, 0)
        return any(flags & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, flags in poll.poll(0))
    except OSError:
        return True


def exit_if_gone() -> None:
    """End the process at once if the terminal is gone: no screen can be restored, and no error shown."""
    with suppress(ValueError, AttributeError):  # without standard input
        if is_gone(sys.stdin.fileno()):
            os._exit(129)  # 128 and SIGHUP


def watch(app: App[Any]) -> None:
    """Watch the terminal and its signals for as long as the app runs. The event loop must be running."""
    app.set_interval(2.0, exit_if_gone, name="terminal")
    app.app_resume_signal.subscribe(app, lambda _: app.refresh(layout=True))  # the shell has drawn over the screen
    status = ExitStatus("", 128 + signal.SIGTERM)
    with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not in the main thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.exit, status)  # it restores the terminal


def has_few_colours(environ: Mapping[str, str]) -> bool:
    """Returns whether the terminal has at most 16 colours, in which several colours of a theme would be the same."""
    return Console(file=StringIO(), force_terminal=True, _environ=environ).color_system in (None, "standard")
