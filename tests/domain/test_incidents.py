"""When incidents begin, go on and end, and how the console shows them.

Long: all rules of incidents are tested here with the same few calls.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.domain.budget import Window, budget_name, window_end
from gateway.domain.call import Attempt, FailureKind
from gateway.domain.incidents import (
    LIMIT,
    QUIET_MS,
    ChannelState,
    Incident,
    Incidents,
    SpentBudget,
    cause_text,
    spent_share,
)
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import BudgetView, CallView
from tests.tui.stage import NOW, call
from tui import glyphs
from tui.incidents import incident_line, timeline


def moved(at: int = NOW, to: str = "b", **changes: Any) -> CallView:
    """A call that was limited at ``a`` and answered elsewhere."""
    first = Attempt(channel="a", status=429, ms=Millis(100), kind=FailureKind.RATE, reason="429: slow down")
    tries = [first, Attempt(channel=to, status=200, ms=Millis(900))]
    fields: dict[str, Any] = {"status": 200, "channel": to, "attempts": tries, "time_ms": at, "duration_ms": 1000}
    return call(at - NOW, at, **(fields | changes))


def unreachable(at: int = NOW) -> CallView:
    """A call that could not be sent to ``a`` and was answered elsewhere."""
    first = Attempt(channel="a", ms=Millis(100), kind=FailureKind.NETWORK, reason="cannot connect")
    return moved(at, attempts=[first, Attempt(channel="b", status=200, ms=Millis(900))])


def channel(name: str, state: str = "ok", *, failing: bool | None = None, **changes: Any) -> ChannelState:
    return ChannelState(name, state, failing=state != "ok" if failing is None else failing, **changes)


def paused(until: int | None = NOW + 30_000, name: str = "a") -> ChannelState:
    return channel(name, state="cooling", reason="429", until_ms=until)


def test_calls_that_moved_are_counted_by_where_they_went() -> None:
    found = Incidents()
    for one in (moved(), moved(NOW + 1_000), moved(NOW + 2_000, to="c")):
        found.add_call(one)
    (incident,) = found.newest()
    assert (incident.channel, incident.kind, incident.failures) == ("a", FailureKind.RATE, 3)
    assert (incident.began, incident.last) == (NOW + 100, NOW + 2_100)
    assert incident.moved == {"b": 2, "c": 1}


def test_the_apis_of_the_failed_calls_are_reported_if_there_are_others_than_the_usual_one() -> None:
    found = Incidents()
    found.add_call(moved())
    assert "chat" not in incident_line(found.newest()[0], NOW)
    found.add_call(moved(NOW + 1_000, api="messages"))
    found.add_call(moved(NOW + 2_000, api="messages"))
    assert "3 failures, the last at" in (line := incident_line(found.newest()[0], NOW))
    assert "(API: messages 2, chat 1)" in line


def test_a_vendor_that_is_overloaded_has_not_limited_a_rate() -> None:
    busy = Incident(id=1, channel="a", kind=FailureKind.SERVER, status=529, began=NOW, last=NOW)
    assert [cause_text(one) for one in (busy, replace(busy, kind=FailureKind.RATE, status=429))] == [
        "overloaded",
        "rate-limited",
    ]


def test_a_call_that_nobody_answered_is_lost_once_however_often_it_was_tried() -> None:
    found = Incidents()
    again = Attempt(channel="a", status=500, kind=FailureKind.SERVER)
    found.add_call(moved(status=502, channel="a", attempts=[again, again]))
    (incident,) = found.newest()
    assert (incident.failures, incident.unanswered, incident.moved) == (2, 1, {})


def test_what_the_client_did_wrong_is_nobodys_incident() -> None:
    found = Incidents()
    found.add_call(moved(attempts=[Attempt(channel="a", status=400, kind=FailureKind.CLIENT)]))
    assert found.newest() == []


def test_what_the_client_cut_off_is_not_an_incident_either() -> None:
    found = Incidents()
    found.add_call(moved(outcome="client_closed"))
    assert found.newest() == []


def test_failures_far_apart_are_two_incidents() -> None:
    found = Incidents()
    found.add_call(moved())
    found.add_call(moved(NOW + QUIET_MS + 1))
    assert [one.began for one in found.newest()] == [NOW + QUIET_MS + 101, NOW + 100]


def test_a_pause_belongs_to_the_failure_before_it_and_ends_when_it_is_tried_again() -> None:
    found = Incidents()
    found.add_call(moved())
    found.update_channels([paused()], Millis(NOW + 200))
    (incident,) = found.newest("a")
    assert (incident.paused, incident.until) == (True, NOW + 30_000)
    found.update_channels([channel("a", state="half_open")], Millis(NOW + 31_000))
    assert (incident.paused, incident.ended, incident.lasts(NOW + 31_000)) == (False, None, True)
    found.update_channels([channel("a", failing=False)], Millis(NOW + 35_000))
    assert (incident.ended, incident.lasts(NOW + 35_000)) == (NOW + 35_000, False)


def test_after_its_pause_it_lasts_until_a_call_succeeds_or_two_quiet_minutes() -> None:
    found = Incidents()
    found.add_call(moved())
    found.update_channels([paused()], Millis(NOW + 200))
    (incident,) = found.newest("a")
    for at in (NOW + 31_000, NOW + 30_000 + QUIET_MS):
        found.update_channels([channel("a", state="half_open", reason="429")], Millis(at))
        assert (incident.paused, incident.ended, incident.lasts(at)) == (False, None, True)
        assert "no success since" in timeline([incident], at, 120).plain
    found.update_channels([channel("a", state="half_open", reason="429")], Millis(NOW + 31_000 + QUIET_MS))
    assert (incident.ended, incident.length_ms) == (NOW + 30_000, 29_900)


def test_one_that_is_cleared_by_hand_ends_then() -> None:
    found = Incidents()
    found.update_channels([paused(None)], Millis(NOW))
    found.update_channels([channel("a")], Millis(NOW + 5_000))
    assert [(one.kind, one.length_ms) for one in found.newest()] == [(None, 5_000)]


def test_failures_during_a_rest_go_on_with_it() -> None:
    found = Incidents()
    found.update_channels([paused()], Millis(NOW))
    found.add_call(moved(NOW + QUIET_MS * 2))
    assert len(found.newest()) == 1


def test_a_rate_limit_soon_after_another_one_makes_the_incident_longer() -> None:
    """It comes and goes while calls succeed: each limit by itself would fill the list."""
    found = Incidents()
    found.add_call(moved())
    found.update_channels([paused(NOW + 10_100)], Millis(NOW + 200))
    found.update_channels([channel("a")], Millis(NOW + 11_000))
    assert incident_line(found.newest()[0], NOW).startswith("14:13:20 rate-limited 10s")
    found.add_call(moved(NOW + 90_000))
    (one,) = found.newest()
    assert (one.failures, one.ended, one.lasts(NOW + 90_200)) == (2, None, True)
    found.update_channels([channel("a")], Millis(NOW + 91_000))
    assert (one.ended, one.length_ms) == (NOW + 91_000, 90_900)


def test_a_channel_that_cannot_be_reached_again_begins_a_new_incident_however_soon() -> None:
    found = Incidents()
    found.add_call(unreachable())
    found.update_channels([paused(NOW + 10_100)], Millis(NOW + 200))
    found.update_channels([channel("a")], Millis(NOW + 11_000))
    assert incident_line(found.newest()[0], NOW).startswith("14:13:20 unreachable 10s")
    found.add_call(unreachable(NOW + 30_000))
    found.update_channels([paused(NOW + 40_100)], Millis(NOW + 30_200))
    found.update_channels([channel("a")], Millis(NOW + 41_000))
    assert [(one.began, one.failures, one.length_ms) for one in found.newest()] == [
        (NOW + 30_100, 1, 10_000),
        (NOW + 100, 1, 10_000),
    ]


def test_a_pause_after_a_success_is_a_new_incident_also_if_its_failure_is_not_known_yet() -> None:
    found = Incidents()
    found.add_call(unreachable())
    found.update_channels([paused(NOW + 10_100)], Millis(NOW + 200))
    found.update_channels([channel("a")], Millis(NOW + 11_000))
    found.update_channels([paused(NOW + 40_100)], Millis(NOW + 30_200))
    found.add_call(unreachable(NOW + 30_000))  # its call went on at another channel
    assert [(one.kind, one.failures, one.paused) for one in found.newest()] == [
        (FailureKind.NETWORK, 1, True),
        (FailureKind.NETWORK, 1, False),
    ]


def test_a_failure_before_the_end_that_is_known_late_belongs_to_the_incident() -> None:
    found = Incidents()
    found.add_call(unreachable(NOW + 2_000))
    found.update_channels([channel("a")], Millis(NOW + 5_000))
    found.add_call(unreachable(NOW + 60_000))
    found.update_channels([channel("a")], Millis(NOW + 65_000))
    for at in (0, 3_000, 62_000):
        found.add_call(unreachable(NOW + at))
    assert [(one.began, one.failures, one.ended) for one in found.newest()] == [
        (NOW + 60_100, 2, NOW + 65_000),
        (NOW + 2_100, 3, NOW + 5_000),
    ]


def test_calls_that_were_refused_while_a_channel_was_paused_are_counted_with_its_incident() -> None:
    found = Incidents()
    failed = Attempt(channel="a", status=401, kind=FailureKind.AUTH, reason="401")
    found.add_call(moved(attempts=[failed], status=502, channel="a"))
    found.update_channels([channel("a", state="attention", reason="401")], Millis(NOW + 200))
    refused: dict[str, Any] = {"attempts": [], "status": 503, "outcome": "refused", "channel": ""}
    found.add_call(moved(NOW + 1_000, marks=["skipped=a"], **refused))
    found.add_call(moved(NOW + QUIET_MS * 9, marks=["repeated=5", "skipped=a"], **refused))
    (one,) = found.newest()
    assert (one.failures, one.unanswered, one.refused) == (1, 1, 7)
    assert incident_line(one, NOW).endswith("→ 1 call failed; 7 refused")


@pytest.mark.parametrize("until", [5_000, 90_000])
def test_a_call_refused_for_a_rejected_key_is_not_counted_with_the_rate_limit_before_it(until: int) -> None:
    """Also where the channel's state was not looked at since the limit was over."""
    found = Incidents()
    found.add_call(moved())
    found.update_channels([paused(until=NOW + until)], Millis(NOW + 200))
    failed = Attempt(channel="a", status=401, kind=FailureKind.AUTH, reason="401")
    found.add_call(moved(NOW + 30_000, attempts=[failed], status=502, channel="a"))
    refused: dict[str, Any] = {"attempts": [], "status": 503, "outcome": "refused", "channel": ""}
    found.add_call(moved(NOW + 31_000, marks=["skipped=a"], **refused))
    found.update_channels([channel("a", state="attention", reason="401")], Millis(NOW + 32_000))
    assert [(one.kind, one.refused) for one in found.newest()] == [(FailureKind.AUTH, 1), (FailureKind.RATE, 0)]


