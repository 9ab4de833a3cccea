"""The memory of this machine that calls take: what the process has, what requests and answers may take together.

Request bodies are counted exactly, from their first byte to the end of their call. What the process takes as a whole is
checked once a second, and only when a call comes; while no other call runs none is refused for it, because waiting
would free nothing. On Linux only; elsewhere there is nothing to read it from.

The C library keeps freed memory for later use: after 200 slow streams or a few large answers that is a hundred
megabytes in pieces. So it is set once to map large blocks by themselves, each of which goes back as soon as it is
freed, and asked to give the rest back when that is worth it.

An answer is counted while it is gathered, unpacked and read, and while it waits for a slower client. Up to ``POCKET``
it is not counted by itself: each running call counts for that much, so ordinary calls never wait. A call that needs
more than there is waits, and its upstream with it, for others to end. So that they do not all wait for each other, the
last part of the memory, enough for the largest answer, belongs to one at a time: that one can always be completed.
Nobody waits for ever: a call that got nothing for ``WAIT_S`` fails, and others get what it held.
"""

import asyncio
import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable, Sized
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from gateway.domain.errors import AnswerMemoryFull, Unavailable
from gateway.domain.settings import Settings

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
        """The size that triggers nothing: what was left the last time, plus what was in use then."""

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


LOOK_S = 1.0
MIB = 1 << 20


class Pressure:
    """The memory of all calls. ``resident`` returns the bytes of the process, 0 where the system does not."""

    def __init__(
        self,
        resident: Callable[[], int],
        settings: Callable[[], Settings],
        calls: Sized,
        trim: Callable[[], None] = lambda: None,
    ) -> None:
        self._resident = resident
        self._trimmer = Trimmer(resident, trim)
        self._trim = trim
        self._settings = settings
        self._calls = calls
        self._due = 0.0
        self._high = ""
        self.most = 0
        """Bytes that all request bodies may have together; 0: any number."""
        self.bodies = 0
        """Bytes that they have."""

    def check(self, now: float) -> None:
        """Raises Unavailable when the process has grown too big to take another call. ``now`` is monotonic seconds."""
        if now >= self._due:
            self._look(now)
        if self._high and len(self._calls):
            raise Unavailable(self._high, code="out_of_memory", retry_after_s=LOOK_S)

    def too_large(self) -> Unavailable:
        """The error of a request whose body is one too many."""
        msg = (
            f"the bodies of all requests together would be larger than {self.most // MIB} MiB; try again when "
            "some have ended, or 'tollkeeper settings set --bodies-mib'"
        )
        return Unavailable(msg, code="out_of_memory", retry_after_s=LOOK_S)

    def relax(self, answers: int, *, at_rest: bool) -> None:
        """Give back what is free and not needed. To be called once a second while calls run, and after the last.

        ``answers``: bytes of all answers.
        """
        self._trimmer.look(self.bodies + answers, len(self._calls), at_rest=at_rest)

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
    """What one request has of it, until ``close``."""

    _pressure: Pressure
    _size: int = 0

    def close(self) -> None:
        """Its body is no longer needed."""
        self._pressure.bodies -= self._size
        self._size = 0

    def grow(self, size: int) -> None:
        """Some more of its body has come. Raises Unavailable when all bodies together are too large."""
        pressure = self._pressure
        if pressure.most and pressure.bodies + size > pressure.most:
            raise pressure.too_large()
        pressure.bodies += size
        self._size += size


POCKET = 64 << 10
"""Bytes that every call has without asking."""
LARGEST = 64 << 20
"""Bytes of the largest answer there may be: what is kept free for one at a time."""
WAIT_S = 30.0
"""How long an answer waits for memory before it fails."""


class AnswerMemory:
    """The memory of all answers. ``calls`` are those that run."""

    def __init__(self, settings: Callable[[], Settings], calls: Sized, wait_s: float = WAIT_S) -> None:
        self._settings = settings
        self._calls = calls
        self._wait_s = wait_s
        self._turns: deque[_Turn] = deque()
        """The waiting answers, in the order in which they came."""
        self._first: AnswerShare | None = None
        """Who may take the last part."""
        self.used = 0
        """Bytes counted, the pockets of running calls left out."""

    def share(self) -> "AnswerShare":
        """Of one call."""
        return AnswerShare(self)

    def take(self, share: "AnswerShare", size: int) -> bool:
        """Count so much more for it, if that is possible now."""
        if (self._turns and share is not self._first) or not self._fits(share, size):
            return False
        self.used += size
        return True

    async def wait(self, share: "AnswerShare", size: int) -> None:
        """Count so much more for it when others have given back enough. Raises AnswerMemoryFull."""
        limit = self._settings().answers_mib
        if limit and POCKET + share.counted + size > limit << 20:
            msg = f"this answer is larger than the limit of all answers together ({limit} MiB)"
            raise AnswerMemoryFull(f"{msg}; {_ADVICE}")
        turn = _Turn(share, size)
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
        """So much less is held, or more if it is negative. ``more``: the share is still growing."""
        self.used -= size
        if share is self._first and not more:
            self._first = None
        if self._turns:
            self.serve()

    def serve(self) -> None:
        """Give those who wait what there is, in their order, but before all who may take the last part."""
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
        if not limit or left >= min(LARGEST, limit):
            return True
        if left < 0 or self._first not in (None, share):
            return False
        self._first = share
        return True


class AnswerShare(msgspec.Struct, eq=False):
    """What one call has of it, until it ``keep``s nothing, or for as long as its block runs.

    Implements ``adapter.Memory``.
    """

    _memory: AnswerMemory
    held: int = 0
    """Bytes of its answer."""
    counted: int = 0
    """Those beyond its pocket that are counted."""

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
        """So much of the answer is held now, however much was taken before. ``more``: more of it will be taken."""
        self.held = size
        less = self.counted - max(0, size - POCKET)
        if less or (self.counted and not more):
            self.counted -= less
            self._memory.give(self, less, more=more)


class _Turn:
    """A waiting answer, and for how much it waits."""

    __slots__ = ("given", "share", "size")

    def __init__(self, share: AnswerShare, size: int) -> None:
        self.share = share
        self.size = size
        self.given: asyncio.Future[None] = asyncio.get_running_loop().create_future()


_ADVICE = "try again when other calls have ended, or 'tollkeeper settings set --answers-mib'"
