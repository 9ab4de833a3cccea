"""Inflight: the file of running calls, which survives a crash.

A call gets two lines: at its beginning all that is known of it, and at its end its id. The second line is
written only when the record is safe from a power cut, so at any moment the call is in this file or in the log. The file
is emptied when no call runs, and rewritten when it has grown too large.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.domain.call import Running
from gateway.domain.units import CallId
from gateway.store import files

LIMIT = 4 << 20
"""A file of this many bytes is rewritten with the calls that still run."""

PROBE = 8192
"""The number of bytes that a probe writes: enough for the file to need new disk space."""

_FLAGS = os.O_RDWR | os.O_APPEND

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Running | str).decode


class Inflight:
    """The file of running calls. Each line begins and ends with a newline, so an incomplete one damages no other.

    Calls begin in one thread. Everything else may happen in another one, but only one of ``sync``, ``compact`` and
    ``close`` may run at a time.
    """

    def __init__(
        self, path: Path, *, limit: int = LIMIT, moment: int = 0, report: Callable[[str], None] = lambda _text: None
    ) -> None:
        """``report`` is called if the file has invalid lines. A crash leaves at most one."""
        self.path, self._limit = path, limit
        self.running: dict[CallId, Running] = {}
        self._fd = -1
        self._size = 0
        self._dirty = False
        """Whether something was written since the last sync."""
        self._stale = False
        """Whether a sync failed, so that only a new file can make the lines safe."""
        self._torn = False
        """Whether the remains of a failed write follow the last line."""
        self._lock = threading.Lock()
        if unreadable := self._load():
            copy = files.save_copy(path, files.read(path), moment)
            report(f"{files.ordinary_path(path)} had {unreadable} unreadable lines; the original is {copy.name}")
        self._fd = files.open_file(path, _FLAGS | os.O_CREAT)
        self._size = os.fstat(self._fd).st_size
        self.compact()
        self._has_identity = files.is_in_place(self._fd, path)

    @property
    def needs_compaction(self) -> bool:
        is_lost = self._has_identity and not files.is_in_place(self._fd, self.path)
        return self._size > self._limit or self._stale or is_lost

    def begin(self, call: Running) -> None:
        """Write the state of a call before it starts, or a new state. Raises OSError; then nothing is written."""
        with self._lock:
            self._write(b"\n%s\n" % _encode(call))
            self.running[call.id] = call

    def probe(self) -> None:
        """Write as a test, and remove it. Raises OSError if the disk has no space."""
        with self._lock:
            self._write(b"\n" * PROBE)
            self._size -= PROBE
            self._torn = True
            self._truncate()

    def end(self, call_ids: Iterable[CallId]) -> None:
        """Remove calls whose records are written. If the disk refuses, the next start finds their records instead."""
        with self._lock, suppress(OSError):
            ended = [call_id for call_id in call_ids if self.running.pop(call_id, None)]
            if self.running and ended:
                self._write(b"".join(b'\n"%s"\n' % call_id.encode() for call_id in ended))
            elif not self.running and self._size:
                os.ftruncate(self._fd, 0)
                self._size, self._torn = 0, False

    def compact(self) -> None:
        """Rewrite the file with the calls that run now. Others may begin meanwhile. Raises OSError."""
        new = self.path.with_name(self.path.name + ".tmp")
        with self._lock:
            self._truncate()
            size, data = self._size, b"".join(b"\n%s\n" % _encode(call) for call in self.running.values())
        files.write_file(new, data)
        with self._lock:
            os.lseek(self._fd, size, os.SEEK_SET)
            self._install(new, os.read(self._fd, self._size - size))
        files.sync_folder(self.path.parent)
        self._stale = False

    def sync(self) -> None:
        """Make all lines survive a power cut. Raises OSError if a sync fails, and again until the file is rewritten."""
        with self._lock:
            if not (self._dirty or self._stale) or self._fd < 0:
                return
            if self._stale:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._dirty, fd = False, self._fd
        try:
            files.sync(fd)
        except OSError:
            self._stale = True
            raise

    def close(self) -> None:
        with self._lock:
            self._close_file()

    def _install(self, new: Path, newest_lines: bytes) -> None:
        """Add the lines that were written meanwhile to the new file, and put it in place of the old one. These lines
        are not synced, as they were not in the old file.
        """
        fd = files.open_file(new, _FLAGS)
        try:
            files.write_all(fd, newest_lines)
            size = os.fstat(fd).st_size
            if os.name == "nt":  # Windows cannot replace an open file
                os.close(fd)
                self._close_file()
            files.rename(new, self.path)
        except OSError:
            if os.name == "nt" and self._fd < 0:
                self._fd = files.open_file(self.path, _FLAGS)
            else:
                os.close(fd)
            raise
        self._close_file()
        self._fd = files.open_file(self.path, _FLAGS) if os.name == "nt" else fd
        self._size, self._dirty, self._torn = size, True, False

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, line: bytes) -> None:
        """Append to the file. Raises OSError; then nothing is appended."""
        if self._torn:
            self._truncate()
        try:
            files.write_all(self._fd, line)
        except OSError:
            self._torn = True
            with suppress(OSError):
                self._truncate()
            raise
        self._size += len(line)
        self._dirty = True

    def _truncate(self) -> None:
        """Remove the remains of a failed write. Lines written after them would be lost with a later truncation."""
        if self._torn:
            os.ftruncate(self._fd, self._size)
            self._torn = False

    def _load(self) -> int:
        """Read the running calls from the file. Returns the number of invalid lines."""
        unreadable = 0
        for line in files.read(self.path).split(b"\n"):
            try:
                entry = _decode(line) if line else ""
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                unreadable += 1
                continue
            if isinstance(entry, Running):
                self.running[entry.id] = entry
            else:
                self.running.pop(CallId(entry), None)
        return unreadable
