"""Clock: wall time for labels and windows, monotonic time for durations; a value, so that tests can turn it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from gateway.domain.units import Millis


def _wall() -> Millis:
    return Millis(time.time_ns() // 1_000_000)


class Clock(msgspec.Struct, frozen=True):
    """``wall()`` in milliseconds since the epoch, ``mono()`` in seconds since some moment.

    ``sleep`` waits for so many seconds.
    """

    wall: Callable[[], Millis] = _wall
    mono: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
