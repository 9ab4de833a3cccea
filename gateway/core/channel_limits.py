"""ChannelLimits: the calls in flight and the rates of each channel, from an attempt's beginning to its end.

An attempt counts against its channel's limits from the moment it begins, and its slot is free when it ends. The
estimated tokens are then replaced by those that it used. An attempt after which another one was necessary used none.
"""

from functools import partial

from gateway.core.call import Call
from gateway.core.concurrency import wait_text
from gateway.core.model_entry import Route
from gateway.core.progress import ProgressReporter
from gateway.core.rate_scopes import ConcurrencyGate, GateKey
from gateway.core.ratelimit import Limiter
from gateway.core.routing import LimitCheck, SkippedRoute
from gateway.domain.errors import GatewayError
from gateway.domain.human_values import plural


class ChannelLimits:
    """Applies the limits of channels to calls: counts each attempt, and lets calls wait for a free slot."""

    def __init__(self, limiter: Limiter, progress: ProgressReporter) -> None:
        self.limiter = limiter
        self._progress = progress

    def check_for(self, call: Call) -> LimitCheck:
        return partial(self.check, call.need.rate_tokens, call.limits.channel_slot)

    def check(self, tokens: int, held: GateKey | None, route: Route) -> SkippedRoute | None:
        """Returns why the channel's limits exclude a call of ``tokens`` that has a slot at ``held``, or None."""
        scope, gate = route.scope, route.scope.gate
        if gate is not None and gate.key != held and not self.limiter.concurrency.has_room(gate):
            reason = f"at its limit of {gate.limit} {plural(gate.limit, 'call in flight')}"
            return SkippedRoute(route.channel.name, reason, "full", 1.0)  # when a slot comes free is unknown
        if scope.has_rates and (reached := self.limiter.first_reached((scope,), tokens)) is not None:
            return SkippedRoute(route.channel.name, reached.reason, "limit", reached.wait_s)
        return None

    def enter(self, call: Call, route: Route) -> None:
        """Begin an attempt, without awaiting since its channel was chosen."""
        attempt, limits, scope = call.attempt, call.limits, route.scope
        for counted in attempt.counted_calls:  # the previous attempt used no tokens
            counted.correct_tokens(0)
        attempt.counted_calls = ()
        key = None if scope.gate is None else scope.gate.key
        if limits.channel_slot != key:
            self.release_slot(call)
            if key is not None:
                self.limiter.concurrency.enter((key,))
                limits.channel_slot = key
        if scope.has_rates:
            attempt.counted_calls = self.limiter.take((scope,), call.need.rate_tokens)

    async def wait(self, call: Call, gates: tuple[ConcurrencyGate, ...]) -> bool:
        """Wait until the call gets a slot at one of these gates. Returns False if it got none in time."""
        self.release_slot(call)
        self._progress.report_wait(call, wait_text(gates))
        try:
            call.limits.channel_slot = await self.limiter.concurrency.wait(gates)
        except GatewayError:
            return False
        return True

    async def wait_for_room(self, call: Call, route: Route) -> bool:
        """Returns whether the channel's limits allow the call's next attempt. Waits for a slot if all are taken."""
        skip = self.check_for(call)(route)
        gate = route.scope.gate
        if skip is not None and skip.rule == "full" and gate is not None and await self.wait(call, (gate,)):
            skip = self.check_for(call)(route)
        if skip is not None:
            self.release_slot(call)
        return skip is None

    def release_slot(self, call: Call) -> None:
        """Free the call's slot at a channel: its attempt has ended, or is not made."""
        slot, call.limits.channel_slot = call.limits.channel_slot, None
        if slot is not None:
            self.limiter.concurrency.leave((slot,))
