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

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Running | str).decode


class Inflight:
    """``running`` is what the file says. Every line begins and ends with a newline, so a torn one spoils no other."""

    def __init__(self, path: Path, *, writer: bool = True, limit: int = LIMIT) -> None:
        self.path, self._limit = path, limit
        self.running: dict[CallId, Running] = {}
        self.unreadable = self._load()
        """Lines that make no sense; a crash leaves at most one."""
        self._fd = -1
        self._size = 0
        self._dirty = False
        self._lock = threading.Lock()
        """Between closing the file and syncing it."""
        if writer:
            if self.unreadable:
                files.replace(path.with_name(path.name + ".damaged"), files.read(path))
            self.rewrite()

    def begin(self, call: Running) -> None:
        """Note a call before it starts. Raises OSError, and then nothing is noted."""
        self._write(b"\n%s\n" % _encode(call))
        self.running[call.id] = call

    def probe(self) -> None:
        """See whether there is room for more. Raises OSError if not."""
        self._write(b"\n" * PROBE)
        self._size -= PROBE
        os.ftruncate(self._fd, self._size)

    def end(self, call_ids: Iterable[CallId]) -> None:
        """Note that calls have their records. If this cannot be written, the records will tell at the next start."""
        ended = [call_id for call_id in call_ids if self.running.pop(call_id, None)]
        with suppress(OSError):
            if not self.running:
                if self._size:
                    os.ftruncate(self._fd, 0)
                    self._size = 0
            elif ended:
                self._write(b"".join(b'\n"%s"\n' % call_id.encode() for call_id in ended))
                if self._size > self._limit:
                    self.rewrite()

    def rewrite(self) -> None:
        """Write the file anew with what runs now. Raises OSError."""
        data = b"".join(b"\n%s\n" % _encode(call) for call in self.running.values())
        with self._lock:
            self._close()  # Windows replaces no open file
            try:
                files.replace(self.path, data)
                self._size, self._dirty = len(data), False
            finally:
                self._fd = files.open_file(self.path, os.O_WRONLY | os.O_APPEND)

    def sync(self) -> None:
        """Make what was noted survive a power cut. May run beside the others in another thread; raises OSError."""
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
            except msgspec.DecodeError:
                unreadable += 1
                continue
            if isinstance(found, Running):
                self.running[found.id] = found
            else:
                self.running.pop(CallId(found), None)
        return unreadable
