"""Which channel a call goes to next, which of its keys is used, and why other channels were skipped.

Pure: it reads states, takes randomness as a parameter, and changes nothing. Tiers follow the group's policy; within a
tier, a draw by weight decides. Channels that were already tried, are disabled or are paused are skipped, each with its
reason. If only paused channels are left, the one that resumes soonest is the last resort. If a channel has several
keys, one of the usable ones is drawn.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec

from gateway.core.channel_health import ChannelHealth, HealthState
from gateway.core.latency import TOKENS, LatencyStats
from gateway.core.model_entry import Route
from gateway.core.rate_scopes import ConcurrencyGate
from gateway.domain.human_values import pause_text
from gateway.domain.units import ChannelId

Draw = Callable[[int], int]
"""Returns a random number from 0 up to, but not including, its argument."""

NOTHING_TRIED: frozenset[ChannelId] = frozenset()

LAST_RESORTS = frozenset({"cooling", "trial", "busy"})
"""Rules that skip a channel only while another one is left."""


class SkippedRoute(msgspec.Struct, frozen=True):
    """A channel that was skipped."""

    channel: str
    reason: str
    rule: str
    """``tried``, ``attention``, ``missing``, ``cooling``, ``trial`` or ``busy``; for the channel's own limits ``full``
    (calls in flight) or ``limit`` (rates)."""
    wait_s: float | None = None
    """Seconds until the channel may serve; None if waiting does not help."""
    model: str = ""
    """The fallback model that it would have served; empty for the requested model."""


class RouteChoice(msgspec.Struct, frozen=True):
    """The next route, if any is left, and why others were skipped."""

    route: Route | None
    reason: str
    skipped: tuple[SkippedRoute, ...]
    retry_s: float | None
    """Without a route, the seconds until one may be free; None if waiting does not help."""
    paused: bool = False
    """Whether the route is a last resort because its channel is paused."""
    gates: tuple[ConcurrencyGate, ...] = ()
    """The gates where a slot may come free, if the choice has no route or only a last resort."""
    tier: tuple[Route, ...] = ()
    """The routes that it was drawn from."""

    def chances(self) -> dict[ChannelId, float]:
        """Returns the probability of each channel in the draw, from 0 to 1."""
        weights = _weights(self.tier)
        return {route.channel.id: weight / sum(weights) for route, weight in zip(self.tier, weights, strict=True)}


LimitCheck = Callable[[Route], SkippedRoute | None]
"""Returns why a channel's own limits exclude it, or None if they do not."""


def choose(
    routes: Sequence[Route],
    tried: frozenset[ChannelId],
    health: ChannelHealth,
    draw: Draw,
    limit_check: LimitCheck | None = None,
) -> RouteChoice:
    """Returns the next channel for a call, without the channels and keys ``tried``. ``routes`` go by tier."""
    free: list[Route] = []
    paused: list[tuple[Route, SkippedRoute]] = []
    skipped: list[SkippedRoute] = []
    gates: list[ConcurrencyGate] = []
    any_may_fail = bool(tried or health.failing)
    for route in routes:
        may_skip = any_may_fail or route.rank.busy_from or not route.channel.enabled  # no state counts for most calls
        skip = _skip(route, tried, health) if may_skip else None
        if limit_check is not None and (skip is None or skip.rule in LAST_RESORTS):
            skip = limit_check(route) or skip
        if skip is None:
            free.append(route)
            continue
        skipped.append(skip)
        if skip.rule in LAST_RESORTS:
            paused.append((route, skip))
        elif skip.rule == "full" and route.scope.gate is not None:
            gates.append(route.scope.gate)
    if free:
        return _draw_choice(free, tried, health, draw, tuple(skipped))
    if paused:
        route, skip = min(paused, key=lambda pair: pair[1].wait_s or 0.0)
        chosen = choose_key(route, tried, health, draw) if route.keys else route
        if skip.rule == "busy":
            reason = f"busy, but the only one: {route.rank.place}"
            return RouteChoice(chosen, reason, tuple(skipped), skip.wait_s, tier=(route,))
        reason = f"last resort, paused for {pause_text(skip.wait_s or 0.0)}"
        return RouteChoice(chosen, reason, tuple(skipped), skip.wait_s, paused=True, gates=tuple(gates), tier=(route,))
    waits = [skip.wait_s for skip in skipped if skip.rule in ("full", "limit") and skip.wait_s is not None]
    return RouteChoice(None, "", tuple(skipped), min(waits, default=None), gates=tuple(gates))