UNSET = Attempt(channel="a", kind=FailureKind.UNSET, reason="the environment variable K is not set", key="2 env:K")


def test_a_variable_that_is_not_set_is_an_incident_until_it_is_set_whatever_else_happens() -> None:
    found = Incidents()
    found.update_unset({"a": "K is not set where the server runs"}, NOW)
    found.add_call(moved(attempts=[UNSET, Attempt(channel="a", status=200)], channel="a"))
    for state in ("cooling", "ok"):
        found.update_channels([channel("a", state=state, reason="429")], Millis(NOW + 500))
    found.update_unset({"a": "K is not set where the server runs"}, Millis(NOW + QUIET_MS * 2))
    lasting = found.newest()[-1]
    assert (cause_text(lasting), lasting.paused, lasting.failures) == ("variable not set", True, 1)
    assert incident_line(lasting, NOW) == "14:13:20 variable not set"
    assert [(one.kind, one.paused) for one in found.newest()[:-1]] == [(None, False)]
    found.update_unset({}, Millis(NOW + 600_000))
    assert (lasting.paused, lasting.length_ms) == (False, 600_000)
    assert "variable not set 10m" in incident_line(lasting, NOW)


def test_without_a_moment_it_is_that_of_the_last_call() -> None:
    found = Incidents()
    found.add_call(moved())
    found.update_channels([paused(name="other")], Millis(0))
    assert found.newest("other")[0].began == NOW + 1_000


