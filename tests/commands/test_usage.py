"""Calls in lists, files and details."""

import csv
import io
import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.commands import output
from gateway.commands.exit_codes import Exit
from gateway.commands.usage_reports import CSV_COLUMNS, FIELDS, csv_line
from gateway.domain.field_kinds import json_value
from gateway.domain.human_values import local_time
from gateway.domain.money import dollars
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import CallPage, CallView
from tests.commands.runner import Control, run
from tests.commands.samples import ACCOUNT, CALL, HOSTILE, MODEL, SUMMARY

URL = f"GET /calls/{CALL.id}"
NOTHING: dict[str, Any] = {
    **dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"), 0),
    "usage_source": "none",
}
CONTROL = {"GET /calls": CallPage(calls=[CALL, replace(CALL, id="req_running", state="running")])}


LOST = {"status": 0, "outcome": "lost", "marks": ["repeated=1"], "duration_ms": 0, "finish_reason": "", **NOTHING}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "api chat"),
        ({}, "tries ✗ 1 other 500 "),
        ({}, "✓ 2 openai 200 "),
        ({"api": "responses", "channel": ""}, "api responses"),
        ({"rates": None, "cost_nanos": Nanos(0)}, "; 'tollkeeper price set fast --like OTHER' sets one"),
        ({"marks": ["passed=openai: paused for 12 s: 503"]}, "passed over openai: paused for 12 s: 503"),
        (LOST, "lost (gateway stopped)"),
        (LOST, "duration not known"),
        (LOST, "tokens not known"),
        (LOST, "1 more like this was not listed"),
        ({"id": CALL.id, "state": "running"}, "at most $0.00438 so far"),
        ({"id": CALL.id, "state": "running"}, "in at most 1,200"),
    ],
)
def test_the_fields_of_a_call(changes: dict[str, Any], told: str) -> None:
    out = run("usage", "show", CALL.id, answers={URL: replace(CALL, **changes)}).out
    assert told in " ".join(out.split())
    assert ("passed=" in out, "repeated=" in out) == (False, False)


def test_csv_has_a_column_for_every_field() -> None:
    ran = run("usage", "export", answers=CONTROL)
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [list(row) for row in rows] == [list(CSV_COLUMNS)]
    assert (CSV_COLUMNS[:-1], rows[0]["cost_dollars"]) == (FIELDS, "0.00438")
    assert (rows[0]["cost_nanos"], rows[0]["stream"], rows[0]["balance_nanos"]) == ("4380000", "true", "9995620000")
    assert json.loads(rows[0]["attempts"])[0]["channel"] == "other"


def test_all_pages_are_exported() -> None:
    pages = iter([CallPage(calls=[CALL], cursor="7"), CallPage(calls=[], cursor="3"), CallPage(calls=[CALL])])
    control = Control({"GET /calls": pages})
    assert len(run("usage", "export", "--format", "jsonl", "--token", "laptop", control=control).out.splitlines()) == 2
    assert [line.partition("before=")[2].partition("&")[0] for line, _ in control.asked] == ["", "7", "3"]


def test_json_lines_are_exact_and_what_the_option_of_other_commands_writes() -> None:
    lines = run("usage", "export", "--format", "jsonl", answers=CONTROL).out
    assert [json.loads(line) for line in lines.splitlines()] == [json_value(CALL)]
    assert run("usage", "export", "--json", answers=CONTROL).out == lines


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", "\n=", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_a_spreadsheet_finds_no_formula(start: str) -> None:
    line = csv_line(replace(CALL, app=f"{start}cmd()"))
    row = next(csv.reader([line]))
    assert row[FIELDS.index("app")][0] in "'\ufffd"
    assert line[:-1].isprintable()


def test_a_file_is_for_its_owner_only(tmp_path: Path) -> None:
    target = tmp_path / "calls.csv"
    ran = run("usage", "export", "--output", str(target), answers=CONTROL)
    assert (ran.out, target.stat().st_mode & 0o777) == ("", 0o600)
    assert len(target.read_text().splitlines()) == 2


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "calls.csv"
    target.write_text("mine")
    assert run("usage", "export", "--output", str(target), answers=CONTROL).code == Exit.CONFLICT
    assert target.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    ran = run("usage", "export", "--output", str(tmp_path / "no" / "x"), answers=CONTROL)
    assert (ran.code, ran.err.count("\n")) == (Exit.FAILED, 1)


