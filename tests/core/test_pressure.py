"""Memory is bounded: bodies exactly, the process as it is seen once a second."""

from typing import Any

import pytest

from gateway.core.memory import MIB, Pressure, Share
from gateway.domain.errors import Unavailable
from gateway.domain.settings import Settings


class Machine:
    """A process of the size a test says."""

    def __init__(self, **settings: Any) -> None:
        self.size = 0
        self.looks = 0
        self.calls = [1]
        self.settings = Settings(**settings)
        self.free = 0
        """What trimming gives back."""
        self.pressure = Pressure(self._resident, lambda: self.settings, self.calls, self._trim)

    def _resident(self) -> int:
        self.looks += 1
        return self.size

    def _trim(self) -> None:
        self.size -= self.free


@pytest.mark.parametrize(("mib", "refused"), [(1023, False), (1024, True), (1025, True)])
def test_above_its_limit_no_further_call_is_taken(mib: int, refused: bool) -> None:
    machine = Machine()
    machine.size = mib * MIB
    if not refused:
        machine.pressure.check(0.0)
        return
    with pytest.raises(Unavailable, match=f"uses {mib} MiB") as caught:
        machine.pressure.check(0.0)
    assert (caught.value.code, caught.value.retry_after_s) == ("out_of_memory", 1.0)


def test_what_is_free_is_given_back_before_a_call_is_refused() -> None:
    machine = Machine()
    machine.size, machine.free = 1500 * MIB, 600 * MIB
    machine.pressure.check(0.0)
    assert machine.size == 900 * MIB


def test_what_is_free_is_given_back_when_it_is_quiet() -> None:
    machine = Machine()
    machine.size, machine.free = 300 * MIB, 200 * MIB
    machine.calls.clear()
    machine.pressure.relax(0, at_rest=True)
    assert machine.size == 100 * MIB


def test_a_lonely_call_is_taken_at_any_size() -> None:
    machine = Machine()
    machine.size = 4096 * MIB
    machine.calls.clear()
    machine.pressure.check(0.0)


def test_it_is_looked_at_once_a_second() -> None:
    machine = Machine()
    machine.looks = 0
    for step in range(40):
        machine.pressure.check(step / 10)
    assert machine.looks == 4


def test_calls_are_taken_again_when_it_is_over() -> None:
    machine = Machine()
    machine.size = 2048 * MIB
    with pytest.raises(Unavailable):
        machine.pressure.check(0.0)
    machine.size = MIB
    with pytest.raises(Unavailable):
        machine.pressure.check(0.5)
    machine.pressure.check(1.0)


def test_a_setting_takes_effect() -> None:
    machine = Machine(memory_mib=0)
    machine.size = 4096 * MIB
    machine.pressure.check(0.0)
    machine.settings = Settings(memory_mib=4096)
    with pytest.raises(Unavailable):
        machine.pressure.check(1.0)


def test_a_system_that_does_not_tell_refuses_nothing() -> None:
    Machine(memory_mib=1).pressure.check(0.0)


@pytest.mark.parametrize(("size", "fits"), [(4 * MIB - 1, True), (4 * MIB, True), (4 * MIB + 1, False)])
def test_all_bodies_together_are_bounded(size: int, fits: bool) -> None:
    pressure = Machine(bodies_mib=5).pressure
    pressure.check(0.0)
    with Share(pressure) as first, Share(pressure) as second:
        first.grow(MIB)
        if fits:
            second.grow(size)
        else:
            with pytest.raises(Unavailable, match="larger than 5 MiB") as caught:
                second.grow(size)
            assert caught.value.code == "out_of_memory"
            assert pressure.bodies == MIB
    assert pressure.bodies == 0


def test_without_a_limit_bodies_are_of_any_size() -> None:
    pressure = Machine(bodies_mib=0).pressure
    pressure.check(0.0)
    with Share(pressure) as share:
        share.grow(10_000 * MIB)
