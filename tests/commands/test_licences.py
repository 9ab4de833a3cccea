"""The licences of an executable."""

import sys
from pathlib import Path

import pytest

from tests.commands.runner import run


def test_an_executable_prints_what_it_carries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "licences.txt").write_text("all of it\n")
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)
    assert run("licences").out.strip() == "all of it"


def test_a_program_from_source_says_where_they_are() -> None:
    assert "pip show" in run("licences").out
