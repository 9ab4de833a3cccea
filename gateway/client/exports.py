"""Exports: lines of CSV, and new files that only the owner may read."""

import csv
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from gateway.domain.field_kinds import json_value
from gateway.domain.text import spreadsheet_text


def csv_text(values: Iterable[object]) -> str:
    """Returns a line of CSV (RFC 4180): texts made harmless, numbers, nothing for None, anything else as JSON."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(map(_cell, values))
    return line.getvalue()


def _cell(value: object) -> str:
    if isinstance(value, str):
        return spreadsheet_text(value)
    if value is None:
        return ""
    return str(value) if type(value) is int else json.dumps(json_value(value))


def create_private(path: Path) -> TextIO:
    """Create a text file with mode 0600, and open it for writing. Raises FileExistsError, and other OSErrors."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(handle, "w", encoding="utf-8")
