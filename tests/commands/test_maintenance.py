"""Proving the books."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from tests.commands.runner import Control, run
from tests.commands.samples import VERDICT


def test_equal_books() -> None:
    ran = run("verify", control=Control({"GET /verify": VERDICT}))
    assert (ran.code, ran.out.splitlines()[0]) == (0, "result       equal")


def test_different_books_are_a_failure_that_names_the_first_difference() -> None:
    bad = replace(VERDICT, equal=False, difference="balance: 1 != 2")
    ran = run("verify", "--json", control=Control({"GET /verify": bad}))
    assert (ran.code, ran.json["equal"]) == (Exit.STORE, False)
    assert "balance: 1 != 2" in ran.err


def test_damage_is_a_failure_though_the_sums_are_right() -> None:
    bad = replace(VERDICT, damage=["calls-x.json: record 5 is missing", "calls-y.json: gone"])
    ran = run("verify", control=Control({"GET /verify": bad}))
    assert (ran.code, ran.out.splitlines()[0]) == (Exit.STORE, "result       DAMAGED")
    assert ran.out.splitlines()[-2:] == [
        "damage       calls-x.json: record 5 is missing",
        "damage       calls-y.json: gone",
    ]
    assert "the call log is damaged" in ran.err


def test_an_executable_prints_what_it_carries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "licences.txt").write_text("all of it\n")
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)
    assert run("licences").out.strip() == "all of it"


def test_a_program_from_source_says_where_they_are() -> None:
    assert "pip show" in run("licences").out
