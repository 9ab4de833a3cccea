"""Estimates are near the truth, linear, and never fooled by what is not text."""

import pytest

from gateway.domain.estimate import WINDOW, Calibration, estimate

ENGLISH = (
    "The quick brown fox jumps over the lazy dog. Reading a ledger takes patience, and writing one takes more: every"
    " number has a place, and every place has a reason. When the bridge fell, nobody asked who had laughed."
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (ENGLISH, 41),
        ('{"name": "toll", "value": [1, 2, 3], "ok": true}', 18),
        ("def f(x: int) -> int:\n    return x + 1\n", 15),
        ("Die Brücke über den Fluss war gefallen, und niemand lachte mehr.", 13),
        ("桥在冬天倒塌了", 4),
        ("мост упал зимой", 5),
        ("", 0),
        (" ", 1),
        ("a", 1),
        ("\n", 2),
        ("🙂", 1),
        ("\ud83d", 1),
    ],
)
def test_keeps_its_calibration(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


def test_a_long_text_is_sampled_and_about_the_same() -> None:
    text = ENGLISH * (4 * WINDOW * 16 // len(ENGLISH))
    assert abs(estimate(text) / (estimate(ENGLISH) * len(text) / len(ENGLISH)) - 1) < 0.03


def test_calibration_follows_the_truth_slowly() -> None:
    calibration = Calibration()
    for _ in range(50):
        calibration.learn("ch", "m", reported=130, estimated=100)
    assert 128 <= calibration.apply("ch", "m", 100) <= 131
    assert calibration.apply("ch", "other", 100) == 100


def test_calibration_is_bounded_and_ignores_trifles() -> None:
    calibration = Calibration()
    for _ in range(100):
        calibration.learn("ch", "m", reported=10_000, estimated=100)
        calibration.learn("ch", "n", reported=5, estimated=1)
    assert (calibration.apply("ch", "m", 100), calibration.apply("ch", "n", 100)) == (200, 100)
