"""The real clock; tests turn their own."""

import time

from gateway.core.clock import Clock


def test_the_real_clock_is_the_systems() -> None:
    clock = Clock()
    assert abs(clock.wall() - time.time() * 1000) < 60_000
    assert clock.mono() <= clock.mono()
