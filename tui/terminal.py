"""Terminal: it may vanish, a signal may end us, it may not support a screen; and the clipboard, which goes through it.

Copying uses the escape sequence OSC 52, which works over ssh and in tmux but not in every terminal (not in macOS'
Terminal), and also the system's own program, which works only on this machine.
"""

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from textual.app import App

from tui.exit_status import after_signal

HANGUP_CODE = 129
"""128 and SIGHUP."""

LOOK_S = 2.0
"""Seconds between checks that the terminal is still there."""


def is_gone(handle: int) -> bool:
    """Whether the terminal behind this file is gone.

    Where the shell ignores SIGHUP, reading from a terminal that was closed returns at once and for ever.
    """
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    try:
        poll.register(handle, 0)
        return any(flags & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, flags in poll.poll(0))
    except OSError:
        return True


def exit_if_gone() -> None:
    """End the process at once: without a terminal there is nothing to restore and nowhere to report."""
    with suppress(ValueError, AttributeError):  # no standard input at all
        if is_gone(sys.stdin.fileno()):
            os._exit(HANGUP_CODE)


def on_terminate(do: Callable[[int], object]) -> None:
    """Call this on SIGTERM, so that the terminal is restored before the end. Must be called in the event loop."""
    with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not in the main thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, do, int(signal.SIGTERM))


def watch(app: App[Any]) -> None:
    """Watch the terminal for as long as the app runs."""
    app.set_interval(LOOK_S, exit_if_gone, name="terminal")
    app.app_resume_signal.subscribe(app, lambda _: app.refresh(layout=True))  # the shell has drawn over what was there
    on_terminate(lambda number: app.exit(after_signal(number)))


def plain_reason(environ: Mapping[str, str]) -> str:
    """Why no screen should be drawn here; empty if one should."""
    if environ.get("TOLLKEEPER_PLAIN", "") not in ("", "0"):
        return "TOLLKEEPER_PLAIN is set"
    if environ.get("TERM") == "dumb":
        return "TERM is dumb"
    return ""


LIMIT = 70_000
"""Bytes of text that terminals take in one sequence."""

WAIT_S = 2.0


def copy(app: App[object], text: str) -> None:
    """Put a text into the clipboard, as far as possible."""
    if len(text.encode()) <= LIMIT:
        app.copy_to_clipboard(text)
    command = clipboard_program(os.environ)
    if command:
        app.run_worker(lambda: _pipe_to(command, text), thread=True, exit_on_error=False, group="clipboard")


def clipboard_program(environ: Mapping[str, str], platform: str = sys.platform) -> list[str]:
    """The command that takes a text on its standard input; empty if there is none, or no display."""
    candidates: list[list[str]] = []
    if platform == "darwin":
        candidates = [["pbcopy"]]
    elif platform == "win32" or "WSL_DISTRO_NAME" in environ:
        candidates = [["clip.exe"]]
    elif environ.get("WAYLAND_DISPLAY"):
        candidates = [["wl-copy"]]
    elif environ.get("DISPLAY"):
        candidates = [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    return next((command for command in candidates if shutil.which(command[0])), [])


def _pipe_to(command: list[str], text: str) -> None:
    try:
        subprocess.run(
            command,
            input=text.encode(),
            timeout=WAIT_S,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # the terminal's own way may have worked
