"""Clipboard: texts are copied through the terminal and by programs of this machine. If neither works, they are shown.

The escape sequence OSC 52 works over ssh, but not in every terminal, and terminals do not confirm it. tmux ignores it
by default, but has a command for it. A program such as ``xclip`` works only on the machine that runs the console.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import partial

from textual.app import App
from textual.content import Content
from textual.dom import DOMNode

from tui.text import safe_lines
from tui.widgets.dialogs import toast
from tui.widgets.text_block import TextDialog

NOTE = "If nothing arrives, your terminal may block it: docs/console.md, Copying."

TAKES_OSC52 = ("KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE", "GHOSTTY_RESOURCES_DIR", "WT_SESSION")
"""Environment variables of terminals that accept OSC 52."""
GOOD_PROGRAMS = ("iTerm.app", "WezTerm", "ghostty", "vscode", "rio")
GOOD_TERMS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour")


def copy_text(node: DOMNode, text: str, message: str) -> None:
    """Copy a text and show ``message``. A text that cannot be copied is shown, to be selected by hand."""
    if len(message) > 200:  # it covers the page for a while
        message = f"{message[:199]}\N{HORIZONTAL ELLIPSIS}"
    programs, osc52 = clipboard_programs(os.environ), accepts_osc52(os.environ)
    if osc52 is not False:
        App.copy_to_clipboard(node.app, text)  # what the console replaces
    for command in programs:
        node.app.run_worker(partial(_pipe, command, text), thread=True, exit_on_error=False, group="clipboard")
    if node.app.is_headless or programs or osc52:
        toast(node, message)
    elif osc52 is None:
        toast(node, f"{message}\n{NOTE}")
    else:
        shown_text = safe_lines(text, limit=20_000, lines=400)
        title = "Not copied: this terminal does not accept copied text"
        hint = Content("Select it with shift and the mouse; esc closes.")
        # without a border at its sides, so that selected lines contain nothing else
        node.app.push_screen(TextDialog(title, lambda _: Content(shown_text), hint, id="by-hand"))


def accepts_osc52(environ: Mapping[str, str]) -> bool | None:
    """Returns whether the environment says that the terminal accepts OSC 52; None if it does not say."""
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if program == "Apple_Terminal" or term.startswith("linux") or environ.get("STY"):
        return False
    if environ.get("TMUX"):
        return None  # that depends on its option set-clipboard
    is_accepted = any(environ.get(name) for name in TAKES_OSC52) or program in GOOD_PROGRAMS
    return True if is_accepted or term.startswith(GOOD_TERMS) else None


def clipboard_programs(environ: Mapping[str, str], platform: str = sys.platform) -> list[list[str]]:
    """Returns the commands that copy their standard input: one of the system, if it has a display, and tmux's."""
    candidates: list[list[str]] = []
    if platform == "darwin":
        candidates = [["pbcopy"]]
    elif platform == "win32" or "WSL_DISTRO_NAME" in environ:
        candidates = [["clip.exe"]]
    elif environ.get("WAYLAND_DISPLAY"):
        candidates = [["wl-copy"]]
    elif environ.get("DISPLAY"):
        candidates = [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    commands = [command for command in candidates if shutil.which(command[0])][:1]
    if environ.get("TMUX") and shutil.which("tmux"):
        commands.append(["tmux", "load-buffer", "-w", "-"])
    return commands


def _pipe(command: list[str], text: str) -> None:
    quiet = subprocess.DEVNULL
    try:
        subprocess.run(command, input=text.encode(), timeout=2.0, check=False, stdout=quiet, stderr=quiet)
    except (OSError, subprocess.TimeoutExpired):
        return  # another command, or the terminal, may have copied it
