"""Channels that fail rest, longer each time; one call tries whether they are well again."""

import pytest
from msgspec.structs import replace

from gateway.core.channel_health import WINDOW_S, ChannelHealth, HealthState
from gateway.domain.call import FailureKind
from gateway.domain.channel import key_id
from tests.core.clocks import Mono
from tests.core.kit import channel

UP = channel()
BREAKERS = [FailureKind.SERVER, FailureKind.NETWORK, FailureKind.SLOW, FailureKind.CUT]


class Bell:
    """Counts how often it was rung."""

    def __init__(self) -> None:
        self.rung = 0

    def __call__(self) -> None:
        self.rung += 1


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def health(mono: Mono, bell: Bell) -> ChannelHealth:
    return ChannelHealth(mono, bell)


def fail(health: ChannelHealth, kind: FailureKind, times: int = 1, *, retry_after_s: float | None = None) -> None:
    for _ in range(times):
        health.note_failure(UP.id, kind, "it broke", retry_after_s)


def test_off_is_the_owners_and_says_nothing_else(health: ChannelHealth) -> None:
    fail(health, FailureKind.AUTH)
    assert health.state(channel(enabled=False)) == HealthState("off")


@pytest.mark.parametrize("kind", BREAKERS)
def test_three_failures_in_a_row_open_the_breaker(health: ChannelHealth, kind: FailureKind) -> None:
    fail(health, kind, 2)
    assert health.state(UP).name == "ok"
    fail(health, kind)
    assert health.state(UP) == HealthState("cooling", "it broke", 10, kind)


