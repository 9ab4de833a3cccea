"""Files are replaced whole or not at all, and nobody else may read them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.store import files
from tests.fakes.disk import refuse


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    files.make_folder(folder)
    files.replace(folder / "replaced", b"x")
    files.create(folder / "created", b"x")
    assert mode(folder) == 0o700
    assert {mode(path) for path in folder.iterdir()} == {0o600}


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "open"
    path.write_bytes(b"secret")
    path.chmod(0o644)
    os.close(files.open_file(path, os.O_RDWR))
    assert mode(path) == 0o600


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        files.open_file(tmp_path / "link", os.O_RDWR)
    with pytest.raises(OSError, match="symbolic links"):
        files.read(tmp_path / "link")


def test_replacing_through_a_planted_link_does_not_touch_its_target(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "file.tmp").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        files.replace(tmp_path / "file", b"new")
    assert (tmp_path / "target").read_bytes() == b"precious"


def test_a_missing_file_reads_as_empty(tmp_path: Path) -> None:
    assert files.read(tmp_path / "nothing") == b""


def test_a_failed_replacement_leaves_only_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    files.replace(path, b"old")
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="refused"):
        files.replace(path, b"new")
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [("file", b"old")]


def test_a_durable_replacement_syncs_file_name_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(fd: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        real_fsync(fd)

    def replace(source: Path, target: Path) -> None:
        steps.append("name")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    files.replace(tmp_path / "file", b"data")
    assert steps == ["file", "name", "folder"]


def test_creating_refuses_what_exists_and_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.create(tmp_path / "one", b"x")
    with pytest.raises(FileExistsError):
        files.create(tmp_path / "one", b"y")
    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(OSError, match="refused"):
        files.create(tmp_path / "two", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("name", ["pwrite", "write"])
def test_a_write_taken_in_parts_is_whole_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    real = getattr(os, name)
    monkeypatch.setattr(os, name, lambda fd, data, *at: real(fd, data[:3], *at))
    fd = files.open_file(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    files.write_all(fd, b"1234567", 2) if name == "pwrite" else files.write_all(fd, b"\0\x001234567")
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b"\0\x001234567"


@pytest.mark.parametrize("end", ["nothing more", "an error"])
@pytest.mark.parametrize("name", ["pwrite", "write"])
def test_a_write_of_which_the_disk_takes_a_part_tells_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, end: str
) -> None:
    took = [3]

    def short(*_: object) -> int:
        if took:
            return took.pop()
        return 0 if end == "nothing more" else refuse()

    monkeypatch.setattr(os, name, short)
    fd = files.open_file(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    with pytest.raises(files.ShortWrite, match="No space left" if end == "nothing more" else "refused") as caught:
        files.write_all(fd, b"12345", 0) if name == "pwrite" else files.write_all(fd, b"12345")
    os.close(fd)
    assert caught.value.written == 3
