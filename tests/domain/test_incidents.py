"""When incidents begin, go on and end, and how the console shows them."""

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.domain.budget import Window, budget_name, window_end
from gateway.domain.call import Attempt, FailureKind
from gateway.domain.incidents import STORE, Condition, Incident, Incidents, cause_text, spent_text
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import BudgetView, CallView
from tests.tui.stage import NOW, call
from tui import glyphs
from tui.incidents import incident_line, timeline

QUIET = 120_000
"""After so many milliseconds without a failure an incident is over."""

FAILS = (("a", ""),)
"""Nothing succeeded at ``a`` since a failure."""


def moved(at: int = NOW, to: str = "b", **changes: Any) -> CallView:
    """A call that was limited at ``a`` and answered elsewhere."""
    first = Attempt(channel="a", status=429, ms=Millis(100), kind=FailureKind.RATE, reason="429: slow down")
    tries = [first, Attempt(channel=to, status=200, ms=Millis(900))]
    fields: dict[str, Any] = {"status": 200, "channel": to, "attempts": tries, "time_ms": at, "duration_ms": 1000}
    return call(at - NOW, at, **(fields | changes))


def failed(kind: FailureKind, status: int = 0, at: int = NOW, **changes: Any) -> CallView:
    """A call that failed at ``a``, and nowhere else."""
    attempt = Attempt(channel="a", status=status, ms=Millis(100), kind=kind, reason=f"{status}", **changes)
    return moved(at, status=502, channel="a", attempts=[attempt])


def wrong(kind: FailureKind | None, until: int | None = NOW + 30_000, **changes: Any) -> Condition:
    """What is wrong with ``a``."""
    found = None if until is None else Millis(until)
    return Condition(channel="a", subject_id="a", kind=kind, until=found, **({"reason": "it broke"} | changes))


def look(found: Incidents, at: int, *conditions: Condition, failing: tuple[tuple[str, str], ...] = ()) -> None:
    found.update(conditions, failing, Millis(NOW + at))


@pytest.fixture
def found() -> Incidents:
    return Incidents()


def test_calls_that_moved_are_counted_by_where_they_went(found: Incidents) -> None:
    for one in (moved(), moved(NOW + 1_000), moved(NOW + 2_000, to="c")):
        found.add_failures(one)
    (incident,) = found.newest()
    assert (incident.channel, incident.kind, incident.failures) == ("a", FailureKind.RATE, 3)
    assert (incident.began, incident.last) == (NOW + 100, NOW + 2_100)
    assert incident.moved == {"b": 2, "c": 1}


def test_the_apis_of_the_failed_calls_are_reported_if_there_are_others_than_the_usual_one(found: Incidents) -> None:
    found.add_failures(moved())
    assert "chat" not in incident_line(found.newest()[0], NOW)
    found.add_failures(moved(NOW + 1_000, api="messages"))
    found.add_failures(moved(NOW + 2_000, api="messages"))
    assert "3 failures, the last at" in (line := incident_line(found.newest()[0], NOW))
    assert "(API: messages 2, chat 1)" in line


def test_a_vendor_that_is_overloaded_has_not_limited_a_rate() -> None:
    busy = Incident(id=1, channel="a", kind=FailureKind.SERVER, status=529, began=NOW, last=NOW)
    assert [cause_text(one) for one in (busy, replace(busy, kind=FailureKind.RATE, status=429))] == [
        "overloaded",
        "rate-limited",
    ]


def test_a_call_that_nobody_answered_is_lost_once_however_often_it_was_tried(found: Incidents) -> None:
    again = Attempt(channel="a", status=500, kind=FailureKind.SERVER)
    found.add_failures(moved(status=502, channel="a", attempts=[again, again]))
    (incident,) = found.newest()
    assert (incident.failures, incident.unanswered, incident.moved) == (2, 1, {})


def test_what_the_client_did_wrong_or_cut_off_is_nobodys_incident(found: Incidents) -> None:
    found.add_failures(moved(attempts=[Attempt(channel="a", status=400, kind=FailureKind.CLIENT)]))
    found.add_failures(moved(outcome="client_closed"))
    assert found.newest() == []


