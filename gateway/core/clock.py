"""Clock: wall time for labels and windows, monotonic time for durations. Tests pass their own."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from gateway.domain.units import Millis


class Clock(msgspec.Struct, frozen=True):
    """``wall()`` returns milliseconds since the epoch, ``mono()`` seconds since some moment; ``sleep`` waits for
    seconds.
    """

    wall: Callable[[], Millis] = lambda: Millis(time.time_ns() // 1_000_000)
    mono: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
