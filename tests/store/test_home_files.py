"""The files of a home: each is a regular file that nobody else can read, whatever was found instead."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.store.disk_reserve import DiskReserve
from gateway.store.errors import StoreError
from gateway.store.store import Store
from tests.fakes.audit import verify
from tests.store.samples import T0, funded_store, grant, settle, store_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no modes, no pipes")


def home_with_calls(home: Path) -> None:
    store = funded_store(home)
    settle(store, 1)
    store.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_files_that_others_could_read_are_closed_to_them(home: Path) -> None:
    home_with_calls(home)
    (home / "console.json").write_text("{}", encoding="utf-8")
    every = [path for path in home.rglob("*") if path.is_file()]
    for path in every:
        path.chmod(0o644)
    store = store_of(home)
    assert {path.name: mode(path) for path in every} == {path.name: 0o600 for path in every}
    store.close()


def test_what_a_launcher_of_the_console_points_to_keeps_its_mode(home: Path, tmp_path: Path) -> None:
    home_with_calls(home)
    theirs = tmp_path / "dotfile.toml"
    theirs.write_text("", encoding="utf-8")
    theirs.chmod(0o644)
    (home / "console.toml").symlink_to(theirs)
    store_of(home).close()
    assert mode(theirs) == 0o644


def link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    if path.exists():
        path.rename(elsewhere)
    else:
        elsewhere.write_bytes(b"theirs")
    path.symlink_to(elsewhere)


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


KINDS = {"a symbolic link": link, "a named pipe": pipe, "a folder": folder}
NAMES = (
    *("config.json", "config.old.json", "high-water", "history.json", "incidents.json"),
    *("inflight.log", "lock", "usage/calls-20251120-0000.json", "usage/ledger.json", "usage/ledger.old.json"),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_there_instead_of_a_file_is_named_and_left_alone(home: Path, name: str, kind: str) -> None:
    home_with_calls(home)
    KINDS[kind](home / name)
    with pytest.raises(StoreError, match=f"{name} is {kind}; put the file itself there"):
        store_of(home)
    assert stat.S_IFMT((home / name).lstat().st_mode) != stat.S_IFREG


@pytest.mark.parametrize("replaced", [link, pipe], ids=["link", "pipe"])
def test_the_reserve_is_made_again(home: Path, replaced: Callable[[Path], None]) -> None:
    home_with_calls(home)
    replaced(home / "usage" / "reserve")
    before = {path.name: path.read_bytes() for path in (home / "usage").glob("elsewhere")}
    store = store_of(home)
    settle(store, 2)
    assert (store.books.healthy, mode(home / "usage" / "reserve"), verify(store).equal) == (True, 0o600, True)
    assert {path.name: path.read_bytes() for path in (home / "usage").glob("elsewhere")} == before
    store.close()


@pytest.mark.parametrize("name", ["run.json", "last-address"])
def test_a_pipe_instead_of_what_commands_read_does_not_stop_them(home: Path, name: str) -> None:
    home_with_calls(home)
    os.mkfifo(home / name)
    code = "from pathlib import Path; from gateway import runfile; import sys;"
    code += (
        "print(runfile.read(Path(sys.argv[1]) / 'run.json'), runfile.last_address(Path(sys.argv[1]) / 'last-address'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(home)], capture_output=True, text=True, timeout=90, check=True
    )
    assert ran.stdout == "None \n"


@pytest.mark.parametrize("free", [70_000, 200_000, 900_000])
def test_a_disk_with_little_room_keeps_back_less(home: Path, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.posix_fallocate

    def allocate(fd: int, start: int, size: int) -> None:
        if size > free:
            raise OSError(28, "No space left on device")
        real(fd, start, size)

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    store: Store = store_of(home, clock=T0)
    grant(store)
    settle(store, 1)
    size = (home / "usage" / "reserve").stat().st_size
    assert (store.books.healthy, free // 2 < size <= free) == (True, True)
    store.close()


def test_the_reserve_takes_space_and_gives_it_up_once(tmp_path: Path) -> None:
    reserve = DiskReserve(tmp_path / "reserve", 100_000)
    reserve.acquire()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= 100_000
    assert (reserve.release(), reserve.release()) == (True, False)
    assert not (tmp_path / "reserve").exists()


def test_the_reserve_is_taken_again_and_found_again(tmp_path: Path) -> None:
    DiskReserve(tmp_path / "reserve", 100_000).acquire()
    reserve = DiskReserve(tmp_path / "reserve", 100_000)
    reserve.acquire()
    reserve.release()
    reserve.acquire()
    assert reserve.held


def test_without_room_no_reserve_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    reserve = DiskReserve(tmp_path / "reserve")
    with pytest.raises(OSError, match="full"):
        reserve.acquire()
    assert (reserve.held, (tmp_path / "reserve").stat().st_size) == (False, 0)
