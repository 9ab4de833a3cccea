"""The incidents as a table and as JSON."""

import pytest
from msgspec.structs import replace

from gateway.commands import output
from gateway.commands.options import now
from gateway.domain.budget import BALANCE_ID, BALANCE_NAME
from gateway.domain.call import FailureKind
from gateway.domain.human_values import local_time
from gateway.domain.incidents import QUIET_MS, Incident
from gateway.domain.units import Millis
from tests.commands.runner import Control, run
from tests.commands.samples import HOSTILE, NOW

FAILED = Incident(
    id=2,
    channel="openai",
    kind=FailureKind.SERVER,
    status=503,
    reason="overloaded",
    began=NOW,
    last=Millis(NOW + 5_000),
    failures=4,
    unanswered=1,
    moved={"other": 3},
    paused=True,
)
BUDGET = Incident(id=1, channel="", budget="daily budget of token 'ci'", reason="80% is spent", began=NOW, last=NOW)


def test_incidents_are_listed_with_cause_state_and_where_calls_went() -> None:
    ran = run("incident", "list", answers={"GET /incidents": [FAILED, BUDGET]})
    head, first, second = ran.out.splitlines()
    assert head.split() == ["Began", "Last", "Where", "Cause", "Failures", "State", "Calls", "Message"]
    for text in (
        local_time(NOW),
        "openai",
        "errors (503)",
        "4",
        "paused until resumed",
        "3 calls retried at other; 1 failed",
    ):
        assert text in first
    assert ("token 'ci'" in second, "daily budget" in second) == (True, True)


BALANCE = replace(BUDGET, subject_id=BALANCE_ID, budget=BALANCE_NAME, reason="all is spent", refused=3)


@pytest.mark.parametrize(
    ("incident", "told", "untold"),
    [
        (replace(BUDGET, reason="222% is spent"), ("daily budget", "222% is spent"), "nearly"),
        (BALANCE, ("balance used up", "until money is added", "3 calls refused"), "paused"),
        (replace(FAILED, kind=FailureKind.UNSET, status=0), ("variable not set", "until it is set"), "paused"),
        (replace(FAILED, refused=1_000), ("3 calls retried at other; 1 failed; 1,000 refused",), "no success"),
    ],
    ids=["a budget", "the balance", "a variable", "refused calls"],
)
def test_the_words_of_an_incident(incident: Incident, told: tuple[str, ...], untold: str) -> None:
    line = run("incident", "list", answers={"GET /incidents": [incident]}).out.splitlines()[1]
    assert [text for text in told if text not in line] == []
    assert untold not in line


def test_as_many_as_wanted_are_listed() -> None:
    lines = run("incident", "list", "--limit", "1", answers={"GET /incidents": [FAILED, BUDGET]}).out
    assert len(lines.splitlines()) == 2


def test_incidents_of_several_channels_are_requested() -> None:
    ran = run("incident", "list", "--channel", "a", "--channel", "b", answers={"GET /incidents": []})
    assert ran.asked == [("GET /incidents?channel=a&channel=b", None)]


def test_since_leaves_out_what_was_over_before() -> None:
    began, last, ended = (Millis(NOW - ago) for ago in (90_000, 60_000, 30_000))
    over = replace(FAILED, id=1, paused=False, began=began, last=last, ended=ended)
    found = Control({"GET /incidents": [FAILED, over]})
    for since, ids in ((local_time(NOW), [2]), (local_time(NOW - 45_000), [2, 1]), ("1s", [2])):
        assert [one["id"] for one in run("incident", "list", "--since", since, "--json", control=found).json] == ids


def test_eighty_places_show_whether_an_incident_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "terminal_width", lambda: 80)
    until = Millis(now() + 60_000)
    known = [FAILED, replace(BUDGET, ended=NOW), replace(BUDGET, until=until)]
    for shown in ([FAILED], known[1:]):
        lines = run("incident", "list", answers={"GET /incidents": shown}).out.splitlines()
        assert max(map(len, lines)) <= 80
        assert {"Began", "Where", "Cause", "State"} <= set(lines[0].split())
    text = run("incident", "list", answers={"GET /incidents": known}).out
    assert (" over\n" in text, f"resets {local_time(until)[5:16]}" in text) == (True, True)


def test_eighty_places_have_the_message_in_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "terminal_width", lambda: 80)
    key = replace(FAILED, key="2 …2222", kind=FailureKind.AUTH, reason="Incorrect API key")
    out = run("incident", "list", answers={"GET /incidents": [key, BUDGET]}).out
    _, first, message, second, spent = out.splitlines()
    assert ("key 2 …2222 rejected" in first, message) == (
        True,
        "  3 calls retried at other; 1 failed  Incorrect API key",
    )
    assert ("token 'ci'" in second, "daily budget" in second, spent) == (True, True, "  80% is spent")


def test_eighty_places_have_the_state_also_if_no_calls_went_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "terminal_width", lambda: 80)
    reason = f"the upstream answered 503: {'service unavailable, ' * 5}"
    lone = replace(FAILED, channel="openrouter-backup", reason=reason, moved={}, unanswered=0, refused=0)
    head, row, below = run("incident", "list", answers={"GET /incidents": [lone]}).out.splitlines()
    assert head.split() == ["Began", "Where", "Cause", "Failures", "State"]
    assert (row.startswith("20"), below.strip()[:30]) == (True, reason[:30])


def test_a_failure_that_did_not_pause_its_channel_is_not_over_at_once() -> None:
    failed = replace(FAILED, paused=False, last=now())
    known = [failed, replace(failed, ended=now()), replace(failed, last=Millis(now() - QUIET_MS - 1_000))]
    lines = run("incident", "list", answers={"GET /incidents": known}).out.splitlines()[1:]
    assert ["no success since" in line for line in lines] == [True, False, False]
    assert [" over " in line for line in lines] == [False, True, True]


def test_the_json_is_what_the_server_says() -> None:
    ran = run("incident", "list", "--json", answers={"GET /incidents": [FAILED]})
    assert (ran.json[0]["began_ms"], ran.json[0]["moved"], ran.json[0]["status"]) == (NOW, {"other": 3}, 503)


def test_without_any_it_says_so_and_nothing_harmful_reaches_the_terminal() -> None:
    assert "no incidents" in run("incident", "list", answers={"GET /incidents": []}).err
    hostile = Incident(id=1, channel=HOSTILE, reason=HOSTILE, moved={HOSTILE: 1}, began=NOW, last=NOW)
    assert "\x1b" not in run("incident", "list", answers={"GET /incidents": [hostile]}).out
