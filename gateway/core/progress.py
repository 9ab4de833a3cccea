"""Progress: what watchers are told of a running call, and the check whether its money is gone.

Both happen at most a few times a second for a call, however many events its stream has.
"""

from typing import Protocol

import msgspec

from gateway.core.bus import Bus
from gateway.core.call import Call
from gateway.core.clock import Clock
from gateway.core.quota import Purse, left_to_stop
from gateway.domain.call import Running
from gateway.domain.errors import QuotaExceeded
from gateway.domain.price import cost, rates
from gateway.domain.units import Millis, Nanos
from gateway.domain.usage import Usage

GAP_S = 0.2


class Broke(QuotaExceeded):
    """The money of a running stream is gone, and its owner wants it ended then."""


class Ledger(Purse, Protocol):
    """The books, as far as they are asked and told here."""

    def update(self, call: Running) -> None:
        """Keep the newest of what is known of a running call."""


class Teller:
    """Tells the books and the bus, and ends what can no longer be paid."""

    def __init__(self, bus: Bus, books: Ledger, clock: Clock) -> None:
        self._bus = bus
        self._books = books
        self._clock = clock

    def routed(self, call: Call) -> None:
        """A channel is about to be asked."""
        self._books.update(call.running)
        if self._bus.watchers:
            self._bus.progress(call.running)

    def moved(self, call: Call) -> None:
        """Something of the answer came. Raises Broke when the call's money is gone."""
        now = call.last_write
        if now - call.told < GAP_S:
            return
        call.told = now
        output = call.answer.tally.cheap if call.answer is not None else 0
        spent = self._spent(call, output)
        ttft = None if call.first_byte is None else Millis(round((call.first_byte - call.visit.began) * 1000))
        moved = msgspec.structs.replace(
            call.running, ttft=ttft, input=call.asked.input_bound, output=output, cost=spent
        )
        self._books.update(moved)
        if self._bus.watchers:
            self._bus.progress(moved)
        if call.token.stop_when_empty or call.catalog.registry.account.stop_when_empty:
            self._check(call, spent)

    def _spent(self, call: Call, output: int) -> Nanos:
        if call.price is None:
            return Nanos(0)
        usage = Usage(input=call.asked.input_bound, output=output)
        return cost(usage, rates(call.price, usage.input, call.group.multiplier))

    def _check(self, call: Call, spent: Nanos) -> None:
        left = left_to_stop(self._books, call.catalog.registry.account, call.token, now=self._clock.wall())
        if left is not None and left + call.held < spent:
            msg = "the money for this call is gone, and this token ends its streams then"
            raise Broke(msg)
