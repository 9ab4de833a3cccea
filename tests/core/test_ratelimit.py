"""Rates are limited exactly: as a model that counts by brute force would."""

import random
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.core.ratelimit import Bound, Limiter, Reading, Ticket, Used, duration
from gateway.domain.errors import RateLimited
from gateway.domain.limits import Limits
from tests.core.clocks import Mono

FRESH = Used(0, 0, 3600.0)


def bound(name: str = "laptop", used: Used = FRESH, **limits: Any) -> Bound:
    return Bound(key=("token", name), label=f"token '{name}'", limits=Limits(**limits), today=lambda: used)


@pytest.fixture
def mono() -> Mono:
    return Mono()


@pytest.fixture
def limiter(mono: Mono) -> Limiter:
    return Limiter(mono)


def spend(limiter: Limiter, *bounds: Bound, tokens: int = 0, real: int | None = None) -> None:
    """One whole call."""
    limiter.check(list(bounds), tokens)
    with limiter.take(list(bounds), tokens) as ticket:
        ticket.true_up(tokens if real is None else real)


def refusal(limiter: Limiter, *bounds: Bound, tokens: int = 0, least: int = 0) -> RateLimited:
    with pytest.raises(RateLimited) as caught:
        limiter.check(list(bounds), tokens, least)
    return caught.value


def test_no_limits_no_refusals(limiter: Limiter) -> None:
    for _ in range(100):
        spend(limiter, bound(), tokens=10**9)
    assert limiter.readings([bound()]) == (None, None)


def test_requests_a_minute_slide(limiter: Limiter, mono: Mono) -> None:
    one = bound(rpm=2)
    spend(limiter, one)
    mono.now += 20
    spend(limiter, one)
    assert refusal(limiter, one).retry_after_s == 40
    mono.now += 40
    spend(limiter, one)
    assert refusal(limiter, one).retry_after_s == 20


def test_a_refused_call_takes_nothing(limiter: Limiter, mono: Mono) -> None:
    one = bound(rpm=1, tpm=100)
    spend(limiter, one, tokens=10)
    for _ in range(50):
        refusal(limiter, one, tokens=10)
    mono.now += 60
    spend(limiter, one, tokens=100)


def test_one_partys_refusal_takes_nothing_from_the_other(limiter: Limiter) -> None:
    tight, wide = bound("tight", rpm=1), bound("wide", rpm=2)
    spend(limiter, tight, wide)
    for _ in range(5):
        refusal(limiter, tight, wide)
    spend(limiter, wide)


def test_the_longest_wait_is_told(limiter: Limiter, mono: Mono) -> None:
    early, late = bound("early", rpm=1), bound("late", rpm=1)
    spend(limiter, early)
    mono.now += 30
    spend(limiter, late)
    found = refusal(limiter, early, late)
    assert (found.retry_after_s, "late" in found.message) == (60, True)


def test_credit_of_a_cheap_call_goes_back(limiter: Limiter) -> None:
    one = bound(tpm=100)
    for _ in range(11):
        spend(limiter, one, tokens=90, real=1)
    refusal(limiter, one, tokens=90)


def test_excess_of_a_dear_call_is_debt(limiter: Limiter, mono: Mono) -> None:
    one = bound(tpm=100)
    spend(limiter, one, tokens=10, real=500)
    assert refusal(limiter, one, tokens=1).retry_after_s == 60
    mono.now += 60
    spend(limiter, one, tokens=100)


@pytest.mark.parametrize("real", [0, 5, 500])
def test_a_call_longer_than_a_minute_leaves_no_trace(limiter: Limiter, mono: Mono, real: int) -> None:
    """Its minute was over when it told what it had used."""
    one = bound(tpm=100)
    with limiter.take([one], 50) as ticket:
        mono.now += 61
        limiter.check([one], 100)
        ticket.true_up(real)
    limiter.check([one], 100)
    spend(limiter, one, tokens=100)
    refusal(limiter, one, tokens=1)


def test_calls_in_flight_are_counted_until_they_end(limiter: Limiter) -> None:
    one = bound(concurrent=2)
    with limiter.take([one], 0), limiter.take([one], 0):
        assert limiter.in_flight(one.key) == 2
        assert refusal(limiter, one).retry_after_s == 1.0
    limiter.check([one], 0)
    assert limiter.in_flight(one.key) == 0


def test_a_call_that_ends_in_an_error_flies_no_more(limiter: Limiter) -> None:
    one = bound(concurrent=1)
    with pytest.raises(ZeroDivisionError), limiter.take([one], 0):
        raise ZeroDivisionError
    limiter.check([one], 0)


def test_a_call_larger_than_the_window_is_told_so(limiter: Limiter) -> None:
    found = refusal(limiter, bound(tpm=100), tokens=101, least=101)
    assert (found.code, found.retry_after_s) == ("request_too_large_for_limit", None)
    assert found.details == {"limit": 100, "limit_name": "tokens a minute", "requested": 101}


def test_a_large_output_limit_may_have_the_whole_window(limiter: Limiter) -> None:
    """Clients that always ask for as much output as there can be are not shut out."""
    one = bound(tpm=100)
    limiter.check([one], 100_000, 50)
    spend(limiter, one, tokens=1)
    assert refusal(limiter, one, tokens=100_000, least=50).code == "rate_limit_exceeded"


