"""Which channel a call goes to next, with which of its keys, and why the others were skipped.

Pure: it reads states, gets randomness as a parameter, and changes nothing. Tiers follow priority; within a tier,
weights decide a draw. Channels already tried, disabled or paused are skipped, each with its reason. If only paused ones
are left, the one that resumes soonest is the last resort. Of several keys a free one is drawn.
"""

from collections.abc import Callable, Sequence

import msgspec

from gateway.core.catalog import Route
from gateway.core.channel_health import TOKENS, ChannelHealth, LatencyStats
from gateway.core.rate_scopes import ConcurrencyGate
from gateway.domain.human_values import brief_span, pause_text
from gateway.domain.units import ChannelId


def standing(
    route: Route, tried: frozenset[ChannelId], health: ChannelHealth
) -> tuple[list[Route], list[tuple[float, Route]]]:
    """Returns the free keys, and the paused ones with the seconds left. Tried and refused keys are in neither."""
    free: list[Route] = []
    resting: list[tuple[float, Route]] = []
    for key_route in route.keys:
        if key_route.key_id in tried:
            continue
        state = health.state_of(key_route.key_id)
        if state.name == "cooling" or (state.name == "half_open" and health.on_trial(key_route.key_id)):
            resting.append((state.left_s, key_route))
        elif state.name != "attention":
            free.append(key_route)
    return free, resting


def pick(route: Route, tried: frozenset[ChannelId], health: ChannelHealth, draw: Callable[[int], int]) -> Route:
    """Returns a free key, each equally likely; if all are paused, the one that is free soonest.

    One of the two lists must not be empty.
    """
    free, resting = standing(route, tried, health)
    if free:
        return free[draw(len(free))] if len(free) > 1 else free[0]
    return min(resting, key=lambda pair: pair[0])[1]


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
    """``tried``, ``attention``, ``missing``, ``cooling``, ``trial`` or ``busy``; for its own limits ``full`` (calls in
    flight) or ``limit`` (rates)."""
    left_s: float | None = None
    """Seconds until it may serve; None if waiting does not help."""
    model: str = ""
    """The fallback model that it would have served; empty: the requested model."""


class RouteChoice(msgspec.Struct, frozen=True):
    """The next route, or None, and the reasons against the others."""

    route: Route | None
    why: str
    passed: tuple[SkippedRoute, ...]
    retry_s: float | None
    """Without a route: seconds until one may be free; None if waiting does not help."""
    resting: bool = False
    """Whether the route is a last resort: its channel is paused."""
    gates: tuple[ConcurrencyGate, ...] = ()
    """The gates where a place may come free, if only a last resort or nothing is left."""
    tier: tuple[Route, ...] = ()
    """The routes that it was drawn from."""

    def chances(self) -> dict[ChannelId, float]:
        """Returns how likely each channel was drawn, from 0 to 1."""
        weights = _weights(self.tier)
        return {route.channel.id: weight / sum(weights) for route, weight in zip(self.tier, weights, strict=True)}


RouteCapacity = Callable[[Route], SkippedRoute | None]
"""Returns why a channel's own limits exclude it, if they do."""


def choose(
    routes: Sequence[Route],
    tried: frozenset[ChannelId],
    health: ChannelHealth,
    draw: Draw,
    room: RouteCapacity | None = None,
) -> RouteChoice:
    """Returns the next channel for a call that already tried some channels, or some of their keys.

    ``routes`` are in the order of their tiers.
    """
    free: list[Route] = []
    resting: list[tuple[float, Route, bool]] = []
    passed: list[SkippedRoute] = []
    gates: list[ConcurrencyGate] = []
    for route in routes:
        against = _against(route, tried, health)
        if room is not None and (against is None or against.rule in LAST_RESORTS):
            against = room(route) or against
        if against is None:
            free.append(route)
            continue
        passed.append(against)
        if against.rule in LAST_RESORTS and against.left_s is not None:
            resting.append((against.left_s, route, against.rule != "busy"))
        elif against.rule == "full" and route.bound is not None and route.bound.gate is not None:
            gates.append(route.bound.gate)
    if free:
        tier = [route for route in free if route.rank.tier == free[0].rank.tier]
        if free[0].rank.timed:
            tier = fastest(tier, health.pace)
        route = _draw(tier, draw)
        why = _why(place(route, health.pace), len(tier), tried)
        chosen = pick(route, tried, health, draw) if route.keys else route
        return RouteChoice(chosen, why, tuple(passed), None, tier=tuple(tier))
    if resting:
        left, route, rests = min(resting, key=lambda entry: entry[0])
        chosen = pick(route, tried, health, draw) if route.keys else route
        why = f"last resort, paused for {pause_text(left)}" if rests else f"busy, but the only one: {route.rank.place}"
        waits = tuple(gates) if rests else ()
        return RouteChoice(chosen, why, tuple(passed), left, resting=rests, gates=waits, tier=(route,))
    soon = [entry.left_s for entry in passed if entry.rule in ("full", "limit") and entry.left_s is not None]
    return RouteChoice(None, "", tuple(passed), min(soon, default=None), gates=tuple(gates))


