"""Export: the rows of a table as a file, CSV for spreadsheets or JSON lines for programs, as its extension says."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from gateway.client.exports import create_private, csv_text
from gateway.domain.errors import BadRequest, Conflict

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
        with create_private(path) as file:
            for row in rows:
                if count == 0 and is_csv:
                    file.write(csv_text(type(row).__struct_encode_fields__))
                values = (getattr(row, name) for name in row.__struct_fields__)
                file.write(csv_text(values) if is_csv else msgspec.json.encode(row).decode() + "\n")
                count += 1
    except OSError as exc:
        raise Conflict(f"cannot write {path}: {exc.strerror}") from exc
    return count
