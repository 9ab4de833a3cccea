"""Incidents follow the names of their channels and budgets."""

from gateway.domain.incidents import Incident, Incidents, reason_text
from gateway.domain.units import Millis
from tests.domain.test_incidents import budget, channel, moved, paused, warn
from tests.tui.stage import NOW

AB = {"1": "a", "2": "b"}
LATER = Millis(NOW + 2_000)


def after_a_rename() -> Incidents:
    """``a`` failed, and ``b`` answered; then both were renamed."""
    found = Incidents()
    found.follow_names(AB, Millis(NOW))
    found.add_call(moved())
    found.follow_names({"1": "spare", "2": "main"}, LATER)
    return found


def test_a_renamed_channel_keeps_its_incidents() -> None:
    found = after_a_rename()
    (one,) = found.newest("spare")
    assert (one.channel, one.moved, found.newest("a")) == ("spare", {"main": 1}, [])


def test_a_call_that_began_before_the_channel_was_renamed_belongs_to_the_same_incident() -> None:
    found = after_a_rename()
    found.add_call(moved(NOW + 1_000))
    assert [(one.channel, one.failures, one.moved) for one in found.newest()] == [("spare", 2, {"main": 2})]


def test_watchers_get_renamed_incidents() -> None:
    found = after_a_rename()
    copies = found.copies()
    found.follow_names({"1": "spare", "2": "main"}, LATER)
    assert found.changed_since(copies) == []
    found.follow_names({"1": "third", "2": "main"}, LATER)
    assert found.changed_since(copies) == found.newest("third") != []


def test_incidents_of_before_are_known_by_the_name_at_the_start() -> None:
    found = Incidents([Incident(id=1, channel="a", began=Millis(NOW), last=Millis(NOW))])
    found.follow_names(AB, Millis(NOW))
    found.follow_names({"1": "b", "2": "a"}, LATER)
    assert [(one.channel, one.subject_id) for one in found.newest()] == [("b", "1")]


def test_a_pause_ends_with_its_channel() -> None:
    found = Incidents()
    found.follow_names(AB, Millis(NOW))
    found.update_channels([paused(NOW + 30_000), channel("b")], Millis(NOW))
    (one,) = found.newest()
    found.follow_names({"2": "b"}, LATER)
    assert (one.channel, one.paused, one.ended) == ("a", False, LATER)


def test_a_renamed_token_gets_no_second_warning_of_its_budget() -> None:
    found = Incidents()
    found.follow_names({"day:token:1": "daily budget of token 'ci'"}, Millis(NOW))
    (warning,) = warn(found, budget(80))
    found.follow_names({"day:token:1": "daily budget of token 'build'"}, LATER)
    assert warn(found, budget(81), at=LATER) == []
    assert (warning.budget, warning.ended) == ("daily budget of token 'build'", None)


def test_a_reason_is_shown_without_the_name_of_then() -> None:
    assert reason_text("channel 'backup': the upstream answered 500") == "the upstream answered 500"
    assert reason_text("no answer") == "no answer"
