"""Routing: which channel a call goes to next, and why the others were passed over.

Pure: states are read, chance is a parameter, nothing is changed. Tiers by priority; within a tier a draw by weight;
channels already tried, switched off or at rest are passed over, each with its reason. If only resting ones are left,
the one that is free soonest is tried as a last resort (``features.md`` 2.5).
"""

from collections.abc import Callable, Sequence

import msgspec

from gateway.core.catalog import Route
from gateway.core.health import Health, State
from gateway.domain.units import ChannelId

Draw = Callable[[int], int]
"""A number from 0 up to, but without, its argument."""


class Passed(msgspec.Struct, frozen=True):
    """A channel that was passed over."""

    channel: str
    reason: str


class Choice(msgspec.Struct, frozen=True):
    """The next route, or None, and the reasons against the others."""

    route: Route | None
    why: str
    passed: tuple[Passed, ...]
    retry_s: float | None
    """If there is no route: seconds until one may be free; None if waiting will not help."""


def choose(routes: Sequence[Route], tried: frozenset[ChannelId], health: Health, draw: Draw) -> Choice:
    """The next channel for a call that has already tried some."""
    free: list[Route] = []
    resting: list[tuple[float, Route]] = []
    passed: list[Passed] = []
    for route in routes:
        state = health.state(route.channel)
        missing = health.missing_s(route.channel.id, route.served.name)
        reason, rest = _against(route, state, missing, tried, on_trial=health.on_trial(route.channel.id))
        if not reason:
            free.append(route)
            continue
        passed.append(Passed(route.channel.name, reason))
        if rest is not None:
            resting.append((rest, route))
    if free:
        tier = [r for r in free if r.channel.priority == max(f.channel.priority for f in free)]
        return Choice(_draw(tier, draw), _why(tier, tried), tuple(passed), None)
    if resting:
        left, route = min(resting, key=lambda pair: pair[0])
        return Choice(route, f"last resort, free in {left:.0f} s", tuple(passed), left)
    return Choice(None, "", tuple(passed), None)


def _against(
    route: Route, state: State, missing: float, tried: frozenset[ChannelId], *, on_trial: bool
) -> tuple[str, float | None]:
    """The reason to pass a channel over, and how long it rests if it may serve as a last resort."""
    if route.channel.id in tried:
        return "tried", None
    if state.name == "attention":
        return f"needs attention: {state.reason}", None
    if missing > 0:
        return f"does not know the model, asked again in {missing:.0f} s", None
    if state.name == "cooling":
        return f"cooling {state.left_s:.0f} s: {state.reason}", state.left_s
    if state.name == "half_open" and on_trial:
        return f"on trial: {state.reason}", 0.0
    return "", None


def _draw(tier: list[Route], draw: Draw) -> Route:
    if len(tier) == 1:
        return tier[0]
    weights = [r.channel.weight for r in tier]
    if not any(weights):
        weights = [1] * len(tier)
    ticket = draw(sum(weights))
    for route, weight in zip(tier, weights, strict=True):
        ticket -= weight
        if ticket < 0:
            return route
    return tier[-1]


def _why(tier: list[Route], tried: frozenset[ChannelId]) -> str:
    place = f"priority {tier[0].channel.priority}"
    share = f", drawn from {len(tier)}" if len(tier) > 1 else ""
    return place + share + (f", after {len(tried)} failed" if tried else "")
