"""Proving the books, and that the program works on this machine."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.domain.diagnosis import Verdict
from tests.commands.program import tollkeeper
from tests.commands.runner import run
from tests.commands.samples import VERDICT

DIFFERENT = replace(VERDICT, equal=False, difference="balance: 1 != 2")
DAMAGED = replace(VERDICT, damage=["calls-x.json: record 5 is missing", "calls-y.json: gone"])


@pytest.mark.parametrize(
    ("verdict", "code", "first", "last", "err"),
    [
        (VERDICT, Exit.OK, "result       equal", "", ""),
        (DIFFERENT, Exit.STORE, "result       DIFFERENT", "", "balance: 1 != 2"),
        (DAMAGED, Exit.STORE, "result       DAMAGED", "damage       calls-y.json: gone", "the call log is damaged"),
    ],
)
def test_the_books_are_equal_or_a_failure(verdict: Verdict, code: Exit, first: str, last: str, err: str) -> None:
    ran = run("verify", answers={"GET /verify": verdict})
    lines = ran.out.splitlines()
    assert (ran.code, lines[0], last in lines[-1], err in ran.err) == (code, first, True, True)
    in_json = run("verify", "--json", answers={"GET /verify": verdict})
    assert (in_json.code, in_json.json["equal"]) == (code, verdict.equal)


def test_an_executable_prints_what_it_carries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "licences.txt").write_text("all of it\n")
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)
    assert run("licences").out.strip() == "all of it"


def test_a_program_from_source_says_where_they_are() -> None:
    assert "pip show" in run("licences").out


def test_everything_works_here_and_nothing_is_left_in_the_home(tmp_path: Path) -> None:
    ran = tollkeeper(tmp_path, "selftest")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "everything works"), ran.err
    for proof in ("a real call works", "the books are right", "the console draws"):
        assert f"ok  {proof}" in ran.out
    assert list(tmp_path.iterdir()) == []
