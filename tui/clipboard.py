"""Clipboard: copies through the terminal (OSC 52), and through the system's own program where there is one.

The escape sequence works over ssh and in tmux, but not in every terminal (macOS' own ignores it); a program works only
on this machine. So both are used.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

from textual.app import App

LIMIT = 70_000
"""Bytes of text that terminals take in one sequence."""

WAIT_S = 2.0


def copy(app: App[object], text: str) -> None:
    """Put a text into the clipboard, as far as anybody lets us."""
    if len(text.encode()) <= LIMIT:
        app.copy_to_clipboard(text)
    command = program(os.environ)
    if command:
        app.run_worker(lambda: _hand_over(command, text), thread=True, exit_on_error=False, group="clipboard")


def program(environ: Mapping[str, str], platform: str = sys.platform) -> list[str]:
    """The command that takes a text on its standard input; empty if there is none, or no screen it could serve."""
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


def _hand_over(command: list[str], text: str) -> None:
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
