"""Space that is kept back."""

import os
from pathlib import Path

import pytest

from gateway.store.disk_reserve import DiskReserve


def test_it_takes_space_and_gives_it_up_once(tmp_path: Path) -> None:
    ballast = DiskReserve(tmp_path / "ballast", 100_000)
    ballast.take()
    assert (tmp_path / "ballast").stat().st_blocks * 512 >= 100_000
    assert (ballast.give_up(), ballast.give_up()) == (True, False)
    assert not (tmp_path / "ballast").exists()


def test_it_is_taken_again_and_found_again(tmp_path: Path) -> None:
    DiskReserve(tmp_path / "ballast", 100_000).take()
    ballast = DiskReserve(tmp_path / "ballast", 100_000)
    ballast.take()
    ballast.give_up()
    ballast.take()
    assert ballast.there


def test_without_room_there_is_none_and_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    ballast = DiskReserve(tmp_path / "ballast")
    with pytest.raises(OSError, match="full"):
        ballast.take()
    assert (ballast.there, (tmp_path / "ballast").stat().st_size) == (False, 0)
