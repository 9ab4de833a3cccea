"""The next channel of a call: by priority, then by weight, never one that was tried, and for reasons that are told."""

import random
from collections import Counter
from contextlib import ExitStack

import pytest

from gateway.core.catalog import Route
from gateway.core.channel_health import ChannelHealth
from gateway.core.routing import RouteChoice, SkippedRoute, choose
from gateway.domain.call import FailureKind
from gateway.domain.units import ChannelId
from tests.core.clocks import Mono
from tests.core.kit import route

NONE: frozenset[ChannelId] = frozenset()


def first(_: int) -> int:
    return 0


@pytest.fixture
def mono() -> Mono:
    return Mono()


@pytest.fixture
def health(mono: Mono) -> ChannelHealth:
    return ChannelHealth(mono, lambda: None)


def tried(*routes: Route) -> frozenset[ChannelId]:
    return frozenset(r.channel.id for r in routes)


def shares(routes: list[Route], health: ChannelHealth, draws: int = 10_000) -> Counter[str]:
    chance = random.Random(7)
    counts: Counter[str] = Counter()
    for _ in range(draws):
        chosen = choose(routes, NONE, health, chance.randrange).route
        assert chosen is not None
        counts[chosen.channel.name] += 1
    return counts


def rest(health: ChannelHealth, one: Route, seconds: float) -> None:
    health.failed(one.channel.id, FailureKind.RATE, "429", seconds)


def test_the_only_channel_is_chosen(health: ChannelHealth) -> None:
    assert choose([route()], NONE, health, first) == RouteChoice(route(), "priority 0", (), None)


def test_weights_are_shares(health: ChannelHealth) -> None:
    """1 to 3, within three sigma of 10,000 draws."""
    counts = shares([route("a", weight=1), route("b", weight=3)], health)
    assert abs(counts["a"] - 2500) <= 3 * (10_000 * 0.25 * 0.75) ** 0.5


def test_weight_zero_is_never_drawn_beside_others(health: ChannelHealth) -> None:
    assert shares([route("a", weight=0), route("b", weight=1), route("c", weight=1)], health, 1000)["a"] == 0


def test_weights_of_zero_are_equal_among_themselves(health: ChannelHealth) -> None:
    counts = shares([route("a", weight=0), route("b", weight=0)], health)
    assert abs(counts["a"] - 5000) <= 150


def test_a_single_channel_of_weight_zero_is_chosen(health: ChannelHealth) -> None:
    assert choose([route(weight=0)], NONE, health, first).route == route(weight=0)


def test_priority_is_strict(health: ChannelHealth) -> None:
    assert shares([route("a", priority=1, weight=1), route("b", priority=0, weight=1000)], health, 1000) == {"a": 1000}


def test_the_tier_is_used_up_before_the_next(health: ChannelHealth) -> None:
    a, b, c = route("a", priority=1), route("b", priority=1), route("c")
    assert choose([a, b, c], tried(a), health, first).route == b
    assert choose([a, b, c], tried(a, b), health, first).route == c


def test_a_tried_channel_is_never_chosen_again(health: ChannelHealth) -> None:
    a, b = route("a"), route("b")
    for ticket in (0, 1):
        assert choose([a, b], tried(a), health, lambda n, t=ticket: min(t, n - 1)).route == b  # type: ignore[misc]
    assert choose([a, b], tried(a, b), health, first) == RouteChoice(
        None, "", (SkippedRoute("a", "tried", "tried"), SkippedRoute("b", "tried", "tried")), None
    )


def test_a_resting_channel_is_passed_over_with_its_reason(health: ChannelHealth) -> None:
    a, b = route("a", priority=9), route("b")
    rest(health, a, 30)
    found = choose([a, b], NONE, health, first)
    assert (found.route, found.passed) == (b, (SkippedRoute("a", "cooling 30 s: 429", "cooling", 30),))


def test_if_all_rest_the_one_that_is_free_soonest_is_the_last_resort(health: ChannelHealth) -> None:
    a, b, c = route("a", priority=9), route("b"), route("c")
    for one, seconds in ((a, 30), (b, 20), (c, 40)):
        rest(health, one, seconds)
    found = choose([a, b, c], NONE, health, first)
    assert (found.route, found.why) == (b, "last resort, free in 20 s")
    assert choose([a, b, c], tried(b), health, first).route == a


@pytest.mark.parametrize("seconds", [30.0, None])
def test_a_channel_that_needs_attention_is_no_last_resort(health: ChannelHealth, seconds: float | None) -> None:
    one = route()
    health.failed(one.channel.id, FailureKind.AUTH, "key refused", seconds)
    assert choose([one], NONE, health, first) == RouteChoice(
        None, "", (SkippedRoute("up", "needs attention: key refused", "attention"),), None
    )


def test_a_missing_model_is_no_last_resort(health: ChannelHealth) -> None:
    one = route()
    health.lacks(one.channel.id, "m")
    assert choose([one], NONE, health, first).passed == (
        SkippedRoute("up", "does not know the model, asked again in 600 s", "missing", 600),
    )
    assert choose([route(model="n")], NONE, health, first).route == route(model="n")


def test_a_half_open_channel_takes_one_trial_while_others_go_elsewhere(health: ChannelHealth, mono: Mono) -> None:
    a, b = route("a", priority=1), route("b")
    rest(health, a, 10)
    mono.now += 10
    trials = 0
    with ExitStack() as running:
        for _ in range(100):
            chosen = choose([a, b], NONE, health, first).route
            assert chosen is not None
            running.enter_context(health.trying(chosen.channel.id))
            trials += chosen == a
    assert trials == 1


def test_after_a_good_trial_the_channel_is_back(health: ChannelHealth, mono: Mono) -> None:
    a, b = route("a", priority=1), route("b")
    rest(health, a, 10)
    mono.now += 10
    with health.trying(a.channel.id):
        assert choose([a, b], NONE, health, first).passed == (SkippedRoute("a", "on trial: 429", "trial", 0),)
        health.succeeded(a.channel.id)
    assert choose([a, b], NONE, health, first).route == a


def test_the_way_is_told(health: ChannelHealth) -> None:
    a, b, c = route("a", priority=5), route("b", priority=5), route("c", priority=5)
    assert choose([a, b, c], NONE, health, first).why == "priority 5, drawn from 3"
    assert choose([a, b], tried(a), health, first).why == "priority 5, after 1 failed"


def test_no_routes_no_choice(health: ChannelHealth) -> None:
    assert choose([], NONE, health, first) == RouteChoice(None, "", (), None)
