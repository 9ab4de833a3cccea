"""Store: everything a gateway remembers, in one folder with one writer.

lock                 held by the writer while it lives; contains its process id
config.json          TinyDB: meta, account, settings, tokens, groups, channels, prices, grants   replaced atomically
history.json         TinyDB: the owner's changes of it                                           replaced atomically
inflight.log         the calls that are running                                                  appended, emptied
incidents.json       the incidents, for the next start                                           replaced atomically
high-water           the number of the newest record that is safe                                overwritten
usage/calls-*.json   TinyDB: one segment of the call log each                                    appended, then sealed
usage/ledger.json    TinyDB: one document of sums per sealed segment                             replaced atomically
usage/reserve        space kept back for the records of running calls
"""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from gateway.config import Config, make_home
from gateway.domain.incidents import Incident
from gateway.domain.registry import Registry
from gateway.domain.units import DAY_MS, Millis
from gateway.store import files
from gateway.store.books import Books
from gateway.store.calls import CallLog
from gateway.store.disk_reserve import DiskReserve
from gateway.store.entities import Entities
from gateway.store.errors import StoreError, cannot_open
from gateway.store.history import History
from gateway.store.inflight import Inflight
from gateway.store.log import LIMIT, HighWater, Log
from gateway.store.recorder import Recorder, Syncer

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})
"""The system's errors when another process has a lock. Any other error is a failure of the system itself."""


def lock_store(path: Path, folder: int = -1) -> int:
    """Lock a store for one writer. Returns the descriptor, which holds the lock until it is closed, or until the
    process ends, however it ends. Raises StoreError, which names the holder, and OSError for other failures.

    ``folder``: the store's open folder, or -1. It is locked too where that is possible, as the file could be replaced.
    """
    fd = files.open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        _lock(fd)
        if sys.platform != "win32" and folder >= 0:
            _lock_folder(folder)
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, str(os.getpid()).encode())
    except OSError as exc:
        failure = _busy(fd, path) if exc.errno in _HELD else exc
        os.close(fd)
        raise failure from None
    return fd


def _busy(fd: int, path: Path) -> StoreError:
    holder = os.read(fd, 20).decode("ascii", "replace").strip() or "unknown"
    return StoreError(
        f"another process (pid {holder}) is using the store in {files.ordinary_path(path).parent}; "
        "stop it, or give this one a home of its own with --home",
        code="store_busy",
        details={"pid": holder},
    )


def _lock_folder(fd: int) -> None:
    try:
        _lock(fd)
    except OSError as exc:
        if exc.errno in _HELD:
            raise


def _lock(fd: int) -> None:
    """Lock a file or folder without waiting. Raises OSError."""
    if sys.platform == "win32":
        os.lseek(fd, 1 << 30, os.SEEK_SET)  # beyond the process id, which others may read
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        os.lseek(fd, 0, os.SEEK_SET)
    else:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Store:
    """An open store. Call ``close`` after use."""

    def __init__(
        self,
        config: Config,
        *,
        now: Callable[[], Millis],
        check: Callable[[Registry], None] | None = None,
        syncer: Callable[..., Syncer] = Syncer,
        segment_bytes: int = LIMIT,
    ) -> None:
        """Open all parts of a home's store, create missing files, and repair what a crash left behind.

        Only one process may have it open. ``check`` raises BadRequest for a configuration that another program made
        invalid. Raises StoreDamaged, and StoreError if it is in use or too new, or the system refuses something.
        """
        self.notes: list[str] = []
        """What was repaired, when the store was opened or later, for the owner."""
        self.on_note: Callable[[str], None] = lambda _text: None
        """Called with each later repair, from any thread."""
        try:
            with ExitStack() as resources:
                make_home(config.home)
                _check_files(config.home)
                self.folder = files.Folder(config.home)
                resources.callback(self.folder.close)
                self._home = home = self.folder.path
                resources.callback(os.close, lock_store(home / "lock", self.folder.fd))
                # with calls or a former configuration, there must be a current one
                used = (home / "config.old.json").exists() or any((home / "usage").glob("*.json"))
                self.entities = Entities(
                    home / "config.json", expected=used, moment=now(), check=check, report=self._note
                )
                self.history = History(home, lambda: self.entities.applied, now, self._note)
                log = Log(
                    home / "usage",
                    limit=segment_bytes,
                    now=now,
                    oldest=lambda newest: min(now(), newest) - self.entities.registry.settings.keep_days * DAY_MS,
                    high_water=HighWater(home / "high-water"),
                    report=self._note,
                )
                resources.callback(log.close)
                self.calls = CallLog(log)
                inflight = Inflight(home / "inflight.log", moment=now(), report=self._note)
                recorder = Recorder(log, inflight, DiskReserve(log.folder / "reserve"), syncer)
                resources.callback(recorder.close)
                self.books = Books(self.entities, self.calls, recorder)
                if lost := self.books.recover(dict(inflight.running)):
                    self._note(f"calls that were running when the gateway died: {lost}, recorded as lost, at no cost")
                self._resources = resources.pop_all()
        except OSError as exc:
            raise cannot_open(config.home, exc) from exc

    def close(self) -> None:
        """End the syncing thread, sync, and release the lock. Raises StoreError if the last sync failed."""
        try:
            self._resources.close()
        except OSError as exc:
            raise StoreError(f"the last calls may not survive a power cut: {files.reason(exc)}") from exc

    def load_incidents(self) -> list[Incident]:
        """Returns the incidents, oldest first; none if their file is missing or damaged: they count no money."""
        path = self._home / "incidents.json"
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError), files.open_to_read(path) as file:
            return msgspec.json.decode(file.read(4 << 20), type=list[Incident])  # a larger file is not ours
        return []

    def save_incidents(self, incidents: Sequence[Incident]) -> None:
        """Write the incidents for the next start, if the disk allows it. A power cut loses the last seconds."""
        data = msgspec.json.format(msgspec.json.encode(incidents)) + b"\n"
        with suppress(OSError):
            files.replace(self._home / "incidents.json", data, durable=False)

    def _note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < 100:  # a disk may fail for days
            self.notes.append(text)
        self.on_note(text)


def _check_files(home: Path) -> None:
    """Make all files private. Raises StoreError if a link, or anything else, is in place of a file."""
    usage = home / "usage"
    names = ("config.json", "config.old.json", "high-water", "history.json", "incidents.json", "inflight.log", "lock")
    for path in (*(home / name for name in names), *usage.glob("*.json")):
        if kind := files.irregular_kind(path):
            raise StoreError(f"{path} is {kind}; put the file itself there, or give this home another folder")
    for folder in (home, usage):
        files.make_private(folder)
