"""Files: what commands read from files and write to them. Reading is limited, and written files are private."""

import codecs
import stat
import sys
from pathlib import Path

import click

from gateway.commands import stdin
from gateway.commands.output import words
from gateway.runfile import replace_file

_CODINGS = {codecs.BOM_UTF8: "UTF-8", codecs.BOM_UTF16_LE: "UTF-16-LE", codecs.BOM_UTF16_BE: "UTF-16-BE"}
"""Byte order marks at the start of a file, which editors and shells of Windows write."""


def text_of(file: str, limit: int, what: str) -> str:
    """Returns the whole text of a file, or of stdin for ``-``. ``what`` names the content in errors.

    Raises BadParameter if it is too large or not text, and OSError.
    """
    data = stdin.whole(limit + 1) if file == "-" else _content(file, limit)
    name = "stdin" if file == "-" else file
    if len(data) > limit:
        raise click.BadParameter(f"{name} is larger than {limit >> 20} MiB, too large for {what}")
    mark = next((mark for mark in _CODINGS if data.startswith(mark)), b"")
    coding = _CODINGS.get(mark, "UTF-8")
    try:
        return data.removeprefix(mark).decode(coding)
    except UnicodeDecodeError as exc:
        raise click.BadParameter(f"{name} is not {coding} text ({exc.reason} at byte {exc.start})") from exc


def write_private(file: str, text: str) -> None:
    """Write a text to a file atomically, with mode 0600. Raises OSError with its name.

    A symlink is kept and its target is replaced; devices and pipes are written to directly.
    """
    path = Path(file)
    try:
        before = path.stat().st_mode if path.exists() else None
        if before is not None and not stat.S_ISREG(before):
            path.write_text(text, encoding="utf-8")
            return
        replace_file(path.resolve(), text.encode(), durable=True)
    except OSError as error:
        error.filename = file  # instead of the temporary one, or of none
        raise
    if before is not None and sys.platform != "win32" and before & 0o077:
        words(f"note: other users could read or write {file} (mode {stat.S_IMODE(before):o}); its mode is now 0600")


def _content(file: str, limit: int) -> bytes:
    """Returns at most one byte more than the limit: a device may never end."""
    with open(file, "rb") as raw:  # noqa: PTH123 - also a number of a file that is open
        return raw.read(limit + 1)
