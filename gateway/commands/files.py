"""Files: reads text from files and stdin within a limit, and writes files that only the user can read."""

import codecs
import stat
import sys
from pathlib import Path

import click

from gateway.commands import stdin
from gateway.commands.output import notify
from gateway.runfile import replace_file

_ENCODINGS = {codecs.BOM_UTF8: "UTF-8", codecs.BOM_UTF16_LE: "UTF-16-LE", codecs.BOM_UTF16_BE: "UTF-16-BE"}
"""Byte order marks, which editors and shells of Windows write at the start of a file."""


def read_text(file: str, limit: int, what: str) -> str:
    """Returns the text of a file, or of stdin for ``-``. ``what`` names the content in errors.

    Raises OSError, and BadParameter if there are more than ``limit`` bytes or they are not text.
    """
    if file == "-":
        name, data = "stdin", stdin.read_bytes(limit + 1)
    else:
        name = file
        with open(file, "rb") as raw:  # noqa: PTH123 - also the number of an open file
            data = raw.read(limit + 1)  # a device may never end
    if len(data) > limit:
        raise click.BadParameter(f"{name} is larger than {limit >> 20} MiB, too large for {what}")
    mark = next((mark for mark in _ENCODINGS if data.startswith(mark)), b"")
    encoding = _ENCODINGS.get(mark, "UTF-8")
    try:
        return data.removeprefix(mark).decode(encoding)
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{name} is not {encoding} text ({error.reason} at byte {error.start})") from error


def write_private(file: str, text: str) -> None:
    """Write a text to a file atomically, with mode 0600. Raises OSError with the file's name.

    The target of a symlink is replaced, and the link stays. Devices and pipes are written to directly.
    """
    path = Path(file)
    try:
        old_mode = path.stat().st_mode if path.exists() else None
        if old_mode is not None and not stat.S_ISREG(old_mode):
            path.write_text(text, encoding="utf-8")
            return
        replace_file(path.resolve(), text.encode(), durable=True)
    except OSError as error:
        error.filename = file  # it may have the name of the temporary file, or none
        raise
    if old_mode is not None and sys.platform != "win32" and old_mode & 0o077:
        notify(f"note: other users could read or write {file} (mode {stat.S_IMODE(old_mode):o}); its mode is now 0600")
