"""Of several keys a free one is used, each as often as the other; a paused one waits for its turn."""

import random
from collections import Counter
from typing import Any

import pytest

from gateway.core.channel_health import ChannelHealth
from gateway.core.model_entry import Route
from gateway.core.routing import RouteChoice, SkippedRoute, choose, choose_key, usable_keys
from gateway.domain.call import FailureKind
from gateway.domain.units import ChannelId
from tests.core.clocks import Mono
from tests.core.kit import catalog, channel, route
from tests.core.rig import Rig
from tests.core.test_attempts import good, status

NONE: frozenset[ChannelId] = frozenset()
THREE = ("sk-the-first-key-aaaa", "sk-the-second-key-bbbb", "env:THIRD")


def keyed(name: str = "a", **fields: Any) -> Route:
    """A channel of three keys, as the catalog has it."""
    made = channel(name, groups=("home",), key=THREE[0], keys=THREE[1:], **fields)
    return catalog(made).group_models("home")["m"].routes[0]


@pytest.fixture
def made() -> Route:
    return keyed()


@pytest.fixture
def health(mono: Mono) -> ChannelHealth:
    return ChannelHealth(mono, lambda: None)


def limit(health: ChannelHealth, key: Route, seconds: float) -> None:
    health.note_failure(key.key_id, FailureKind.RATE, "429", seconds)


def test_each_key_is_a_way_of_its_own(made: Route) -> None:
    assert [(one.channel.key, one.channel.keys, one.key_name) for one in made.keys] == [
        (THREE[0], (), "1 …aaaa"),
        (THREE[1], (), "2 …bbbb"),
        (THREE[2], (), "3 env:THIRD"),
    ]
    assert len({one.key_id for one in made.keys}) == 3


def test_a_single_key_makes_no_ways() -> None:
    assert catalog(channel(groups=("home",))).group_models("home")["m"].routes[0].keys == ()


def test_keys_share_alike(health: ChannelHealth) -> None:
    chance, made = random.Random(3), keyed()
    counts = Counter(choose_key(made, NONE, health, chance.randrange).key_name for _ in range(9_000))
    assert all(abs(count - 3000) < 150 for count in counts.values())


def test_a_paused_key_is_left_out_and_its_channel_is_not(made: Route, health: ChannelHealth) -> None:
    limit(health, made.keys[0], 30)
    assert health.state(made.channel).name == "ok"
    assert {choose_key(made, NONE, health, lambda n, t=t: t % n).key_name[0] for t in range(9)} == {"2", "3"}  # type: ignore[misc]


def test_with_all_keys_paused_the_channel_is_paused_as_long_as_the_first_to_return(health: ChannelHealth) -> None:
    made = keyed()
    for one, seconds in zip(made.keys, (30, 20, 40), strict=True):
        limit(health, one, seconds)
    state = health.state(made.channel)
    assert (state.name, state.left_s) == ("cooling", 20)
    chosen = choose([made], NONE, health, lambda _: 0)
    assert (chosen.route, chosen.paused) == (made.keys[1], True)


def test_with_all_keys_refused_the_channel_needs_attention(made: Route, health: ChannelHealth) -> None:
    for one in made.keys:
        health.note_failure(one.key_id, FailureKind.AUTH, "refused")
    assert health.state(made.channel).name == "attention"
    assert choose([made], NONE, health, lambda _: 0).route is None


def test_a_paused_channel_with_all_keys_refused_is_not_called(made: Route, health: ChannelHealth) -> None:
    for _ in range(3):
        health.note_failure(made.channel.id, FailureKind.SERVER, "503")
    for one in made.keys:
        health.note_failure(one.key_id, FailureKind.AUTH, "refused")
    state = health.state(made.channel)
    assert (state.name, state.reason) == ("attention", "none of its 3 keys is available: refused")
    chosen = choose([made], NONE, health, lambda _: 0)
    assert (chosen.route, [skip.rule for skip in chosen.skipped]) == (None, ["attention"])


