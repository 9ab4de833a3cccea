"""What the limits of the channels leave for one call, and what its attempts take of it.

An attempt counts at its channel from the moment it begins; its place there is free again when it ends. Tokens that it
was counted with become those that were used; an attempt after which another channel was tried has used none.
"""

import asyncio
from functools import partial

from gateway.core.call import Call
from gateway.core.catalog import Route
from gateway.core.rate_scopes import ConcurrencyGate, RateScope
from gateway.core.ratelimit import Limiter, headers_of
from gateway.core.routing import SkippedRoute
from gateway.domain.errors import GatewayError

SOON_S = 1.0
"""When a place among the calls in flight may come free: nobody knows."""


class ChannelTickets:
    """Asked for each channel that a call may go to."""

    __slots__ = ("_held", "_least", "_limiter", "_tokens")

    def __init__(self, limiter: Limiter, tokens: int, least: int, held: tuple[str, str] | None = None) -> None:
        self._limiter = limiter
        self._tokens = tokens
        self._least = least
        self._held = held
        """The gate at which the call has a place already."""

    def __call__(self, route: Route) -> SkippedRoute | None:
        """What speaks against a channel, if anything does."""
        bound = route.bound
        if bound is None:
            return None
        gate = bound.gate
        if gate is not None and not self._limiter.lines.has_room(gate) and gate.key != self._held:
            return SkippedRoute(route.channel.name, f"at its limit of {gate.limit} calls in flight", "full", SOON_S)
        if bound.rated and (over := self._limiter.against(bound, self._tokens, self._least)) is not None:
            return SkippedRoute(route.channel.name, over.reason, "limit", over.wait_s)
        return None


class ChannelLimits:
    """The room of all channels."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    def of(self, call: Call) -> ChannelTickets:
        """What there is for this call."""
        slot = call.limits.channel_slot
        held = slot.key if slot is not None else None
        return ChannelTickets(self._limiter, call.need.rate_tokens, call.need.input, held)

    def has_room(self, route: Route) -> bool:
        """Whether a channel without rates takes a call now."""
        gate = route.bound.gate if route.bound is not None else None
        return gate is None or self._limiter.lines.has_room(gate)

    def enter(self, call: Call, route: Route) -> None:
        """An attempt begins, in the same moment in which its channel was chosen."""
        attempt, limits = call.attempt, call.limits
        if attempt.channel_ticket is not None:
            attempt.channel_ticket.true_up(0)
            attempt.channel_ticket = None
        bound = route.bound
        gate = bound.gate if bound is not None else None
        if limits.channel_slot is not None and (gate is None or limits.channel_slot.key != gate.key):
            self.forgo(call)
        if gate is not None and limits.channel_slot is None:
            self._limiter.lines.enter((gate,))
        limits.channel_slot = None
        if bound is not None and bound.rated:
            attempt.channel_ticket = self._limiter.take((bound,), call.need.rate_tokens)
        if limits.scopes:
            limits.read_headers = partial(self._headers, limits.scopes)
            asyncio.get_running_loop().call_soon(limits.read)  # while the upstream is waited for

    def _headers(self, binding: tuple[RateScope, ...]) -> dict[str, str]:
        return headers_of(self._limiter.readings(binding))

    def leave(self, route: Route) -> None:
        """It has ended."""
        if route.bound is not None and route.bound.gate is not None:
            self._limiter.lines.leave((route.bound.gate,))

    async def wait(self, call: Call, gates: tuple[ConcurrencyGate, ...]) -> bool:
        """Until the call has a place at one of these; False if there was none in time."""
        self.forgo(call)
        try:
            call.limits.channel_slot = await self._limiter.lines.wait(gates)
        except GatewayError:
            return False
        return True

    async def make(self, call: Call, route: Route) -> bool:
        """Whether the channel has room for the call's next attempt, after a wait if need be."""
        against = self.of(call)(route)
        gate = route.bound.gate if route.bound is not None else None
        if against is not None and against.rule == "full" and gate is not None and await self.wait(call, (gate,)):
            against = self.of(call)(route)
        if against is not None:
            self.forgo(call)
        return against is None

    def forgo(self, call: Call) -> None:
        """Give a place back that was waited for and is not used."""
        slot, call.limits.channel_slot = call.limits.channel_slot, None
        if slot is not None:
            self._limiter.lines.leave((slot,))
