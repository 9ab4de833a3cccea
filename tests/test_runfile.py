import errno
import os
import shutil
import stat
from pathlib import Path

import msgspec
import pytest

from gateway.runfile import Endpoint, last_address, read, remove, replace_file, write

ENDPOINT = Endpoint(
    instance="abc",
    secret="s3cret",
    socket="/tmp/x.sock",
    address="http://127.0.0.1:8655/v1",
    pid=7,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.json"


def test_a_written_file_is_read(path: Path) -> None:
    write(path, ENDPOINT)
    assert read(path) == ENDPOINT


def test_a_copy_of_a_home_has_no_server(tmp_path: Path) -> None:
    first, link, copy = tmp_path / "first", tmp_path / "link", tmp_path / "copy"
    first.mkdir()
    link.symlink_to(first)
    endpoint = msgspec.structs.replace(ENDPOINT, home=str(first))
    write(first / "run.json", endpoint)
    shutil.copytree(first, copy)
    assert read(first / "run.json") == read(link / "run.json") == endpoint
    assert read(copy / "run.json") is None
    assert read(first.rename(tmp_path / "moved") / "run.json") == endpoint


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_owner_may_read_it(path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        write(path, ENDPOINT)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_an_open_file_in_its_place_is_replaced_and_not_filled(path: Path) -> None:
    path.write_text("old")
    path.chmod(0o644)
    write(path, ENDPOINT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(os.name == "nt", reason="needs a right on Windows")
def test_a_link_in_its_place_is_not_followed(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    path.symlink_to(target)
    write(path, ENDPOINT)
    assert target.read_text() == "mine"


def test_nothing_else_is_left_behind(path: Path) -> None:
    write(path, ENDPOINT)
    write(path, ENDPOINT)
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_nothing_behind(path: Path) -> None:
    path.mkdir()
    with pytest.raises(OSError):  # noqa: PT011 - its kind depends on the system
        write(path, ENDPOINT)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"instance":1}', b"\xff\x00", b"{}" + b" " * 100_000, b"null"])
def test_other_contents_are_no_runfile(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert read(path) is None


def test_no_runfile_is_nothing(path: Path) -> None:
    assert read(path) is None
    remove(path, "abc")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_full_table_of_files_hides_no_runfile(path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    write(path, ENDPOINT)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(OSError(number, os.strerror(number))))
        with pytest.raises(OSError, match="Too many open files"):
            read(path)
        remove(path, "abc")
    assert path.exists()


def test_later_versions_may_say_more(path: Path) -> None:
    path.write_bytes(msgspec.json.encode(msgspec.to_builtins(ENDPOINT) | {"colour": "blue"}))
    assert read(path) == ENDPOINT


def test_an_instance_removes_its_own(path: Path) -> None:
    write(path, ENDPOINT)
    remove(path, "abc")
    assert not path.exists()


def test_an_instance_leaves_its_successor_s(path: Path) -> None:
    write(path, msgspec.structs.replace(ENDPOINT, instance="def"))
    remove(path, "abc")
    assert path.exists()


def test_printing_an_endpoint_keeps_its_secret() -> None:
    assert ENDPOINT.secret not in f"{ENDPOINT} {ENDPOINT!r}"


def test_the_last_address_stays(tmp_path: Path) -> None:
    path = tmp_path / "last-address"
    assert last_address(path) == ""
    replace_file(path, b"http://127.0.0.1:8655/v1\n")
    assert last_address(path) == "http://127.0.0.1:8655/v1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"\xff", b"http://x\x1b[2J", b"file:///etc/passwd"])
def test_a_last_address_that_is_none_is_not_used(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "last-address"
    path.write_bytes(content)
    assert last_address(path) == ""
