"""What this process has of the machine's memory, and how it gives back what is free."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.core import memory
from gateway.core.memory import EACH_CALL, SLACK_AT_REST, SLACK_AT_WORK, Trimmer

MIB = 1 << 20
GLIBC = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_what_is_taken_is_seen() -> None:
    memory.trim()  # what is free already would be taken first
    before = memory.resident()
    ballast = bytearray(b"x") * (64 << 20)
    assert 48 << 20 < memory.resident() - before < 160 << 20
    assert len(ballast) == 64 << 20


def test_nothing_is_told_where_the_system_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_what_was_freed_in_pieces_goes_back() -> None:
    before, freed, trimmed = _process(PIECES)
    assert before - trimmed > 40 * MIB
    assert freed - trimmed > 20 * MIB


@pytest.mark.skipif(not GLIBC, reason="this C library gives back by itself, or not at all")
def test_large_blocks_go_back_as_soon_as_they_are_freed() -> None:
    base, after = _process(LARGE)
    assert after - base < 2 * MIB


class Process:
    """One of the size a test says; trimming takes away what the test says is free."""

    def __init__(self) -> None:
        self.size = 50 * MIB
        self.free = 0
        self.trims = 0
        self.trimmer = Trimmer(lambda: self.size, self._trim)

    def _trim(self) -> None:
        self.trims += 1
        self.size -= self.free
        self.free = 0


def test_at_rest_what_is_worth_it_goes_back() -> None:
    process = Process()
    process.size += SLACK_AT_REST
    process.trimmer.look(0, 0, at_rest=True)
    assert process.trims == 0
    process.size += 1
    process.free = SLACK_AT_REST + 1
    process.trimmer.look(0, 0, at_rest=True)
    assert (process.trims, process.size) == (1, 50 * MIB)


def test_at_work_what_is_in_use_is_no_reason() -> None:
    process = Process()
    process.size += 40 * EACH_CALL + 60 * MIB + SLACK_AT_WORK
    process.trimmer.look(60 * MIB, 40, at_rest=False)
    assert process.trims == 0
    process.size += 1
    process.trimmer.look(60 * MIB, 40, at_rest=False)
    assert process.trims == 1


def test_what_does_not_go_back_is_not_asked_for_again_and_again() -> None:
    process = Process()
    process.size += 100 * MIB
    for calls in (3, 3, 0, 0, 0):
        process.trimmer.look(0, calls, at_rest=not calls)
    assert process.trims == 2


def test_what_work_needed_is_looked_for_when_it_is_over() -> None:
    """At work nothing could be given back; at rest it is measured against what was left at rest."""
    process = Process()
    process.size += 100 * MIB
    process.trimmer.look(0, 1, at_rest=False)
    process.free = 100 * MIB
    process.trimmer.look(0, 0, at_rest=True)
    assert (process.trims, process.size) == (2, 50 * MIB)


def test_a_process_that_became_smaller_by_itself_is_measured_by_that() -> None:
    process = Process()
    process.size -= 30 * MIB
    process.trimmer.look(0, 0, at_rest=True)
    process.size += SLACK_AT_REST + 1
    process.trimmer.look(0, 0, at_rest=True)
    assert process.trims == 1
