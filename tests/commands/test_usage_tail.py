"""A line for every call as it ends, none twice, none missed."""

from msgspec.structs import replace

from gateway.commands.call_filters import Wanted
from gateway.commands.exits import Exit
from gateway.commands.usage_tail import Feed, line_of
from gateway.domain.events import Beat, CallSettled, Snapshot
from gateway.domain.views import CallView
from tests.commands.runner import Control, run
from tests.commands.samples import ACCOUNT, CALL, HOSTILE, NOW, STATUS


def call(number: int) -> CallView:
    return replace(CALL, id=f"req_{number}")


def snapshot(*recent: CallView) -> Snapshot:
    return Snapshot(
        seq=1,
        status=STATUS,
        account=ACCOUNT,
        tokens=[],
        groups=[],
        channels=[],
        models=[],
        running=[],
        recent=[*recent],
    )


def ids(calls: list[CallView]) -> list[str]:
    return [one.id for one in calls]


def test_it_begins_with_some_earlier_calls_oldest_first() -> None:
    assert ids(Feed(Wanted(), 2).fresh(snapshot(call(3), call(2), call(1)))) == ["req_2", "req_3"]
    assert Feed(Wanted(), 0).fresh(snapshot(call(1))) == []


def test_calls_follow_as_they_end() -> None:
    feed = Feed(Wanted(), 0)
    feed.fresh(snapshot(call(5)))
    assert ids(feed.fresh(CallSettled(seq=2, call=call(4)))) == ["req_4"]
    assert feed.fresh(Beat(seq=3, time_ms=NOW)) == []


def test_after_falling_behind_nothing_is_shown_twice_and_nothing_missed() -> None:
    feed = Feed(Wanted(), 0)
    feed.fresh(snapshot(call(1)))
    feed.fresh(CallSettled(seq=2, call=call(2)))
    assert ids(feed.fresh(snapshot(call(4), call(3), call(2), call(1)))) == ["req_3", "req_4"]


def test_only_what_was_asked_for_is_shown() -> None:
    assert Feed(Wanted(token="phone"), 10).fresh(snapshot(call(1))) == []


def test_memory_is_bounded() -> None:
    feed = Feed(Wanted(), 0)
    for number in range(5_000):
        feed.fresh(CallSettled(seq=number, call=call(number)))
    assert len(feed._shown) == 2_000  # noqa: SLF001 - its bound is what is tested


def test_a_line_has_no_control_characters() -> None:
    assert line_of(replace(CALL, model=HOSTILE, error=HOSTILE)).isprintable()


def test_it_needs_a_running_server() -> None:
    assert run("usage", "tail", control=Control({}, running=False)).code == Exit.UNREACHABLE
