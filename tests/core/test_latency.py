"""What was measured lately says how long an answer of usual length takes."""

import pytest

from gateway.core.latency import STALE_S, TOKENS, LatencyStats
from gateway.domain.units import ChannelId
from tests.core.clocks import Mono

A = ChannelId("ch_a")


@pytest.fixture
def pace(mono: Mono) -> LatencyStats:
    return LatencyStats(mono)


def test_nothing_is_known_at_first(pace: LatencyStats) -> None:
    assert pace.expected_s(A, "m") is None


@pytest.mark.parametrize(
    ("first_s", "whole_s", "tokens", "model", "expected"),
    [
        (0.5, 2.5, 100, "m", pytest.approx(0.5 + TOKENS / 50)),
        (None, 2.0, 100, "m", pytest.approx(TOKENS / 50)),
        (0.5, 0.6, 2, "m", None),
        (None, 1.0, TOKENS, "n", None),
    ],
    ids=["wait and rate of a stream", "all of a plain answer", "nothing of a short one", "nothing of another model"],
)
def test_an_answer_predicts_the_next(
    pace: LatencyStats, first_s: float | None, whole_s: float, tokens: int, model: str, expected: object
) -> None:
    pace.note(A, "m", first_s=first_s, whole_s=whole_s, tokens=tokens)
    assert pace.expected_s(A, model) == expected


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


def test_memory_is_bounded(pace: LatencyStats) -> None:
    for number in range(4096 + 1):
        pace.note(A, f"m{number}", first_s=None, whole_s=1.0, tokens=TOKENS)
    assert pace.expected_s(A, "m0") is None
    assert pace.expected_s(A, f"m{4096}") == pytest.approx(1.0)
