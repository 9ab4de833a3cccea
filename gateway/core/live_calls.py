"""LiveCalls: the running calls, and the timer that checks them.

Once a second, and only while calls run, it handles keep-alives for silent streams, the heads of streams whose upstream
is slow to begin, deadlines, clients that stopped reading, and memory that can be freed.

The head of a stream waits for the upstream's first event: until then another channel may answer, or none, and the
status and the ``x-gateway-*`` headers say which. Clients wait for minutes, but some proxies close a silent connection
after one.
"""

import asyncio
from collections.abc import Callable

import msgspec

from gateway.core.call import Call
from gateway.core.tasks import Tasks
from gateway.domain.call import Outcome
from gateway.domain.units import CallId


class CallDeadlines(msgspec.Struct, frozen=True, kw_only=True):
    """Deadlines in seconds."""

    first_event: float = 45.0
    """When the head of a stream is sent although the upstream has not begun to answer."""
    keep_alive: float = 15.0
    """How long a begun stream is silent before a keep-alive is sent, which is a comment."""
    stall: float = 30.0
    """How long one write may wait for a client that does not read."""
    tick: float = 1.0


class LiveCalls:
    """All running calls."""

    def __init__(self, mono: Callable[[], float], tasks: Tasks, deadlines: CallDeadlines) -> None:
        self._mono = mono
        self._tasks = tasks
        self._deadlines = deadlines
        self.calls: dict[CallId, Call] = {}
        """The running calls by id."""
        self._ticking = False
        self._was_empty = False
        """Whether no call ran at the last tick. Memory may become free a little later, so one more tick follows."""
        self.on_tick: Callable[[bool], None] = lambda _at_rest: None
        """Called at every tick; ``at_rest`` is True at the last one, until another call comes."""
        self.report: Callable[[Call], object] = lambda _call: None
        """Reports how much of a stream has arrived."""
        self.empty = asyncio.Event()
        """Set while no call runs."""
        self.empty.set()

    def __len__(self) -> int:
        return len(self.calls)

    def enter(self, call: Call) -> None:
        """Add a call, which runs in the current task, until ``leave``."""
        call.task = asyncio.current_task()
        if not self.calls:
            self.empty.clear()
        self.calls[call.context.origin.id] = call
        self._was_empty = False
        if not self._ticking:
            self.wake()

    def wake(self) -> None:
        """Let the timer tick once more, and while calls run."""
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_later(self._deadlines.tick, self._tick)

    def leave(self, call: Call) -> None:
        """Remove a call that has ended, and free its memory and its places."""
        if call.share.counted:
            call.share.set_size(0)
        if call.limits.ticket is not None:
            call.limits.ticket.close()
        del self.calls[call.context.origin.id]
        if not self.calls:
            self.empty.set()

    def cancel(self, call_id: CallId) -> bool:
        """End a running call for its owner. Returns False if it is not running."""
        if (call := self.calls.get(call_id)) is None:
            return False
        call.end(Outcome.CANCELLED)
        return True

    def cancel_all(self, outcome: Outcome) -> None:
        """End all running calls from outside."""
        for call in list(self.calls.values()):
            call.end(outcome)

    def _tick(self) -> None:
        was_empty, self._was_empty = self._was_empty, not self.calls
        self._ticking = not (was_empty and self._was_empty)
        self.on_tick(not self._ticking)
        if not self._ticking:
            return
        asyncio.get_running_loop().call_later(self._deadlines.tick, self._tick)
        now = self._mono()
        for call in list(self.calls.values()):
            self._check(call, now)

    def _check(self, call: Call, now: float) -> None:
        """Report the call's progress, and end it or send a keep-alive if that is due."""
        delivery, client = call.delivery, call.context.client
        if delivery.reported_at and delivery.last_write > delivery.reported_at and not call.result.settled:
            self.report(call)  # the next piece may take long
        if delivery.deadline is not None and now >= delivery.deadline:
            call.end(Outcome.TIMEOUT)
        elif delivery.writing_since is not None:
            if now - delivery.writing_since >= self._deadlines.stall:
                client.cut()
                call.end(Outcome.CLIENT_CLOSED)
        elif call.context.request.stream and call.attempt.route is not None and not call.result.settled:
            silence_s = self._deadlines.keep_alive if client.begun else self._deadlines.first_event
            if now - delivery.last_write >= silence_s:
                self._tasks.spawn(self._keep_alive(call), f"keep-alive {call.context.origin.id}")

    async def _keep_alive(self, call: Call) -> None:
        """Send a keep-alive, after the head if that was not sent."""
        if call.result.settled:
            return
        call.delivery.last_write = self._mono()
        try:
            if not call.context.client.begun:
                await call.begin_early()
            if comment := call.context.origin.api.sign_of_life(call.attempt.stream):
                await call.context.client.write(comment)
        except ConnectionError:
            call.end(Outcome.CLIENT_CLOSED)
