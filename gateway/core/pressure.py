"""Pressure: what the calls take of this machine's memory, and when that is too much for one more.

Bodies are counted exactly, from their first byte to the end of their call. What the process takes as a whole is looked
at once a second, and only when a call comes; while no other call runs one is never refused for it, for nothing would
come free by waiting.
"""

from collections.abc import Callable, Sized
from typing import Self

from gateway.core.memory import Trimmer
from gateway.domain.errors import Unavailable
from gateway.domain.settings import Settings

LOOK_S = 1.0
MIB = 1 << 20


class Pressure:
    """The memory of all calls. ``resident`` tells the bytes of the process, 0 where the system does not."""

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
        self._most = 0
        self.bodies = 0
        """Bytes of all request bodies."""

    def check(self, now: float) -> None:
        """Raises Unavailable when the process has grown too big to take another call. ``now`` is monotonic seconds."""
        if now >= self._due:
            self._look(now)
        if self._high and len(self._calls):
            raise Unavailable(self._high, code="out_of_memory", retry_after_s=LOOK_S)

    def grow(self, size: int) -> None:
        """Bytes of a body have come. Raises Unavailable, and does not count them, when they are too many."""
        if self._most and self.bodies + size > self._most:
            msg = (
                f"the bodies of all requests together would be larger than {self._most // MIB} MiB; try again when "
                "some have ended, or 'tollkeeper settings set --bodies-mib'"
            )
            raise Unavailable(msg, code="out_of_memory", retry_after_s=LOOK_S)
        self.bodies += size

    def shrink(self, size: int) -> None:
        """A call has ended, and its body is gone."""
        self.bodies -= size

    def relax(self, answers: int, *, at_rest: bool) -> None:
        """Give back what is free and not needed. To be called once a second while calls run, and after the last.

        ``answers``: bytes of all answers.
        """
        self._trimmer.look(self.bodies + answers, len(self._calls), at_rest=at_rest)

    def _look(self, now: float) -> None:
        self._due = now + LOOK_S
        settings = self._settings()
        self._most = settings.bodies_mib * MIB
        self._high = ""
        limit = settings.memory_mib * MIB
        size = self._resident() if limit else 0
        if size >= limit and size:
            self._trim()
            size = self._resident()
        if size >= limit and size:
            self._high = (
                f"the gateway uses {size // MIB} MiB of memory and takes no further calls above "
                f"{settings.memory_mib} MiB; try again when some have ended, or 'tollkeeper settings set --memory-mib'"
            )


class Share:
    """What one request has of it, for as long as the block runs."""

    __slots__ = ("_pressure", "_size")

    def __init__(self, pressure: Pressure) -> None:
        self._pressure = pressure
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pressure.shrink(self._size)

    def grow(self, size: int) -> None:
        """Some more of its body has come. Raises Unavailable when all bodies together are too large."""
        self._pressure.grow(size)
        self._size += size
