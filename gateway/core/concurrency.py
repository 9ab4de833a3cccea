"""How many calls of each party are in flight, and which calls wait for a place, first come, first served.

A place that comes free while calls wait is handed over at once: no later call can take it, and no wake-up is lost. A
call that has left meanwhile hands it on. One call may wait at several gates and takes the first place that it gets.

Calls pass their gates in one order (token, group, their streams, then one of the channels) and wait at one only with
places at all before it, so no two of them can wait for each other.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import ceil
from typing import NamedTuple

import msgspec

from gateway.core.rate_scopes import ConcurrencyGate
from gateway.domain.errors import GatewayError, RateLimited
from gateway.domain.human_values import plural

STREAMS = "streams"


class _Waiter(NamedTuple):
    """A waiting call, and where it waits."""

    gates: list[ConcurrencyGate]
    given: "asyncio.Future[ConcurrencyGate]"


class _Line(msgspec.Struct, eq=False):
    """The calls of one party."""

    taken: int = 0
    turns: deque[_Waiter] | None = None
    """The queue, made when a call has to wait."""
    limit: int | None = None
    """The limit after a change while calls waited; None: that of their gates."""


class ConcurrencyLimiter:
    """The queues of all parties."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], _Line] = {}
        self._closed: GatewayError | None = None

    def full(self, gates: Iterable[ConcurrencyGate], held: Collection[ConcurrencyGate] = ()) -> ConcurrencyGate | None:
        """Returns the first gate without a free place, skipping those ``held``."""
        lines = self._lines
        for gate in gates:
            line = lines.get(gate.key)
            if line is not None and (line.taken >= gate.limit or line.turns) and not _has(held, gate):
                return gate
        return None

    def has_room(self, gate: ConcurrencyGate) -> bool:
        """Returns whether a new call gets a place."""
        return self.full((gate,)) is None

    def enter(self, gates: Iterable[ConcurrencyGate], held: Collection[ConcurrencyGate] = ()) -> None:
        """Take a place at each of them but those ``held``."""
        lines = self._lines
        for gate in gates:
            if held and _has(held, gate):
                continue
            line = lines.get(gate.key)
            if line is None:
                line = lines[gate.key] = _Line()
            line.taken += 1

    def leave(self, gates: Iterable[ConcurrencyGate]) -> None:
        """Give a place back at each of them."""
        for gate in gates:
            line = self._lines[gate.key]
            line.taken -= 1
            if line.turns:
                self._hand_over(line)
            if not (line.taken or line.turns):
                del self._lines[gate.key]

    def taken(self, key: tuple[str, str]) -> int:
        """Returns the number of this party's calls in flight."""
        line = self._lines.get(key)
        return line.taken if line is not None else 0

    def waiting(self, key: tuple[str, str]) -> int:
        """Returns the number of calls that wait for a place there."""
        line = self._lines.get(key)
        return sum(not turn.given.done() for turn in line.turns) if line is not None and line.turns else 0

    def open_ones(self, gates: Sequence[ConcurrencyGate]) -> list[ConcurrencyGate]:
        """Returns the gates where one more call may wait. Raises RateLimited if all queues are full."""
        open_gates = [gate for gate in gates if gate.wait_s > 0 and self.waiting(gate.key) < gate.places]
        if not open_gates:
            raise too_many(gates[0])
        return open_gates

    async def wait(self, gates: Sequence[ConcurrencyGate]) -> ConcurrencyGate:
        """Wait for a place. Returns the gate that gave it. Raises RateLimited when none did in time.

        Raises the error given to ``close`` once no more calls are accepted.
        """
        if self._closed is not None:
            raise self._closed
        open_ones = self.open_ones(gates)
        loop = asyncio.get_running_loop()
        turn = _Waiter(open_ones, loop.create_future())
        longest = max(open_ones, key=lambda gate: gate.wait_s)
        timer = loop.call_later(longest.wait_s, _refuse, turn.given, too_many(longest, waited=True))
        for gate in open_ones:
            line = self._lines.setdefault(gate.key, _Line())
            if line.turns is None:
                line.turns = deque()
            line.turns.append(turn)
            self._hand_over(line)
        try:
            return await turn.given
        except BaseException:
            given = turn.given
            if given.done() and not given.cancelled() and given.exception() is None:
                self.leave((given.result(),))  # cancelled in the moment it got a place
            raise
        finally:
            timer.cancel()
            self._forget(turn)

    def close(self, error: GatewayError) -> None:
        """Accept no more calls: those that wait get an error."""
        self._closed = error
        for line in self._lines.values():
            for turn in line.turns or ():
                _refuse(turn.given, error)

    def adopt(self, gates: Callable[[], Mapping[tuple[str, str], ConcurrencyGate]]) -> None:
        """Apply new limits to waiting calls. Where a limit is gone, they stop waiting."""
        waiting = [(key, line) for key, line in self._lines.items() if line.turns]
        present = gates() if waiting else {}
        for key, line in waiting:
            gate = present.get(key)
            line.limit = gate.limit if gate is not None else 1 << 62  # any number
            self._hand_over(line)

    def _hand_over(self, line: _Line) -> None:
        while line.turns:
            turn = line.turns[0]
            gate = next(gate for gate in turn.gates if self._lines.get(gate.key) is line)
            if not turn.given.done():
                if line.taken >= (gate.limit if line.limit is None else line.limit):
                    return
                line.taken += 1
                turn.given.set_result(gate)
            line.turns.popleft()

    def _forget(self, turn: _Waiter) -> None:
        for gate in turn.gates:
            line = self._lines.get(gate.key)
            if line is None:
                continue
            if line.turns and turn in line.turns:
                line.turns.remove(turn)
                self._hand_over(line)
            if not (line.taken or line.turns):
                del self._lines[gate.key]


def wait_text(gates: Iterable[ConcurrencyGate]) -> str:
    """Returns what a call waits for: ``channel 'openai' (4 calls at once)``."""
    return " or ".join(
        f"{gate.label} ({gate.limit} {plural(gate.limit, 'stream' if gate.name == STREAMS else 'call')} at once)"
        for gate in gates
    )


def too_many(gate: ConcurrencyGate, *, waited: bool = False) -> RateLimited:
    """Returns the error of a call that found no place."""
    what = "its limit of streams at a time" if gate.name == STREAMS else "its limit of calls in flight"
    tried = f", and no place came free in {ceil(gate.wait_s)} s" if waited else ""
    msg = f"{gate.label} has reached {what} ({gate.limit}){tried}; end some, or raise the limit"
    whose = gate.key[0].partition(" ")[0]
    details = {"limit": gate.limit, "limit_name": gate.name, "limit_of": whose, "used": gate.limit}
    code = "too_many_streams" if gate.name == STREAMS else ""
    return RateLimited(msg, code=code, retry_after_s=1.0, details=details)


def _has(gates: Iterable[ConcurrencyGate], wanted: ConcurrencyGate) -> bool:
    return any(gate.key == wanted.key for gate in gates)


def _refuse(given: "asyncio.Future[ConcurrencyGate]", error: GatewayError) -> None:
    if not given.done():
        given.set_exception(error)
