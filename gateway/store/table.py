"""Calls: the log as a TinyDB, with all that TinyDB reads and inserts. What was written is never changed."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from tinydb import TinyDB
from tinydb.storages import Storage
from tinydb.table import Table

from gateway.store.errors import StoreError
from gateway.store.files import body_of, id_of, pack
from gateway.store.log import Log, LogLine
from gateway.store.segment import decode_entry

Document = dict[str, Any]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Document).decode


class SegmentStorage(Storage, Mapping[str, Document]):
    """TinyDB's storage over a Log; it is itself the lazy table of all its calls."""

    def __init__(self, folder: str | Path | Log, **options: Any) -> None:
        self.log = folder if isinstance(folder, Log) else Log(Path(folder), **options)

    def read(self) -> dict[str, Any]:
        return {"calls": self}

    def write(self, data: dict[str, dict[str, Any]]) -> NoReturn:
        _refuse()

    def close(self) -> None:
        self.log.close()

    def append(self, documents: Mapping[int, Mapping[str, Any]]) -> None:
        """Raises OSError, and StoreError for a document whose fields are not those of a call."""
        lines = []
        for doc_id, document in documents.items():
            body = _encode(document)
            lines.append(LogLine(doc_id, pack(doc_id, body), _entry(body)))
        self.log.append(lines)

    def __len__(self) -> int:
        return sum(segment.n for segment in self.log.segments if not segment.gone)

    def __iter__(self) -> Iterator[str]:
        return (str(id_of(line)) for segment in self.log.segments for line in segment.lines())

    def items(self) -> Iterator[tuple[str, Document]]:  # type: ignore[override]  # lazy on purpose
        for segment in self.log.segments:
            for line in segment.lines():
                yield str(id_of(line)), _document(line)

    def __getitem__(self, key: str) -> Document:
        if key.isascii() and key.isdecimal():
            for segment in self.log.segments:
                if segment.first <= int(key) <= segment.last:
                    for line in segment.newest([b'"%s":{' % key.encode()]):
                        if id_of(line) == int(key):
                            return _document(line)
        raise KeyError(key)


class CallTable(Table):
    """TinyDB's table over the log: every read of TinyDB works, an insert costs the same at any size."""

    def __init__(self, storage: Storage, name: str, **options: Any) -> None:
        if name != "calls" or not isinstance(storage, SegmentStorage):
            raise StoreError(f"the log has one table, calls; there is no {name}")
        super().__init__(storage, name, cache_size=0)  # results of a log are too big to keep
        self._calls = storage
        self._fresh = 0

    def _get_next_id(self) -> int:
        self._fresh = max(self._fresh, self._calls.log.last) + 1
        return self._fresh

    def _update_table(self, updater: Callable[[dict[int, Mapping[str, Any]]], None]) -> None:
        new = _New(self._calls.log.last)
        try:
            updater(new)
            if new:
                self._calls.append(new)
        finally:
            self._fresh = 0

    def update(self, *args: object, **options: object) -> NoReturn:
        _refuse()

    def update_multiple(self, *args: object, **options: object) -> NoReturn:
        _refuse()

    def upsert(self, *args: object, **options: object) -> NoReturn:
        _refuse()

    def remove(self, *args: object, **options: object) -> NoReturn:
        _refuse()

    def truncate(self) -> NoReturn:
        _refuse()


class CallRows(TinyDB):
    """``Calls("usage")`` is a TinyDB with the one table ``calls``."""

    table_class = CallTable  # type: ignore[assignment]
    default_storage_class = SegmentStorage  # type: ignore[assignment]
    default_table_name = "calls"


class _New(dict[int, Mapping[str, Any]]):
    """What an insert writes into: it knows which ids exist without holding the table."""

    def __init__(self, last: int) -> None:
        self._last = last

    def __contains__(self, doc_id: object) -> bool:
        return (isinstance(doc_id, int) and doc_id <= self._last) or super().__contains__(doc_id)


def _entry(body: bytes) -> Any:
    try:
        return decode_entry(body)
    except msgspec.ValidationError as exc:
        raise StoreError(f"this is not a call: {exc}") from exc


def _document(line: bytes) -> Document:
    document = _decode(body_of(line))
    del document["_crc"]
    return document


def _refuse() -> NoReturn:
    raise StoreError("calls can only be added; old ones expire (setting keep_days)")
