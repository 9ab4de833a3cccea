"""Stdin: reads what is piped in or typed, as bytes, so that the locale does not matter."""

import os
import stat
import sys

import click

from gateway.commands.output import notify


def on_terminal() -> bool:
    """Returns whether stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def has_unread_pipe() -> bool:
    """Returns whether something was piped in but not read; False if the system cannot tell."""
    try:
        import fcntl
        import termios

        handle = sys.stdin.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(handle).st_mode)
        unread = fcntl.ioctl(handle, termios.FIONREAD, bytes(4)) if is_pipe else b""  # the number of bytes
    except (ImportError, OSError, ValueError, AttributeError):  # Windows, or stdin is closed
        return False
    return any(unread)


def read_bytes(limit: int) -> bytes:
    """Returns at most ``limit`` bytes: stdin may never end. Returns none if stdin is closed."""
    return b"" if sys.stdin is None else sys.stdin.buffer.read(limit)


def read_prompt() -> str:
    """Returns stdin as text. Bytes that are not UTF-8, as in a diff of old files, are replaced, with a note.

    Raises UsageError if it is longer than any prompt.
    """
    data = read_bytes((32 << 20) + 1)
    if len(data) > 32 << 20:  # the gateway accepts no larger request
        raise click.UsageError("stdin has more than 32 MiB, too much for a prompt")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        notify(
            f"note: stdin is not UTF-8 (byte {error.start + 1}); invalid bytes are sent as '\N{REPLACEMENT CHARACTER}'"
        )
        return data.decode(errors="replace")


def read_secret(what: str, otherwise: str) -> str:
    """Returns one line. On a terminal, it is typed without an echo.

    Raises BadParameter if it is empty; the error ends with ``otherwise``, which says what else the user can do.
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
        raise click.BadParameter(f"stdin has no {what}; nothing was changed; {otherwise}", param_hint=f"--{what}")
    return typed.strip()
