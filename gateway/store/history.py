"""The history of the configuration, in ``history.json``: a TinyDB file, replaced as a whole by every change.

The entry is written before the configuration. The configuration has the number of the newest entry that it contains, so
an entry whose change a crash prevented is recognized, and left out. Only the newest entries are kept. Like the
configuration, the file has the keys of upstreams in it, and is readable by its owner alone.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.domain.history import HistoryEntry
from gateway.domain.human_values import count_text
from gateway.domain.units import Millis
from gateway.store import files
from gateway.store.documents import AtomicStorage, encode, layout
from gateway.store.errors import StoreDamaged
from gateway.store.folder import ordinary

KEPT = 500
"""How many entries are kept."""
BYTES = 1 << 20
"""The most bytes of all entries. The newest one is kept whatever its size."""


class History:
    """The entries, read on first use. ``applied`` returns the number of the newest entry in the configuration."""

    def __init__(
        self, home: Path, applied: Callable[[], int], now: Callable[[], Millis], note: Callable[[str], None]
    ) -> None:
        self._home, self._applied, self._now, self._note = home, applied, now, note
        self._loaded: list[HistoryEntry] | None = None

    @property
    def entries(self) -> list[HistoryEntry]:
        """Oldest first."""
        if self._loaded is None:
            self._loaded = self._read()
        return self._loaded

    @property
    def next_id(self) -> int:
        """Returns the number of the next entry."""
        entries = self.entries
        return max(self._applied(), entries[-1].id if entries else 0) + 1

    def append(self, entry: HistoryEntry) -> None:
        """Write an entry before its change is made. Raises OSError; then nothing is written."""
        self._write(_newest([*self.entries, entry]))

    def discard(self, number: int) -> None:
        """Remove the newest entry again, because its change was not made."""
        if self.entries and self.entries[-1].id == number:
            self._loaded = self.entries[:-1]
            with suppress(OSError):  # the next entry replaces it, and the next start leaves it out
                self._write(self._loaded)

    def clear(self) -> None:
        """Delete all entries. Raises OSError."""
        self._write([])

    def _write(self, entries: list[HistoryEntry]) -> None:
        documents = {entry.id: entry for entry in entries}
        files.replace(self._home / "history.json", layout({"meta": {1: {"format": 1}}, "history": documents}))
        self._loaded = entries

    def _read(self) -> list[HistoryEntry]:
        path = self._home / "history.json"
        read, whole = [], True
        try:
            tables = AtomicStorage(path).read() or {}
            read = [*msgspec.convert(tables.get("history", {}), dict[str, HistoryEntry]).values()]
        except (StoreDamaged, ValueError, KeyError, TypeError):
            whole = False
        read.sort(key=lambda entry: entry.id)
        applied = self._applied()
        entries = [entry for entry in read if entry.id <= applied]
        if not whole or len(read) - len(entries) > 1:  # a crash leaves one
            what = "was damaged" if not whole else "is newer than the configuration"
            with suppress(OSError):
                kept = files.keep(path, files.read(path), self._now(), "damaged" if not whole else "changed")
                left = count_text(len(entries), "change")
                self._note(f"{ordinary(path)} {what}; {left} left in it, the original is {kept.name}")
        return entries


def _newest(entries: list[HistoryEntry]) -> list[HistoryEntry]:
    """Returns the newest entries, as many as may be kept."""
    size, kept = 0, list[HistoryEntry]()
    for entry in reversed(entries):
        size += len(encode(entry))
        if kept and (len(kept) >= KEPT or size > BYTES):
            break
        kept.append(entry)
    return kept[::-1]
