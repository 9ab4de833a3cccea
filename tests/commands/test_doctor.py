"""The doctor on the command line; what it asks is tested with the client."""

import errno
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.domain.errors import Unavailable
from gateway.store import files
from tests.commands.runner import run
from tests.commands.samples import HOSTILE, STATUS

DOWN = {"GET /status": replace(STATUS, address="")}


def test_the_first_failure_is_named_with_what_to_do() -> None:
    ran = run("doctor", answers=DOWN)
    assert ran.code == Exit.UNREACHABLE
    assert ran.out.startswith("fail     the gateway answers     no server is running")
    assert "tollkeeper serve" in ran.out
    assert ran.err.startswith("tollkeeper: the check 'the gateway answers' failed: no server is running")
    assert ("tollkeeper serve" in ran.err, ran.err.count("\n")) == (False, 1)
    assert "tollkeeper serve" in run("doctor", "--json", answers=DOWN).err


def test_steps_after_a_failure_are_skipped() -> None:
    ran = run("doctor", "--json", answers=DOWN)
    assert [step["result"] for step in ran.json] == ["fail", *["skipped"] * (len(ran.json) - 1)]


def test_no_colour_in_a_pipe_and_no_control_characters() -> None:
    ran = run("doctor", answers={"GET /status": Unavailable(HOSTILE)})
    assert "\x1b" not in ran.out + ran.err


def test_where_the_store_cannot_be_opened_the_machine_is_looked_at(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"TOLLKEEPER_HOME": str(home), "TOLLKEEPER_PORT": "0"}
    assert run("token", "add", "laptop", env=env).code == 0

    def refuse(path: Path, _flags: int) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(files, "open_file", refuse)
    monkeypatch.setattr(os, "access", lambda *_: False)
    ran = run("doctor", env=env)
    assert ran.code == Exit.STORE
    assert [line[:32].split("  ")[0] for line in ran.out.splitlines() if line[0] != " "] == ["fail", "ok", "fail", "ok"]
    assert f"{home} cannot be written to" in ran.out
    assert "mount its file system writable, or name another folder with --home" in ran.err
    steps = run("doctor", "--json", env=env).json
    assert [step["name"] for step in steps] == ["the store opens", "the port", "the home", "the disk"]