def _draw_choice(
    free: list[Route], tried: frozenset[ChannelId], health: ChannelHealth, draw: Draw, skipped: tuple[SkippedRoute, ...]
) -> RouteChoice:
    tier = free if len(free) == 1 else [route for route in free if route.rank.tier == free[0].rank.tier]
    if free[0].rank.by_latency:
        tier = fastest(tier, health.latency)
    route, drawn = tier[0], ""
    if len(tier) > 1:
        weights = _weights(tier)
        route = tier[bisect_right(list(accumulate(weights)), draw(sum(weights)))]
        drawn = f", drawn from {len(tier)}"
    reason = place_text(route, health.latency) + drawn + (f", after {len(tried)} failed" if tried else "")
    chosen = choose_key(route, tried, health, draw) if route.keys else route
    return RouteChoice(chosen, reason, skipped, None, tier=tuple(tier))


def usable_keys(
    route: Route, tried: frozenset[ChannelId], health: ChannelHealth
) -> tuple[list[Route], list[tuple[float, Route]]]:
    """Returns the free keys, and the paused ones with the seconds left. Tried and refused keys are in neither list."""
    free: list[Route] = []
    paused: list[tuple[float, Route]] = []
    for key_route in route.keys:
        if key_route.key_id in tried:
            continue
        state = health.state_of(key_route.key_id)
        if state.name == "cooling" or (state.name == "half_open" and health.is_on_trial(key_route.key_id)):
            paused.append((state.left_s, key_route))
        elif state.name != "attention":
            free.append(key_route)
    return free, paused


def choose_key(route: Route, tried: frozenset[ChannelId], health: ChannelHealth, draw: Draw) -> Route:
    """Returns a free key, each equally likely, else the paused one that resumes soonest. One must be free or paused."""
    free, paused = usable_keys(route, tried, health)
    if free:
        return free[draw(len(free))] if len(free) > 1 else free[0]
    return min(paused, key=lambda pair: pair[0])[1]


def _skip(route: Route, tried: frozenset[ChannelId], health: ChannelHealth) -> SkippedRoute | None:
    """Returns why a channel is skipped for its state or its failures; None if it may serve."""
    name = route.channel.name
    if route.channel.id in tried:
        return SkippedRoute(name, "tried", "tried")
    state = health.state(route.channel)
    missing_s = health.missing(route.channel.id).get(route.subject, 0.0)
    if state.name == "attention":
        reason = f"needs attention, tried again in {pause_text(state.left_s)}: {state.reason}"
        return SkippedRoute(name, reason, "attention")
    if missing_s:
        reason = f"does not have the model, retry in {pause_text(missing_s)}"
        return SkippedRoute(name, reason, "missing", missing_s)
    if route.keys and tried and (skip := _skip_for_keys(route, tried, health)) is not None:
        return skip
    return _skip_paused_or_busy(route, state, health)


def _skip_paused_or_busy(route: Route, state: HealthState, health: ChannelHealth) -> SkippedRoute | None:
    """Returns why a channel is used only as a last resort; None if it may serve."""
    name = route.channel.name
    if state.left_s:
        return SkippedRoute(name, f"paused for {pause_text(state.left_s)}: {state.reason}", "cooling", state.left_s)
    if state.name == "half_open" and health.is_on_trial(route.channel.id):
        return SkippedRoute(name, f"retrying: {state.reason}", "trial", 0.0)
    if route.rank.busy_from and (running := health.in_flight(route.channel.id)) >= route.rank.busy_from:
        return SkippedRoute(name, f"busy: {running} in flight", "busy", 0.0)
    return None


def _skip_for_keys(route: Route, tried: frozenset[ChannelId], health: ChannelHealth) -> SkippedRoute | None:
    """Returns why a call that has tried some of a channel's keys cannot use the others now; None if it can."""
    free, paused = usable_keys(route, tried, health)
    if free:
        return None
    if not paused:
        return SkippedRoute(route.channel.name, "tried", "tried")
    left_s = min(left_s for left_s, _ in paused)
    reason = f"its other keys are paused, one for {pause_text(left_s)}"
    return SkippedRoute(route.channel.name, reason, "cooling", left_s)


def fastest(tier: list[Route], latency: LatencyStats) -> list[Route]:
    """Returns the routes without a recent measurement; if all are measured, those within 10% of the fastest."""
    times = [(latency.expected_s(route.channel.id, route.served.name), route) for route in tier]
    if unmeasured := [route for seconds, route in times if seconds is None]:
        return unmeasured
    limit_s = 1.1 * min(seconds for seconds, _ in times if seconds is not None)
    return [route for seconds, route in times if seconds is not None and seconds <= limit_s]


def place_text(route: Route, latency: LatencyStats) -> str:
    """Returns, in words, why a channel has its place among the others."""
    if not route.rank.by_latency:
        return route.rank.place
    seconds = latency.expected_s(route.channel.id, route.served.name)
    measured = "not measured recently" if seconds is None else f"{TOKENS} tokens in {seconds:.1f} s"
    return f"{route.rank.place}, {measured}"


def _weights(tier: Sequence[Route]) -> list[int]:
    """Returns the weight of each route in the draw. If all weights are 0, all routes are equally likely."""
    weights = [route.channel.weight for route in tier]
    return weights if any(weights) else [1] * len(tier)
