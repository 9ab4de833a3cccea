"""AtomicStorage: a TinyDB storage for the configuration, whose JSON file is replaced as a whole by every write.

The file has one document per line, so that it is small and its diffs are readable. Every read returns a new copy, so
callers may change it. A write that fails changes nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from tinydb.storages import Storage

from gateway.store import files
from gateway.store.errors import StoreDamaged

Tables = dict[str, dict[str, Any]]
"""Maps table names to documents by their ids, as TinyDB does."""

FORMAT = 2
"""The format of ``config.json``. Format 1 was never released."""

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Tables).decode


class AtomicStorage(Storage):
    """For ``TinyDB(path, storage=AtomicStorage)``. Raises StoreDamaged if the file exists and is not valid."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.raw = files.read(self.path)
        self.read()  # so that an invalid file is refused at once

    def read(self) -> Tables | None:
        if not self.raw:
            return None
        try:
            return decode(self.raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            where = files.ordinary_path(self.path)
            raise StoreDamaged(f"{where} is damaged: {exc}", details={"file": str(where)}) from exc

    def write(self, data: Mapping[str, Mapping[Any, Any]]) -> None:
        raw = layout(data)
        files.replace(self.path, raw)
        self.raw = raw


def layout(tables: Mapping[str, Mapping[Any, Any]]) -> bytes:
    """Returns the content of a file with these tables. Raises TypeError for values that JSON cannot express."""
    parts = [
        b"%s:{\n%s\n}" % (encode(name), b",\n".join(b"%s:%s" % (encode(str(i)), encode(d)) for i, d in docs.items()))
        for name, docs in tables.items()
    ]
    return b"{\n%s\n}\n" % b",\n".join(parts)
