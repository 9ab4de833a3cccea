"""The running calls, the one slow timer that checks them, and the progress that watchers see.

Once a second, and only while calls run, it handles keep-alives for silent streams, the heads of streams whose upstream
is slow to begin, deadlines, clients that stopped reading, and memory that can be freed. Progress is reported, and the
budget checked, at most a few times a second for a call, however many events its stream has.

The head of a stream waits for the upstream's first event: until then another channel may answer, or none, and the
status and the ``x-gateway-*`` headers say which. Clients wait for minutes, but some proxies close a silent connection
after one.
"""

import asyncio
from collections.abc import Callable

import msgspec

from gateway.core.call import Call
from gateway.core.clock import Clock
from gateway.core.event_bus import EventBus
from gateway.core.quota import MoneyBooks, left_to_stop
from gateway.core.tasks import Tasks
from gateway.domain.call import Outcome
from gateway.domain.cost import cost
from gateway.domain.errors import QuotaExceeded
from gateway.domain.price import rates
from gateway.domain.units import CallId, Millis, Nanos
from gateway.domain.usage import Usage


class CallDeadlines(msgspec.Struct, frozen=True, kw_only=True):
    """Deadlines in seconds."""

    first_event: float = 45.0
    """The head of a stream goes out after this time even if the upstream has not begun."""
    keep_alive: float = 15.0
    """How long a begun stream is silent before a keep-alive is sent, which is a comment."""
    stall: float = 30.0
    """How long one write may wait for a client that does not read."""
    tick: float = 1.0


class LiveCalls:
    """All running calls."""

    def __init__(self, mono: Callable[[], float], tasks: Tasks, patience: CallDeadlines) -> None:
        self._mono = mono
        self._tasks = tasks
        self._patience = patience
        self.calls: dict[CallId, Call] = {}
        """The running calls by id."""
        self._ticking = False
        self._quiet = False
        """No call ran at the last tick. Memory may become free a little later, so one more tick follows."""
        self.on_tick: Callable[[bool], None] = lambda _at_rest: None
        """Called at every tick; ``at_rest`` is True at the last one, until another call comes."""
        self.report: Callable[[Call], object] = lambda _call: None
        """Reports how much of a stream arrived."""
        self.empty = asyncio.Event()
        self.empty.set()

    def __len__(self) -> int:
        return len(self.calls)

    def enter(self, call: Call) -> None:
        """Watch this call, which runs in the current task, until ``leave``."""
        call.task = asyncio.current_task()
        if not self.calls:
            self.empty.clear()
        self.calls[call.context.origin.id] = call
        self._quiet = False
        self.wake()

    def wake(self) -> None:
        """Tick once more, and while calls run."""
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_later(self._patience.tick, self._tick)

    def leave(self, call: Call) -> None:
        """The call has ended: free its memory and its places."""
        if call.share.counted:
            call.share.keep(0)
        if call.limits.ticket is not None:
            call.limits.ticket.close()
        del self.calls[call.context.origin.id]
        if not self.calls:
            self.empty.set()

    def cancel(self, call: CallId, why: Outcome = Outcome.CANCELLED) -> bool:
        """End one call from outside. Returns False if it is not running."""
        if (running := self.calls.get(call)) is None:
            return False
        running.end(why)
        return True

    def cancel_all(self, why: Outcome) -> None:
        """End all of them."""
        for call in list(self.calls.values()):
            call.end(why)

    def ids(self) -> list[CallId]:
        """Returns the ids of the running calls."""
        return list(self.calls)

    def _tick(self) -> None:
        was_quiet, self._quiet = self._quiet, not self.calls
        self._ticking = not (was_quiet and self._quiet)
        self.on_tick(not self._ticking)
        if not self._ticking:
            return
        asyncio.get_running_loop().call_later(self._patience.tick, self._tick)
        now = self._mono()
        for call in list(self.calls.values()):
            self._look_after(call, now)

    def _look_after(self, call: Call, now: float) -> None:
        delivery, client = call.delivery, call.context.client
        if delivery.reported_at and delivery.last_write > delivery.reported_at and not call.result.settled:
            self.report(call)  # the next piece may take long
        if delivery.deadline is not None and now >= delivery.deadline:
            call.end(Outcome.TIMEOUT)
        elif delivery.writing_since is not None:
            if now - delivery.writing_since >= self._patience.stall:
                client.cut()
                call.end(Outcome.CLIENT_CLOSED)
        elif call.context.request.stream and call.attempt.route is not None and not call.result.settled:
            wait = self._patience.keep_alive if client.begun else self._patience.first_event
            if now - delivery.last_write >= wait:
                self._tasks.spawn(self._breathe(call), f"keep-alive {call.context.origin.id}")

    async def _breathe(self, call: Call) -> None:
        """Send a keep-alive if one is due."""
        if call.result.settled:
            return
        call.delivery.last_write = self._mono()
        try:
            if not call.context.client.begun:
                await call.begin_early()
            if sign := call.context.origin.api.sign_of_life(call.attempt.stream):
                await call.context.client.write(sign)
        except ConnectionError:
            call.end(Outcome.CLIENT_CLOSED)


class BudgetExhausted(QuotaExceeded):
    """The money of a running stream is gone, and its owner wants it ended then."""


class ProgressReporter:
    """Informs the books and the bus, and ends calls that can no longer be paid for."""

    def __init__(self, bus: EventBus, books: MoneyBooks, clock: Clock) -> None:
        self._bus = bus
        self._books = books
        self._clock = clock

    def routed(self, call: Call) -> None:
        """A channel is about to be called."""
        self._books.update(call.running)
        if self._bus.watched_by:
            self._bus.progress(call.running)

    def waits(self, call: Call, what: str) -> None:
        """The call waits for its next attempt."""
        call.running = msgspec.structs.replace(call.running, waits_for=what)
        self.routed(call)

    def moved(self, call: Call) -> None:
        """Part of the answer arrived. Raises BudgetExhausted when the call's money is gone."""
        if call.delivery.last_write - call.delivery.reported_at < 0.2:
            return
        spent, context = self.report(call), call.context
        if context.token.stop_when_empty or context.catalog.registry.account.stop_when_empty:
            self._check(call, spent)

    def report(self, call: Call) -> Nanos:
        """Report what has arrived so far. Returns its cost."""
        context, delivery = call.context, call.delivery
        first_byte, delivery.reported_at = delivery.first_byte, delivery.last_write
        output = call.attempt.stream.tally.rough_tokens if call.attempt.stream is not None else 0
        spent = self._spent(call, output)
        ttft = None if first_byte is None else Millis(round((first_byte - context.origin.began) * 1000))
        moved = msgspec.structs.replace(
            call.running, ttft=ttft, input=context.request.input_bound, output=output, cost=spent
        )
        self._books.update(moved)
        if self._bus.watched_by:
            self._bus.progress(moved)
        return spent

    def _spent(self, call: Call, output: int) -> Nanos:
        if call.attempt.price is None:
            return Nanos(0)
        usage = Usage(input=call.context.request.input_bound, output=output)
        return cost(usage, rates(call.attempt.price, usage.input, call.context.group.multiplier))

    def _check(self, call: Call, spent: Nanos) -> None:
        account = call.context.catalog.registry.account
        left = left_to_stop(self._books, account, call.context.token, now=self._clock.wall())
        if left is not None and left + call.held < spent:
            msg = "the money for this call is used up, and this token's streams end then"
            raise BudgetExhausted(msg)
