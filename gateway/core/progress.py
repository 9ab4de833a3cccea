"""ProgressReporter: the progress of running calls, for watchers and the books.

Progress is reported, and the budget checked, a few times a second for a call, however many events come.
"""

from dataclasses import dataclass

import msgspec

from gateway.core.call import Call
from gateway.core.event_bus import EventBus
from gateway.core.quota import MoneyBooks, money_until_stop
from gateway.domain.cost import cost
from gateway.domain.errors import QuotaExceeded
from gateway.domain.price import rates
from gateway.domain.units import Millis, Nanos
from gateway.domain.usage import Usage


class BudgetExhausted(QuotaExceeded):
    """The money for a running stream is used up, and the settings end it then."""


@dataclass(eq=False)
class ProgressReporter:
    """Informs the books and the watchers, and ends streams that can no longer be paid for."""

    bus: EventBus
    books: MoneyBooks

    def report_route(self, call: Call) -> None:
        """Report that a channel is about to be called."""
        self.books.update(call.running)
        self.bus.publish_progress(call.running)

    def report_wait(self, call: Call, reason: str) -> None:
        call.running = msgspec.structs.replace(call.running, waits_for=reason)
        self.report_route(call)

    def note_output(self, call: Call) -> None:
        """Report that part of the answer arrived, unless one just did. Raises BudgetExhausted if the money is gone."""
        if call.delivery.last_write - call.delivery.reported_at < 0.2:
            return
        spent, context = self.report_output(call), call.context
        left = money_until_stop(self.books, context.token, began=context.origin.ts)
        if left is not None and left + call.hold.nanos < spent:
            raise BudgetExhausted("the money for this call is used up")

    def report_output(self, call: Call) -> Nanos:
        """Report what has arrived so far. Returns what that costs."""
        context, delivery = call.context, call.delivery
        first_byte, delivery.reported_at = delivery.first_byte, delivery.last_write
        output = call.attempt.stream.state.tally.rough_tokens if call.attempt.stream is not None else 0
        price, spent, input_bound = call.attempt.price, Nanos(0), context.request.bound.tokens
        if price is not None:
            usage = Usage(input=input_bound, output=output)
            spent = cost(usage, rates(price, usage.input, context.group.multiplier))
        ttft = None if first_byte is None else Millis(round((first_byte - context.origin.began) * 1000))
        running = msgspec.structs.replace(call.running, ttft=ttft, input=input_bound, output=output, cost=spent)
        self.books.update(running)
        self.bus.publish_progress(running)
        return spent
