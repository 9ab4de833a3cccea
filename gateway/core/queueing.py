"""CallQueue: calls that find all slots taken, and wait for a while instead of being refused.

A call waits before anything is held for it, and its admission is checked again after each wait, so waiting calls hold
no money and count against no rate. A call that leaves, waits too long, or is cancelled by a stop costs nothing.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import msgspec

from gateway.core.admission import Admission, admit
from gateway.core.attempts import Attempts
from gateway.core.call import Call, Client
from gateway.core.catalog import Catalog
from gateway.core.clock import Clock
from gateway.core.concurrency import wait_text
from gateway.core.event_bus import EventBus
from gateway.core.quota import MoneyBooks
from gateway.core.rate_scopes import ConcurrencyGate
from gateway.core.ratelimit import Limiter
from gateway.core.routing import RouteChoice
from gateway.domain.call import WAITED_MARK, Running
from gateway.domain.errors import RateLimited, Unavailable
from gateway.domain.events import CallLeft, CallWaiting
from gateway.domain.text import plain
from gateway.domain.units import CallId

Commit = Callable[[Call, Admission, RouteChoice], None]


@contextmanager
def cancel_when_gone(client: Client) -> Iterator[None]:
    """Cancel the block when the client leaves. Raises ConnectionResetError then."""
    task, previous = asyncio.current_task(), client.on_gone

    def cancel() -> None:
        if task is not None:
            task.cancel()

    client.on_gone = cancel
    try:
        yield
    except asyncio.CancelledError as error:
        if client.gone and task is not None:
            task.uncancel()
            raise ConnectionResetError("the client left while its call waited") from error
        raise
    finally:
        client.on_gone = previous


@dataclass(eq=False)
class CallQueue:
    """Lets calls wait for slots. Watchers see the waiting calls, and the owner may cancel them.

    Nothing is awaited between a call's last check and its commit.
    """

    bus: EventBus
    limiter: Limiter
    books: MoneyBooks
    attempts: Attempts
    catalog: Callable[[], Catalog]
    clock: Clock
    calls: dict[CallId, Call] = field(default_factory=dict)

    def all(self) -> list[Running]:
        """Returns the waiting calls, oldest first."""
        return [call.running for call in self.calls.values()]

    async def wait(self, call: Call, admission: Admission, commit: Commit) -> Admission:
        """Wait for the slots that a call needs, give them to it, and commit. Raises GatewayError, ConnectionError."""
        began, task = self.clock.mono(), asyncio.current_task()
        try:
            with cancel_when_gone(call.context.client):
                admission, first = await self._take_slots(call, admission)
                if call.running.waits_for:
                    waited_ms = round((self.clock.mono() - began) * 1000)
                    call.limits.marks += (f"{WAITED_MARK}{waited_ms}:{plain(call.running.waits_for, 160)}",)
                commit(call, admission, first)
        except BaseException as error:
            self.attempts.channel_limits.release_slot(call)
            self.limiter.concurrency.leave(call.limits.gates)
            call.limits.gates = ()
            if call.running.id in self.calls:
                self.bus.publish(CallLeft(call_id=call.running.id))
            if isinstance(error, asyncio.CancelledError) and call.result.ended_by is not None and task is not None:
                task.uncancel()
                msg = "the call was cancelled by the gateway's owner while it waited"
                raise Unavailable(msg, code="call_cancelled") from error
            raise
        finally:
            self.calls.pop(call.running.id, None)
        return admission

    async def _take_slots(self, call: Call, admission: Admission) -> tuple[Admission, RouteChoice]:
        """Take slots at all gates, then at a channel. Returns the last admission and the first channel."""
        waited = False
        while True:
            gates, full = admission.gates, admission.full
            if full is not None:  # wait there, with slots at all gates before it
                self._enter(call, gates[: gates.index(full)])
                self._note(call, (full,))
                call.limits.gates += (await self.limiter.concurrency.wait((full,)),)
            else:
                self._enter(call, gates)
                first = self.attempts.chooser.first(call, admission.entry, waited=waited)
                if waited or not first.gates:
                    return admission, first
                waited = True
                self._note(call, first.gates)
                with suppress(RateLimited):  # without a slot, the last resort is tried, or the error names the reason
                    call.limits.channel_slot = await self.limiter.concurrency.wait(first.gates)
            call.update(self.catalog(), self.clock.wall())
            admission = admit(call, self.limiter, self.books, self.attempts.preparer.recalled_tokens)

    def _note(self, call: Call, gates: Iterable[ConcurrencyGate]) -> None:
        """Note that the call waits at these gates now, in the current task."""
        call.task = asyncio.current_task()
        call.running = msgspec.structs.replace(call.running, waits_for=wait_text(gates))
        self.calls[call.running.id] = call
        self.bus.publish(CallWaiting(call=call.running))

    def _enter(self, call: Call, gates: tuple[ConcurrencyGate, ...]) -> None:
        """Take a slot at each gate where the call has none."""
        new_gates = tuple(gate.key for gate in gates if gate.key not in call.limits.gates)
        self.limiter.concurrency.enter(new_gates)
        call.limits.gates += new_gates
