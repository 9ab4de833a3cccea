"""Clock: wall time for labels and windows, monotonic time for durations. Tests pass their own."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from gateway.domain.units import Millis


class Clock(msgspec.Struct, frozen=True):
    """The functions that tell the time and wait."""

    wall: Callable[[], Millis] = lambda: Millis(time.time_ns() // 1_000_000)
    """Returns the milliseconds since the epoch."""
    mono: Callable[[], float] = time.monotonic
    """Returns the seconds since an arbitrary moment. It never goes back."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits for this many seconds."""
