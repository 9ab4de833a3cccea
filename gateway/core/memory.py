"""The memory that calls use: what the process has, and what requests and answers may use together.

Request bodies are counted exactly, from their first byte to the end of their call. The size of the process is checked
at most once a second, and only when a call comes. While no other call runs, none is refused for it, because waiting
would free nothing. This works on Linux only; other systems do not offer the number.

The C library keeps freed memory for later use: after 200 slow streams or a few large answers that is a hundred
megabytes in pieces. So it is set once to map large blocks individually, each of which is returned as soon as it is
freed, and is asked to return the rest when no call runs.

An answer is counted while it is gathered, unpacked and read, and while it waits for a slower client. Up to ``POCKET``
it is not counted: each running call counts for that much, so ordinary calls never wait. A call that needs more than is
free waits, and its upstream with it, until others end. So that they do not all wait for each other, the last part of
the memory, enough for the largest answer, belongs to one call at a time, which can always finish. No call waits for
ever: one that got nothing for ``WAIT_S`` fails, and others get what it held.
"""

import asyncio
import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable, Sized
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from gateway.domain.errors import AnswerMemoryFull, Unavailable
from gateway.domain.settings import Settings

_STATM = Path("/proc/self/statm")


def resident() -> int:
    """Returns the size of the process in bytes; 0 if it is unknown."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def map_large_blocks() -> None:
    """Make glibc map every large block individually from now on. Other C libraries are left alone."""
    with suppress(AttributeError, OSError):
        if sys.platform == "linux":
            # M_MMAP_THRESHOLD: by itself glibc raises it up to 32 MiB, as soon as such a block is freed
            ctypes.CDLL(None).mallopt(-3, 1 << 20)


def trim() -> None:
    """Return all free pages to the system: a tenth of a millisecond a megabyte. Only glibc does so."""
    with suppress(AttributeError, OSError):
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)


LOOK_S = 1.0
MIB = 1 << 20


class Pressure:
    """The memory of all calls. ``resident`` returns the bytes of the process, 0 if unknown."""

    def __init__(
        self,
        resident: Callable[[], int],
        settings: Callable[[], Settings],
        calls: Sized,
        trim: Callable[[], None] = lambda: None,
    ) -> None:
        self._resident = resident
        self._trim = trim
        self._at_rest = resident()
        """The size at the last rest."""
        self._settings = settings
        self._calls = calls
        self._due = 0.0
        self._high = ""
        self.most = 0
        """The most bytes of all request bodies together; 0: any number."""
        self.bodies = 0
        """The bytes of all request bodies."""

    def check(self, now: float) -> None:
        """Raises Unavailable when the process is too large for another call. ``now`` is monotonic seconds."""
        if now >= self._due:
            self._look(now)
        if self._high and len(self._calls):
            raise Unavailable(self._high, code="out_of_memory", retry_after_s=LOOK_S)

    def too_large(self) -> Unavailable:
        """Returns the error of a request whose body does not fit."""
        msg = (
            f"the bodies of all requests together would be larger than {self.most // MIB} MiB; try again when "
            "some have ended, or 'tollkeeper settings set --bodies-mib'"
        )
        return Unavailable(msg, code="out_of_memory", retry_after_s=LOOK_S)

    def relax(self) -> None:
        """Return free memory to the system if there is enough of it. Called when no call runs any more."""
        size = self._resident()
        if size > self._at_rest + (4 << 20):  # less is not worth the search through all free blocks
            self._trim()
            self._at_rest = self._resident()
        else:
            self._at_rest = min(size, self._at_rest)

    def _look(self, now: float) -> None:
        self._due = now + LOOK_S
        settings = self._settings()
        self.most = settings.bodies_mib * MIB
        self._high = ""
        limit = settings.memory_mib * MIB
        size = self._resident() if limit else 0
        if size >= limit and size:
            self._trim()
            size = self._resident()
        if size >= limit and size:
            self._high = (
                f"the gateway uses {size // MIB} MiB of memory and accepts no more calls above "
                f"{settings.memory_mib} MiB; try again when some have ended, or 'tollkeeper settings set --memory-mib'"
            )


class Share(msgspec.Struct, eq=False):
    """One request's share, until ``close``."""

    _pressure: Pressure
    _size: int = 0

    def close(self) -> None:
        """Release the share: the body is not needed any more."""
        self._pressure.bodies -= self._size
        self._size = 0

    def grow(self, size: int) -> None:
        """Count more of its body. Raises Unavailable when all bodies together are too large."""
        pressure = self._pressure
        if pressure.most and pressure.bodies + size > pressure.most:
            raise pressure.too_large()
        pressure.bodies += size
        self._size += size


