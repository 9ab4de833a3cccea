"""Memory is bounded: bodies exactly, the process as it is seen once a second."""

import ctypes
import subprocess
import sys
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.core import memory
from gateway.core.memory import MIB, BodyShare, Pressure
from gateway.domain.errors import Unavailable
from gateway.domain.settings import Settings


class Machine:
    """A process of the size a test says."""

    def __init__(self, size: int = 0, **settings: Any) -> None:
        self.size = size
        self.looks = self.trims = 0
        self.calls = [1]
        self.settings = Settings(**settings)
        self.free = 0
        """What trimming gives back."""
        self.pressure = Pressure(self._resident, lambda: self.settings, self.calls, self._trim)

    def _resident(self) -> int:
        self.looks += 1
        return self.size

    def _trim(self) -> None:
        self.trims += 1
        self.size, self.free = self.size - self.free, 0


@pytest.fixture
def machine() -> Machine:
    return Machine()


class Kept:
    """An object that may refer to itself."""

    ring: Any = None


@pytest.mark.parametrize(("mib", "refused"), [(1023, False), (1024, True), (1025, True)])
def test_above_its_limit_no_further_call_is_taken(machine: Machine, mib: int, refused: bool) -> None:
    machine.size = mib * MIB
    if not refused:
        machine.pressure.check(0.0)
        return
    with pytest.raises(Unavailable, match=f"uses {mib} MiB") as caught:
        machine.pressure.check(0.0)
    assert (caught.value.code, caught.value.retry_after_s) == ("out_of_memory", 1.0)


def test_what_is_free_is_given_back_before_a_call_is_refused(machine: Machine) -> None:
    machine.size, machine.free = 1500 * MIB, 600 * MIB
    machine.pressure.check(0.0)
    assert machine.size == 900 * MIB


def test_what_only_the_garbage_collector_can_free_is_freed_before_a_call_is_refused(machine: Machine) -> None:
    kept = Kept()
    weakref.finalize(kept, setattr, machine, "size", 10 * MIB)
    kept.ring, machine.size = kept, 2000 * MIB
    del kept
    machine.pressure.check(0.0)
    assert machine.size == 10 * MIB


def test_what_is_free_is_given_back_when_it_is_quiet(machine: Machine) -> None:
    machine.size, machine.free = 300 * MIB, 200 * MIB
    machine.calls.clear()
    machine.pressure.relax()
    assert machine.size == 100 * MIB


def test_a_lonely_call_is_taken_at_any_size(machine: Machine) -> None:
    machine.size = 4096 * MIB
    machine.calls.clear()
    machine.pressure.check(0.0)


def test_it_is_looked_at_once_a_second(machine: Machine) -> None:
    machine.looks = 0
    for step in range(40):
        machine.pressure.check(step / 10)
    assert machine.looks == 4


def test_calls_are_accepted_again_when_it_is_over(machine: Machine) -> None:
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
    with closing(BodyShare(pressure)) as first, closing(BodyShare(pressure)) as second:
        first.grow(MIB)
        if fits:
            second.grow(size)
        else:
            with pytest.raises(Unavailable, match="larger than 5 MiB") as caught:
                second.grow(size)
            assert caught.value.code == "out_of_memory"
            assert pressure.body_bytes == MIB
    assert pressure.body_bytes == 0


def test_without_a_limit_bodies_are_of_any_size() -> None:
    pressure = Machine(bodies_mib=0).pressure
    pressure.check(0.0)
    with closing(BodyShare(pressure)) as share:
        share.grow(10_000 * MIB)


MIB = 1 << 20
GLIBC = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_memory_in_use_is_reported() -> None:
    memory.trim()  # what is free already would be taken first
    before = memory.resident()
    ballast = bytearray(b"x") * (64 << 20)
    assert 48 << 20 < memory.resident() - before < 160 << 20
    assert len(ballast) == 64 << 20


def test_nothing_is_reported_where_the_system_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_STATM", Path("/nowhere"))
    assert memory.resident() == 0


PIECES = """
from gateway.core import memory
memory.map_large_blocks()
pieces = [bytes(60_000) + bytes([i % 256]) for i in range(2_000)]
kept = [bytes(900) for piece in pieces]
for i in range(len(pieces)):
    pieces[i] = pieces[i][:30_000]
before = memory.resident()
pieces.clear()
freed = memory.resident()
memory.trim()
print(before, freed, memory.resident())
"""

LARGE = """
from gateway.core import memory
memory.map_large_blocks()
base = memory.resident()
for size in (2, 8, 30):
    block = bytearray(b"x") * (size << 20)
    kept = bytearray(b"x") * (200 << 10)
    del block
print(base, memory.resident())
"""


def _process(code: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return [int(number) for number in done.stdout.split()]


@pytest.mark.skipif(not GLIBC, reason="this C library gives back by itself, or not at all")
def test_memory_freed_in_pieces_goes_back() -> None:
    before, freed, trimmed = _process(PIECES)
    assert before - trimmed > 40 * MIB
    assert freed - trimmed > 20 * MIB


@pytest.mark.skipif(not GLIBC, reason="this C library gives back by itself, or not at all")
def test_large_blocks_go_back_as_soon_as_they_are_freed() -> None:
    base, after = _process(LARGE)
    assert after - base < 2 * MIB


@pytest.fixture
def process() -> Machine:
    """One at rest."""
    machine = Machine(50 * MIB)
    machine.calls.clear()
    return machine


def test_at_rest_what_is_worth_it_is_released(process: Machine) -> None:
    process.size += 4 * MIB
    process.pressure.relax()
    assert process.trims == 0
    process.size += 1
    process.free = 4 * MIB + 1
    process.pressure.relax()
    assert (process.trims, process.size) == (1, 50 * MIB)


def test_what_cannot_be_released_is_not_tried_again_and_again(process: Machine) -> None:
    process.size += 100 * MIB
    for _ in range(3):
        process.pressure.relax()
    assert process.trims == 1


def test_a_process_that_became_smaller_by_itself_is_measured_by_that(process: Machine) -> None:
    process.size -= 30 * MIB
    process.pressure.relax()
    process.size += 4 * MIB + 1
    process.pressure.relax()
    assert process.trims == 1


def test_what_websockets_have_is_not_at_rest(process: Machine) -> None:
    process.size += 100 * MIB
    process.pressure.body_bytes = 90 * MIB
    process.pressure.relax()
    process.pressure.body_bytes = 0
    process.free = 100 * MIB
    process.pressure.relax()
    assert process.size == 50 * MIB