def alternate(health: ChannelHealth, mono: Mono, calls: int, gap_s: float = 1.0) -> None:
    """Failures and successes in turn, a failure last."""
    fail(health, FailureKind.SERVER)
    for _ in range(calls // 2):
        mono.now += gap_s
        health.note_success(UP.id)
        mono.now += gap_s
        fail(health, FailureKind.SERVER)


def test_half_of_five_recent_calls_open_the_breaker(health: ChannelHealth, mono: Mono) -> None:
    alternate(health, mono, 3)
    assert health.state(UP).name == "ok"
    alternate(health, mono, 0)
    assert health.state(UP).name == "ok"
    health.note_success(UP.id)
    fail(health, FailureKind.SERVER)
    assert health.state(UP).name == "cooling"


def test_old_failures_do_not_count(health: ChannelHealth, mono: Mono) -> None:
    alternate(health, mono, 20, gap_s=WINDOW_S / 4)
    assert health.state(UP).name == "ok"


@pytest.mark.parametrize("kind", [FailureKind.CLIENT, FailureKind.MISSING])
def test_the_clients_own_mistakes_say_nothing_of_a_channel(health: ChannelHealth, kind: FailureKind) -> None:
    fail(health, kind, 20)
    assert health.state(UP) == HealthState("ok")


@pytest.mark.parametrize(
    ("kind", "longest"),
    [
        (FailureKind.SLOW, 120),
        (FailureKind.CUT, 120),
        (FailureKind.SERVER, 30),
        (FailureKind.NETWORK, 30),
    ],
)
def test_each_rest_is_longer_than_the_last_up_to_a_point(
    health: ChannelHealth, mono: Mono, kind: FailureKind, longest: float
) -> None:
    fail(health, kind, 3)
    rests = []
    for _ in range(5):
        rests.append(health.state(UP).left_s)
        mono.now += rests[-1]
        assert health.state(UP).name == "half_open"
        fail(health, kind)
    assert rests == [min(step, longest) for step in (10, 30, 60, 120, 120)]


def test_a_success_forgets_everything(health: ChannelHealth, mono: Mono) -> None:
    fail(health, FailureKind.SERVER, 3)
    mono.now += 10
    fail(health, FailureKind.SERVER)
    mono.now += 30
    health.note_success(UP.id)
    assert health.state(UP) == HealthState("ok")
    mono.now += WINDOW_S
    fail(health, FailureKind.SERVER, 3)
    assert health.state(UP).left_s == 10


@pytest.mark.parametrize(
    ("kind", "asked", "rest"),
    [
        (FailureKind.RATE, None, 10),
        (FailureKind.RATE, 5.0, 5),
        (FailureKind.RATE, 0.0, 0),
        (FailureKind.RATE, 600.0, 600),
        (FailureKind.QUOTA, None, 3600),
        (FailureKind.QUOTA, 30.0, 30),
        (FailureKind.QUOTA, 600.0, 600),
    ],
)
def test_a_limit_pauses_as_the_upstream_says(
    health: ChannelHealth, kind: FailureKind, asked: float | None, rest: float
) -> None:
    fail(health, kind, retry_after_s=asked)
    assert health.state(UP).left_s == rest


def test_rate_limits_without_a_time_rest_longer_each_time(health: ChannelHealth, mono: Mono) -> None:
    for step in (10, 30, 60, 120):
        fail(health, FailureKind.RATE)
        assert health.state(UP).left_s == step
        mono.now += step


@pytest.mark.parametrize("first", [FailureKind.QUOTA, FailureKind.RATE])
def test_the_later_deadline_stays(health: ChannelHealth, mono: Mono, first: FailureKind) -> None:
    fail(health, first, retry_after_s=100.0)
    mono.now += 10
    fail(health, FailureKind.RATE, retry_after_s=5.0)
    assert health.state(UP).left_s == 90.0
    fail(health, FailureKind.RATE, retry_after_s=200.0)
    assert health.state(UP).left_s == 200.0


def test_a_refused_key_is_tried_again_ever_more_rarely_and_heals_by_itself(health: ChannelHealth, mono: Mono) -> None:
    for seconds in (60.0, 300.0, 900.0, 3600.0, 3600.0):
        fail(health, FailureKind.AUTH)
        assert (health.state(UP).name, health.state(UP).left_s) == ("attention", seconds)
        mono.now += seconds
        assert health.state(UP).name == "half_open"
    health.note_success(UP.id)
    assert health.state(UP) == HealthState("ok")


def test_calls_that_are_refused_together_are_one_refusal(health: ChannelHealth, mono: Mono) -> None:
    for _ in range(5):
        fail(health, FailureKind.AUTH)
    assert health.state(UP).left_s == 60.0


def test_a_test_that_makes_no_call_leaves_missing_models_out(health: ChannelHealth) -> None:
    fail(health, FailureKind.RATE)
    health.note_missing(UP.id, "m")
    health.note_missing(UP.id, "other")
    health.clear(UP.id, models=("other",))
    assert (health.state(UP).name, [*health.missing(UP.id)]) == ("ok", ["m"])
    health.clear(UP.id)
    assert health.missing(UP.id) == {}


def test_a_refused_key_needs_attention_until_it_is_cleared_or_accepted(health: ChannelHealth, mono: Mono) -> None:
    fail(health, FailureKind.AUTH)
    fail(health, FailureKind.RATE, retry_after_s=100.0)
    assert (health.state(UP).name, health.state(UP).left_s) == ("attention", 100.0)
    mono.now += 100
    fail(health, FailureKind.RATE, retry_after_s=5.0)
    assert health.state(UP).name == "cooling"
    health.clear(UP.id)
    assert health.state(UP) == HealthState("ok")


def half_open(health: ChannelHealth, mono: Mono) -> None:
    fail(health, FailureKind.RATE, retry_after_s=5.0)
    mono.now += 5


def test_a_half_open_channel_takes_one_trial(health: ChannelHealth, mono: Mono) -> None:
    half_open(health, mono)
    with health.trying(UP.id):
        assert health.is_on_trial(UP.id)
    assert not health.is_on_trial(UP.id)


@pytest.mark.parametrize("kind", [FailureKind.RATE, FailureKind.SERVER])
def test_a_cooling_or_healthy_channel_is_on_no_trial(health: ChannelHealth, kind: FailureKind) -> None:
    fail(health, kind, retry_after_s=5.0)
    with health.trying(UP.id):
        assert not health.is_on_trial(UP.id)


def test_a_trial_ends_with_its_own_call_alone(health: ChannelHealth, mono: Mono) -> None:
    """Calls from before the pause may still run; how they end does not end the trial."""
    with health.trying(UP.id):
        half_open(health, mono)
        with health.trying(UP.id):
            with health.trying(UP.id):  # as a last resort
                pass
            fail(health, FailureKind.CLIENT)
            fail(health, FailureKind.RATE, retry_after_s=0.0)
            assert health.is_on_trial(UP.id)
        assert not health.is_on_trial(UP.id)


@pytest.mark.parametrize(("end", "name"), [("succeeded", "ok"), ("left", "half_open"), ("failed", "cooling")])
def test_a_trial_decides(health: ChannelHealth, mono: Mono, end: str, name: str) -> None:
    half_open(health, mono)
    with health.trying(UP.id):
        if end == "succeeded":
            health.note_success(UP.id)
        elif end == "failed":
            fail(health, FailureKind.SERVER)
    assert (health.is_on_trial(UP.id), health.state(UP).name) == (False, name)


def test_a_trial_that_breaks_is_over(health: ChannelHealth, mono: Mono) -> None:
    half_open(health, mono)
    with pytest.raises(ZeroDivisionError), health.trying(UP.id):
        raise ZeroDivisionError
    assert not health.is_on_trial(UP.id)


def test_a_missing_model_is_paused_alone(health: ChannelHealth, mono: Mono) -> None:
    health.note_missing(UP.id, "m")
    assert (health.missing(UP.id).get("m", 0.0), health.missing(UP.id).get("n", 0.0)) == (600, 0.0)
    assert health.state(UP) == HealthState("ok")
    mono.now += 600
    assert health.missing(UP.id).get("m", 0.0) == 0.0


def test_channels_are_apart(health: ChannelHealth) -> None:
    fail(health, FailureKind.AUTH)
    assert health.state(channel("other")) == HealthState("ok")


def test_a_watcher_gets_only_changes(health: ChannelHealth, bell: Bell) -> None:
    health.note_success(UP.id)
    health.clear(UP.id)
    fail(health, FailureKind.CLIENT)
    assert bell.rung == 0
    fail(health, FailureKind.RATE)
    health.note_success(UP.id)
    health.note_success(UP.id)
    assert bell.rung == 2


def test_a_channel_that_has_recovered_is_forgotten(health: ChannelHealth, mono: Mono) -> None:
    well = [not health.failing]
    fail(health, FailureKind.SERVER)
    health.note_success(UP.id)
    well.append(not health.failing)
    mono.now += WINDOW_S
    health.note_success(UP.id)
    assert [*well, not health.failing] == [True, False, True]


def test_a_missing_model_is_not_forgotten_by_a_success(health: ChannelHealth) -> None:
    health.note_missing(UP.id, "m")
    health.note_success(UP.id)
    assert health.missing(UP.id).get("m", 0.0) > 0


@pytest.mark.parametrize(
    ("status", "state"), [(200, "ok"), (500, "ok"), (400, "ok"), (401, "attention"), (403, "attention")]
)
def test_any_answer_but_a_refusal_proves_a_key(health: ChannelHealth, mono: Mono, status: int, state: str) -> None:
    fail(health, FailureKind.AUTH)
    health.note_answer(UP.id, "", 200)
    assert health.state(UP).name == "attention", "an answer to a call that began before the refusal"
    mono.now += 60
    health.note_answer(UP.id, "", status)
    fail(health, FailureKind.SERVER)
    assert health.state(UP).name == state


def test_an_answer_that_is_cut_off_was_made_with_an_accepted_key(health: ChannelHealth, mono: Mono) -> None:
    fail(health, FailureKind.AUTH)
    mono.now += 60
    fail(health, FailureKind.CUT)
    assert health.state(UP).name == "cooling"
    fail(health, FailureKind.AUTH)
    mono.now += 3600
    fail(health, FailureKind.NETWORK)
    assert health.state(UP).name == "attention"


def test_a_channels_own_pause_outlasts_a_shorter_one_of_the_key_that_it_keeps(health: ChannelHealth) -> None:
    fail(health, FailureKind.NETWORK, 3)
    paused = health.state_of(UP.id)
    health.note_failure(key_id(UP.id, 2), FailureKind.RATE, "limited", 1)
    health.renumber_keys(replace(UP, key="first", keys=("second",)), replace(UP, key="second"))
    assert health.state_of(UP.id) == paused


def test_a_rejected_key_counts_more_than_its_channels_own_pause(health: ChannelHealth) -> None:
    fail(health, FailureKind.NETWORK, 3)
    health.note_failure(key_id(UP.id, 2), FailureKind.AUTH, "rejected")
    health.renumber_keys(replace(UP, key="first", keys=("second",)), replace(UP, key="second"))
    assert health.state_of(UP.id).name == "attention"


def test_a_rejected_key_counts_more_even_if_its_channels_own_pause_is_longer(health: ChannelHealth) -> None:
    health.note_failure(UP.id, FailureKind.RATE, "limited", 86_400)
    health.note_failure(key_id(UP.id, 2), FailureKind.AUTH, "rejected")
    health.renumber_keys(replace(UP, key="first", keys=("second",)), replace(UP, key="second"))
    assert health.state_of(UP.id).name == "attention"


def test_a_pause_that_is_not_a_refusal_outlasts_the_only_key(health: ChannelHealth) -> None:
    fail(health, FailureKind.NETWORK, 3)
    paused = health.state_of(UP.id)
    health.renumber_keys(replace(UP, key="first"), replace(UP, key="second"))
    assert (paused.name, health.state_of(UP.id)) == ("cooling", paused)
