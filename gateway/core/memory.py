"""Memory: how much of it this process has now, and how what is free in it goes back to the system. On Linux; elsewhere
nobody tells, and nothing is done.

The C library keeps what is freed, for those who come next: after 200 slow streams or a few large answers that is a
hundred megabytes in pieces. It is told once to map large blocks by themselves, so that each goes back as soon as it is
freed, and to give the rest back when it is worth it.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_STATM = Path("/proc/self/statm")

LARGE_BLOCK = 1 << 20
"""Blocks from this size on are mapped by themselves. glibc begins with 128 KiB and raises that by itself, up to 32 MiB,
as soon as such a block is freed."""
_M_MMAP_THRESHOLD = -3
SLACK_AT_REST = 4 << 20
SLACK_AT_WORK = 16 << 20
"""To give back less than this is not worth the look through all that is free."""
EACH_CALL = 256 << 10
"""What a running call may use, beyond what is counted: its connections and their buffers."""


def resident() -> int:
    """Bytes; 0 where nobody tells."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def map_large_blocks() -> None:
    """Have the C library map every large block by itself, from now on. It does so where it is glibc."""
    with suppress(AttributeError, OSError):
        if sys.platform == "linux":
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)


def trim() -> None:
    """Give all free pages back: a tenth of a millisecond a megabyte. It does so where the C library is glibc."""
    with suppress(AttributeError, OSError):
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)


class Trimmer:
    """Decides when to ``trim``: when the process is much larger than after the last time, and does not use it."""

    def __init__(self, resident: Callable[[], int] = resident, trim: Callable[[], None] = trim) -> None:
        self._resident = resident
        self._trim = trim
        self._at_rest = self._at_work = resident()
        """The size that is no reason: what was left the last time, beside what was in use then."""

    def look(self, counted: int, calls: int, *, at_rest: bool) -> None:
        """``counted``: bytes of bodies and answers; ``calls``: how many run; ``at_rest``: none does, for a while."""
        used = counted + calls * EACH_CALL
        floor, slack = (self._at_rest, SLACK_AT_REST) if at_rest else (self._at_work, SLACK_AT_WORK)
        size = self._resident() - used
        if size > floor + slack:
            self._trim()
            size = self._resident() - used
        elif size > floor:
            return
        self._at_work = size
        if at_rest:
            self._at_rest = size
