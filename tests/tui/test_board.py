import msgspec
import pytest

from gateway.domain.events import (
    Balance,
    CallProgress,
    CallSettled,
    CallStarted,
    EntityChanged,
    Heartbeat,
    IncidentChanged,
    StatusChanged,
    Stopping,
)
from gateway.domain.incidents import Incident
from gateway.domain.units import Millis
from tests.tui.stage import NOW, FakeClient, account, call, calls, running, status, token
from tui.alerts import alerts
from tui.board import Board


@pytest.fixture
def made() -> Board:
    board = Board()
    board.apply(FakeClient(calls(10)).snapshot())
    return board


def test_a_snapshot_is_everything(made: Board) -> None:
    assert made.status == status(10)
    assert [one.name for one in made.tokens] == ["ci", "editor", "guest", "laptop", "phone"]
    assert len(made.calls.order) == 12
    assert len(made.channels) == 6


def test_a_call_lives_from_start_to_end(made: Board) -> None:
    made.apply(CallStarted(call=running(7, NOW)))
    made.apply(CallProgress(call=running(7, NOW, output=9)))
    assert made.calls.running[running(7, NOW).id].output == 9
    made.apply(CallSettled(call=call(7, NOW)))
    assert running(7, NOW).id not in made.calls.running


def test_settled_calls_are_added_to_what_was_spent_today(made: Board) -> None:
    made.apply(CallSettled(call=call(7, NOW)))
    assert made.today_nanos is None
    made.today_nanos, made.today_tokens = 100, 20
    made.apply(CallSettled(call=call(8, NOW, cost_nanos=7, input_tokens=30, output_tokens=4)))
    assert (made.today_nanos, made.today_tokens) == (107, 54)


def test_tables_are_replaced_whole(made: Board) -> None:
    before = made.tables_version
    made.apply(EntityChanged(account=account(), tokens=[token("new")], groups=[], channels=[], models=[]))
    assert [one.name for one in made.tokens] == ["new"]
    assert made.tables_version == before + 1


def test_money_moves_and_a_server_stops_alone_and_a_beat_changes_only_the_version(made: Board) -> None:
    before = made.version
    made.apply(Heartbeat(time_ms=NOW))
    assert made.version == before + 1
    made.apply(Balance(account=account(status="suspended")))
    assert made.account is not None
    assert made.account.status == "suspended"
    made.apply(Stopping(until_ms=Millis(NOW + 30_000), running=[]))
    assert made.stopping == NOW + 30_000


def test_another_server_starts_over(made: Board) -> None:
    made.apply(Stopping(until_ms=NOW, running=[]))
    snapshot = FakeClient(calls(3)).snapshot()
    made.apply(msgspec.structs.replace(snapshot, status=status(3, instance="two")))
    assert made.stopping is None
    assert len(made.calls.order) == 5


def test_a_snapshot_of_the_same_server_counts_no_call_twice(made: Board) -> None:
    before = sum(made.call_rates.minutes(NOW, 60))
    made.apply(FakeClient(calls(10)).snapshot())
    assert sum(made.call_rates.minutes(NOW, 60)) == before


def test_the_end_of_a_call_that_the_snapshot_has_is_not_counted_again(made: Board) -> None:
    made.today_nanos = 5
    before = sum(made.call_rates.minutes(NOW, 60))
    made.apply(CallSettled(call=calls(10)[0]))
    assert (sum(made.call_rates.minutes(NOW, 60)), made.today_nanos) == (before, 5)


def test_no_call_is_missing_after_a_second_snapshot_though_some_ended_while_the_first_was_made() -> None:
    """The status counts records that the first snapshot does not hold yet: their events follow it."""
    board, every = Board(), calls(30)
    first = FakeClient(every[3:], recent=20).snapshot()
    board.apply(msgspec.structs.replace(first, status=status(30), older=7))
    for one in reversed(every[:3]):
        board.apply(CallSettled(call=one))
    board.apply(msgspec.structs.replace(FakeClient(every, recent=10).snapshot(), status=status(30), older=20))
    assert board.calls.below == 7
    assert [one for one in board.calls.order if one not in board.calls.running] == [one.id for one in every[22::-1]]


def test_a_store_that_fails_is_an_alert_until_it_works_again(made: Board) -> None:
    made.apply(StatusChanged(status=status(10, store_error="the disk is full")))
    assert [alert.text for alert in alerts(made, NOW) if "store" in alert.text] == ["store failed"]
    made.apply(StatusChanged(status=status(10)))
    assert [alert for alert in alerts(made, NOW) if "store" in alert.text] == []


def test_incidents_are_those_of_the_server(made: Board) -> None:
    first = Incident(id=900, channel="a", began=NOW, last=NOW)
    made.apply(IncidentChanged(incident=first))
    made.apply(IncidentChanged(incident=msgspec.structs.replace(first, failures=7)))
    assert [(one.channel, one.failures) for one in made.incidents.newest("a")] == [("a", 7)]
