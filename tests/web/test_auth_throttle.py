"""Who comes with wrong tokens waits; nobody else does."""

import pytest

from gateway.domain.errors import RateLimited
from gateway.web.connection_limits import AuthThrottle
from tests.core.clocks import Mono

NEAR, FAR = "127.0.0.1", "192.0.2.7"


@pytest.fixture
def time() -> Mono:
    return Mono()


@pytest.fixture
def knocks(time: Mono) -> AuthThrottle:
    return AuthThrottle(time)


def test_an_address_waits_from_its_tenth_failure_a_minute_from_its_first(knocks: AuthThrottle, time: Mono) -> None:
    for _ in range(10):
        knocks.check(FAR)
        knocks.count_failure(FAR)
        time.now += 2
    with pytest.raises(RateLimited) as caught:
        knocks.check(FAR)
    assert caught.value.retry_after_s == 40
    knocks.check("192.0.2.8")
    time.now += 40
    knocks.check(FAR)
    knocks.count_failure(FAR)
    with pytest.raises(RateLimited):
        knocks.check(FAR)


def test_old_failures_are_forgotten(knocks: AuthThrottle, time: Mono) -> None:
    for _ in range(10):
        knocks.count_failure(FAR)
    time.now += 59
    with pytest.raises(RateLimited):
        knocks.check(FAR)
    time.now += 1
    knocks.check(FAR)
    knocks.count_failure(FAR)
    knocks.check(FAR)


@pytest.mark.parametrize("own", [NEAR, "127.8.8.8", "::1", "::ffff:127.0.0.1", ""])
def test_this_machine_never_waits(knocks: AuthThrottle, own: str) -> None:
    for _ in range(30):
        knocks.count_failure(own)
        knocks.check(own)


def test_memory_is_bounded(knocks: AuthThrottle) -> None:
    for number in range(3 * 1000):
        knocks.count_failure(f"2001:db8::{number:x}")
    assert len(knocks.failures) == 1000
    assert all(failures.maxlen == 10 for failures in knocks.failures.values())