def test_tried_keys_are_not_tried_again(made: Route, health: ChannelHealth) -> None:
    two = frozenset(one.key_id for one in made.keys[:2])
    assert choose([made], two, health, lambda _: 0).route == made.keys[2]
    limit(health, made.keys[2], 15)
    assert choose([made], two, health, lambda _: 0).skipped == (
        SkippedRoute("a", "its other keys are paused, one for 15 s", "cooling", 15),
    )
    all_three = frozenset(one.key_id for one in made.keys)
    for _ in range(2):
        assert choose([made], all_three, health, lambda _: 0).skipped == (SkippedRoute("a", "tried", "tried"),)
        health.clear(made.channel.id)  # as another call does that finds them good meanwhile


def test_a_half_open_key_takes_one_trial(made: Route, health: ChannelHealth, mono: Mono) -> None:
    limit(health, made.keys[0], 10)
    mono.now += 10
    with health.trying(made.channel.id, made.keys[0].key_id):
        free, resting = usable_keys(made, NONE, health)
        assert ([one.key_name[0] for one in free], resting) == (["2", "3"], [(0.0, made.keys[0])])
    assert len(usable_keys(made, NONE, health)[0]) == 3


def test_clearing_a_channel_clears_its_keys_and_clearing_a_key_only_itself(health: ChannelHealth) -> None:
    made, other = keyed(), route("ab")
    for one in made.keys:
        limit(health, one, 30)
    health.note_failure(other.channel.id, FailureKind.RATE, "429", 30)
    health.clear(made.keys[1].key_id)
    assert [health.state_of(one.key_id).name for one in made.keys] == ["cooling", "ok", "cooling"]
    health.clear(made.channel.id)
    assert [health.state_of(one.key_id).name for one in made.keys] == ["ok"] * 3
    assert health.state(other.channel).name == "cooling"


@pytest.mark.parametrize(("number", "state"), [(401, "attention"), (429, "cooling"), (402, "cooling")])
async def test_a_call_goes_on_with_the_next_key(rig: Rig, number: int, state: str) -> None:
    made = rig.channel("a", key=THREE[0], keys=THREE[1:])
    rig.upstreams.on("a", status(number), good)
    rig.channel("b", priority=-1)
    await rig.call()
    assert rig.upstreams.order == ["a", "a"]
    assert [attempt.key for attempt in rig.record.attempts] == ["1 …aaaa", "2 …bbbb"]
    assert rig.health.state(made).name == "ok"
    assert rig.health.state_of(ChannelId("ch_a#1")).name == state


async def test_a_server_s_failure_is_not_the_key_s_fault(rig: Rig) -> None:
    rig.channel("a", key=THREE[0], keys=THREE[1:], answer=status(500))
    rig.channel("b", priority=-1, answer=good)
    await rig.call()
    assert rig.upstreams.order == ["a", "b"]


async def test_many_bad_keys_do_not_use_up_the_attempts(rig: Rig) -> None:
    rig.channel("a", key=THREE[0], keys=THREE[1:], answer=status(401))
    rig.channel("b", priority=-1, answer=good)
    await rig.call()
    assert rig.upstreams.order == ["a", "a", "a", "b"]
    assert not any(key in str(rig.record) for key in THREE[:2])


def first(_: int) -> int:
    return 0


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
    health.note_failure(one.channel.id, FailureKind.RATE, "429", seconds)


def test_the_only_channel_is_chosen(health: ChannelHealth) -> None:
    assert choose([route()], NONE, health, first) == RouteChoice(route(), "priority 0", (), None, tier=(route(),))


def test_weights_are_shares(health: ChannelHealth) -> None:
    """1 to 3, within three sigma of 10,000 draws."""
    counts = shares([route("a", weight=1), route("b", weight=3)], health)
    assert abs(counts["a"] - 2500) <= 3 * (10_000 * 0.25 * 0.75) ** 0.5


def test_weight_zero_is_never_drawn_beside_others(health: ChannelHealth) -> None:
    assert shares([route("a", weight=0), route("b", weight=1), route("c", weight=1)], health, 1000)["a"] == 0


