"""Exported calls."""

import csv
import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.commands.output import json_value
from gateway.commands.usage import FIELDS, csv_line
from gateway.domain.views import CallPage
from tests.commands.runner import Control, run
from tests.commands.samples import CALL

CONTROL = {"GET /calls": CallPage(calls=[CALL, replace(CALL, id="req_running", state="running")])}


def test_csv_has_a_column_for_every_field() -> None:
    ran = run("usage", "export", control=Control(CONTROL))
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [list(row) for row in rows] == [list(FIELDS)]
    assert (rows[0]["cost_nanos"], rows[0]["stream"], rows[0]["balance_nanos"]) == ("4380000", "true", "9995620000")
    assert json.loads(rows[0]["attempts"])[0]["channel"] == "other"


def test_all_pages_are_exported() -> None:
    pages = iter([CallPage(calls=[CALL], cursor="7"), CallPage(calls=[], cursor="3"), CallPage(calls=[CALL])])
    control = Control({"GET /calls": pages})
    assert len(run("usage", "export", "--format", "jsonl", "--token", "laptop", control=control).out.splitlines()) == 2
    assert [line.partition("before=")[2].partition("&")[0] for line, _ in control.asked] == ["", "7", "3"]


def test_json_lines_are_exact() -> None:
    ran = run("usage", "export", "--format", "jsonl", control=Control(CONTROL))
    assert [json.loads(line) for line in ran.out.splitlines()] == [json_value(CALL)]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", "\n=", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_a_spreadsheet_finds_no_formula(start: str) -> None:
    line = csv_line(replace(CALL, app=f"{start}cmd()"))
    row = next(csv.reader([line]))
    assert row[FIELDS.index("app")][0] in "'\ufffd"
    assert line[:-1].isprintable()


def test_a_file_is_for_its_owner_only(tmp_path: Path) -> None:
    target = tmp_path / "calls.csv"
    ran = run("usage", "export", "--output", str(target), control=Control(CONTROL))
    assert (ran.out, target.stat().st_mode & 0o777) == ("", 0o600)
    assert len(target.read_text().splitlines()) == 2


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "calls.csv"
    target.write_text("mine")
    assert run("usage", "export", "--output", str(target), control=Control(CONTROL)).code == Exit.CONFLICT
    assert target.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    ran = run("usage", "export", "--output", str(tmp_path / "no" / "x"), control=Control(CONTROL))
    assert (ran.code, ran.err.count("\n")) == (Exit.FAILED, 1)
