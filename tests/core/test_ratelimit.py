"""Rates are limited exactly: as a model that counts by brute force would."""

import os
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.core.rate_scopes import CallScopes, RateScope, channel_scope, combine_scopes, group_scope, token_scope
from gateway.core.ratelimit import CountedCall, Limiter, LimitUse, duration, headers_of
from gateway.domain.call import Scope
from gateway.domain.errors import RateLimited
from gateway.domain.group import Group
from gateway.domain.limits import RATES, Limits
from gateway.domain.settings import Settings
from tests.core import kit
from tests.core.clocks import Mono

FRESH = (0, 0, 3600.0)


class Days(dict[Scope, tuple[int, int, float]]):
    """What each party has used today; nothing if it is not said."""

    def __missing__(self, key: Scope) -> tuple[int, int, float]:
        return FRESH


def bound(name: str = "laptop", **limits: Any) -> RateScope:
    return token_scope(kit.token(name, limits=Limits(**limits)), Settings())


@pytest.fixture
def days() -> Days:
    return Days()


@pytest.fixture
def limiter(mono: Mono, days: Days) -> Limiter:
    return Limiter(mono, days.__getitem__)


def spend(limiter: Limiter, *bounds: RateScope, tokens: int = 0, real: int | None = None) -> None:
    """One whole call."""
    limiter.check(bounds, tokens)
    _correct(limiter.take(bounds, tokens), tokens if real is None else real)


def _correct(counted: list[CountedCall], tokens: int) -> None:
    for call in counted:
        call.correct_tokens(tokens)


def _left(limiter: Limiter, *bounds: RateScope) -> list[tuple[int, int, float] | None]:
    """The limit, what is left and when it is whole, of requests and of tokens."""
    found = {use.kind: (use.limit, use.left, use.reset_s) for use in limiter.readings(bounds)}
    return [found.get("requests"), found.get("tokens")]


def refusal(limiter: Limiter, *bounds: RateScope, tokens: int = 0) -> RateLimited:
    with pytest.raises(RateLimited) as caught:
        limiter.check(bounds, tokens)
    return caught.value


def test_no_limits_no_refusals(limiter: Limiter) -> None:
    for _ in range(100):
        spend(limiter, bound(), tokens=10**9)
    assert limiter.readings([bound()]) == []


@pytest.mark.parametrize("rate", RATES)
def test_every_rate_that_can_be_set_is_enforced(limiter: Limiter, days: Days, rate: str) -> None:
    one = bound("laptop", **{rate: 1})
    days[one.key] = (1, 1, 60.0)
    limiter.take([one], tokens=1)
    assert refusal(limiter, one, tokens=1).details["limit_name"] == RATES[rate]


def test_requests_a_minute_slide(limiter: Limiter, mono: Mono) -> None:
    one = bound(rpm=2)
    spend(limiter, one)
    mono.now += 20
    spend(limiter, one)
    assert refusal(limiter, one).retry_after_s == 40
    mono.now += 40
    spend(limiter, one)
    assert refusal(limiter, one).retry_after_s == 20


def test_the_longest_wait_is_reported(limiter: Limiter, mono: Mono) -> None:
    early, late = bound("early", rpm=1), bound("late", rpm=1)
    spend(limiter, early)
    mono.now += 30
    spend(limiter, late)
    found = refusal(limiter, early, late)
    assert (found.retry_after_s, "late" in found.message) == (60, True)


def test_a_call_larger_than_the_window_is_reported(limiter: Limiter) -> None:
    found = refusal(limiter, bound(tpm=100), tokens=101)
    assert (found.code, found.retry_after_s) == ("request_too_large_for_limit", None)
    assert found.details == {"limit": 100, "limit_name": "tokens a minute", "limit_of": "token", "requested": 101}


def test_a_large_output_limit_learns_what_fits(limiter: Limiter) -> None:
    found = refusal(limiter, bound(tpm=100), tokens=1010)
    assert found.message == (
        "this call needs about 1010 tokens, and token 'laptop' may use at most 100 tokens a minute; "
        "make it shorter, lower its max_tokens, or raise the limit"
    )


@pytest.mark.parametrize(("reset_s", "wait"), [(41.2, "42 s"), (99.5, "1m40s"), (71_981.0, "19h59m")])
def test_the_wait_is_told_in_units_that_people_read(mono: Mono, reset_s: float, wait: str) -> None:
    limiter = Limiter(mono, lambda _: (3, 0, reset_s))
    message = refusal(limiter, bound(rpd=3)).message
    assert message == f"token 'laptop' has reached its limit of 3 requests a day; try again in {wait}"


