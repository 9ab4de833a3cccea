"""Stdin: what is piped in or typed. It is read as bytes, so that it means the same in every locale."""

import os
import stat
import sys

import click

from gateway.commands.output import words


def on_terminal() -> bool:
    """Returns whether stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def has_unread_pipe() -> bool:
    """Returns whether something was piped in and not read; False if that cannot be known."""
    try:
        import fcntl
        import termios

        handle = sys.stdin.fileno()
        left = fcntl.ioctl(handle, termios.FIONREAD, bytes(4)) if stat.S_ISFIFO(os.fstat(handle).st_mode) else b""
    except (ImportError, OSError, ValueError, AttributeError):  # Windows, or stdin is closed
        return False
    return any(left)


def whole(limit: int) -> bytes:
    """Returns all of stdin up to the limit, because it may never end. Empty if stdin is closed."""
    return b"" if sys.stdin is None else sys.stdin.buffer.read(limit)


def prompt() -> str:
    """Returns stdin as text. Anything but UTF-8, as in a diff of old files, is replaced, with a note.

    Raises UsageError when it is longer than any prompt.
    """
    data = whole((32 << 20) + 1)
    if len(data) > 32 << 20:  # the gateway accepts no larger request
        raise click.UsageError("stdin has more than 32 MiB, too much for a prompt")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        words(
            f"note: stdin is not UTF-8 (byte {error.start + 1}); invalid bytes are sent as '\N{REPLACEMENT CHARACTER}'"
        )
        return data.decode(errors="replace")


def secret(what: str, otherwise: str) -> str:
    """Returns one line, typed without an echo on a terminal. Raises BadParameter, saying what else to do, if it is
    empty.
    """
    if on_terminal():
        typed = str(click.prompt(what, default="", show_default=False, hide_input=True, err=True))
    else:
        line = b"" if sys.stdin is None else sys.stdin.buffer.readline(16_385)
        if len(line) > 16_384:
            text = f"stdin has a line of more than 16 KiB, too long for a {what}"
            raise click.BadParameter(text, param_hint=f"--{what}")
        typed = line.decode(errors="replace")
    if not typed.strip():
        raise click.BadParameter(
            f"there is no {what} on stdin; nothing was changed; {otherwise}", param_hint=f"--{what}"
        )
    return typed.strip()
