"""Nursery: a process that has everything loaded and gives birth to lives that end in a kill.

It reads a line of JSON for each (see ``Order``) and answers with a line of JSON (see ``Death``). A life is a fork of
it, so that two thousand of them take no longer than a cup of coffee.
"""

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import pytest

from tests.crash.life import SEGMENT_BYTES, fork_life, live, small_inflight
from tests.crash.mutants import MUTANTS

WRITING = (
    *("pwrite", "write", "fsync", "fdatasync", "replace", "ftruncate", "unlink", "open", "close", "mkdir"),
    "posix_fallocate",
)
"""System calls at which a life can end. Reading changes nothing, so it is not one of them."""


class Order(msgspec.Struct, kw_only=True):
    """One life: it is killed at its ``kill_at``-th system call, or ``kill_after_s`` after its first acknowledgement."""

    home: str
    seed: int
    calls: int = 100_000
    kill_at: int = 0
    kill_after_s: float = 0.0
    sync_s: float = 0.0
    segment_bytes: int = SEGMENT_BYTES
    mutant: str = ""


class Death(msgspec.Struct, kw_only=True):
    """How it ended: the exit status, and what was acknowledged before."""

    status: int
    acks: list[tuple[str, str]]
    error: str = ""


class Nursery:
    """The other end, in the tests."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._process.communicate()

    def bear(self, home: Path, **order: Any) -> Death:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(Order(home=str(home), **order)) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Death)


def bear(order: Order) -> Death:
    """Fork a life, kill it if it is not to end by itself, and collect what it said."""
    pid, ears = fork_life(lambda tell: _live(order, tell))
    said = _listen(ears, pid, order.kill_after_s)
    os.close(ears)
    _, status = os.waitpid(pid, 0)
    lines = [line.decode() for line in said.split(b"\n")[:-1]]
    acks = [(line[0], line[1:]) for line in lines if line[0] != "!"]
    error = "".join(line[1:] for line in lines if line[0] == "!")
    return Death(status=os.waitstatus_to_exitcode(status), acks=acks, error=error)


def _live(order: Order, tell: Callable[[bytes], None]) -> None:
    small_inflight()
    patch = pytest.MonkeyPatch()
    if order.mutant:
        MUTANTS[order.mutant](patch)
    if order.kill_at:
        _Executioner(order.kill_at).lurk(patch)
    live(
        Path(order.home),
        lambda kind, data: tell(kind.encode() + data),
        seed=order.seed,
        calls=order.calls,
        sync_s=order.sync_s,
        segment_bytes=order.segment_bytes,
    )


def _listen(ears: int, pid: int, kill_after_s: float) -> bytes:
    said = bytearray()
    while chunk := os.read(ears, 1 << 16):
        said += chunk
        if kill_after_s:
            wait, kill_after_s = kill_after_s, 0.0
            said += _until(ears, wait)
            os.kill(pid, signal.SIGKILL)
    return bytes(said)


def _until(ears: int, seconds: float) -> bytes:
    """The output within a time: read continuously, so that a full pipe blocks nothing."""
    said = bytearray()
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([ears], [], [], left)[0]:
            said += os.read(ears, 1 << 16)
    return bytes(said)


class _Executioner:
    """Kills at a system call; writes are often torn first, others are done or not."""

    def __init__(self, at: int) -> None:
        self._left = at
        self._rng = random.Random(at)

    def lurk(self, patch: pytest.MonkeyPatch) -> None:
        for name in WRITING:
            patch.setattr(os, name, self._watched(name, getattr(os, name)))

    def _half(self, name: str, real: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
        if name in {"write", "pwrite"} and self._rng.random() < 0.7:
            data = bytes(args[1])
            real(args[0], data[: self._rng.randrange(len(data) + 1)], *args[2:])
        elif self._rng.random() < 0.5:
            real(*args, **options)

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left:
                return real(*args, **options)
            try:
                self._half(name, real, args, options)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
            return None

        return call


def main() -> None:
    """Until the tests have no more orders."""
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(msgspec.json.encode(bear(msgspec.json.decode(line, type=Order))) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
