"""The history of the configuration, in ``history.json``: a TinyDB file that every change replaces as a whole.

An entry is written before the configuration. The configuration has the number of the newest entry that it contains, so
an entry whose change was prevented by a crash is recognized and left out. Only the newest entries are kept. Like the
configuration, the file contains the keys of upstreams, so only its owner can read it.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.domain.errors import Unavailable
from gateway.domain.history import HistoryEntry
from gateway.domain.human_values import count_text
from gateway.domain.units import Millis
from gateway.store import files
from gateway.store.entities import AtomicStorage, encode, layout
from gateway.store.errors import StoreDamaged, unavailable

MAX_ENTRIES = 500
MAX_BYTES = 1 << 20
"""The maximum size of all entries together, in bytes. The newest one is kept whatever its size."""


class History:
    """The entries, read on first use. ``applied`` returns the configuration's newest; ``note`` reports a repair."""

    def __init__(
        self, home: Path, applied: Callable[[], int], now: Callable[[], Millis], note: Callable[[str], None]
    ) -> None:
        self._home, self._applied, self._now, self._note = home, applied, now, note
        self._loaded: list[HistoryEntry] | None = None

    @property
    def entries(self) -> list[HistoryEntry]:
        """Returns all entries, oldest first."""
        if self._loaded is None:
            self._loaded = self._read()
        return self._loaded

    @property
    def next_id(self) -> int:
        entries = self.entries
        return max(self._applied(), entries[-1].id if entries else 0) + 1

    def append(self, entry: HistoryEntry) -> None:
        """Write an entry before its change is made. Raises Unavailable if the disk refuses; then nothing is written."""
        self._write(_newest([*self.entries, entry]))

    def discard(self, number: int) -> None:
        """Remove the newest entry again, because its change was not made."""
        if self.entries and self.entries[-1].id == number:
            self._loaded = self.entries[:-1]
            with suppress(Unavailable):  # the next entry replaces it, and the next start leaves it out
                self._write(self._loaded)

    def clear(self) -> None:
        """Delete all entries. Raises Unavailable if the disk refuses."""
        self._write([])

    def _write(self, entries: list[HistoryEntry]) -> None:
        data = layout({"meta": {1: {"format": 1}}, "history": {entry.id: entry for entry in entries}})
        try:
            files.replace(self._home / "history.json", data)
        except OSError as exc:
            raise unavailable(exc) from exc
        self._loaded = entries

    def _read(self) -> list[HistoryEntry]:
        """Returns the entries in the file that the configuration contains. Others are reported and dropped."""
        path = self._home / "history.json"
        stored, damaged = list[HistoryEntry](), False
        try:
            tables = AtomicStorage(path).read() or {}
            stored += msgspec.convert(tables.get("history", {}), dict[str, HistoryEntry]).values()
        except (StoreDamaged, ValueError, KeyError, TypeError):
            damaged = True
        stored.sort(key=lambda entry: entry.id)
        applied = self._applied()
        entries = [entry for entry in stored if entry.id <= applied]
        if damaged or len(stored) - len(entries) > 1:  # a crash leaves one
            problem = "was damaged" if damaged else "is newer than the configuration"
            with suppress(OSError):
                copy = files.save_copy(path, files.read(path), self._now(), "damaged" if damaged else "changed")
                left = count_text(len(entries), "change")
                self._note(f"{files.ordinary_path(path)} {problem}; {left} left in it, the original is {copy.name}")
        return entries


def _newest(entries: list[HistoryEntry]) -> list[HistoryEntry]:
    size, newest = 0, list[HistoryEntry]()
    for entry in reversed(entries):
        size += len(encode(entry))
        if newest and (len(newest) >= MAX_ENTRIES or size > MAX_BYTES):
            break
        newest.append(entry)
    return newest[::-1]
