"""The one-file executable's folder."""

import asyncio
import os
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
    assert frozen.lock_own_folder() == -1


def test_a_folder_build_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path / "lib"), raising=False)
    assert frozen.folder() is None


@pytest.mark.skipif(sys.platform == "win32", reason="locks of Unix")
def test_the_folders_of_the_dead_are_swept_and_no_others(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MEIdead", "_MEIalive", "_MEIstrange"):
        (mine.parent / name).mkdir()
    (mine.parent / "_MEIdead" / frozen.MARK).touch()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "_MEIPASS", str(mine.parent / "_MEIalive"))
        alive = frozen.lock_own_folder()
    own = frozen.lock_own_folder()
    assert {path.name for path in mine.parent.iterdir()} == {"_MEImine", "_MEIalive", "_MEIstrange"}
    os.close(alive)
    os.close(own)


@pytest.mark.skipif(sys.platform == "win32", reason="locks of Unix")
@pytest.mark.parametrize("cache", [True, False])
def test_a_folder_without_a_lock_is_deleted_only_in_the_cache_and_once_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, cache: bool
) -> None:
    parent = tmp_path / ("tollkeeper" if cache else "other")
    for name in ("_MEImine", "_MEIold", "_MEInew"):
        (parent / name).mkdir(parents=True)
    os.utime(parent / "_MEIold", (1, 1))
    monkeypatch.setattr(sys, "_MEIPASS", str(parent / "_MEImine"), raising=False)
    os.close(frozen.lock_own_folder())
    assert {path.name for path in parent.iterdir()} == {"_MEImine", "_MEInew"} | (set() if cache else {"_MEIold"})


@pytest.mark.hasty(100)
async def test_a_parent_that_goes_is_noticed(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter([7, 7, 7])
    monkeypatch.setattr(os, "getppid", lambda: next(parents, 1))
    await asyncio.wait_for(frozen.wait_for_parent_exit(), 300)


async def test_from_source_nobody_is_followed() -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(frozen.wait_for_parent_exit(), 0.01)
