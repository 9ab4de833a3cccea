"""Completion in shells."""

import os
import subprocess
import sys

import pytest

from tests.commands.runner import run
from tests.house import ROOT


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    ran = run("completion", shell)
    assert (ran.code, "_TOLLKEEPER_COMPLETE" in ran.out) == (0, True)


def test_in_fish_a_value_may_hold_commas() -> None:
    assert 'string split --max 1 "," $completion' in run("completion", "fish").out


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("tollkeeper to", {"token"}), ("tollkeeper token ro", {"rotate"}), ("tollkeeper usage list --er", {"--errors"})],
)
def test_what_a_shell_asks_is_completed(words: str, wanted: set[str]) -> None:
    asked = {"COMP_LINE": words, "COMP_WORDBREAKS": " :=", "_TOLLKEEPER_COMPLETE": "bash_complete"}
    env = {**os.environ, **asked}
    program = [sys.executable, "cli.py"]
    answer = subprocess.run(program, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert {line.partition(",")[2] for line in answer.stdout.splitlines()} == wanted