@pytest.mark.parametrize("words", [["tok:a.csv"], ["openai/gpt-4.1"], ["laptop", "--output", "calls.csv"]])
def test_other_words_get_no_hint(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--output" not in run("usage", "export", *words, answers=CONTROL).err


def test_new_columns_are_the_last_ones_and_the_api_is_a_filter() -> None:
    control = Control(CONTROL)
    row = next(csv.DictReader(io.StringIO(run("usage", "export", "--api", "messages", control=control).out)))
    assert list(row)[-6:] == ["waits_for", "channel_id", "parts", "variant", "group_id", "cost_dollars"]
    assert "api=messages" in control.asked[0][0]


def test_calls_are_listed() -> None:
    ran = run("usage", "list", answers={"GET /calls": CallPage(calls=[CALL])})
    row = ran.out.splitlines()[1]
    assert CALL.id in row
    assert row.split()[-6:] == ["1.25s", "320ms", "1.2k", "150", "$0.00438", CALL.id]


def test_the_json_of_a_call_has_the_promised_fields() -> None:
    ran = run("usage", "list", "--json", answers={"GET /calls": CallPage(calls=[CALL])})
    promised = (
        *("id", "time", "token", "group", "model", "upstream_model", "channel", "status", "outcome", "stream"),
        *("duration_ms", "first_byte_ms", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"),
        *("usage_source", "cost_nanos", "attempts"),
    )
    assert set(promised) <= set(ran.json[0])
    assert ran.json == [json_value(CALL)]


def test_nothing_from_outside_reaches_the_terminal() -> None:
    fields = ("model", "upstream_model", "app", "error", "channel", "finish_reason", "upstream_id", "token")
    hostile = replace(CALL, **dict.fromkeys(fields, HOSTILE), marks=[HOSTILE])
    ran = run("usage", "show", CALL.id, answers={URL: hostile})
    listed = run("usage", "list", answers={"GET /calls": CallPage(calls=[hostile])})
    assert not set(ran.out + listed.out) & set("\x1b\x07\x9b\u202e")


def test_a_running_call_is_cancelled() -> None:
    control = Control({f"POST /calls/{CALL.id}/cancel": {"done": "cancelled"}})
    assert run("usage", "cancel", CALL.id, control=control).code == 0
    assert run("usage", "cancel", "req_other", control=control).code == Exit.NOT_FOUND


def test_the_last_call_is_shown_without_its_id() -> None:
    page, none = CallPage(calls=[CALL]), CallPage(calls=[])
    for name in ((), ("last",)):
        assert CALL.id in run("usage", "show", *name, answers={"GET /calls": page, URL: CALL}).out
    ran = run("usage", "show", "last", answers={"GET /calls": none})
    assert (ran.code, "no calls yet" in ran.err) == (Exit.NOT_FOUND, True)


def test_a_part_of_an_id_is_enough_if_one_call_has_it() -> None:
    one = CallPage(calls=[CALL])
    control = Control({"GET /calls": one, URL: CALL})
    assert run("usage", "show", CALL.id[-5:], control=control).out.startswith(f"id           {CALL.id}\n")
    assert f"words=id%3A{CALL.id[-5:]}" in control.asked[1][0]
    two = CallPage(calls=[CALL, replace(CALL, id="req_other")])
    ran = run("usage", "show", "req_", answers={"GET /calls": two})
    assert ran.code == Exit.NOT_FOUND
    assert ran.err.endswith(f"several calls have 'req_' in their ids: {CALL.id}, req_other\n")
    late = iter([CallPage(calls=[], cursor="9"), CallPage(calls=[CALL], cursor="5"), CallPage(calls=[two.calls[1]])])
    assert "several calls have" in run("usage", "show", "req_", answers={"GET /calls": late}).err
    none = run("usage", "show", "zzzz", answers={"GET /calls": CallPage(calls=[])})
    assert (none.code, "/calls/zzzz" in none.err) == (Exit.NOT_FOUND, True)


def test_the_list_begins_with_the_call_that_show_calls_the_last() -> None:
    runs = replace(CALL, id="req_old", state="running", time_ms=Millis(CALL.time_ms - 60_000))
    long = replace(CALL, id="req_long", time_ms=Millis(CALL.time_ms - 9_000), duration_ms=Millis(12_000))
    control = Control({"GET /calls": CallPage(calls=[runs, long, CALL]), URL: CALL})
    rows = run("usage", "list", control=control).out.splitlines()[1:]
    assert [row.split()[-1] for row in rows] == [CALL.id, "req_long", "req_old"]
    assert [call["id"] for call in run("usage", "list", "--limit", "1", "--json", control=control).json] == [CALL.id]
    assert run("usage", "show", "last", control=control).out.startswith(f"id           {CALL.id}\n")


def test_retries_of_a_client_are_grouped() -> None:
    first = replace(CALL, id="req_1", status=503, outcome="error", retry=0)
    again = replace(CALL, id="req_2", time_ms=CALL.time_ms + CALL.duration_ms + 900, retry=1)
    page = CallPage(calls=[again, first])
    listed = run("usage", "list", answers={"GET /calls": page}).out.splitlines()
    assert f"{CALL.model} retry 1" in listed[1]
    assert "503, retried" in listed[2]
    control = Control({"GET /calls/req_2": again, "GET /calls": page})
    assert "1 of the same call; before it: req_1 (503)\n" in run("usage", "show", "req_2", control=control).out


def test_a_receipt_says_how_long_the_balance_lasts_now() -> None:
    summary = replace(SUMMARY, first_ms=Millis(0))
    answers = {URL: CALL, "GET /usage": summary, "GET /account": ACCOUNT}
    out = run("usage", "show", CALL.id, answers=answers).out
    assert re.search(r"balance now +\$9.99562 available; lasts over a year at the pace of the last 7 days\n", out)
    young = {**answers, "GET /usage": replace(summary, first_ms=Millis(int(time.time() * 1000) - 780_000))}
    assert " $9.99562 available\n" in run("usage", "show", CALL.id, answers=young).out


FIFTY = [replace(CALL, id=f"req_{number}") for number in range(50)]
EARLIER = replace(CALL, time_ms=Millis(CALL.time_ms - 3_600_000), cost_nanos=Nanos(1))
SPAN = f"from {local_time(EARLIER.time_ms)} to {local_time(CALL.time_ms)}, {dollars(Nanos(CALL.cost_nanos + 1))}"
OTHERS = f"the model may have answered calls to other names: tollkeeper usage list --as {MODEL.name}"


def file_note(name: str) -> str:
    """What is said of a word that looks like a file."""
    return f"0 calls\nnote: '{name}' was read as a word that filters calls; to write to a file: --output {name}\n"


NEWEST = "these are the newest 50 calls; there may be more: use --limit for more, --until for older ones"


@pytest.mark.parametrize(
    ("line", "calls", "said"),
    [
        ("list", [], "no calls yet; try: tollkeeper chat hello\n"),
        ("list st:err", [], "no matching calls\n"),
        (
            "list --model nope",
            [],
            "no matching calls; no channel offers model 'nope' now; the offered models are: gpt-4o\n",
        ),
        (f"list --model {MODEL.name}", [], f"no matching calls; {OTHERS}\n"),
        (f"list --model {MODEL.name} --errors", [], "no matching calls\n"),
        ("list", FIFTY, f"{NEWEST}\n"),
        ("list", FIFTY[:49], ""),
        ("list --json", FIFTY, ""),
        ("export", [], "0 calls\n"),
        ("export", [CALL, EARLIER], f"2 calls {SPAN}\n"),
        ("export calls.csv", [], file_note("calls.csv")),
        ("export ./calls", [], file_note("./calls")),
        ("export /tmp/Calls.JSONL", [], file_note("/tmp/Calls.JSONL")),
    ],
)
def test_notes_about_the_list(line: str, calls: list[CallView], said: str) -> None:
    control = Control({"GET /calls": CallPage(calls=calls), "GET /models": [MODEL]})
    assert run("usage", *shlex.split(line), control=control).err == said


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": "", "request": "POST /v1/files", "marks": ["repeated=37"], "status": 404}, "POST /v1/files x38"),
        ({"id": "req_running", "state": "running"}, "≤1.2k"),
        ({"id": "req_running", "state": "running"}, "≤$0.00438"),
        ({}, " 1.25s"),
        (LOST, " - "),
    ],
)
def test_the_cells_of_a_row(changes: dict[str, Any], told: str) -> None:
    out = run("usage", "list", answers={"GET /calls": CallPage(calls=[replace(CALL, **changes)])}).out
    assert (told in out, " 0ms" in out) == (True, False)


def test_calls_fit_into_sixty_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "terminal_width", lambda: 60)
    ran = run("usage", "list", answers={"GET /calls": CallPage(calls=[CALL])})
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 60
    assert {"Time", "Model", "Status", "Cost"} <= set(lines[0].split())
    assert ran.err.startswith("columns left out: Token, API, Channel, ")
    assert ran.err.endswith(", Id; see --json, or a wider terminal\n")
