"""The real clock; tests turn their own."""

import time

from gateway.core.clock import Clock
from tests.core.clocks import NOON, Watch


def test_the_real_clock_is_the_systems() -> None:
    clock = Clock()
    assert abs(clock.wall() - time.time() * 1000) < 60_000
    assert clock.mono() <= clock.mono()


def test_a_test_can_turn_both_hands() -> None:
    watch = Watch()
    began = watch.clock.mono()
    watch.advance(1.5)
    assert (watch.clock.wall(), watch.clock.mono()) == (NOON + 1500, began + 1.5)
