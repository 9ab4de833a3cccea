"""Entities: everything the owner configures, as TinyDB tables in ``config.json`` and as one Registry in memory.

Each change is one atomic write, however much it contains. The version before the last change stays in
``config.old.json``. The file has one document per line, so that it is small and its diffs are readable.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from tinydb.storages import Storage

from gateway.domain.account import Account
from gateway.domain.errors import BadRequest, InternalError
from gateway.domain.registry import KINDS, Change, Entity, Registry, Table, with_changes
from gateway.domain.settings import Settings
from gateway.domain.text import plain
from gateway.store import files
from gateway.store.errors import StoreDamaged, too_new, unavailable

Tables = dict[str, dict[str, Any]]
"""Maps table names to documents by their ids, as TinyDB does."""

FORMAT = 2
"""The format of ``config.json``. Format 1 was never released."""

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Tables).decode


class AtomicStorage(Storage):
    """For ``TinyDB(path, storage=AtomicStorage)``: a JSON file that is replaced as a whole by every write.

    Every read returns a new copy, so callers may change it. A write that fails changes nothing. Raises StoreDamaged if
    the file exists and is not valid.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.raw = files.read(self.path)
        self.read()  # so that an invalid file is refused at once

    def read(self) -> Tables | None:
        if not self.raw:
            return None
        try:
            return _decode(self.raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise _damaged_error(self.path, f"it is damaged: {exc}") from exc

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


class Entities:
    """Reads and changes the configuration. Every change replaces ``registry``.

    A missing file is damage if it is ``expected``, because the store has calls. ``moment`` becomes part of the name of
    the copy of an edited file, whose content ``check`` checks. ``report`` is called when another program has edited the
    file. Raises OSError and StoreError.
    """

    def __init__(
        self,
        path: Path,
        *,
        expected: bool = False,
        moment: int = 0,
        check: Callable[[Registry], None] | None = None,
        report: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._path, self._moment, self._report = path, moment, report
        self._storage = AtomicStorage(path)
        tables = self._storage.read()
        if tables is None and (expected or path.exists()):
            raise _damaged_error(path, "it is empty" if path.exists() else "it is missing")
        meta = {} if tables is None else _read_meta(path, tables)
        history, crc = meta.get("history", 0), meta.get("crc")
        self.applied = history if isinstance(history, int) else 0
        """The number of the newest history entry that this configuration contains."""
        is_edited = crc is not None and crc != _checksum(tables or {})
        self.registry = _decode_tables(path, tables or {})
        if is_edited and check is not None:
            try:
                check(self.registry)
            except BadRequest as error:
                raise _damaged_error(path, f"{error.message}; correct it there") from error
        self.granted = self.registry.granted
        """The sum of the grants, cached because every call needs it."""
        if is_edited:
            kept = ""
            with suppress(OSError):  # the next start tries again
                copy = files.save_copy(path, self._storage.raw, moment, "changed")
                kept = f", the file as it was found is {copy.name}"
                self._storage.write(_documents(self.registry, self.applied))
            report(f"{files.ordinary_path(path)} was changed by another program; the changes are used{kept}")
        if tables is None:
            self._storage.write(_documents(self.registry, self.applied))

    def apply(self, changes: Sequence[Change], entry: int = 0) -> None:
        """Make all of the changes or none, in one atomic write.

        ``entry`` is the number of their history entry; 0 if they have none. Raises Unavailable if the disk refuses, and
        InternalError for an invalid change.
        """
        for change in changes:
            _check_change(change)
        registry = with_changes(self.registry, changes)
        try:
            self._keep_foreign_edit()
            files.replace(self._path.with_name("config.old.json"), self._storage.raw, durable=False)
            self._storage.write(_documents(registry, entry or self.applied))
        except OSError as exc:
            raise unavailable(exc) from exc
        self.applied = entry or self.applied
        self.registry = registry
        self.granted = self.registry.granted

    def _keep_foreign_edit(self) -> None:
        """Copy the file, which is about to be replaced, if another program has changed it. Raises OSError."""
        data = files.read(self._path)
        if data and data != self._storage.raw:
            copy = files.save_copy(self._path, data, self._moment, "changed")
            path = files.ordinary_path(self._path)
            self._report(f"{path} was changed while this gateway ran, and is not used; a copy is {copy.name}")


def _check_change(change: Change) -> None:
    """Raises InternalError if the change does not fit its table."""
    kind, field = KINDS[change.table]
    if change.value is None:
        if not field:
            raise InternalError(f"{change.table} cannot be deleted")
    elif not isinstance(change.value, kind) or (getattr(change.value, field) if field else "") != change.key:
        raise InternalError(f"{change.value!r} cannot be {change.key!r} of {change.table}")


def _read_meta(path: Path, tables: Tables) -> dict[str, Any]:
    """Returns what the file says about itself. Raises StoreError for another format."""
    try:
        version = tables["meta"]["1"]["format"]
    except (KeyError, TypeError):
        version = None
    if not isinstance(version, int) or version < FORMAT:
        raise _damaged_error(path, f"its format number is not {FORMAT}")
    if version > FORMAT:
        raise too_new(path, version, FORMAT)
    return dict(tables["meta"]["1"])


def _decode_tables(path: Path, tables: Tables) -> Registry:
    """Returns the configuration in these tables, with defaults for what is missing. Raises StoreDamaged."""
    rows: dict[Table, dict[str, Entity]] = {}
    for name, documents in tables.items():
        if documents and name != "meta" and name not in KINDS:  # the next change would drop it, perhaps with all grants
            raise _damaged_error(path, f"its table {name!r} is unknown")
    for table, (kind, field) in KINDS.items():
        rows[table] = {}
        for number, document in tables.get(table, {}).items():
            try:
                entity = msgspec.convert(document, kind)
            except ValueError as exc:
                raise _damaged_error(path, f"{table} {number}: {exc}") from exc
            key = getattr(entity, field) if field else ""
            if key in rows[table]:
                raise _damaged_error(path, f"{table} has {key!r} twice")
            rows[table][key] = entity
    account, settings = rows["account"].get("", Account()), rows["settings"].get("", Settings())
    return msgspec.convert({**rows, "account": account, "settings": settings}, Registry)


def _documents(registry: Registry, applied: int) -> dict[str, dict[int, object]]:
    """Returns the file's tables: entities by number, which become JSON when they are written."""
    tables: dict[str, dict[int, object]] = {"meta": {}}
    for table, (_, field) in KINDS.items():
        entities = getattr(registry, table).values() if field else [getattr(registry, table)]
        tables[table] = dict(enumerate(entities, start=1))
    tables["meta"][1] = {"format": FORMAT, "crc": _checksum(tables), "history": applied}
    return tables


def _checksum(tables: Mapping[str, Mapping[Any, object]]) -> str:
    return f"{zlib.crc32(layout({name: rows for name, rows in tables.items() if name != 'meta'})):08x}"


def _damaged_error(path: Path, reason: str) -> StoreDamaged:
    old = path.with_name("config.old.json")
    fix = f"restore {path.name} from a backup"
    if old.exists():
        fix = f"{old.name} is the version before the last change: copy it to {path.name}"
    place = files.ordinary_path(path)
    message = f"{place} cannot be used: {plain(reason, 300)}. Nothing was changed; {fix}"
    return StoreDamaged(message, details={"file": str(place)})
