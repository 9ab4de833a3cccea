"""Clocks that stand still until a test moves them."""

import asyncio

from gateway.core.clock import Clock
from gateway.domain.units import Millis

NOON = Millis(1_793_534_400_000)
"""Some day, around noon in most places."""


class Mono:
    """Monotonic seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Wall:
    """Milliseconds since the epoch."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> Millis:
        return Millis(self.now)


class Watch:
    """Both of them, moved together."""

    def __init__(self) -> None:
        self.wall = Wall()
        self.mono = Mono()
        self.clock = Clock(wall=self.wall, mono=self.mono, sleep=self.sleep)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Time passes at once."""
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self.wall.now += round(seconds * 1000)
        self.mono.now += seconds