def test_a_limit_of_nothing_refuses_everything(limiter: Limiter) -> None:
    assert refusal(limiter, bound(rpm=0)).code == "request_too_large_for_limit"


@pytest.mark.parametrize(
    ("limits", "used", "tokens", "fits"),
    [
        ({"rpd": 10}, (9, 0, 60.0), 0, True),
        ({"rpd": 10}, (10, 0, 60.0), 0, False),
        ({"tpd": 100}, (0, 90, 60.0), 10, True),
        ({"tpd": 100}, (0, 90, 60.0), 11, False),
        ({"tpd": 100, "tpm": 50}, (0, 90, 60.0), 11, False),
    ],
)
def test_days_are_counted_by_the_books(
    limiter: Limiter, days: Days, limits: dict[str, Any], used: tuple[int, int, float], tokens: int, fits: bool
) -> None:
    one = bound(**limits)
    days[one.key] = used
    if fits:
        limiter.check([one], tokens)
    else:
        assert refusal(limiter, one, tokens=tokens).retry_after_s == 60.0


def test_a_call_larger_than_a_day_is_reported(limiter: Limiter) -> None:
    one = bound(tpd=100)
    assert refusal(limiter, one, tokens=101).code == "request_too_large_for_limit"
    limiter.check([one], 100)


def test_the_tightest_limits_are_read(limiter: Limiter, mono: Mono, days: Days) -> None:
    wide, tight = bound("wide", rpm=100, tpm=1000), bound("tight", rpm=4, tpd=1000)
    days[tight.key] = (0, 950, 7.0)
    spend(limiter, wide, tight, tokens=10)
    mono.now += 15
    assert _left(limiter, wide, tight) == [(4, 3, 45.0), (1000, 50, 7.0)]


def test_debt_reads_as_nothing_left(limiter: Limiter) -> None:
    one = bound(tpm=100)
    spend(limiter, one, tokens=10, real=500)
    assert _left(limiter, one) == [None, (100, 0, 60.0)]


def test_what_is_taken_without_a_check_is_forgotten_as_well(limiter: Limiter, mono: Mono) -> None:
    one = bound(rpm=10**9)
    for _ in range(100):
        limiter.take([one], 0)
        mono.now += 30
    assert len(limiter._logs[one.key].calls) == 2  # noqa: SLF001 - its bound is what this is about


def test_an_unused_limit_reads_whole(limiter: Limiter) -> None:
    assert _left(limiter, bound(rpm=5)) == [(5, 5, 0.0), None]


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


@pytest.mark.parametrize("seed", range(5))
def test_a_call_that_waits_as_long_as_requested_is_admitted_and_not_before(seed: int) -> None:
    chance = random.Random(seed)
    mono = Mono()
    limiter = Limiter(mono, Days().__getitem__)
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


def test_the_limits_are_in_headers() -> None:
    assert headers_of([LimitUse("requests a minute", 60, 1, 1.25, None)]) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1.2s",
    }
    assert headers_of([]) == {}


@pytest.mark.parametrize(
    ("limit", "headers"),
    [
        (
            {"rpm": 2},
            {
                "x-ratelimit-limit-requests": "2",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "45.0s",
            },
        ),
        (
            {"tpd": 50},
            {
                "x-ratelimit-limit-tokens": "50",
                "x-ratelimit-remaining-tokens": "10",
                "x-ratelimit-reset-tokens": "7.0s",
            },
        ),
    ],
)
def test_the_error_of_a_reached_limit_has_its_headers(
    limiter: Limiter, mono: Mono, days: Days, limit: dict[str, int], headers: dict[str, str]
) -> None:
    one = bound("laptop", **limit)
    days[one.key] = (0, 40, 7.0)
    for seconds in (10, 5):
        limiter.take([one], 0)
        mono.now += seconds
    assert refusal(limiter, one, tokens=20).limit_headers == headers


def test_the_error_of_a_call_that_is_larger_than_a_limit_has_no_headers(limiter: Limiter) -> None:
    assert refusal(limiter, bound(tpm=10), tokens=20).limit_headers == {}


def test_the_longest_wait_of_several_limits_is_reported(limiter: Limiter, days: Days) -> None:
    one = bound(rpm=1, rpd=5, tpm=10)
    days[one.key] = (5, 0, 900.0)
    spend(limiter, bound(rpm=1))
    assert refusal(limiter, one).details["limit_name"] == "requests a day"
    assert refusal(limiter, one, tokens=11).code == "request_too_large_for_limit"


