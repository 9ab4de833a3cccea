"""Export: the rows of a table as a file, CSV for spreadsheets or JSON lines for programs, as its extension says."""

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.text import spreadsheet_text

ENDINGS = (".csv", ".jsonl")


def export_path(text: str) -> Path:
    """Returns the path of the file to write. Raises BadRequest if the name is not valid, or the file exists."""
    path = Path(text.strip()).expanduser()
    if path.suffix not in ENDINGS:
        raise BadRequest(f"the name must end in {' or '.join(ENDINGS)}")
    if path.exists():
        raise BadRequest(f"{path} already exists; choose another name")
    if not path.absolute().parent.is_dir():
        raise BadRequest(f"folder {path.absolute().parent} does not exist")
    return path


def write_rows(path: Path, rows: Iterable[msgspec.Struct]) -> int:
    """Write the rows into a new file that only the owner may read. Returns their number. Raises Conflict."""
    is_csv, count = path.suffix == ".csv", 0
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            for row in rows:
                if count == 0 and is_csv:
                    file.write(_csv_text(type(row).__struct_encode_fields__))
                file.write(csv_line(row) if is_csv else msgspec.json.encode(row).decode() + "\n")
                count += 1
    except OSError as exc:
        raise Conflict(f"cannot write {path}: {exc.strerror}") from exc
    return count


def csv_line(row: msgspec.Struct) -> str:
    """Returns the fields of a row in order, as a line of CSV: texts made harmless, lists as JSON, nothing for null."""
    return _csv_text([_cell_text(getattr(row, name)) for name in row.__struct_fields__])


def _cell_text(value: object) -> str:
    if isinstance(value, str):
        return spreadsheet_text(value)
    return "" if value is None else msgspec.json.encode(value).decode()


def _csv_text(cells: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()
