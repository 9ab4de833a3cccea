"""HighWater: the number of the newest record that is safe on the disk, in a file of its own.

Records are numbered without a gap, so one that is missing in the midst of the call log shows. That its end is missing,
because the newest file was deleted or cut, shows only from outside: this file tells how far the numbers went. It is
written behind each sync, by the thread that syncs and never on a call's way. It is not synced itself: a power cut may
leave a smaller number than there was, never a larger one.
"""

import os
import zlib
from contextlib import suppress
from pathlib import Path

from gateway.store import files

_SLOT = 32
"""Bytes of one number. There are two places, written in turn, so that a torn write leaves the other one."""


class HighWater:
    """``last`` is what the file says when it is opened, and then what was put last; 0 if nothing is known."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._slot = 0
        data = files.read(path)
        found = [_number(data[at : at + _SLOT]) for at in (0, _SLOT)]
        self.last = max(found)
        self._slot = found.index(min(found))

    def put(self, last: int) -> None:
        """Note that all records up to this number are safe. What the disk refuses is tried again the next time."""
        if last <= self.last:
            return
        with suppress(OSError):
            if self._fd < 0:
                self._fd = files.open_file(self._path, os.O_RDWR | os.O_CREAT)
            files.write_at(self._fd, _line(last), self._slot * _SLOT)
            self.last, self._slot = last, 1 - self._slot

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _line(number: int) -> bytes:
    digits = b"%022d" % number
    return b"%s %08x\n" % (digits, zlib.crc32(digits))


def _number(line: bytes) -> int:
    digits = line[:22]
    return int(digits) if digits.isdigit() and line == _line(int(digits)) else 0
