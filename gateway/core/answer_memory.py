"""AnswerMemory: how much memory all answers together may use.

An answer is counted while it is gathered, unpacked and read, and while it waits for a slower client. Its first
``UNCOUNTED`` bytes are not counted: each running call counts for that much, so ordinary calls never wait. A call that
needs more than is free waits, and its upstream with it, until others end. The last part of the memory, enough for the
largest answer, belongs to one call at a time. This call can always finish, so calls never all wait for each other. No
call waits for ever: one that got nothing for half a minute fails, and others get what it held.
"""

import asyncio
from collections.abc import Callable, Sized
from typing import Self

import msgspec

from gateway.domain.errors import AnswerMemoryFull
from gateway.domain.settings import Settings
from gateway.inbound.api import ANSWER_LIMIT

UNCOUNTED = 64 << 10
"""Bytes that every call may use without being counted."""
_ADVICE = "raise the limit with 'tollkeeper settings set --answers-mib'"


class AnswerMemory:
    """The memory of all answers. ``calls`` are the running calls."""

    def __init__(self, settings: Callable[[], Settings], calls: Sized, wait_s: float = 30.0) -> None:
        self._settings = settings
        self._calls = calls
        self._wait_s = wait_s
        self._waiting: dict[AnswerShare, tuple[int, asyncio.Future[None]]] = {}
        """The bytes that each share waits for, and what is done once it has them, in order of arrival."""
        self._last_part_of: AnswerShare | None = None
        """The share that may use the last part of the memory."""
        self.used = 0
        """Counted bytes."""

    def take(self, share: "AnswerShare", size: int) -> bool:
        """Count more for a share if possible now. Returns whether it was."""
        if (self._waiting and share is not self._last_part_of) or not self._has_room(share, size):
            return False
        self.used += size
        return True

    async def wait(self, share: "AnswerShare", size: int) -> None:
        """Count more for a share once others have freed enough. Raises AnswerMemoryFull."""
        limit = self._settings().answers_mib
        if limit and UNCOUNTED + share.counted + size > limit << 20:
            msg = f"this answer alone exceeds the limit for all answers together ({limit} MiB)"
            raise AnswerMemoryFull(f"{msg}; {_ADVICE}")
        served = asyncio.get_running_loop().create_future()
        self._waiting[share] = size, served
        self.serve_waiting()
        try:
            async with asyncio.timeout(self._wait_s):
                await served
        except TimeoutError as error:
            msg = f"all answers together would be larger than {limit} MiB, and none ended in {self._wait_s:g} s"
            raise AnswerMemoryFull(f"{msg}; try again when other calls have ended, or {_ADVICE}") from error
        finally:
            self._waiting.pop(share, None)

    def release(self, share: "AnswerShare", size: int, *, grows: bool) -> None:
        """Count less, or more if ``size`` is negative. ``grows``: the share still needs more memory later."""
        self.used -= size
        if share is self._last_part_of and not grows:
            self._last_part_of = None
        if self._waiting:
            self.serve_waiting()

    def serve_waiting(self) -> None:
        """Serve waiting answers in order, but first the one that may use the last part."""
        for share in sorted(self._waiting, key=lambda share: share is not self._last_part_of):
            size, served = self._waiting[share]
            if served.done():  # its call was cancelled
                continue
            if self._has_room(share, size):
                self.used += size
                share.counted += size
                del self._waiting[share]
                served.set_result(None)
            elif share is not self._last_part_of:
                break

    def _has_room(self, share: "AnswerShare", size: int) -> bool:
        """Returns whether a share may grow by this size. If that takes the last part, the share has it from now on."""
        limit = self._settings().answers_mib << 20
        left = limit - self.used - UNCOUNTED * len(self._calls) - size
        if not limit or left >= min(ANSWER_LIMIT, limit):
            return True
        if left < 0 or self._last_part_of not in (None, share):
            return False
        self._last_part_of = share
        return True


class AnswerShare(msgspec.Struct, eq=False):
    """The memory of one call's answer, as ``adapter.Memory``. It ends with its block, or when its size is set to 0."""

    _memory: AnswerMemory
    size: int = 0
    """Bytes of the answer that are in memory."""
    counted: int = 0
    """The counted part of them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.counted:
            self.set_size(0)

    def take(self, size: int) -> bool:
        more = self.size + size - UNCOUNTED - self.counted
        if more > 0:
            if not self._memory.take(self, more):
                return False
            self.counted += more
        self.size += size
        return True

    async def wait(self, size: int) -> None:
        await self._memory.wait(self, self.size + size - UNCOUNTED - self.counted)
        self.size += size

    async def wait_to_read(self, size: int, held: int) -> None:
        """Wait for memory to read ``size`` more bytes, if the stream holds much (``held``). Raises AnswerMemoryFull."""
        holds_much = held > UNCOUNTED
        self.set_size(held, grows=holds_much)
        if holds_much and not self.take(size):
            await self.wait(size)

    def set_size(self, size: int, *, grows: bool = False) -> None:
        """Set how much of the answer is in memory now. ``grows``: more of it will be taken."""
        self.size = size
        freed = self.counted - max(0, size - UNCOUNTED)
        if freed or (self.counted and not grows):
            self.counted -= freed
            self._memory.release(self, freed, grows=grows)
