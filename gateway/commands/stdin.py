"""Stdin: reads what is piped in, typed, or in a named file, as bytes, so that the locale does not matter."""

import codecs
import os
import stat
import sys

import click

from gateway.commands.output import notify

PROMPT_LIMIT = 32 << 20
"""The size in bytes of the longest prompt. The gateway accepts no larger request."""
SECRET_LIMIT = 16 << 10
"""The size in bytes of the longest line with a secret."""
_ENCODINGS = {codecs.BOM_UTF8: "UTF-8", codecs.BOM_UTF16_LE: "UTF-16-LE", codecs.BOM_UTF16_BE: "UTF-16-BE"}
"""Byte order marks, which editors and shells of Windows write at the start of a file."""


def is_terminal() -> bool:
    """Returns whether stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def has_unread_pipe() -> bool:
    """Returns whether something was piped in but not read; False if the system cannot tell."""
    try:
        import fcntl
        import termios

        handle = sys.stdin.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(handle).st_mode)
        unread_count = fcntl.ioctl(handle, termios.FIONREAD, bytes(4)) if is_pipe else b""  # a C integer
    except (ImportError, OSError, ValueError, AttributeError):  # Windows, or stdin is closed
        return False
    return any(unread_count)


def read_bytes(limit: int) -> bytes:
    """Returns at most ``limit`` bytes, because stdin may never end; empty if stdin is closed."""
    return b"" if sys.stdin is None else sys.stdin.buffer.read(limit)


def read_text(file: str, limit: int, noun: str) -> str:
    """Returns the text of a file, or of stdin for ``-``. ``noun`` names the content in errors.

    Raises OSError, and BadParameter if there are more than ``limit`` bytes or they are not text.
    """
    if file == "-":
        name, data = "stdin", read_bytes(limit + 1)
    else:
        name = file
        with open(file, "rb") as raw:  # noqa: PTH123 - also the number of an open file
            data = raw.read(limit + 1)  # a device may never end
    if len(data) > limit:
        raise click.BadParameter(f"{name} is larger than {limit >> 20} MiB, too large for {noun}")
    mark = next((mark for mark in _ENCODINGS if data.startswith(mark)), b"")
    encoding = _ENCODINGS.get(mark, "UTF-8")
    try:
        return data.removeprefix(mark).decode(encoding)
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{name} is not {encoding} text ({error.reason} at byte {error.start})") from error


def read_prompt() -> str:
    """Returns stdin as text. Bytes that are not UTF-8 are replaced, with a note. Raises UsageError if too long."""
    data = read_bytes(PROMPT_LIMIT + 1)
    if len(data) > PROMPT_LIMIT:
        raise click.UsageError("stdin has more than 32 MiB, too much for a prompt")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        effect = "invalid bytes are sent as '\N{REPLACEMENT CHARACTER}'"
        notify(f"note: stdin is not UTF-8 (byte {error.start + 1}); {effect}")
        return data.decode(errors="replace")


def read_secret(option: str, advice: str) -> str:
    """Returns one line, on a terminal typed without an echo. Raises BadParameter, with ``advice``, if it is empty."""
    if is_terminal():
        secret = str(click.prompt(option, default="", show_default=False, hide_input=True, err=True))
    else:
        line = b"" if sys.stdin is None else sys.stdin.buffer.readline(SECRET_LIMIT + 1)
        if len(line) > SECRET_LIMIT:
            text = f"stdin has a line of more than 16 KiB, too long for a {option}"
            raise click.BadParameter(text, param_hint=f"--{option}")
        secret = line.decode(errors="replace")
    if not secret.strip():
        raise click.BadParameter(f"stdin has no {option}; nothing was changed; {advice}", param_hint=f"--{option}")
    return secret.strip()
