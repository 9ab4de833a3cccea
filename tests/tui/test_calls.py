import pytest
from msgspec.structs import replace

from gateway.domain.budget import BALANCE_ID
from gateway.domain.call import EXCEEDED_MARK
from gateway.domain.query import speed_of
from gateway.domain.views import CallView, RunningView
from tests.tui.stage import NOW, call, call_id, calls, running
from tui.calls import CallRing, as_view, channel_text


def snapshot(count: int = 5, records: int = 5) -> CallRing:
    ring = CallRing(limit=10, slack=3)
    ring.load_snapshot(records - count, calls(count), [running(1, NOW)])
    return ring


def test_rows_lie_in_the_order_of_their_beginnings_above_records_that_are_only_counted() -> None:
    ring = snapshot(5, 1_000_000)
    assert ring.order == sorted(ring.order)
    assert ring.order[-1] == call_id(NOW, 1)
    assert (ring.below, ring.total) == (999_995, 1_000_001)


def test_a_call_keeps_its_place_when_it_is_settled() -> None:
    ring = snapshot()
    before = list(ring.order)
    ring.settle(call(1, NOW))
    assert ring.order == before
    assert ring.running == {}
    assert isinstance(ring.by_id[before[-1]], CallView)


def test_a_call_that_is_refused_appears_at_once() -> None:
    ring = snapshot()
    ring.settle(call(9, NOW + 5, status=429))
    assert ring.order[-1] == call_id(NOW + 5, 9)


def test_late_progress_of_an_ended_call_is_nothing() -> None:
    ring = snapshot()
    ring.settle(call(1, NOW))
    ring.update_running(running(1, NOW))
    assert ring.running == {}


def test_settling_twice_counts_once() -> None:
    ring = snapshot()
    ring.settle(call(9, NOW + 5))
    version = ring.version
    ring.settle(call(9, NOW + 5))
    assert ring.version == version


def test_the_oldest_fall_below_when_the_ring_is_full() -> None:
    ring = snapshot(5, 5)
    for number in range(8):
        ring.settle(call(number, NOW + 10 + number))
    assert ring.below == 3
    assert len(ring.order) == 5 + 8 - 3 + 1
    assert ring.total == 14


def test_running_calls_never_fall_out() -> None:
    ring = CallRing(limit=4, slack=2)
    ring.load_snapshot(0, [], [running(1, NOW - 60_000)])
    for number in range(20):
        ring.settle(call(number, NOW + number))
    assert ring.order[0] == call_id(NOW - 60_000, 1)


@pytest.mark.parametrize(
    ("below", "newer", "rows", "still_below"),
    [
        (3, [call(7, NOW + 9), *calls(5)[:2]], 6, 0),
        (4_999, [call(7, NOW + 9)], 1, 4_999),
        (5, [call(7, NOW + 9)], 6, 0),
    ],
    ids=["nothing missing between", "a gap", "it begins where the ring ends"],
)
def test_a_second_snapshot_keeps_older_rows_unless_there_is_a_gap(
    below: int, newer: list[CallView], rows: int, still_below: int
) -> None:
    ring = snapshot(5, 5)
    ring.load_snapshot(below, newer, [])
    assert (len(ring.order), ring.below) == (rows, still_below)


def test_a_second_snapshot_keeps_all_older_rows_even_if_old_records_were_deleted_meanwhile() -> None:
    ring = snapshot(5, 105)
    seen = list(ring.order)
    ring.load_snapshot(3, [call(7, NOW + 9), *calls(5)[:2]], [running(1, NOW)])  # 100 records fewer
    assert ring.order == sorted([*seen, call_id(NOW + 9, 7)])
    assert ring.below == 0


def test_the_edge_is_the_call_that_ended_first() -> None:
    assert snapshot(5).first_ended == calls(5)[-1].id
    assert CallRing().first_ended is None


def test_it_knows_which_calls_have_ended() -> None:
    ring = snapshot()
    assert ring.holds_ended(calls(5)[0])
    assert not ring.holds_ended(call(1, NOW))


def test_a_settled_call_is_its_own_view() -> None:
    settled = call(1)
    assert as_view(settled, NOW) is settled
    assert as_view(running(1, fallback="small"), NOW).fallback == "small"
    assert as_view(running(1), NOW).fallback == ""
    assert isinstance(as_view(running(1), NOW), RunningView)


def test_speed_counts_from_the_first_byte() -> None:
    assert speed_of(call(1, output_tokens=100, duration_ms=2_500, first_byte_ms=500)) == 50
    assert speed_of(call(1, output_tokens=100, first_byte_ms=None)) is None
    assert speed_of(call(1, output_tokens=100, duration_ms=500, first_byte_ms=500)) is None


def test_a_refused_call_says_why_where_its_channel_would_be() -> None:
    refused = call(1, status=429, channel="", code="token_quota_exceeded")
    assert channel_text(refused) == "(budget)"
    assert channel_text(replace(refused, code="brew_failed")) == "(brew failed)"
    quota = replace(refused, code="insufficient_quota")
    for budget, text in ((BALANCE_ID, "(no money)"), ("month:account:", "(budget)")):
        assert channel_text(replace(quota, marks=[f"{EXCEEDED_MARK}{budget}"])) == text
    assert channel_text(replace(refused, channel="openai")) == "openai"
