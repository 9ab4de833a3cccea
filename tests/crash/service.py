"""Service: a whole gateway at work on a disk that refuses, told as what its clients were shown, until it is killed.

Each line is one thing that somebody outside may rely on: S (a complete answer was shown), E (an error was), G (the
connection was cut), F (an operation was refused), O (an operation that happened), N (the store did not recover).
"""

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gateway.domain.settings import Durability
from gateway.store import recorder
from gateway.store.store import Store
from tests.crash.life import fork_life, small_inflight
from tests.fakes.client import Client
from tests.fakes.disk import REASONS, Disk, Operation, Refusal
from tests.fakes.gateway import Gateway, running
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import DONE, speak
from tests.fakes.syncing import syncer_of
from tests.fakes.wire import Gone

Say = Callable[[str], None]

WAVES = 3
AT_ONCE = 6
"""Calls in flight, plain ones and streams in turn."""
SEGMENT_BYTES = 4000
"""So small that some waves are enough to begin and to seal several."""
TURN_S = 0.004
RECOVERY_S = 5.0


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What is refused: the ``nth`` operation of that name on that kind of file, and with ``reach`` what follows."""

    name: str = ""
    """Empty: nothing is refused, and all operations are reported."""
    kind: str = ""
    nth: int = 1
    reason: str = "EIO"
    reach: str = "once"
    """``once``; ``file``: from then on everything on this kind of file; ``disk``: everything; else the name of an
    operation that is refused from then on, wherever it is."""
    durability: str = "interval"
    heals: bool = False
    """The disk is well again before the end, and the store has time to recover. Else it is killed while it fails."""


class Outage:
    """Judges operations by a Fault."""

    def __init__(self, fault: Fault, say: Say) -> None:
        self._fault, self._say = fault, say
        self._seen: Counter[tuple[str, str]] = Counter()
        self._fired = False

    def judge(self, operation: Operation) -> Refusal | None:
        fault, kind = self._fault, kind_of(operation.file)
        self._seen[operation.name, kind] += 1
        if not fault.name:
            self._say(f"O {operation.name} {kind}")
            return None
        if not self._fired:
            if (operation.name, kind) != (fault.name, fault.kind) or self._seen[fault.name, kind] < fault.nth:
                return None
            self._fired = True
            self._say(f"F {operation.name} {kind}")
            return REASONS[fault.reason]
        follows = fault.reach in ("disk", operation.name) or (fault.reach == "file" and kind == fault.kind)
        return REASONS[fault.reason] if follows else None


def kind_of(file: str) -> str:
    """``usage/calls-20251120-0000.json.tmp`` is ``calls.tmp``; an empty name is the home itself."""
    name = file.removeprefix("usage/") or "home"
    return "calls" + (".tmp" if name.endswith(".tmp") else "") if name.startswith("calls-") else name


def serve(home: Path, fault: Fault, say: Say) -> None:
    """Never returns: the process kills itself."""
    logging.disable()
    small_inflight()
    defaults = Store.__init__.__kwdefaults__ or {}
    defaults |= {"segment_bytes": SEGMENT_BYTES, "syncer": syncer_of(0.005)}
    recorder.RETRY_S = 0.03
    asyncio.run(_serve(home, fault, say))


async def _serve(home: Path, fault: Fault, say: Say) -> None:
    async with Provider().running() as provider, running(home) as gateway:
        provider.on("m", _speak)
        gateway.channel(provider.base_url)
        gateway.price()
        gateway.settings(durability=Durability(fault.durability))
        disk = Disk(pytest.MonkeyPatch(), home)
        await _wave(gateway.client, say)
        disk.judge = Outage(fault, say).judge
        for _ in range(WAVES):
            await _wave(gateway.client, say)
        if fault.heals:
            disk.heal()
            await _recovered(gateway, say)
            await _wave(gateway.client, say)
        os.kill(os.getpid(), signal.SIGKILL)


async def _speak(exchange: Exchange) -> None:
    """At the end of a moment in which the others come: their answers end together, and are recorded by one write."""
    loop = asyncio.get_running_loop()
    turn = asyncio.Event()
    loop.call_at((loop.time() // TURN_S + 2) * TURN_S, turn.set)
    await turn.wait()
    await speak()(exchange)


async def _wave(client: Client, say: Say) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(AT_ONCE):
            group.create_task(_call(client, say, stream=bool(number % 2)))


async def _call(client: Client, say: Say, *, stream: bool) -> None:
    try:
        answer = await client.chat(stream=stream)
    except Gone:
        say("G")
        return
    whole = answer.status == 200 and (not stream or answer.body.endswith(DONE))
    say(f"{'S' if whole else 'E'} {answer.head.get('x-request-id')} {answer.status}")


async def _recovered(gateway: Gateway, say: Say) -> None:
    books = gateway.engine.store.books
    until = asyncio.get_running_loop().time() + RECOVERY_S
    while not books.healthy:
        if asyncio.get_running_loop().time() > until:
            say(f"N {books.disk_errors.text}")
            return
        await asyncio.sleep(0.005)


class Shown(msgspec.Struct, kw_only=True):
    """The report of one life."""

    status: int
    """Exit status: it kills itself."""
    lines: list[str]

    def of(self, letter: str) -> list[list[str]]:
        """The words of the lines of a kind."""
        return [line.split(" ")[1:] for line in self.lines if line[0] == letter]


def live(home: Path, fault: Fault) -> Shown:
    """Fork a life and collect what it told."""
    pid, ears = fork_life(lambda tell: serve(home, fault, lambda line: tell(line.encode())))
    with open(ears, "rb") as told:  # noqa: PTH123 - a descriptor
        lines = told.read().decode().splitlines()
    _, status = os.waitpid(pid, 0)
    return Shown(status=os.waitstatus_to_exitcode(status), lines=lines)
