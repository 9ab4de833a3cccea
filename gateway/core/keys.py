"""Keys: which of a channel's several keys a call uses. Pure: chance is a parameter, states are read."""

from collections.abc import Callable

from gateway.core.catalog import Route
from gateway.core.health import Health
from gateway.domain.units import ChannelId


def standing(
    route: Route, tried: frozenset[ChannelId], health: Health
) -> tuple[list[Route], list[tuple[float, Route]]]:
    """The keys that are free, and those at rest with the seconds left; tried and refused ones are neither."""
    free: list[Route] = []
    resting: list[tuple[float, Route]] = []
    for one in route.keys:
        if one.key_id in tried:
            continue
        state = health.state_of(one.key_id)
        if state.name == "cooling" or (state.name == "half_open" and health.on_trial(one.key_id)):
            resting.append((state.left_s, one))
        elif state.name != "attention":
            free.append(one)
    return free, resting


def pick(route: Route, tried: frozenset[ChannelId], health: Health, draw: Callable[[int], int]) -> Route:
    """A free key, each as likely as the other; if all rest, the one that is free soonest.

    There must be one of either.
    """
    free, resting = standing(route, tried, health)
    if free:
        return free[draw(len(free))] if len(free) > 1 else free[0]
    return min(resting, key=lambda pair: pair[0])[1]
