"""The memory of the process, and what all request bodies together may use of it.

Request bodies are counted exactly, from their first byte to the end of their call. The size of the process is checked
at most once a second, and only when a call comes. While no other call runs, none is refused for it, because waiting
would free nothing. This works on Linux only; other systems do not offer the number.

The C library keeps freed memory for later use: after 200 slow streams or a few large answers that is a hundred
megabytes in pieces. So it is set once to map each large block on its own, which returns the block as soon as it is
freed. Of the rest it keeps a few megabytes for the next call, and is asked to return all of it when no call runs. What
answers may use is in ``answer_memory``.
"""

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Sized
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.domain.errors import Unavailable
from gateway.domain.settings import Settings

_STATM = Path("/proc/self/statm")


def resident() -> int:
    """Returns the size of the process in bytes; 0 if it is unknown."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def map_large_blocks() -> None:
    """Make glibc map every large block individually, and keep some free memory. Other C libraries are left alone."""
    with suppress(AttributeError, OSError):
        if sys.platform == "linux":
            libc = ctypes.CDLL(None)
            # M_MMAP_THRESHOLD: by itself glibc raises it up to 32 MiB, as soon as such a block is freed
            libc.mallopt(-3, 1 << 20)
            # M_TRIM_THRESHOLD: otherwise a body of 200 KB goes back to the system and its pages are faulted in again
            libc.mallopt(-1, 8 << 20)


def trim() -> None:
    """Return all free pages to the system: a tenth of a millisecond a megabyte. Only glibc does so."""
    with suppress(AttributeError, OSError):
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)


CHECK_S = 1.0
"""Seconds between two checks of the size of the process."""
MIB = 1 << 20


class Pressure:
    """Refuses calls and request bodies that memory has no room for."""

    def __init__(
        self,
        resident: Callable[[], int],
        settings: Callable[[], Settings],
        calls: Sized,
        trim: Callable[[], None] = lambda: None,
    ) -> None:
        """``resident`` returns the size of the process in bytes, or 0 if unknown. ``calls`` are the running calls."""
        self._resident = resident
        self._trim = trim
        self._size_at_rest = resident()
        """The size of the process without bodies, which WebSockets may have while no call runs."""
        self._settings = settings
        self._calls = calls
        self._next_check = 0.0
        self._too_large = ""
        """Why the process is too large for another call; empty if it is not."""
        self.max_body_bytes = 0
        """The maximum size of all request bodies together, in bytes; 0 for no limit."""
        self.body_bytes = 0

    def check(self, now: float) -> None:
        """Raises Unavailable when the process is too large for another call. ``now`` is monotonic seconds."""
        if now >= self._next_check:
            self._next_check = now + CHECK_S
            self._check_size()
        if self._too_large and len(self._calls):
            raise Unavailable(self._too_large, code="out_of_memory", retry_after_s=CHECK_S)

    def relax(self) -> None:
        """Return free memory to the system if there is enough of it. Called when no call runs any more."""
        size = self._resident() - self.body_bytes
        if size > self._size_at_rest + (4 << 20):  # less is not worth the search through all free blocks
            self._trim()
            self._size_at_rest = self._resident() - self.body_bytes
        else:
            self._size_at_rest = min(size, self._size_at_rest)

    def _check_size(self) -> None:
        """Compare the size of the process with the limit; if it is above, return free memory and compare again."""
        settings = self._settings()
        self.max_body_bytes = settings.bodies_mib * MIB
        self._too_large = ""
        limit = settings.memory_mib * MIB
        if not limit or self._resident() < limit:
            return
        gc.collect()  # objects that refer to each other may keep large requests for hours
        self._trim()
        size = self._resident()
        if size >= limit:
            self._too_large = (
                f"the gateway uses {size // MIB} MiB of memory and accepts no more calls above "
                f"{settings.memory_mib} MiB; try again when some have ended, or 'tollkeeper settings set --memory-mib'"
            )


class BodyShare(msgspec.Struct, eq=False):
    """The part of the memory that one request's body takes, until ``close``."""

    pressure: Pressure
    _size: int = 0

    def close(self) -> None:
        """Give the memory back: the body is not needed any more."""
        self.give_back(self._size)

    def give_back(self, size: int) -> None:
        size = min(size, self._size)
        self.pressure.body_bytes -= size
        self._size -= size

    def grow(self, size: int) -> None:
        """Count more of the body. Raises Unavailable when all bodies together are too large."""
        pressure = self.pressure
        if pressure.max_body_bytes and pressure.body_bytes + size > pressure.max_body_bytes:
            msg = (
                f"the bodies of all requests together would be larger than {pressure.max_body_bytes // MIB} MiB; "
                "try again when some have ended, or raise the limit with 'tollkeeper settings set --bodies-mib'"
            )
            raise Unavailable(msg, code="out_of_memory", retry_after_s=CHECK_S)
        pressure.body_bytes += size
        self._size += size
