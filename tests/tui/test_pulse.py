from tests.tui.stage import NOW, call
from tui.trends import MINUTE, Pulse


def test_calls_count_in_the_minute_of_their_beginning() -> None:
    pulse = Pulse()
    for at in (NOW, NOW, NOW - MINUTE):
        pulse.add(call(1, at))
    assert pulse.minutes(NOW, 3) == [0, 1, 2]


def test_errors_are_a_share_of_the_newest_calls() -> None:
    pulse = Pulse()
    assert pulse.failed is None
    pulse.add(call(1, status=200))
    pulse.add(call(2, status=500))
    assert pulse.failed == 0.5


def test_the_first_byte_is_a_median() -> None:
    pulse = Pulse()
    assert pulse.first_byte_ms is None
    for ms in (100, 9_000, 300):
        pulse.add(call(1, first_byte_ms=ms))
    assert pulse.first_byte_ms == 300


def test_old_minutes_are_forgotten() -> None:
    pulse = Pulse()
    for minute in range(500):
        pulse.add(call(1, NOW + minute * MINUTE))
    assert pulse.minutes(NOW, 1) == [0]
    assert pulse.minutes(NOW + 499 * MINUTE, 2) == [1, 1]
