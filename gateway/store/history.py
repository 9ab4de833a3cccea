"""The history of the configuration, in ``history.json``: a TinyDB file, replaced as a whole by every change.

Order of a change: the keys that it removes, the entry, the configuration. The configuration has the number of the
newest entry that it contains, so an entry whose change a crash prevented is recognized, and left out. Only the newest
entries are kept.

Keys of upstreams are not in the history. Those that an entry needs to be undone, and that the configuration has no
more, are in ``history-keys.json``; the history has a keyed hash of each. They go with the last entry that needs them.
"""

import hmac
import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.domain.history import HistoryEntry
from gateway.domain.human_values import count_text
from gateway.domain.units import Millis
from gateway.store import files
from gateway.store.documents import AtomicStorage, Tables, layout
from gateway.store.errors import StoreDamaged
from gateway.store.folder import ordinary

KEPT = 500
"""Entries."""
BYTES = 1 << 20
"""Of all entries together; the newest one is kept whatever its size."""
FORMAT = 1
SEAL = "sealed:"
"""Begins the mark that replaces a key."""

_SEALED = re.compile(rb"sealed:([0-9a-f]{32})")
_encode = msgspec.json.Encoder().encode


class History:
    """Read when it is first used. ``applied`` gives the number of the newest entry that the configuration contains."""

    def __init__(
        self, home: Path, applied: Callable[[], int], now: Callable[[], Millis], note: Callable[[str], None]
    ) -> None:
        self._home, self._applied, self._now, self._note = home, applied, now, note
        self._loaded: _LoadedHistory | None = None

    @property
    def entries(self) -> Sequence[HistoryEntry]:
        """Oldest first."""
        return self._load().entries

    @property
    def next_id(self) -> int:
        """The number of the next entry."""
        entries = self.entries
        return max(self._applied(), entries[-1].id if entries else 0) + 1

    def seal(self, text: str) -> str:
        """The mark that replaces a key in the history: the same for the same key, and of no use without it."""
        return SEAL + hmac.new(self._load().salt, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:32]

    def opened(self, seal: str) -> str | None:
        """The key that this mark replaces; None if it is not kept."""
        return self._load().keys.get(seal)

    def append(self, entry: HistoryEntry, removed: Mapping[str, str], present: Collection[str]) -> None:
        """Write an entry before its change is made. Raises OSError; then nothing is written.

        ``removed``: the keys that the configuration will have no more, by their seals; ``present``: the seals of those
        that it has before the change and after it.
        """
        loaded = self._load()
        entries, raw = _newest([*loaded.entries, entry], [*loaded.raw, _encode(entry)])
        needed = {SEAL + found.decode() for one in raw for found in _SEALED.findall(one)}
        keys = {
            seal: text for seal, text in {**loaded.keys, **removed}.items() if seal in needed and seal not in present
        }
        self._write(_LoadedHistory(entries, raw, loaded.salt, keys), loaded)

    def discard(self, number: int) -> None:
        """Take the newest entry out again: its change was not made."""
        loaded = self._load()
        if loaded.entries and loaded.entries[-1].id == number:
            without = _LoadedHistory(loaded.entries[:-1], loaded.raw[:-1], loaded.salt, loaded.keys)
            self._loaded = without
            with suppress(OSError):  # the next entry replaces it, and the next start leaves it out
                self._write(without, loaded)

    def clear(self) -> None:
        """Forget everything, the keys too. Raises OSError."""
        loaded = self._load()
        self._write(_LoadedHistory([], [], loaded.salt, {}), loaded)

    def _write(self, new: "_LoadedHistory", old: "_LoadedHistory") -> None:
        """Keys that are added are on the disk before the entries that need them; others go after those."""
        grown = {**old.keys, **new.keys}
        if grown != old.keys:
            self._write_keys(grown)
        documents = {entry.id: msgspec.Raw(raw) for entry, raw in zip(new.entries, new.raw, strict=True)}
        meta = {1: {"format": FORMAT, "salt": new.salt.hex()}}
        files.replace(self._home / "history.json", layout({"meta": meta, "history": documents}))
        self._loaded = new
        if new.keys != grown:
            with suppress(OSError):  # the next change removes them
                self._write_keys(new.keys)

    def _write_keys(self, keys: Mapping[str, str]) -> None:
        documents = {number: {"id": seal, "key": text} for number, (seal, text) in enumerate(keys.items(), 1)}
        files.replace(self._home / "history-keys.json", layout({"meta": {1: {"format": FORMAT}}, "keys": documents}))

    def _load(self) -> "_LoadedHistory":
        if self._loaded is None:
            self._loaded = self._read()
        return self._loaded

    def _read(self) -> "_LoadedHistory":
        path = self._home / "history.json"
        salt, found, whole = secrets.token_bytes(16), [], True
        try:
            tables = AtomicStorage(path).read() or {}
            if tables:
                salt = bytes.fromhex(tables["meta"]["1"]["salt"])
            found = [msgspec.convert(document, HistoryEntry) for document in tables.get("history", {}).values()]
        except (StoreDamaged, ValueError, KeyError, TypeError):
            found, whole = [], False
        found.sort(key=lambda entry: entry.id)
        applied = self._applied()
        entries = [entry for entry in found if entry.id <= applied]
        if not whole or len(found) - len(entries) > 1:  # one is what a crash leaves
            what = "was damaged" if not whole else "is newer than the configuration"
            with suppress(OSError):
                kept = files.keep(path, files.read(path), self._now(), "damaged" if not whole else "changed")
                left = count_text(len(entries), "change")
                self._note(f"{ordinary(path)} {what}; {left} left in it, the original is {kept.name}")
        return _LoadedHistory(entries, [_encode(entry) for entry in entries], salt, self._read_keys())

    def _read_keys(self) -> dict[str, str]:
        try:
            tables: Tables = AtomicStorage(self._home / "history-keys.json").read() or {}
            return {str(one["id"]): str(one["key"]) for one in tables.get("keys", {}).values()}
        except (StoreDamaged, KeyError, TypeError):
            return {}  # an undo says which keys are missing


class _LoadedHistory(msgspec.Struct, frozen=True):
    """What the files have; ``raw`` is each entry as it is written."""

    entries: list[HistoryEntry]
    raw: list[bytes]
    salt: bytes
    keys: dict[str, str]


def _newest(entries: list[HistoryEntry], raw: list[bytes]) -> tuple[list[HistoryEntry], list[bytes]]:
    """The newest ones that may be kept."""
    size, first = 0, len(raw)
    while first and len(raw) - first < KEPT and (first == len(raw) or size + len(raw[first - 1]) <= BYTES):
        first -= 1
        size += len(raw[first])
    return entries[first:], raw[first:]