def test_weights_of_zero_are_equal_among_themselves(health: ChannelHealth) -> None:
    counts = shares([route("a", weight=0), route("b", weight=0)], health)
    assert abs(counts["a"] - 5000) <= 150


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


def test_a_paused_channel_is_passed_over_with_its_reason(health: ChannelHealth) -> None:
    a, b = route("a", priority=9), route("b")
    rest(health, a, 30)
    found = choose([a, b], NONE, health, first)
    assert (found.route, found.skipped) == (b, (SkippedRoute("a", "paused for 30 s: 429", "cooling", 30),))


def test_if_all_rest_the_one_that_is_free_soonest_is_the_last_resort(health: ChannelHealth) -> None:
    a, b, c = route("a", priority=9), route("b"), route("c")
    for one, seconds in ((a, 30), (b, 20), (c, 40)):
        rest(health, one, seconds)
    found = choose([a, b, c], NONE, health, first)
    assert (found.route, found.reason) == (b, "last resort, paused for 20 s")
    assert choose([a, b, c], tried(b), health, first).route == a


@pytest.mark.parametrize("seconds", [30.0, None])
def test_a_channel_that_needs_attention_is_not_a_last_resort(health: ChannelHealth, seconds: float | None) -> None:
    one = route()
    health.note_failure(one.channel.id, FailureKind.AUTH, "key refused", seconds)
    assert choose([one], NONE, health, first) == RouteChoice(
        None, "", (SkippedRoute("up", "needs attention, tried again in 60 s: key refused", "attention"),), None
    )


def test_a_missing_model_is_not_a_last_resort(health: ChannelHealth) -> None:
    one = route()
    health.note_missing(one.channel.id, "m")
    assert choose([one], NONE, health, first).skipped == (
        SkippedRoute("up", "does not have the model, retry in 10m00s", "missing", 600),
    )
    assert choose([route(model="n")], NONE, health, first).route == route(model="n")


def test_after_a_good_trial_the_channel_is_back(health: ChannelHealth, mono: Mono) -> None:
    a, b = route("a", priority=1), route("b")
    rest(health, a, 10)
    mono.now += 10
    with health.trying(a.channel.id):
        assert choose([a, b], NONE, health, first).skipped == (SkippedRoute("a", "retrying: 429", "trial", 0),)
        health.note_success(a.channel.id)
    assert choose([a, b], NONE, health, first).route == a


def test_the_way_is_reported(health: ChannelHealth) -> None:
    a, b, c = route("a", priority=5), route("b", priority=5), route("c", priority=5)
    assert choose([a, b, c], NONE, health, first).reason == "priority 5, drawn from 3"
    assert choose([a, b], tried(a), health, first).reason == "priority 5, after 1 failed"


def test_no_routes_no_choice(health: ChannelHealth) -> None:
    assert choose([], NONE, health, first) == RouteChoice(None, "", (), None)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((7,), {"ch_0": 1.0}),
        ((1, 3), {"ch_0": 0.25, "ch_1": 0.75}),
        ((0, 2), {"ch_0": 0.0, "ch_1": 1.0}),
        ((0, 0), {"ch_0": 0.5, "ch_1": 0.5}),
        ((1000, 3000), {"ch_0": 0.25, "ch_1": 0.75}),
    ],
)
def test_the_chance_of_a_channel_is_its_share_of_the_weights(
    health: ChannelHealth, weights: tuple[int, ...], expected: dict[str, float]
) -> None:
    routes = [route(str(number), weight=weight) for number, weight in enumerate(weights)]
    assert choose(routes, NONE, health, lambda _: 0).chances() == expected


def test_a_last_resort_is_certain_and_without_a_channel_there_is_no_chance(health: ChannelHealth) -> None:
    one = route("a")
    health.note_failure(one.channel.id, FailureKind.RATE, "429", 60.0)
    assert choose([one], NONE, health, lambda _: 0).chances() == {"ch_a": 1.0}
    assert choose([one], frozenset({one.channel.id}), health, lambda _: 0).chances() == {}
