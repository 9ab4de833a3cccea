"""Inflight: the calls that are running, in a file, so that after a crash they are known instead of forgotten.

A line when a call begins (all that is known of it) and a line when it has ended (its id); the latter not before its
record is safe from a power cut, so that at any moment one of the two files knows of it. The file is emptied whenever
nothing runs, and written anew when it has grown.
"""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.domain.call import Running
from gateway.domain.units import CallId
from gateway.store import files

LIMIT = 4 << 20
"""Bytes after which the file is written anew with what still runs."""

PROBE = 8192
"""Bytes; more than what a file may take without asking for new space."""

_FLAGS = os.O_RDWR | os.O_APPEND

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Running | str).decode


class Inflight:
    """``running`` is what the file says. Every line begins and ends with a newline, so a torn one spoils no other.

    Calls begin in one thread; all else may happen in another one.
    """

    def __init__(self, path: Path, *, writer: bool = True, limit: int = LIMIT, moment: int = 0) -> None:
        self.path, self._limit = path, limit
        self.running: dict[CallId, Running] = {}
        self.unreadable = self._load()
        """Lines that make no sense; a crash leaves at most one."""
        self.kept: Path | None = None
        """Where the file with them lies."""
        self._fd = -1
        self._size = 0
        self._dirty = False
        self._lock = threading.Lock()
        if writer:
            if self.unreadable:
                self.kept = files.keep(path, files.read(path), moment)
            self._fd = files.open_file(path, _FLAGS | os.O_CREAT)
            self._size = os.fstat(self._fd).st_size
            self.compact()

    @property
    def grown(self) -> bool:
        """Whether it is time to ``compact``."""
        return self._size > self._limit

    def begin(self, call: Running) -> None:
        """Note a call before it starts, or anew. Raises OSError, and then nothing is noted."""
        with self._lock:
            self._write(b"\n%s\n" % _encode(call))
            self.running[call.id] = call

    def probe(self) -> None:
        """See whether there is room for more. Raises OSError if not."""
        with self._lock:
            self._write(b"\n" * PROBE)
            self._size -= PROBE
            os.ftruncate(self._fd, self._size)

    def end(self, call_ids: Iterable[CallId]) -> None:
        """Note that calls have their records. If this cannot be written, the records will tell at the next start."""
        with self._lock, suppress(OSError):
            ended = [call_id for call_id in call_ids if self.running.pop(call_id, None)]
            if self.running and ended:
                self._write(b"".join(b'\n"%s"\n' % call_id.encode() for call_id in ended))
            elif not self.running and self._size:
                os.ftruncate(self._fd, 0)
                self._size = 0

    def compact(self) -> None:
        """Write the file anew with what runs now; calls may begin meanwhile. Raises OSError."""
        new = self.path.with_name(self.path.name + ".tmp")
        with self._lock:
            size, data = self._size, b"".join(b"\n%s\n" % _encode(call) for call in self.running.values())
        files.write_new(new, data)
        with self._lock:
            os.lseek(self._fd, size, os.SEEK_SET)
            self._put_in_place(new, os.read(self._fd, self._size - size))
        files.sync_folder(self.path.parent)

    def sync(self) -> None:
        """Make what was noted survive a power cut. Raises OSError."""
        with self._lock:
            if not self._dirty or self._fd < 0:
                return
            self._dirty = False
            fd = os.dup(self._fd)
        try:
            files.sync(fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _put_in_place(self, new: Path, begun: bytes) -> None:
        """Add what began meanwhile, which is as little synced as it was in the old file, and let the new one be it."""
        fd = files.open_file(new, os.O_WRONLY | os.O_APPEND)
        try:
            files.write_all(fd, begun)
            size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        self._close()  # Windows replaces no open file
        try:
            files.rename(new, self.path)
            self._size, self._dirty = size, True
        finally:
            self._fd = files.open_file(self.path, _FLAGS)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, line: bytes) -> None:
        try:
            files.check_whole(os.write(self._fd, line), line)
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(line)
        self._dirty = True

    def _load(self) -> int:
        unreadable = 0
        for line in files.read(self.path).split(b"\n"):
            try:
                found = _decode(line) if line else ""
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                unreadable += 1
                continue
            if isinstance(found, Running):
                self.running[found.id] = found
            else:
                self.running.pop(CallId(found), None)
        return unreadable
