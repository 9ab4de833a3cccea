"""Stdin: what is piped in or typed. It is read as bytes, so that it means the same in every locale."""

import os
import stat
import sys

import click

from gateway.commands.output import words

PROMPT_LIMIT = 32 << 20
"""Bytes of a prompt: the gateway accepts no larger request."""

SECRET_LIMIT = 16 << 10
"""Bytes of a line with a key or an address."""


def on_terminal() -> bool:
    """Whether somebody types it."""
    return sys.stdin is not None and sys.stdin.isatty()


def has_unread_pipe() -> bool:
    """Whether something was piped in that nobody has read; False where that cannot be known."""
    try:
        import fcntl
        import termios

        handle = sys.stdin.fileno()
        left = fcntl.ioctl(handle, termios.FIONREAD, bytes(4)) if stat.S_ISFIFO(os.fstat(handle).st_mode) else b""
    except (ImportError, OSError, ValueError, AttributeError):  # Windows, or stdin is closed
        return False
    return any(left)


def whole(limit: int) -> bytes:
    """All of it, but no more bytes than the limit: it may never end. Nothing if stdin is closed."""
    return b"" if sys.stdin is None else sys.stdin.buffer.read(limit)


def prompt() -> str:
    """All of it as text. What is not UTF-8, as in a diff of old files, is replaced, with a note.

    Raises UsageError when it is longer than any prompt.
    """
    data = whole(PROMPT_LIMIT + 1)
    if len(data) > PROMPT_LIMIT:
        raise click.UsageError(f"stdin has more than {PROMPT_LIMIT >> 20} MiB, too much for a prompt")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        words(
            f"note: stdin is not UTF-8 (byte {error.start + 1}); invalid bytes are sent as '\N{REPLACEMENT CHARACTER}'"
        )
        return data.decode(errors="replace")


def secret(what: str, otherwise: str) -> str:
    """One line: asked for without an echo on a terminal. Raises BadParameter if it is empty, saying what else to do."""
    if on_terminal():
        found = str(click.prompt(what, default="", show_default=False, hide_input=True, err=True))
    else:
        line = b"" if sys.stdin is None else sys.stdin.buffer.readline(SECRET_LIMIT + 1)
        if len(line) > SECRET_LIMIT:
            raise click.BadParameter(
                f"stdin has a line of more than {SECRET_LIMIT >> 10} KiB, too long for a {what}",
                param_hint=f"--{what}",
            )
        found = line.decode(errors="replace")
    if not found.strip():
        raise click.BadParameter(
            f"there is no {what} on stdin; nothing was changed; {otherwise}", param_hint=f"--{what}"
        )
    return found.strip()