POCKET = 64 << 10
"""Bytes that every call may use without being counted."""
WAIT_S = 30.0
"""Seconds that an answer waits for memory before it fails."""


class AnswerMemory:
    """The memory of all answers. ``calls`` has the running calls."""

    def __init__(self, settings: Callable[[], Settings], calls: Sized, wait_s: float = WAIT_S) -> None:
        self._settings = settings
        self._calls = calls
        self._wait_s = wait_s
        self._turns: deque[_Turn] = deque()
        """The waiting answers in order of arrival."""
        self._first: AnswerShare | None = None
        """The call that may use the last part."""
        self.used = 0
        """Counted bytes, without the pockets of running calls."""

    def share(self) -> "AnswerShare":
        """Returns the share of one call."""
        return AnswerShare(self)

    def take(self, share: "AnswerShare", size: int) -> bool:
        """Count more for a share if that is possible now. Returns whether it was."""
        if (self._turns and share is not self._first) or not self._fits(share, size):
            return False
        self.used += size
        return True

    async def wait(self, share: "AnswerShare", size: int) -> None:
        """Count more for a share once others have freed enough. Raises AnswerMemoryFull."""
        limit = self._settings().answers_mib
        if limit and POCKET + share.counted + size > limit << 20:
            msg = f"this answer is larger than the limit of all answers together ({limit} MiB)"
            raise AnswerMemoryFull(f"{msg}; {_ADVICE}")
        turn = _Turn(share, size, asyncio.get_running_loop().create_future())
        self._turns.append(turn)
        self.serve()
        try:
            async with asyncio.timeout(self._wait_s):
                await turn.given
        except TimeoutError as error:
            msg = f"all answers together would be larger than {limit} MiB, and none ended in {self._wait_s:g} s"
            raise AnswerMemoryFull(f"{msg}; {_ADVICE}") from error
        finally:
            if turn in self._turns:
                self._turns.remove(turn)

    def give(self, share: "AnswerShare", size: int, *, more: bool) -> None:
        """Count less, or more if it is negative. ``more``: the share still grows."""
        self.used -= size
        if share is self._first and not more:
            self._first = None
        if self._turns:
            self.serve()

    def serve(self) -> None:
        """Serve waiting answers in order, but first the one that may use the last part."""
        waiting = [turn for turn in self._turns if not turn.given.done()]
        for turn in sorted(waiting, key=lambda turn: turn.share is not self._first):
            if self._fits(turn.share, turn.size):
                self.used += turn.size
                turn.share.counted += turn.size
                self._turns.remove(turn)
                turn.given.set_result(None)
            elif turn.share is not self._first:
                break

    def _fits(self, share: "AnswerShare", size: int) -> bool:
        limit = self._settings().answers_mib << 20
        left = limit - self.used - POCKET * len(self._calls) - size
        if not limit or left >= min(64 << 20, limit):  # the largest possible answer
            return True
        if left < 0 or self._first not in (None, share):
            return False
        self._first = share
        return True


class AnswerShare(msgspec.Struct, eq=False):
    """One call's share, until it ``keep``s nothing, or while its block runs.

    Implements ``adapter.Memory``.
    """

    _memory: AnswerMemory
    held: int = 0
    """Bytes of its answer."""
    counted: int = 0
    """Bytes beyond its pocket, which are counted."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.counted:
            self.keep(0)

    def take(self, size: int) -> bool:
        """See ``adapter.Memory``."""
        more = self.held + size - POCKET - self.counted
        if more > 0:
            if not self._memory.take(self, more):
                return False
            self.counted += more
        self.held += size
        return True

    async def wait(self, size: int) -> None:
        """See ``adapter.Memory``."""
        await self._memory.wait(self, self.held + size - POCKET - self.counted)
        self.held += size

    def keep(self, size: int, *, more: bool = False) -> None:
        """Set how much of the answer is held now. ``more``: more of it will be taken."""
        self.held = size
        less = self.counted - max(0, size - POCKET)
        if less or (self.counted and not more):
            self.counted -= less
            self._memory.give(self, less, more=more)


class _Turn(NamedTuple):
    """A waiting answer and the bytes it waits for."""

    share: AnswerShare
    size: int
    given: "asyncio.Future[None]"


_ADVICE = "try again when other calls have ended, or 'tollkeeper settings set --answers-mib'"
