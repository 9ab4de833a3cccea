"""ChannelLimits: the calls in flight and the rates of each channel, from an attempt's beginning to its end.

An attempt counts against its channel's limits from the moment it begins, and its place is free when it ends. The tokens
it was counted with are then replaced by those it used; an attempt that another channel had to follow used none.
"""

import asyncio
from collections.abc import Callable

from gateway.core.call import Call
from gateway.core.concurrency import wait_text
from gateway.core.model_entry import Route
from gateway.core.rate_scopes import ConcurrencyGate
from gateway.core.ratelimit import Limiter, headers_of
from gateway.core.routing import SkippedRoute
from gateway.domain.errors import GatewayError
from gateway.domain.human_values import plural


class ChannelLimitCheck:
    """Tells whether a channel's limits allow one call to go there."""

    __slots__ = ("_held", "_limiter", "_tokens")

    def __init__(self, limiter: Limiter, tokens: int, held: tuple[str, str] | None = None) -> None:
        """``tokens`` is what the call counts for. ``held`` is the key of the gate at which it already has a place."""
        self._limiter = limiter
        self._tokens = tokens
        self._held = held

    def __call__(self, route: Route) -> SkippedRoute | None:
        """Returns the reason to skip a channel, if any."""
        scope = route.scope
        if scope is None:
            return None
        gate = scope.gate
        if gate is not None and gate.key != self._held and not self._limiter.concurrency.has_room(gate):
            reason = f"at its limit of {gate.limit} {plural(gate.limit, 'call in flight')}"
            return SkippedRoute(route.channel.name, reason, "full", 1.0)  # when a place comes free is unknown
        if scope.rated and (reached := self._limiter.first_reached((scope,), self._tokens)) is not None:
            return SkippedRoute(route.channel.name, reached.reason, "limit", reached.wait_s)
        return None


class ChannelLimits:
    """The limits of all channels."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self.on_wait: Callable[[Call, str], None] = lambda _call, _what: None
        """Called with what a running call is about to wait for."""

    def check_for(self, call: Call) -> ChannelLimitCheck:
        """Returns the check of this call."""
        slot = call.limits.channel_slot
        return ChannelLimitCheck(self._limiter, call.need.rate_tokens, None if slot is None else slot.key)

    def has_room(self, route: Route) -> bool:
        """Returns whether a new call gets a place at the channel. Rates are not checked."""
        scope = route.scope
        return scope is None or scope.gate is None or self._limiter.concurrency.has_room(scope.gate)

    def enter(self, call: Call, route: Route) -> None:
        """Begin an attempt, in the same moment in which its channel was chosen."""
        attempt, limits, scope = call.attempt, call.limits, route.scope
        if attempt.channel_ticket is not None:  # the attempt before used no tokens
            attempt.channel_ticket.correct_tokens(0)
            attempt.channel_ticket = None
        gate = scope.gate if scope is not None else None
        if limits.channel_slot is not None and (gate is None or limits.channel_slot.key != gate.key):
            self.release_slot(call)
        if gate is not None and limits.channel_slot is None:
            self._limiter.concurrency.enter((gate,))
        limits.channel_slot = None  # the attempt has the place now
        if scope is not None and scope.rated:
            attempt.channel_ticket = self._limiter.take((scope,), call.need.rate_tokens)
        if scopes := limits.scopes:
            limits.read_headers = lambda: headers_of(self._limiter.readings(scopes))
            asyncio.get_running_loop().call_soon(limits.read)  # while the upstream is waited for

    def leave(self, route: Route) -> None:
        """End an attempt."""
        if route.scope is not None and route.scope.gate is not None:
            self._limiter.concurrency.leave((route.scope.gate,))

    async def wait(self, call: Call, gates: tuple[ConcurrencyGate, ...]) -> bool:
        """Wait until the call has a place at one of these gates. Returns False if it got none in time."""
        self.release_slot(call)
        self.on_wait(call, wait_text(gates))
        try:
            call.limits.channel_slot = await self._limiter.concurrency.wait(gates)
        except GatewayError:
            return False
        return True

    async def wait_for_room(self, call: Call, route: Route) -> bool:
        """Returns whether the channel's limits allow the call's next attempt, after a wait for a place if needed."""
        skip = self.check_for(call)(route)
        gate = route.scope.gate if route.scope is not None else None
        if skip is not None and skip.rule == "full" and gate is not None and await self.wait(call, (gate,)):
            skip = self.check_for(call)(route)
        if skip is not None:
            self.release_slot(call)
        return skip is None

    def release_slot(self, call: Call) -> None:
        """Give back an unused place that the call waited for."""
        slot, call.limits.channel_slot = call.limits.channel_slot, None
        if slot is not None:
            self._limiter.concurrency.leave((slot,))
