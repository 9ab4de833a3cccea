from gateway.domain.units import Millis
from tests.tui.stage import NOW, call, running
from tui.calls import RunningView, as_view, failed, running_view, speed


def test_a_running_call_reads_like_a_settled_one() -> None:
    view = running_view(running(1, NOW - 4_000), NOW)
    assert (view.state, view.duration_ms, view.output_tokens, view.attempt) == ("running", 4_000, 184, 1)


def test_a_settled_call_is_its_own_view() -> None:
    settled = call(1)
    assert as_view(settled, NOW) is settled
    assert isinstance(as_view(running(1), NOW), RunningView)


def test_a_clock_that_went_back_makes_no_negative_duration() -> None:
    assert running_view(running(1, NOW), Millis(NOW - 5_000)).duration_ms == 0


def test_speed_counts_from_the_first_byte() -> None:
    assert speed(call(1, output_tokens=100, duration_ms=2_500, first_byte_ms=500)) == 50
    assert speed(call(1, output_tokens=100, first_byte_ms=None)) is None
    assert speed(call(1, output_tokens=100, duration_ms=500, first_byte_ms=500)) is None


def test_only_an_ended_call_can_have_failed() -> None:
    assert failed(call(1, status=429))
    assert not failed(call(1, status=200))
    assert not failed(running_view(running(1), NOW))