def test_a_key_that_is_rejected_is_an_incident_until_it_is_accepted_or_replaced_although_another_serves() -> None:
    found, key = Incidents(), "1 …7890"
    failed = Attempt(channel="a", status=401, kind=FailureKind.AUTH, reason="401", key=key)
    found.add_call(moved(attempts=[failed, Attempt(channel="a", status=200, key="2 …1234")], channel="a"))
    rejected = channel("a", state="attention", reason="401", until_ms=NOW + 60_000)
    found.update_channels([channel("a")], Millis(NOW + 1_000))
    found.update_keys({("a", key): rejected, ("a", "2 …1234"): channel("a")}, Millis(NOW + 1_000))
    for state in ("half_open", "attention"):
        found.update_keys({("a", key): channel("a", state=state, reason="401")}, Millis(NOW + 61_000))
    (one,) = found.newest()
    assert (one.key, one.failures, one.paused) == (key, 1, True)
    assert incident_line(one, NOW).startswith("14:13:20 key 1 …7890 rejected")
    found.update_keys({("a", "1 …1234"): channel("a")}, Millis(NOW + 90_000))
    assert (one.paused, one.ended) == (False, NOW + 90_000)
    found.update_keys({("a", "1 …1234"): rejected}, Millis(NOW + 91_000))
    assert [cause_text(incident) for incident in found.newest()] == ["key 1 …1234 rejected", "key 1 …7890 rejected"]


