"""What was measured lately says how long an answer of usual length takes."""

import pytest

from gateway.core.latency import STALE_S, TOKENS, LatencyStats
from gateway.domain.units import ChannelId
from tests.core.clocks import Mono

A = ChannelId("ch_a")


@pytest.fixture
def mono() -> Mono:
    return Mono()


@pytest.fixture
def pace(mono: Mono) -> LatencyStats:
    return LatencyStats(mono)


def test_nothing_is_known_at_first(pace: LatencyStats) -> None:
    assert pace.expected_s(A, "m") is None


def test_of_a_stream_the_wait_and_the_rate_count_apart(pace: LatencyStats) -> None:
    """Half a second, then fifty tokens a second."""
    pace.note(A, "m", first_s=0.5, whole_s=2.5, tokens=100)
    assert pace.expected_s(A, "m") == pytest.approx(0.5 + TOKENS / 50)


def test_of_a_plain_answer_the_whole_counts(pace: LatencyStats) -> None:
    pace.note(A, "m", first_s=None, whole_s=2.0, tokens=100)
    assert pace.expected_s(A, "m") == pytest.approx(TOKENS / 50)


def test_a_short_answer_says_nothing(pace: LatencyStats) -> None:
    pace.note(A, "m", first_s=0.5, whole_s=0.6, tokens=2)
    assert pace.expected_s(A, "m") is None


def test_new_measurements_move_the_old_ones(pace: LatencyStats) -> None:
    for seconds in (1.0, 2.0):
        pace.note(A, "m", first_s=None, whole_s=seconds, tokens=TOKENS)
    assert pace.expected_s(A, "m") == pytest.approx(1.3)


def test_old_measurements_are_forgotten(pace: LatencyStats, mono: Mono) -> None:
    pace.note(A, "m", first_s=None, whole_s=9.0, tokens=TOKENS)
    mono.now += STALE_S + 1
    assert pace.expected_s(A, "m") is None
    pace.note(A, "m", first_s=None, whole_s=1.0, tokens=TOKENS)
    assert pace.expected_s(A, "m") == pytest.approx(1.0)


def test_models_are_measured_apart(pace: LatencyStats) -> None:
    pace.note(A, "m", first_s=None, whole_s=1.0, tokens=TOKENS)
    assert pace.expected_s(A, "n") is None


def test_memory_is_bounded(pace: LatencyStats) -> None:
    for number in range(4096 + 1):
        pace.note(A, f"m{number}", first_s=None, whole_s=1.0, tokens=TOKENS)
    assert pace.expected_s(A, "m0") is None
    assert pace.expected_s(A, f"m{4096}") == pytest.approx(1.0)