SCHEDULES = 100_000 if os.environ.get("TOLLKEEPER_FULL") else 4_000
DAY_S = 600
"""A short one, so that schedules cross its end."""


@dataclass
class Party:
    """One party and its calls as a model sees them that counts by brute force: all calls ever, each as a whole."""

    bound: RateScope
    calls: list["Taken"] = field(default_factory=list)

    def used(self, now: float) -> tuple[int, int, float]:
        """What the books would say: a call belongs to the day on which it began, while it runs with its estimate."""
        began = now // DAY_S * DAY_S
        today = [call for call in self.calls if call.at >= began]
        return (len(today), sum(call.tokens for call in today), began + DAY_S - now)

    def admits(self, now: float, tokens: int) -> bool:
        limits, recent = self.bound.limits, [call for call in self.calls if call.at > now - 60]
        used = self.used(now)
        return (
            sum(call.runs for call in self.calls) < (limits.concurrent or 10**9)
            and len(recent) < (limits.rpm or 10**9)
            and sum(call.tokens for call in recent) + tokens <= (limits.tpm or 10**9)
            and used[0] < (limits.rpd or 10**9)
            and used[1] + tokens <= (limits.tpd or 10**9)
        )


@dataclass
class Taken:
    """One call that was admitted."""

    at: float
    tokens: int
    runs: bool = True


def _party(chance: random.Random, kind: str) -> Party:
    def maybe(least: int, most: int) -> int | None:
        return chance.randint(least, most) if chance.random() < 0.6 else None

    limits = Limits(rpm=maybe(1, 5), tpm=maybe(5, 60), rpd=maybe(3, 12), tpd=maybe(20, 200), concurrent=maybe(1, 4))
    settings = Settings(token_streams=0, channel_calls=0)
    if kind == "token":
        return Party(token_scope(kit.token(limits=limits), settings))
    if kind == "group":
        return Party(group_scope(Group(name="home", limits=limits), settings))
    return Party(channel_scope(kit.channel(limits=limits), settings))


@pytest.mark.parametrize("part", range(10))
def test_the_limiter_equals_the_model_on_random_schedules(part: int) -> None:
    """Tokens, groups and channels with any of the limits; calls of all sizes, that end at any time with any
    usage; waits that hit the edges of minutes and days."""
    chance = random.Random(part)
    admitted = refused = 0
    for _ in range(SCHEDULES // 10):
        good, bad = _run_schedule(chance)
        admitted, refused = admitted + good, refused + bad
    assert admitted > SCHEDULES // 10
    assert refused > SCHEDULES // 10


def _run_schedule(chance: random.Random) -> tuple[int, int]:
    mono = Mono()
    parties = [_party(chance, kind) for kind in chance.sample(("token", "group", "channel"), chance.randint(1, 3))]
    by_key = {party.bound.key: party for party in parties}
    limiter = Limiter(mono, lambda key: by_key[key].used(mono.now))
    bounds = [party.bound for party in parties]
    terms = combine_scopes(bounds)
    running: list[tuple[list[CountedCall], Taken]] = []
    counts = [0, 0]
    for _ in range(chance.randint(5, 30)):
        mono.now += chance.choice((0, 0, 0.5, 1, 7.5, 20, 30, 60, 300))
        if running and chance.random() < 0.4:
            counted, call = running.pop(chance.randrange(len(running)))
            call.tokens, call.runs = chance.choice((0, 1, 5, 50)), False
            _correct(counted, call.tokens)
            limiter.concurrency.leave([gate.key for gate in terms.gates])
            continue
        tokens = chance.randint(1, 10) + chance.choice((0, 3, 100))
        admits = _admits(limiter, terms, tokens)
        assert admits == all(party.admits(mono.now, tokens) for party in parties)
        counts[not admits] += 1
        if admits:
            call = Taken(mono.now, tokens)
            limiter.concurrency.enter([gate.key for gate in terms.gates])
            running.append((limiter.take(terms.rated_scopes, tokens), call))
            for party in parties:
                party.calls.append(call)
    return counts[0], counts[1]


def _admits(limiter: Limiter, terms: CallScopes, tokens: int) -> bool:
    try:
        limiter.check(terms.rated_scopes, tokens)
    except RateLimited:
        return False
    return limiter.concurrency.full(terms.gates) is None
