"""A fifth of the calls, and three a second: no storm, and no call is left alone on a quiet day."""

from gateway.core.retry import RetryBudget
from tests.core.clocks import Mono


class Flight:
    """How many calls run."""

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def __call__(self) -> int:
        return self.count


def granted(retries: RetryBudget, asked: int) -> int:
    return sum(retries.take() for _ in range(asked))


def test_three_are_always_allowed() -> None:
    assert granted(RetryBudget(Mono(), Flight()), 10) == 3


def test_of_a_hundred_calls_that_fail_at_once_twenty_are_tried_again() -> None:
    retries = RetryBudget(Mono(), Flight(100))
    retries.calls = 100
    assert granted(retries, 100) == 20


def test_three_a_second_come_back() -> None:
    mono = Mono()
    retries = RetryBudget(mono, Flight())
    assert granted(retries, 10) == 3
    mono.now += 0.5
    assert granted(retries, 10) == 1
    mono.now += 60
    assert granted(retries, 10) == 3


def test_k11_a_storm_adds_a_fifth_and_three_a_second() -> None:
    """A hundred calls a second for a minute, each wanting two more attempts, one call in flight at a time."""
    mono = Mono()
    retries = RetryBudget(mono, Flight())
    calls = sent = 0
    for _ in range(6000):
        mono.now += 0.01
        calls, retries.calls = calls + 1, retries.calls + 1
        sent += 1 + granted(retries, 2)
    assert sent <= 1.2 * calls + 3 * 60 + 3
    assert sent >= 1.2 * calls