def test_a_key_that_a_test_found_rejected_is_one_incident_with_the_calls_that_it_fails() -> None:
    found = Incidents()
    found.update_channels([channel("a", state="attention", reason="401")], NOW)
    assert [cause_text(incident) for incident in found.newest()] == ["key rejected"]
    failed = Attempt(channel="a", status=401, kind=FailureKind.AUTH, reason="401")
    found.add_call(moved(Millis(NOW + 1_000), attempts=[failed], status=502, channel="a"))
    assert [(cause_text(incident), incident.failures) for incident in found.newest()] == [("key rejected", 1)]


def test_errors_with_and_without_a_status_are_two_incidents() -> None:
    found = Incidents()
    for at, status in ((0, 0), (1_000, 503), (2_000, 0)):
        bad = Attempt(channel="a", status=status, kind=FailureKind.SERVER, reason=f"s{status}")
        found.add_call(moved(Millis(NOW + at), attempts=[bad], status=502, channel="a"))
    assert {(one.status, one.failures) for one in found.newest()} == {(0, 2), (503, 1)}


def test_only_so_many_are_kept() -> None:
    found = Incidents()
    for number in range(LIMIT + 5):
        found.add_call(moved(NOW + number * (QUIET_MS + 1)))
    assert len(found.newest()) == LIMIT


def test_a_store_that_fails_twice_is_two_incidents_and_no_channels() -> None:
    found = Incidents()
    for at, error in enumerate(("full", "full", "", "", "broken")):
        found.update_store(error, Millis(NOW + at))
    assert [(one.reason, one.began, one.last, one.ended) for one in found.newest()] == [
        ("broken", NOW + 4, NOW + 4, None),
        ("full", NOW, NOW + 1, NOW + 2),
    ]
    found.add_call(moved())
    assert [one.channel for one in found.newest("a")] == ["a"]


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


def test_a_rest_that_lasts_counts_down() -> None:
    one = incident(paused=True, until=Millis(NOW + 14_000), failures=4, last=Millis(NOW - 1_000), unanswered=1)
    assert incident_line(one, NOW) == (
        "14:12:20 rate-limited, 4 failures, the last at 14:13:19; retry in 14s → 1 call failed"
    )


