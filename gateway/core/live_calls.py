"""LiveCalls: the running calls, and the timer that checks them.

Once a second, and only while calls run, the timer sends keep-alives to silent streams and the heads of streams whose
upstream is slow to begin. It ends calls that are past their deadline, and frees memory through ``on_idle``.

The head of a stream waits for the upstream's first event: until then another channel may answer, or none, and the
status and the ``x-gateway-*`` headers say which. Clients wait for minutes; some proxies close silent connections.
"""

import asyncio
import math
from collections.abc import Callable

import msgspec

from gateway.core.call import Call
from gateway.core.tasks import Tasks
from gateway.domain.call import Outcome
from gateway.domain.units import CallId


class CallDeadlines(msgspec.Struct, frozen=True, kw_only=True):
    """How long a client waits for the parts of an answer, in seconds."""

    first_event: float = 45.0
    """The time after which the head of a stream is sent even if the upstream has not begun."""
    keep_alive: float = 15.0
    """How long a stream that has begun may be silent before it gets a keep-alive comment."""
    tick: float = 1.0


class LiveCalls:
    """The running calls. One timer keeps their streams alive, and ends the calls that take too long."""

    def __init__(self, mono: Callable[[], float], tasks: Tasks, deadlines: CallDeadlines) -> None:
        self._mono = mono
        self._tasks = tasks
        self._deadlines = deadlines
        self.calls: dict[CallId, Call] = {}
        self._ticking = False
        self._was_empty = False
        """Whether no call ran at the last tick. Memory may become free a little later, so one more tick follows."""
        self.on_tick: Callable[[], object] = lambda: None
        self.on_idle: Callable[[], object] = lambda: None
        """Called when the timer stops, because no call runs any more."""
        self.report: Callable[[Call], object] = lambda _call: None
        """Reports how much of a call's answer has arrived."""
        self.empty = asyncio.Event()
        """Set while no call runs."""
        self.empty.set()

    def enter(self, call: Call) -> None:
        """Add a call, which runs in the current task. ``leave`` removes it."""
        call.task = asyncio.current_task()
        if not self.calls:
            self.empty.clear()
        self.calls[call.context.origin.id] = call
        self._was_empty = False
        self.wake()

    def wake(self) -> None:
        """Start the timer if it is stopped. It ticks at least once, and while calls run."""
        if not self._ticking:
            self._ticking = True
            self._schedule_tick()

    def leave(self, call: Call) -> None:
        """Remove a call that has ended, and free its memory."""
        if call.share.counted:
            call.share.set_size(0)
        del self.calls[call.context.origin.id]
        if not self.calls:
            self.empty.set()

    def cancel_all(self, outcome: Outcome) -> None:
        for call in list(self.calls.values()):
            call.end(outcome)

    def _schedule_tick(self, *, is_late: bool = False) -> None:
        """Schedule the next tick. After a late one it checks the calls, however late it is itself."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._deadlines.tick
        loop.call_at(due, self._tick, math.inf if is_late else due)

    def _tick(self, due: float = math.inf) -> None:
        """Check all calls, and schedule the next tick; stop the timer if no call has run since the last one.

        If the process was stopped, what came meanwhile is read first.
        """
        idle = self._was_empty and not self.calls
        self._was_empty = not self.calls
        self._ticking = not idle
        self.on_tick()
        if idle:
            self.on_idle()
            return
        is_late = asyncio.get_running_loop().time() - due > self._deadlines.tick / 2
        self._schedule_tick(is_late=is_late)
        now = self._mono()
        for call in () if is_late else list(self.calls.values()):
            self._check(call, now)

    def _check(self, call: Call, now: float) -> None:
        delivery = call.delivery
        if delivery.reported_at and delivery.last_write > delivery.reported_at and not call.result.settled:
            self.report(call)  # otherwise this piece is reported with the next one, which may take long
        if delivery.deadline is not None and now >= delivery.deadline:
            call.end(Outcome.TIMEOUT)
        elif not delivery.writing and self._needs_keep_alive(call, now):
            self._tasks.spawn(self._keep_alive(call), f"keep-alive {call.context.origin.id}")

    def _needs_keep_alive(self, call: Call, now: float) -> bool:
        if not call.context.request.stream or call.attempt.route is None or call.result.settled:
            return False
        begun = call.context.client.begun
        silence_s = self._deadlines.keep_alive if begun else self._deadlines.first_event
        return now - call.delivery.last_write >= silence_s

    async def _keep_alive(self, call: Call) -> None:
        """Send a keep-alive, after the head unless it was sent."""
        if call.result.settled:
            return
        call.delivery.last_write = self._mono()
        try:
            if not call.context.client.begun:
                call.delivery.facts_due = True
                call.context.client.begin({})
            await call.context.client.write(call.context.origin.api.keep_alive_for(call.attempt.stream))
        except ConnectionError:
            call.end(Outcome.CLIENT_CLOSED)
