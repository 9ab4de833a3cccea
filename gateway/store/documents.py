"""TinyDB's JSON file for the configuration: replaced as a whole on every write, and migrated from older formats.

One document a line, so that the file is small and a diff readable. Every read is a private copy: what a caller does to
a document changes nothing, and a write that fails changes nothing either. Migrations work on plain dictionaries.
Segments of the call log are never migrated: documents without a field get its default when they are read.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from tinydb.storages import Storage

from gateway.store import files
from gateway.store.errors import StoreDamaged
from gateway.store.folder import ordinary

Tables = dict[str, dict[str, Any]]
"""Table name to document id to document: TinyDB's whole world."""

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Tables).decode


class AtomicStorage(Storage):
    """``TinyDB(path, storage=AtomicStorage)``. Raises StoreDamaged if the file is there and is not such a document."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.raw = files.read(self.path)
        self.read()

    def read(self) -> Tables | None:
        if not self.raw:
            return None
        try:
            return decode(self.raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            where = ordinary(self.path)
            raise StoreDamaged(f"{where} is damaged: {exc}", details={"file": str(where)}) from exc

    def write(self, data: Mapping[str, Mapping[Any, Any]]) -> None:
        raw = layout(data)
        files.replace(self.path, raw)
        self.raw = raw


def layout(tables: Mapping[str, Mapping[Any, Any]]) -> bytes:
    """The file's bytes. Raises TypeError for what JSON cannot hold."""
    parts = [
        b"%s:{\n%s\n}" % (encode(name), b",\n".join(b"%s:%s" % (encode(str(i)), encode(d)) for i, d in docs.items()))
        for name, docs in tables.items()
    ]
    return b"{\n%s\n}\n" % b",\n".join(parts)


def one_budget_to_many(tables: Tables) -> None:
    """Format 1 to 2: tokens, groups and the account had one ``budget``; now they have a list of ``budgets``."""
    for table in ("tokens", "groups", "account"):
        for document in tables.get(table, {}).values():
            budget = document.pop("budget", None)
            if budget is not None:
                document["budgets"] = [budget]


STEPS: tuple[Callable[[Tables], None], ...] = (one_budget_to_many,)
"""The first one makes format 2 of format 1, and so on."""

NEWEST = len(STEPS) + 1


def migrate(tables: Tables, found: int) -> None:
    """Bring tables of format ``found`` to the newest, in place."""
    for step in STEPS[found - 1 :]:
        step(tables)
    tables["meta"] = {"1": {"format": NEWEST}}