def test_failures_far_apart_are_two_incidents(found: Incidents) -> None:
    found.add_failures(moved())
    found.add_failures(moved(NOW + QUIET + 1))
    assert [one.began for one in found.newest()] == [NOW + QUIET + 101, NOW + 100]


def test_what_fails_for_another_cause_is_another_incident_although_both_overlap(found: Incidents) -> None:
    causes = [
        (429, FailureKind.RATE, "rate-limited"),
        (500, FailureKind.SERVER, "errors (500)"),
        (503, FailureKind.SERVER, "errors (503)"),
        (0, FailureKind.SERVER, "errors"),
        (401, FailureKind.AUTH, "key rejected"),
    ]
    for number in range(15):
        status, kind, _ = causes[number % 5]
        found.add_failures(failed(kind, status, NOW + number * 1_000))
    assert [(one.kind, one.status, one.failures) for one in reversed(found.newest())] == [
        (kind, status, 3) for status, kind, _ in causes
    ]
    assert [cause_text(one) for one in reversed(found.newest())] == [text for _, _, text in causes]


def test_the_message_is_that_of_the_last_failure(found: Incidents) -> None:
    for number, reason in enumerate(("429: first", "429: second")):
        attempt = Attempt(channel="a", status=429, kind=FailureKind.RATE, reason=reason)
        found.add_failures(moved(NOW + number * 20_000, attempts=[attempt], status=429, channel="a"))
    assert [(one.reason, one.failures) for one in found.newest()] == [("429: second", 2)]


def test_a_pause_belongs_to_the_failure_before_it_and_ends_when_a_call_succeeds(found: Incidents) -> None:
    found.add_failures(moved())
    look(found, 200, wrong(FailureKind.RATE), failing=FAILS)
    (incident,) = found.newest("a")
    assert (incident.paused, incident.until, incident.reason) == (True, NOW + 30_000, "429: slow down")
    look(found, 31_000, failing=FAILS)
    assert (incident.paused, incident.ended, incident.lasts(NOW + 31_000)) == (False, None, True)
    look(found, 35_000)
    assert (incident.ended, incident.lasts(NOW + 35_000)) == (NOW + 35_000, False)


def test_after_its_pause_it_lasts_until_a_call_succeeds_or_two_quiet_minutes(found: Incidents) -> None:
    found.add_failures(moved())
    look(found, 200, wrong(FailureKind.RATE), failing=FAILS)
    (incident,) = found.newest("a")
    for at in (31_000, 30_000 + QUIET):
        look(found, at, failing=FAILS)
        assert (incident.paused, incident.ended, incident.lasts(NOW + at)) == (False, None, True)
        assert "no success since" in timeline([incident], NOW + at, 120).plain
    look(found, 31_000 + QUIET, failing=FAILS)
    assert (incident.ended, incident.length_ms) == (NOW + 30_000, 29_900)


def test_a_pause_without_a_failure_ends_when_it_is_cleared_by_hand(found: Incidents) -> None:
    look(found, 0, wrong(FailureKind.SERVER, None), failing=FAILS)
    look(found, 5_000)
    assert [(one.kind, one.reason, one.length_ms) for one in found.newest()] == [
        (FailureKind.SERVER, "it broke", 5_000)
    ]


def test_failures_during_a_pause_go_on_with_it(found: Incidents) -> None:
    look(found, 0, wrong(FailureKind.RATE))
    found.add_failures(moved(NOW + QUIET * 2))
    assert [(one.status, one.failures) for one in found.newest()] == [(429, 1)]


def test_a_rate_limit_soon_after_another_one_makes_the_incident_longer(found: Incidents) -> None:
    """It comes and goes while calls succeed: each limit by itself would fill the list."""
    found.add_failures(moved())
    look(found, 200, wrong(FailureKind.RATE, NOW + 10_100), failing=FAILS)
    look(found, 10_200)
    assert incident_line(found.newest()[0], NOW).startswith("14:13:20 rate-limited 10s")
    found.add_failures(moved(NOW + 90_000))
    (one,) = found.newest()
    assert (one.failures, one.ended, one.lasts(NOW + 90_200)) == (2, None, True)
    look(found, 91_000)
    assert (one.ended, one.length_ms) == (NOW + 91_000, 90_900)


