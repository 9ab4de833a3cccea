"""Answer memory: what the answers that are held take of this machine's memory, all of them together.

An answer is counted while it is gathered, unpacked and read, and while it waits for a client that is slower. Up to
``POCKET`` it is not counted by itself: each running call counts for that much, so ordinary calls never wait.

Who needs more than there is waits, and its upstream with it, for others to end. So that not all of them wait for each
other, the last part of the memory, enough for the largest answer, belongs to one at a time: it can always be gathered
to its end. Nobody waits for ever: who got nothing for ``WAIT_S`` fails, and others get what it held.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sized
from typing import Self

from gateway.domain.errors import AnswerMemoryFull
from gateway.domain.settings import Settings

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
        """Who waits, in the order in which they came."""
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
            msg = f"this answer is larger than all answers together may be ({limit} MiB)"
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


class AnswerShare:
    """What one call has of it, for as long as the block runs. Implements ``adapter.Memory``."""

    __slots__ = ("_memory", "counted", "held")

    def __init__(self, memory: AnswerMemory) -> None:
        self._memory = memory
        self.held = 0
        """Bytes of its answer."""
        self.counted = 0
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
    """One who waits, and for how much."""

    __slots__ = ("given", "share", "size")

    def __init__(self, share: AnswerShare, size: int) -> None:
        self.share = share
        self.size = size
        self.given: asyncio.Future[None] = asyncio.get_running_loop().create_future()


_ADVICE = "try again when other calls have ended, or 'tollkeeper settings set --answers-mib'"