def test_a_limit_of_nothing_refuses_everything(limiter: Limiter) -> None:
    assert refusal(limiter, bound(rpm=0)).code == "request_too_large_for_limit"
    assert refusal(limiter, bound(concurrent=0)).code == "rate_limit_exceeded"


@pytest.mark.parametrize(
    ("limits", "used", "tokens", "fits"),
    [
        ({"rpd": 10}, Used(9, 0, 60.0), 0, True),
        ({"rpd": 10}, Used(10, 0, 60.0), 0, False),
        ({"tpd": 100}, Used(0, 90, 60.0), 10, True),
        ({"tpd": 100}, Used(0, 90, 60.0), 11, False),
        ({"tpd": 100, "tpm": 5}, Used(0, 90, 60.0), 11, False),
    ],
)
def test_days_are_counted_by_the_books(
    limiter: Limiter, limits: dict[str, Any], used: Used, tokens: int, fits: bool
) -> None:
    one = bound(used=used, **limits)
    if fits:
        limiter.check([one], tokens)
    else:
        assert refusal(limiter, one, tokens=tokens).retry_after_s == 60.0


def test_a_call_larger_than_a_day_is_told_so(limiter: Limiter) -> None:
    one = bound(tpd=100)
    assert refusal(limiter, one, tokens=101, least=101).code == "request_too_large_for_limit"
    limiter.check([one], 100_000, 50)


def test_the_tightest_limits_are_read(limiter: Limiter, mono: Mono) -> None:
    wide, tight = bound("wide", rpm=100, tpm=1000), bound("tight", rpm=4, used=Used(0, 950, 7.0), tpd=1000)
    spend(limiter, wide, tight, tokens=10)
    mono.now += 15
    assert limiter.readings([wide, tight]) == (Reading(4, 3, 45.0), Reading(1000, 50, 7.0))


def test_an_unused_limit_reads_whole(limiter: Limiter) -> None:
    assert limiter.readings([bound(rpm=5)]) == (Reading(5, 5, 0.0), None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (-3, "0.0s"),
        (1.25, "1.2s"),
        (59.9, "59.9s"),
        (60, "1m0s"),
        (60.5, "1m1s"),
        (360, "6m0s"),
        (3600, "1h0m0s"),
        (83_100, "23h5m0s"),
    ],
)
def test_durations_are_written_as_clients_know_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@dataclass
class Model:
    """Counts by brute force: all calls ever, each with its moment and its tokens."""

    rpm: int
    tpm: int
    concurrent: int
    calls: list[list[float]] = field(default_factory=list)
    flying: int = 0

    def admits(self, now: float, tokens: int, least: int) -> bool:
        recent = [call for call in self.calls if call[0] > now - 60]
        asked = tokens if least > self.tpm else min(tokens, self.tpm)
        return (
            self.flying < self.concurrent
            and len(recent) + 1 <= self.rpm
            and sum(call[1] for call in recent) + asked <= self.tpm
        )


@pytest.mark.parametrize("seed", range(10))
def test_the_limiter_equals_the_model_on_random_schedules(seed: int) -> None:
    """A thousand schedules a seed: calls of all sizes, ends at any time, waits that hit the window's edge."""
    chance = random.Random(seed)
    for _ in range(1000):
        _run_schedule(chance)


def _run_schedule(chance: random.Random) -> None:
    mono = Mono()
    limiter = Limiter(mono)
    model = Model(chance.randint(1, 5), chance.randint(5, 40), chance.randint(1, 4))
    one = bound(rpm=model.rpm, tpm=model.tpm, concurrent=model.concurrent)
    running: list[tuple[ExitStack, Ticket, list[float]]] = []
    for _ in range(chance.randint(5, 25)):
        mono.now += chance.choice((0, 0, 0.5, 1, 7.5, 20, 30, 60))
        if running and chance.random() < 0.4:
            stack, ticket, call = running.pop(chance.randrange(len(running)))
            call[1] = chance.choice((0, 1, 5, 50))
            ticket.true_up(int(call[1]))
            stack.close()
            model.flying -= 1
            continue
        least = chance.randint(1, 10)
        tokens = least + chance.choice((0, 3, 100))
        try:
            limiter.check([one], tokens, least)
        except RateLimited:
            assert not model.admits(mono.now, tokens, least)
            continue
        assert model.admits(mono.now, tokens, least)
        stack = ExitStack()
        ticket = stack.enter_context(limiter.take([one], tokens))
        model.calls.append([mono.now, tokens])
        model.flying += 1
        running.append((stack, ticket, model.calls[-1]))


@pytest.mark.parametrize("seed", range(5))
def test_who_waits_as_told_is_admitted_and_not_before(seed: int) -> None:
    chance = random.Random(seed)
    mono = Mono()
    limiter = Limiter(mono)
    one = bound(rpm=3, tpm=50)
    for _ in range(300):
        tokens = chance.randint(1, 50)
        real = chance.randint(0, 60)
        try:
            spend(limiter, one, tokens=tokens, real=real)
        except RateLimited as refused:
            mono.now += (refused.retry_after_s or 0) - 0.25
            refusal(limiter, one, tokens=tokens)
            mono.now += 0.25
            limiter.check([one], tokens)
        mono.now += chance.choice((0, 1, 5))