def test_a_channel_that_cannot_be_reached_again_begins_a_new_incident_however_soon(found: Incidents) -> None:
    for at in (0, 30_000):
        found.add_failures(failed(FailureKind.NETWORK, at=NOW + at))
        look(found, at + 200, wrong(FailureKind.NETWORK, NOW + at + 10_100), failing=FAILS)
        look(found, at + 10_100)
    assert incident_line(found.newest()[0], NOW).startswith("14:13:50 unreachable 10s")
    assert [(one.began, one.failures, one.length_ms) for one in found.newest()] == [
        (NOW + 30_100, 1, 10_000),
        (NOW + 100, 1, 10_000),
    ]


def test_a_failure_before_the_end_that_is_known_late_belongs_to_the_incident(found: Incidents) -> None:
    for at in (2_000, 60_000):
        found.add_failures(failed(FailureKind.NETWORK, at=NOW + at))
        look(found, at + 3_000)
    for at in (0, 3_000, 62_000):
        found.add_failures(failed(FailureKind.NETWORK, at=NOW + at))
    assert [(one.began, one.failures, one.ended) for one in found.newest()] == [
        (NOW + 60_100, 2, NOW + 63_000),
        (NOW + 2_100, 3, NOW + 5_000),
    ]


@pytest.mark.parametrize("kind", [FailureKind.AUTH, FailureKind.SERVER])
def test_calls_that_were_refused_while_a_channel_was_paused_are_counted_with_its_incident(kind: FailureKind) -> None:
    found = Incidents()
    found.add_failures(moved())
    found.add_failures(failed(kind, 401))
    look(found, 200, wrong(kind), failing=FAILS)
    refused: dict[str, Any] = {"attempts": [], "status": 503, "outcome": "refused", "channel": ""}
    found.add_refusal(moved(NOW + 1_000, marks=["skipped=a"], **refused))
    found.add_refusal(moved(NOW + QUIET * 9, marks=["repeated=5", "skipped=a"], **refused))
    one, limited = found.newest()
    assert (one.failures, one.unanswered, one.refused, one.last, limited.refused) == (1, 1, 7, NOW + 100, 0)
    assert incident_line(one, NOW).endswith("→ 1 call failed; 7 refused")


def test_a_variable_that_is_not_set_is_an_incident_until_it_is_set_whatever_else_happens() -> None:
    found, unset = Incidents(), wrong(FailureKind.UNSET, None, reason="K is not set where the server runs")
    look(found, 0, unset)
    attempt = Attempt(channel="a", kind=FailureKind.UNSET, key="2 env:K")
    found.add_failures(moved(channel="a", attempts=[attempt, Attempt(channel="a", status=200)]))
    look(found, QUIET * 2, unset, wrong(FailureKind.RATE), failing=FAILS)
    limited, lasting = found.newest()
    assert (cause_text(lasting), lasting.paused, lasting.failures) == ("variable not set", True, 1)
    assert incident_line(lasting, NOW) == "14:13:20 variable not set"
    look(found, 600_000, failing=FAILS)
    assert (lasting.paused, lasting.length_ms, limited.paused) == (False, 600_000, False)
    assert "variable not set 10m" in incident_line(lasting, NOW)


def test_a_rejected_key_of_several_is_an_incident_until_it_is_accepted_or_replaced() -> None:
    found, key = Incidents(), "2 …7890"
    found.add_failures(failed(FailureKind.AUTH, 401, key=key))
    look(found, 1_000, wrong(FailureKind.AUTH, NOW + 60_000, key=key), failing=(("a", key),))
    look(found, 61_000, wrong(FailureKind.AUTH, None, key=key), failing=(("a", key),))
    (one,) = found.newest()
    assert (one.key, one.failures, one.paused, one.until) == (key, 1, True, NOW + 60_000)
    assert incident_line(one, NOW).startswith("14:13:20 key 2 …7890 rejected")
    look(found, 62_000, wrong(FailureKind.AUTH, None, key="1 …7890"))
    assert (found.newest(), one.key, one.paused) == ([one], "1 …7890", True)
    look(found, 90_000, wrong(FailureKind.AUTH, key="1 …1234"))
    assert [(cause_text(each), each.paused) for each in found.newest()] == [
        ("key 1 …1234 rejected", True),
        ("key 1 …7890 rejected", False),
    ]


