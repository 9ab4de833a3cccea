"""ConcurrencyLimiter: the calls of each scope that are in flight, and the calls that wait for a slot, oldest first.

A slot that comes free while calls wait is handed over at once: no later call can take it, and no wake-up is lost. If
the call has left meanwhile, the next one gets the slot. A call may wait at several gates, and takes the first slot.

Calls pass their gates in one order (token, group, their streams, then one of the channels) and wait at a gate only
while they have slots at all gates before it, so no two of them can wait for each other.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import ceil

import msgspec

from gateway.core.rate_scopes import ConcurrencyGate, GateKey
from gateway.domain.errors import GatewayError, RateLimited
from gateway.domain.human_values import plural

STREAMS = "streams"


class _Line(msgspec.Struct, eq=False):
    """The calls at one gate."""

    taken: int = 0
    waiters: deque[tuple[ConcurrencyGate, "asyncio.Future[GateKey]"]] = msgspec.field(default_factory=deque)
    """The calls that wait, oldest first: the gate as each of them saw it, and the future gate that gives it a slot."""
    limit: int | None = None
    """The limit that was set while calls waited here; None for the limit of their gates."""


class ConcurrencyLimiter:
    """The queues of all gates."""

    def __init__(self) -> None:
        self._lines: dict[GateKey, _Line] = {}
        self._closed: GatewayError | None = None

    def full(self, gates: Iterable[ConcurrencyGate], held: Collection[GateKey] = ()) -> ConcurrencyGate | None:
        """Returns the first gate without a free slot, except those whose keys are ``held``."""
        return next((gate for gate in gates if not self.has_room(gate) and gate.key not in held), None)

    def has_room(self, gate: ConcurrencyGate) -> bool:
        line = self._lines.get(gate.key)
        return line is None or (line.taken < gate.limit and not line.waiters)

    def enter(self, keys: Iterable[GateKey]) -> None:
        """Take a slot at the gate of each key."""
        for key in keys:
            self._lines.setdefault(key, _Line()).taken += 1

    def leave(self, keys: Iterable[GateKey]) -> None:
        for key in keys:
            line = self._lines[key]
            line.taken -= 1
            self._hand_over(key, line)

    def slots_taken(self, key: tuple[str, str]) -> int:
        return self._lines.get(key, _Line()).taken

    def waiting(self, key: tuple[str, str]) -> int:
        return sum(not granted.done() for _, granted in self._lines.get(key, _Line()).waiters)

    def gates_with_room(self, gates: Sequence[ConcurrencyGate]) -> list[ConcurrencyGate]:
        """Returns the gates where one more call may wait. Raises RateLimited if all queues are full."""
        with_room = [gate for gate in gates if gate.wait_s > 0 and self.waiting(gate.key) < gate.queue]
        if not with_room:
            raise _no_slot(gates[0])
        return with_room

    async def wait(self, gates: Sequence[ConcurrencyGate]) -> GateKey:
        """Returns the key of a gate with a slot. Raises RateLimited if none did in time, or the error of ``close``."""
        if self._closed is not None:
            raise self._closed
        gates = self.gates_with_room(gates)
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[GateKey] = loop.create_future()
        longest = max(gates, key=lambda gate: gate.wait_s)
        timer = loop.call_later(longest.wait_s, _reject, granted, _no_slot(longest, waited=True))
        for gate in gates:
            line = self._lines.setdefault(gate.key, _Line())
            line.waiters.append((gate, granted))
            self._hand_over(gate.key, line)
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self.leave((granted.result(),))  # cancelled in the moment it got a slot
            raise
        finally:
            timer.cancel()
            self._remove(gates, granted)
            del granted  # it keeps the error, which would keep this frame and the whole call

    def close(self, error: GatewayError) -> None:
        """Let no more calls wait: those that wait, and later ones, get this error."""
        self._closed = error
        for line in self._lines.values():
            for _, granted in line.waiters:
                _reject(granted, error)

    def apply_limits(self, gates: Callable[[], Mapping[tuple[str, str], ConcurrencyGate]]) -> None:
        """Apply the current limits to waiting calls. Where a limit was removed, they stop waiting."""
        waiting = [(key, line) for key, line in self._lines.items() if line.waiters]
        current_gates = gates() if waiting else {}
        for key, line in waiting:
            gate = current_gates.get(key)
            line.limit = gate.limit if gate is not None else 1 << 62  # any number
            self._hand_over(key, line)

    def _hand_over(self, key: tuple[str, str], line: _Line) -> None:
        """Give free slots to the calls that wait. Forget a line without calls."""
        while line.waiters:
            gate, granted = line.waiters[0]
            if not granted.done():
                if line.taken >= (gate.limit if line.limit is None else line.limit):
                    return
                line.taken += 1
                granted.set_result(key)
            line.waiters.popleft()
        line.limit = None
        if not line.taken:
            del self._lines[key]

    def _remove(self, gates: Sequence[ConcurrencyGate], granted: "asyncio.Future[GateKey]") -> None:
        for gate in gates:
            line = self._lines.get(gate.key)
            if line is not None and (gate, granted) in line.waiters:
                line.waiters.remove((gate, granted))
                self._hand_over(gate.key, line)


def wait_text(gates: Iterable[ConcurrencyGate]) -> str:
    """Returns what a call waits for: ``channel 'openai' (4 calls at once)``."""
    return " or ".join(
        f"{gate.label} ({gate.limit} {plural(gate.limit, 'stream' if gate.name == STREAMS else 'call')} at once)"
        for gate in gates
    )


def _no_slot(gate: ConcurrencyGate, *, waited: bool = False) -> RateLimited:
    limit, option, code = "calls in flight", "concurrent", ""
    if gate.name == STREAMS:
        limit, option, code = "streams at a time", "streams", "too_many_streams"
    after_wait = f", and no slot came free in {ceil(gate.wait_s)} s" if waited else ""
    kind = gate.key[0].partition(" ")[0]
    remedy = f"end some, or raise the limit: 'tollkeeper {kind} edit NAME --{option} COUNT'"
    msg = f"{gate.label} has reached its limit of {limit} ({gate.limit}){after_wait}; {remedy}"
    details = {"limit": gate.limit, "limit_name": gate.name, "limit_of": kind, "used": gate.limit}
    return RateLimited(msg, code=code, retry_after_s=1.0, details=details)


def _reject(granted: "asyncio.Future[GateKey]", error: GatewayError) -> None:
    if not granted.done():
        granted.set_exception(error)