def choose_from(tier: tuple[Route, ...], draw: Draw) -> RouteChoice:
    """Returns the choice among routes of this first tier, all of which are well (``ModelEntry.first_tier``)."""
    route = _draw(tier, draw)
    return RouteChoice(route, _why(route.rank.place, len(tier), NOTHING_TRIED), (), None, tier=tier)


def _against(route: Route, tried: frozenset[ChannelId], health: ChannelHealth) -> SkippedRoute | None:
    """Returns the reason to skip a channel, if any."""
    if route.channel.id in tried:
        return SkippedRoute(route.channel.name, "tried", "tried")
    state = health.state(route.channel)
    missing = health.missing(route.channel.id).get(route.subject, 0.0)
    if state.name == "ok" and not missing and not (route.keys and tried) and not route.rank.spill:
        return None
    name, reason = route.channel.name, state.reason
    if state.name == "attention":
        again = f"tried again in {brief_span(round(state.left_s * 1000))}"
        return SkippedRoute(name, f"needs attention, {again}: {reason}", "attention")
    if missing:
        return SkippedRoute(name, f"does not have the model, retry in {pause_text(missing)}", "missing", missing)
    on_trial = state.name == "half_open" and health.on_trial(route.channel.id)
    return (
        _keys_against(route, tried, health)
        or (
            SkippedRoute(name, f"paused for {pause_text(state.left_s)}: {reason}", "cooling", state.left_s)
            if state.left_s
            else None
        )
        or (SkippedRoute(name, f"retrying: {reason}", "trial", 0.0) if on_trial else None)
        or (_busy(route, health) if route.rank.spill else None)
    )


def _busy(route: Route, health: ChannelHealth) -> SkippedRoute | None:
    """Returns the reason to skip a busy local server: others are tried first."""
    running = health.in_flight(route.channel.id)
    if running < route.rank.spill:
        return None
    return SkippedRoute(route.channel.name, f"busy: {running} in flight", "busy", 0.0)


def _keys_against(route: Route, tried: frozenset[ChannelId], health: ChannelHealth) -> SkippedRoute | None:
    """Returns whether a call that tried some of a channel's keys must wait for the others, or has none left."""
    if not (route.keys and tried):
        return None
    free, waits = standing(route, tried, health)
    if free:
        return None
    if not waits:
        return SkippedRoute(route.channel.name, "tried", "tried")
    left = min(left for left, _ in waits)
    return SkippedRoute(route.channel.name, f"its other keys are paused, one for {pause_text(left)}", "cooling", left)


def fastest(tier: list[Route], pace: LatencyStats) -> list[Route]:
    """Returns the routes without a recent measurement, else those whose answers come about as fast as any."""
    times = [(pace.expected_s(route.channel.id, route.served.name), route) for route in tier]
    if new := [route for seconds, route in times if seconds is None]:
        return new
    limit = 1.1 * min(seconds for seconds, _ in times if seconds is not None)  # about as fast
    return [route for seconds, route in times if seconds is not None and seconds <= limit]


def place(route: Route, pace: LatencyStats) -> str:
    """Returns, in words, why a channel has its place among the others."""
    if not route.rank.timed:
        return route.rank.place
    seconds = pace.expected_s(route.channel.id, route.served.name)
    return route.rank.place + (
        ", not measured recently" if seconds is None else f", {TOKENS} tokens in {seconds:.1f} s"
    )


def _draw(tier: Sequence[Route], draw: Draw) -> Route:
    if len(tier) == 1:
        return tier[0]
    weights = _weights(tier)
    ticket = draw(sum(weights))
    for route, weight in zip(tier, weights, strict=True):
        ticket -= weight
        if ticket < 0:
            return route
    return tier[-1]


def _weights(tier: Sequence[Route]) -> list[int]:
    weights = [route.channel.weight for route in tier]
    return weights if any(weights) else [1] * len(tier)


def _why(place: str, share: int, tried: frozenset[ChannelId]) -> str:
    drawn = f", drawn from {share}" if share > 1 else ""
    return place + drawn + (f", after {len(tried)} failed" if tried else "")
