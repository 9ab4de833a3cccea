"""What was changed, listed, and undone after a question where it may surprise."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.commands import output
from gateway.commands.exit_codes import Exit
from gateway.domain.config_views import Difference, FieldDifference
from gateway.domain.errors import Conflict
from gateway.domain.history import ChangeSource, HistoryView, Question, UndoView
from tests.commands.program import serving, tollkeeper
from tests.commands.runner import Control, run
from tests.commands.samples import NOW

ENTRY = HistoryView(
    id=12,
    time_ms=NOW,
    kind="change",
    source=ChangeSource(via="command", command="token edit", place="pts/3"),
    text="changed token 'ci'",
    undone_by=0,
    undoes=0,
    differences=[
        Difference(
            action="changed",
            noun="token",
            name="ci",
            fields=[FieldDifference(field="limits", before="", after="{ rpm = 60 }")],
        )
    ],
)
DONE = UndoView(id=13, kind="undo", text="token 'ci' is as before", target=ENTRY, notes=["enter its key again"])
QUESTION = Question(
    text="Undo change 12 (changed token 'ci')?", reasons=["5 calls used it."], verb="Undo", answer="undo 12"
)
DOUBT = Conflict("used", code="needs_confirmation", details=msgspec.to_builtins(QUESTION))


def test_the_history_is_a_table() -> None:
    ran = run("history", answers={"GET /history": [ENTRY]})
    head, line = ran.out.splitlines()
    assert head.split() == ["Id", "Time", "By", "Change", "Fields", "State"]
    assert "12" in line
    assert "command: token edit" in line
    assert "changed token 'ci'" in line
    assert "limits: default -> { rpm = 60 }" in line


def entry(*differences: Difference) -> HistoryView:
    return replace(ENTRY, differences=[*differences])


def change(action: Any, field: str, before: str, after: str) -> Difference:
    changed = FieldDifference(field=field, before=before, after=after)
    return Difference(action=action, noun="token", name="ci", fields=[changed])


LIMITED = ENTRY.differences[0]
GONE = Difference(action="removed", noun="price", name="gpt-4.1", fields=[])
"""A mapping to another model removes the list price of the name."""
LONG = change("changed", "hold_output", "what a call's limit allows, and more", "800")


@pytest.mark.parametrize(
    ("line", "shown", "told"),
    [
        ("history", entry(LIMITED, GONE), "limits: default -> { rpm = 60 }; removed price gpt-4.1"),
        ("history", entry(LIMITED, replace(LIMITED, name="two")), "  limits  "),
        ("history", entry(LONG), "hold_output: what a call's limit all… -> 800"),
        ("history show 12", entry(change("changed", "rpm", "", "6")), "changed token ci\n  rpm: default -> 6\n"),
        ("history show 12", entry(change("added", "group", "", "default")), "added token ci\n  group: default\n"),
        ("history show 12", entry(change("removed", "rpm", "6", "")), "removed token ci\n  rpm: 6\n"),
    ],
)
def test_a_change_shows_before_and_after_or_the_values_alone(line: str, shown: HistoryView, told: str) -> None:
    assert told in run(*line.split(), answers={"GET /history": [shown], "GET /history/12": shown}).out


def test_filters_go_to_the_server() -> None:
    ran = run("history", "--kind", "token", "--name", "ci", "--limit", "3", "--json", answers={"GET /history": [ENTRY]})
    assert ran.asked == [("GET /history?kind=token&name=ci&limit=3", None)]
    assert ran.json[0]["source"]["command"] == "token edit"
    assert run("history", "--kind", "nonsense", answers={}).code == Exit.USAGE


def test_undo_says_what_it_undid_when_it_was_done_and_by_whom() -> None:
    ran = run("undo", answers={"POST /undo": DONE})
    assert ran.out.startswith("Undone: token 'ci' is as before (change 12: changed token 'ci', ")
    assert ran.out.endswith(" ago, by the command line ('token edit' on pts/3))\n")
    assert ran.err == "enter its key again\n"


@pytest.mark.parametrize(
    ("command", "body"),
    [
        (["undo"], {"id": 0}),
        (["undo", "--yes"], {"id": 0}),
        (["redo"], {"id": 0}),
        (["history", "undo", "12"], {"id": 12}),
    ],
)
def test_undo_sends_a_change(command: list[str], body: dict[str, object]) -> None:
    ran = run(*command, answers={"POST /undo": DONE, "POST /redo": DONE})
    assert ran.asked == [(f"POST /{'redo' if 'redo' in command else 'undo'}", body)]


def test_without_a_terminal_a_surprising_undo_needs_yes() -> None:
    ran = run("undo", answers={"POST /undo": DOUBT})
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    question = "Undo change 12 (changed token 'ci')?"
    assert ran.err.splitlines() == [
        "5 calls used it.",
        f"tollkeeper: cannot ask without a terminal; add --yes to answer yes to: {question}",
    ]


def test_what_was_confirmed_is_what_is_undone() -> None:
    control = Control({"POST /undo": iter([DOUBT, DONE])})
    ran = run("undo", "--yes", control=control)
    assert (ran.code, ran.err.splitlines()[0]) == (0, "5 calls used it.")
    assert control.accepted == ["", "undo 12"]


def test_a_contradiction_is_one_line() -> None:
    newer = Conflict("token 'ci' was changed since, by change 14 (x); undo that one first", code="newer_change")
    ran = run("history", "undo", "12", answers={"POST /undo": newer})
    assert ran.code == Exit.CONFLICT
    assert ran.err == "tollkeeper: token 'ci' was changed since, by change 14 (x); undo that one first\n"


def test_clearing_is_confirmed() -> None:
    assert run("history", "clear", answers={"DELETE /history": {}}).code == Exit.USAGE
    assert run("history", "clear", "--yes", answers={"DELETE /history": {}}).code == 0


@pytest.mark.slow
def test_it_is_the_same_with_a_server_and_without_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home, "serve"):
        tollkeeper(home, "token", "add", "ci")
        (entry,) = tollkeeper(home, "history", "--json").json
        assert entry["text"] == "added token 'ci'"
        assert tollkeeper(home, "undo").out.startswith("Undone: token 'ci' is removed (change 1: added token 'ci', ")
    assert [one["kind"] for one in tollkeeper(home, "history", "--json").json] == ["undo", "change"]
    assert tollkeeper(home, "redo", "--yes").out.startswith("Redone: added token 'ci' (change 1: ")
    assert tollkeeper(home, "undo").out.startswith("Undone: token 'ci' is removed (change 1: added token 'ci', ")


def test_a_history_that_ends_because_of_its_usual_limit_says_so() -> None:
    assert run("history", answers={"GET /history": [ENTRY] * 20}).err == (
        "these are the newest 20 changes; there may be more: use --limit for more, --until for older ones\n"
    )
    assert run("history", "list", "--limit", "19", answers={"GET /history": [ENTRY] * 19}).err == ""


def test_alike_names_stay_distinct_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "terminal_width", lambda: 80)
    texts = [f"changed token 'continuous-integration-runner-{name}'" for name in ("linux", "macos")]
    same = [replace(ENTRY, text=text, differences=[]) for text in texts]
    ran = run("history", answers={"GET /history": same})
    assert [line.split("  ")[-1] for line in ran.out.splitlines()[1:]] == [
        "changed token 'co…on-runner-linux'",
        "changed token 'co…on-runner-macos'",
    ]
    assert ran.err == ""  # nothing was undone: the column left out says nothing
    undone = [replace(ENTRY, text=text, differences=[], undone_by=13) for text in texts]
    ran = run("history", answers={"GET /history": undone})
    assert "changed token 'conti…ration-runner-macos'  undone by 13\n" in ran.out
    assert ran.err.startswith("columns left out: By; ")