def test_what_nobody_ends_says_so() -> None:
    assert incident_line(incident(kind=None, paused=True), NOW) == "14:12:20 paused until resumed"


def test_the_reason_stands_below_without_the_channels_name_and_harmless() -> None:
    one = incident(reason="channel 'a': \x1b[2J[b]429[/]")
    assert "[b]429[/]" in timeline([one], NOW, 80).plain
    assert "\x1b" not in timeline([one], NOW, 80).plain
    assert "channel 'a'" not in timeline([one], NOW, 80).plain


def test_a_store_that_fails_has_its_own_words() -> None:
    one = incident(channel="", kind=None, reason="the disk is full", failures=0, paused=True)
    assert timeline([one], NOW, 80).plain.split() == (
        f"14:12:20 {glyphs.WARNING} the store failing: calls are rejected the disk is full".split()
    )
    over = incident(channel="", kind=None, failures=0, ended=Millis(NOW - 48_000))
    assert "the store failed for 12s" in timeline([over], NOW, 80).plain


def test_what_fails_for_another_cause_is_another_incident_although_both_overlap() -> None:
    found = Incidents()
    causes = [(429, FailureKind.RATE), (500, FailureKind.SERVER), (503, FailureKind.SERVER), (401, FailureKind.AUTH)]
    for number in range(12):
        status, kind = causes[number % 4]
        failed = Attempt(channel="a", status=status, kind=kind, reason=f"{kind.value} {status} number {number}")
        found.add_call(moved(NOW + number * 1_000, attempts=[failed], status=502, channel="a"))
    assert [(one.kind, one.status, one.failures) for one in reversed(found.newest())] == [
        (kind, status, 3) for status, kind in causes
    ]
    assert [cause_text(one) for one in found.newest()] == [
        "key rejected",
        "errors (503)",
        "errors (500)",
        "rate-limited",
    ]


def test_the_message_and_the_end_of_the_pause_are_those_of_the_last_failure() -> None:
    found = Incidents()
    for number, reason in enumerate(("429: first", "429: second")):
        at = NOW + number * 20_000
        attempt = Attempt(channel="a", status=429, kind=FailureKind.RATE, reason=reason)
        found.add_call(moved(at, attempts=[attempt], status=429, channel="a"))
        found.update_channels([channel("a", state="cooling", reason=reason, until_ms=at + 10_000)], Millis(at + 1))
    (one,) = found.newest()
    assert (one.reason, one.until, one.failures) == ("429: second", NOW + 30_000, 2)


def test_a_channel_is_paused_for_its_last_failure_also_if_its_cause_has_changed() -> None:
    found = Incidents()
    for at, status, kind in ((0, 429, FailureKind.RATE), (12_000, 500, FailureKind.SERVER)):
        failed = Attempt(channel="a", status=status, kind=kind, reason=f"it answered {status}")
        found.add_call(moved(NOW + at, attempts=[failed], status=status, channel="a"))
        pause = channel("a", state="cooling", reason=failed.reason, until_ms=NOW + at + 10_000)
        for later in (200, 300):
            found.update_channels([pause], Millis(NOW + at + later))
        found.update_channels([channel("a", state="cooling", reason=failed.reason)], Millis(NOW + at + 300))
    now, before = found.newest()
    assert (now.status, now.paused, now.ended) == (500, True, None)
    assert (before.status, before.paused, before.ended) == (429, False, NOW + 12_200)
    assert before.last < NOW + 12_000


def test_a_rejected_key_stays_the_cause_while_other_calls_fail_otherwise() -> None:
    found = Incidents()
    for status, kind in ((401, FailureKind.AUTH), (500, FailureKind.SERVER)):
        failed = Attempt(channel="a", status=status, kind=kind, reason=f"it answered {status}")
        found.add_call(moved(attempts=[failed], status=status, channel="a"))
        found.update_channels([channel("a", state="attention", reason=failed.reason)], Millis(NOW + 200))
    assert [(one.status, one.paused) for one in found.newest()] == [(500, False), (401, True)]


