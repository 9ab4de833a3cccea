"""Space that is kept back."""

import os
from pathlib import Path

import pytest

from gateway.store.disk_reserve import DiskReserve


def test_it_takes_space_and_gives_it_up_once(tmp_path: Path) -> None:
    reserve = DiskReserve(tmp_path / "reserve", 100_000)
    reserve.acquire()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= 100_000
    assert (reserve.release(), reserve.release()) == (True, False)
    assert not (tmp_path / "reserve").exists()


def test_it_is_taken_again_and_found_again(tmp_path: Path) -> None:
    DiskReserve(tmp_path / "reserve", 100_000).acquire()
    reserve = DiskReserve(tmp_path / "reserve", 100_000)
    reserve.acquire()
    reserve.release()
    reserve.acquire()
    assert reserve.held


def test_without_room_there_is_none_and_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    reserve = DiskReserve(tmp_path / "reserve")
    with pytest.raises(OSError, match="full"):
        reserve.acquire()
    assert (reserve.held, (tmp_path / "reserve").stat().st_size) == (False, 0)