def test_a_model_that_is_missing_is_an_incident_until_it_is_tried_again_whatever_else_fails(found: Incidents) -> None:
    found.add_failures(failed(FailureKind.MISSING, 404))
    (missing,) = found.newest()
    for at in (500, QUIET * 2):
        look(found, at, wrong(FailureKind.MISSING, NOW + 600_000), failing=FAILS)
        assert (missing.paused, missing.until, missing.lasts(NOW + at)) == (True, NOW + 600_000, True)
    assert incident_line(missing, NOW).startswith("14:13:20 unknown model; retry in 10m00s")
    look(found, QUIET * 3, failing=FAILS)
    assert (missing.paused, missing.ended) == (False, NOW + QUIET * 3)


def test_only_so_many_are_kept(found: Incidents) -> None:
    for number in range(205):
        found.add_failures(moved(NOW + number * (QUIET + 1)))
    assert len(found.newest()) == 200


def test_a_store_that_fails_twice_is_two_incidents_and_no_channels(found: Incidents) -> None:
    for at, error in enumerate(("full", "full still", "", "", "broken")):
        look(found, at, *([Condition(channel=STORE, reason=error)] if error else ()))
    assert [(one.reason, one.began, one.ended) for one in found.newest()] == [
        ("broken", NOW + 4, None),
        ("full still", NOW, NOW + 2),
    ]
    found.add_failures(moved())
    assert [one.channel for one in found.newest("a")] == ["a"]


def test_only_what_changed_is_reported(found: Incidents) -> None:
    found.add_failures(moved())
    look(found, 0, wrong(FailureKind.SERVER))
    copies = found.copies()
    look(found, 500, wrong(FailureKind.SERVER, NOW + 30_500))
    assert found.changed_since(copies) == []
    found.add_failures(moved(NOW + 1_000))
    assert [one.kind for one in found.changed_since(copies)] == [FailureKind.RATE]


def test_incidents_follow_the_names_of_their_channels(found: Incidents) -> None:
    found.follow_names({"1": "a", "2": "b"})
    found.add_failures(moved())
    found.follow_names({"1": "spare", "2": "main"})
    found.add_failures(moved(NOW + 1_000))  # the call began before
    (one,) = found.newest("spare")
    assert (one.failures, one.moved, found.newest("a")) == (2, {"main": 2}, [])
    found.follow_names({"2": "a"})
    assert [each.channel for each in found.newest()] == ["spare"]


def incident(**changes: Any) -> Incident:
    fields: dict[str, Any] = {
        "id": 1,
        "channel": "a",
        "kind": FailureKind.RATE,
        "reason": "channel 'a': 429, retry after 30 s",
        "began": Millis(NOW - 60_000),
        "last": Millis(NOW - 60_000),
        "failures": 1,
    }
    return Incident(**(fields | changes))


def test_a_pause_that_is_over_is_reported_with_its_length_and_where_the_calls_went() -> None:
    one = incident(ended=Millis(NOW - 30_000), moved={"b": 12, "c": 3})
    assert incident_line(one, NOW) == "14:12:20 rate-limited 30s → 12 calls retried at b, 3 at c"


def test_a_pause_that_lasts_counts_down() -> None:
    one = incident(paused=True, until=Millis(NOW + 14_000), failures=4, last=Millis(NOW - 1_000), unanswered=1)
    assert incident_line(one, NOW) == (
        "14:12:20 rate-limited, 4 failures, the last at 14:13:19; retry in 14s → 1 call failed"
    )


def test_an_endless_pause_says_so() -> None:
    assert incident_line(incident(kind=None, paused=True), NOW) == "14:12:20 paused until resumed"


def test_the_reason_stands_below_and_is_harmless() -> None:
    one = incident(reason="\x1b[2J[b]429[/]")
    assert "[b]429[/]" in timeline([one], NOW, 80).plain
    assert "\x1b" not in timeline([one], NOW, 80).plain