def test_only_what_changed_is_reported() -> None:
    found = Incidents()
    found.add_call(moved())
    found.update_channels([paused(name="other")], Millis(NOW))
    copies = found.copies()
    found.update_channels([paused(NOW + 30_500, name="other")], Millis(NOW + 500))
    assert found.changed_since(copies) == []
    found.add_call(moved(NOW + 1_000))
    assert [one.channel for one in found.changed_since(copies)] == ["a"]


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
    """What the watch reports of the budgets of a token."""
    spent = {
        f"{one.window}:token:1": SpentBudget(budget_name(one.window, "token 'ci'"), one)
        for one in budgets
        if spent_share(one) >= 0.8
    }
    return found.update_budgets(spent, Millis(at))


def test_of_a_budget_that_is_nearly_spent_there_is_one_warning_in_its_window() -> None:
    found = Incidents()
    assert warn(found, budget(79, held=21)) == []
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
    assert [one.reason for one in warn(found, budget(85), at=NOW + 86_400_000)] == ["85% is spent"]


def test_the_warning_is_over_when_the_budget_is_raised() -> None:
    found = Incidents()
    (warning,) = warn(found, budget(100))
    assert warn(found, budget(90), at=NOW + 1_000) == []
    assert (warning.reason, warning.ended) == ("90% is spent", None)
    warn(found, budget(70), at=NOW + 2_000)
    assert warning.ended == NOW + 2_000
    text = timeline([warning], Millis(NOW + 3_000), 120).plain
    assert ("over since" in text, glyphs.WARNING in text) == (True, False)
    (again,) = warn(found, budget(80), at=NOW + 4_000)
    assert (again.id, again.ended) == (warning.id + 1, None)
    warn(found, at=NOW + 90_000_000)
    assert again.ended == again.until


def test_a_budget_of_nothing_rejects_all_calls() -> None:
    found, nothing = Incidents(), replace(budget(0), nanos=Nanos(0))
    found.update_budgets({"day:token:1": SpentBudget(budget_name(Window.DAY, "token 'ci'"), nothing)}, NOW)
    (one,) = found.newest()
    assert (one.reason, one.limit_nanos, one.limit_tokens) == ("all is spent, and calls are rejected", 0, None)


def test_a_budget_that_refused_calls_and_was_raised_refuses_no_more() -> None:
    found = Incidents()
    (warning,) = warn(found, budget(99))
    warning.refused = 7
    assert warn(found, budget(99), at=NOW + 1_000) == []
    assert found.newest() == [warning]
    assert warn(found, replace(budget(99), nanos=Nanos(110)), at=NOW + 2_000) == []
    again, before = found.newest()
    assert (before.ended, before.refused) == (NOW + 2_000, 7)
    assert (again.ended, again.refused, again.reason) == (None, 0, "90% is spent")


def test_a_budget_that_was_raised_while_no_server_ran_refuses_no_more() -> None:
    found = Incidents()
    (warning,) = warn(found, budget(99))
    warning.refused = 7
    restarted = Incidents(found.newest())
    assert warn(restarted, replace(budget(99), nanos=Nanos(110)), at=NOW + 2_000) == []
    again, before = restarted.newest()
    assert (before.ended, again.refused) == (NOW + 2_000, 0)


def test_without_a_pause_it_lasts_until_a_call_succeeds_or_it_is_quiet_for_long() -> None:
    found = Incidents()
    found.add_call(moved(status=502, channel="a", attempts=[Attempt(channel="a", status=500, kind=FailureKind.SERVER)]))
    (one,) = found.newest()
    found.update_channels([channel("a", failing=True)], Millis(NOW + 500))
    assert one.lasts(NOW + 500)
    shown = timeline([one], NOW + 500, 120).plain
    assert ("no success since" in shown, glyphs.WARNING in shown) == (True, True)
    assert not one.lasts(NOW + QUIET_MS + 1)
    found.update_channels([channel("a")], Millis(NOW + 3_000))
    assert (one.ended, one.lasts(NOW + 3_000)) == (NOW + 3_000, False)
    assert "no success" not in timeline([one], NOW + 3_000, 120).plain
    found.add_call(moved(NOW + 5_000, status=502, attempts=[Attempt(channel="a", status=500, kind=FailureKind.SERVER)]))
    assert (one.failures, one.ended, one.lasts(NOW + 6_000)) == (2, None, True)


