"""Stdin: what is piped in or typed. It is read as bytes, so that it means the same in every locale."""

import sys

import click

from gateway.commands.output import words


def on_terminal() -> bool:
    """Whether somebody types it."""
    return sys.stdin is not None and sys.stdin.isatty()


def whole() -> bytes:
    """All of it; nothing if stdin is closed."""
    return b"" if sys.stdin is None else sys.stdin.buffer.read()


def text() -> str:
    """All of it as text. What is not UTF-8, as in a diff of old files, is replaced, and that is said."""
    data = whole()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        words(f"note: stdin is not UTF-8 (byte {error.start + 1}); what is not goes out as '\N{REPLACEMENT CHARACTER}'")
        return data.decode(errors="replace")


def secret(what: str, otherwise: str) -> str:
    """One line: asked for without an echo on a terminal. Raises BadParameter if it is empty, saying what else to do."""
    if on_terminal():
        found = str(click.prompt(what, default="", show_default=False, hide_input=True, err=True))
    else:
        found = "" if sys.stdin is None else sys.stdin.buffer.readline().decode(errors="replace")
    if not found.strip():
        raise click.BadParameter(f"stdin brought no {what}, so nothing was done; {otherwise}", param_hint=f"--{what}")
    return found.strip()
