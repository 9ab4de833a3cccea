"""The one-file executable's folder."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import frozen


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "_MEImine"
    folder.mkdir()
    monkeypatch.setattr(sys, "_MEIPASS", str(folder), raising=False)
    return folder


def test_from_source_there_is_no_folder() -> None:
    assert frozen.folder() is None
    frozen.settle_in()


def test_a_folder_build_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path / "lib"), raising=False)
    assert frozen.folder() is None


def test_the_folders_of_the_dead_are_swept_and_no_others(mine: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    others = {"_MEIdead": str(dead.pid), "_MEIalive": str(os.getpid()), "_MEIstrange": None, "_MEIodd": "x"}
    for name, pid in others.items():
        (mine.parent / name).mkdir()
        if pid is not None:
            (mine.parent / name / frozen.MARK).write_text(pid)
    frozen.settle_in()
    assert {path.name for path in mine.parent.iterdir()} == {"_MEImine", *others} - {"_MEIdead"}
    assert (mine / frozen.MARK).read_text() == str(os.getpid())


async def test_a_parent_that_goes_is_noticed(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter([7, 7, 7])
    monkeypatch.setattr(os, "getppid", lambda: next(parents, 1))
    monkeypatch.setattr(frozen, "WATCH_S", 0)
    await asyncio.wait_for(frozen.parent_gone(), 5)


async def test_from_source_nobody_is_followed() -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(frozen.parent_gone(), 0.01)