def test_a_store_that_fails_has_its_own_words() -> None:
    one = incident(channel="", kind=None, reason="the disk is full", failures=0, paused=True)
    assert timeline([one], NOW, 80).plain.split() == (
        f"14:12:20 {glyphs.WARNING} the store failing: calls are rejected the disk is full".split()
    )
    over = incident(channel="", kind=None, failures=0, ended=Millis(NOW - 48_000))
    assert "the store failed for 12s" in timeline([over], NOW, 80).plain


def budget(spent: int, window: Window = Window.DAY, held: int = 0) -> BudgetView:
    return BudgetView(
        window=window,
        nanos=Nanos(100),
        spent_nanos=Nanos(spent),
        held_nanos=Nanos(held),
        spent_tokens=0,
        resets_at_ms=window_end(window, NOW),
    )


def warn(found: Incidents, *budgets: BudgetView, at: int = NOW) -> list[Incident]:
    """What is warned of, given the budgets of a token that are nearly spent."""
    spent = [
        Condition(
            channel=STORE,
            subject_id=f"{one.window}:token:1",
            budget=budget_name(one.window, "token 'ci'"),
            reason=spent_text(one),
            until=one.resets_at_ms,
        )
        for one in budgets
    ]
    return found.update(spent, (), Millis(at))


def test_a_nearly_spent_budget_gives_one_warning_in_its_window(found: Incidents) -> None:
    (warning,) = warn(found, budget(80))
    assert (warning.budget, warning.reason) == ("daily budget of token 'ci'", "80% is spent")
    assert "daily budget of token 'ci': 80% is spent; resets" in timeline([warning], NOW, 120).plain
    assert warn(found, budget(99), at=NOW + 1_000) == []
    assert (warning.reason, warning.last) == ("99% is spent", NOW)
    (spent,) = warn(found, budget(100), at=NOW + 2_000)
    assert spent is warning
    assert spent.reason == "all is spent, and calls are rejected"
    assert warn(found, budget(120), at=NOW + 3_000) == []
    assert "all is spent, and calls are rejected since 14:13:22; resets" in timeline([spent], NOW, 120).plain
    marks = [timeline([spent], now, 120).plain for now in (NOW, NOW + 86_400_000)]
    assert [glyphs.WARNING in mark for mark in marks] == [True, False]
    assert [one.budget for one in warn(found, budget(120), budget(99, Window.WEEK))] == ["weekly budget of token 'ci'"]
    tomorrow = replace(budget(85), resets_at_ms=window_end(Window.DAY, Millis(NOW + 86_400_000)))
    assert [one.reason for one in warn(found, tomorrow, at=NOW + 86_400_000)] == ["85% is spent"]
    assert warning.ended == warning.until


def test_the_warning_is_over_when_the_budget_is_raised(found: Incidents) -> None:
    (warning,) = warn(found, budget(100))
    assert warn(found, budget(90), at=NOW + 1_000) == []
    assert (warning.reason, warning.ended) == ("90% is spent", None)
    warn(found, at=NOW + 2_000)
    assert warning.ended == NOW + 2_000
    text = timeline([warning], Millis(NOW + 3_000), 120).plain
    assert ("over since" in text, glyphs.WARNING in text) == (True, False)
    (again,) = warn(found, budget(80), at=NOW + 4_000)
    assert (again.id, again.ended) == (warning.id + 1, None)


def test_a_renamed_token_gets_no_second_warning_of_its_budget(found: Incidents) -> None:
    (warning,) = warn(found, budget(80))
    found.follow_names({"day:token:1": "daily budget of token 'build'"})
    assert warn(found, budget(81), at=NOW + 2_000) == []
    assert (warning.budget, warning.ended) == ("daily budget of token 'build'", None)


def test_spent_budgets_are_described() -> None:
    nothing = replace(budget(0), nanos=Nanos(0))
    assert [spent_text(one) for one in (budget(79, held=21), budget(80), budget(120), nothing)] == [
        "too little is left for a call; 79% is spent",
        "80% is spent",
        "all is spent, and calls are rejected",
        "all is spent, and calls are rejected",
    ]