def test_a_model_that_is_missing_is_an_incident_until_it_is_tried_again_whatever_else_succeeds() -> None:
    found = Incidents()
    found.add_call(moved(attempts=[Attempt(channel="a", status=404, kind=FailureKind.MISSING)]))
    until, missing = Millis(NOW + 600_000), found.newest()[0]
    for at in (500, QUIET_MS * 2):
        found.update_channels([channel("a", lacks_until=until)], Millis(NOW + at))
        assert (missing.paused, missing.until, missing.lasts(NOW + at)) == (True, until, True)
    assert incident_line(missing, NOW).startswith("14:13:20 unknown model; retry in 10m00s")
    found.update_channels([channel("a")], Millis(NOW + QUIET_MS * 3))
    assert (missing.paused, missing.ended) == (False, NOW + QUIET_MS * 3)


def test_of_two_models_that_are_missing_the_newer_incident_lasts() -> None:
    found = Incidents()
    for at, status in ((0, 404), (540_000, 403)):
        failed = Attempt(channel="a", status=status, kind=FailureKind.MISSING)
        found.add_call(moved(Millis(NOW + at), attempts=[failed]))
        found.update_channels([channel("a", lacks_until=NOW + at + 600_000)], Millis(NOW + at + 100))
    assert [(one.status, one.paused, one.ended is None) for one in found.newest()] == [
        (403, True, True),
        (404, False, False),
    ]


def test_a_pause_of_the_channel_is_not_that_of_a_model_that_is_missing() -> None:
    found = Incidents()
    found.add_call(moved(attempts=[Attempt(channel="a", status=404, kind=FailureKind.MISSING)]))
    until = Millis(NOW + 600_000)
    for state in ("cooling", "half_open", "ok"):
        one = channel("a", state=state, reason="429", until_ms=NOW + 30_000, lacks_until=until)
        found.update_channels([one], Millis(NOW + 500))
    assert [(one.kind, one.paused) for one in found.newest()] == [(None, False), (FailureKind.MISSING, True)]


def test_a_pause_does_not_move_the_last_failure_and_a_failure_soon_after_it_goes_on() -> None:
    found = Incidents()
    found.add_call(moved())
    for at in (200, 100_000, 200_000):
        found.update_channels([paused(NOW + 200_000)], Millis(NOW + at))
    (one,) = found.newest()
    assert one.last == NOW + 100
    found.update_channels([channel("a", state="half_open", reason="429")], Millis(NOW + 200_001))
    found.add_call(moved(NOW + 210_000))
    assert [(one.failures, one.last) for one in found.newest()] == [(2, NOW + 210_100)]


def test_what_fails_again_after_its_pause_ends_after_that_failure() -> None:
    found = Incidents()
    found.add_call(moved())
    found.update_channels([paused(NOW + 10_000)], Millis(NOW + 200))
    found.update_channels([channel("a", state="half_open")], Millis(NOW + 11_000))
    found.add_call(moved(NOW + 17_000))
    found.update_channels([channel("a")], Millis(NOW + 20_000))  # resumed before anyone looked
    (one,) = found.newest()
    assert (one.ended, one.length_ms) == (NOW + 20_000, 19_900)


def test_what_is_over_has_an_end() -> None:
    found = Incidents()
    found.add_call(moved())
    warn(found, budget(85))
    found.update_channels([channel("other")], Millis(NOW + QUIET_MS + 200))
    assert [(one.channel, one.ended) for one in found.newest()] == [("", None), ("a", NOW + 100)]
    resets = window_end(Window.DAY, NOW)
    found.update_channels([channel("other")], Millis((resets or 0) + 1))
    assert found.newest()[0].ended == resets
