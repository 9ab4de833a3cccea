"""What a command reads has a limit, whatever the file is; what it writes is for its owner alone."""

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from gateway.commands.exit_codes import Exit
from gateway.domain.config_views import ExportView, ImportView
from gateway.domain.settings import ExpiringRecords
from tests import fork_server
from tests.commands.program import PATIENCE_S, PROGRAM, environment, read_until, tollkeeper
from tests.commands.runner import Control, Ran, run
from tests.commands.samples import CHANNEL
from tests.fakes.disk import refuse

TEXT = "format = 1\n"
FOUND = ImportView(applied=False, differences=[], notes=[], expiring=ExpiringRecords(), keys={})


def importing(file: Path | str, *args: str, stdin: bytes = b"") -> tuple[Ran, Control]:
    control = Control({"POST /config": FOUND})
    return run("config", "import", str(file), "--dry-run", *args, control=control, stdin=stdin), control


@pytest.mark.parametrize(("args", "size"), [((), "4 MiB"), (("--from", "litellm"), "1 MiB")])
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_file_without_an_end_is_refused(device: str, args: tuple[str, ...], size: str) -> None:
    ran, control = importing(device, *args)
    assert (ran.code, ran.err.count("\n"), control.asked) == (Exit.USAGE, 1, [])
    assert f"{device} is larger than {size}, too large for a configuration" in ran.err


@pytest.mark.parametrize(("args", "limit"), [((), 4 << 20), (("--from", "litellm"), 1 << 20)])
def test_a_file_may_be_as_large_as_the_limit_and_no_larger(tmp_path: Path, args: tuple[str, ...], limit: int) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"#" * limit)
    ran, control = importing(file, *args)
    assert (ran.code, len(control.asked)) == (Exit.OK, 1)
    file.write_bytes(b"#" * (limit + 1))
    ran, control = importing(file, *args)
    assert (ran.code, control.asked) == (Exit.USAGE, [])


def test_stdin_has_the_same_limit() -> None:
    assert importing("-", stdin=b"#" * (4 << 20))[0].code == Exit.OK
    ran, control = importing("-", stdin=b"#" * ((4 << 20) + 1))
    assert (ran.code, control.asked) == (Exit.USAGE, [])
    assert "stdin is larger than 4 MiB" in ran.err


def test_binary_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "binary"
    file.write_bytes(b"\x7fELF\xff\xfe")
    ran, control = importing(file)
    assert (ran.code, control.asked) == (Exit.USAGE, [])
    assert "binary is not UTF-8 text (invalid start byte at byte 4)" in ran.err
    assert "is a directory" in importing(tmp_path)[0].err


def test_a_damaged_file_of_another_encoding_is_refused_as_such(tmp_path: Path) -> None:
    file = tmp_path / "damaged"
    for mark, coding in ((b"\xff\xfe", "UTF-16-LE"), (b"\xfe\xff", "UTF-16-BE"), (b"\xef\xbb\xbf", "UTF-8")):
        file.write_bytes(mark + b"\xff")
        assert f"damaged is not {coding} text (" in importing(file)[0].err


def test_a_pipe_is_read_to_its_end_however_slow_its_writer_is(tmp_path: Path) -> None:
    pipe, opened, go = tmp_path / "pipe", threading.Event(), threading.Event()
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("w", encoding="utf-8") as end:
            opened.set()
            go.wait(10)
            end.write(TEXT)
            end.flush()
            end.write(TEXT * 10_000)

    writer = threading.Thread(target=write)
    writer.start()
    threading.Timer(0.3, go.set).start()
    _, control = importing(pipe)
    writer.join()
    assert control.bodies[0]["text"] == TEXT * 10_001


@pytest.mark.parametrize(
    ("args", "limit"),
    [
        (("chat", "--model", "m"), 32 << 20),
        (("channel", "key", "add", "x"), 16 << 10),
        (("channel", "edit", "x", "--proxy", "-"), 16 << 10),
        (("env", "--key", "-"), 16 << 10),
    ],
)
def test_stdin_without_an_end_is_refused(args: tuple[str, ...], limit: int) -> None:
    ran = run(*args, answers={"GET /channels/x": CHANNEL}, stdin=b"k" * (limit + 1))
    assert (ran.code, ran.err.count("\n"), ran.bodies) == (Exit.USAGE, 1, [])
    assert "stdin has" in ran.err


@pytest.fixture
def open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def exporting(file: Path | str) -> Ran:
    return run("config", "export", str(file), "--yes", answers={"GET /config": ExportView(text=TEXT, notes=[])})


@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277, 0o777])
def test_an_export_is_for_its_owner_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "out.toml"
    os.umask(umask)
    ran = exporting(path)
    assert (mode(path), path.read_text(), ran.err) == (0o600, TEXT, f"Configuration written to {path}.\n")


@pytest.mark.usefixtures("open_umask")
def test_an_export_over_a_file_of_others_says_that_it_is_private_now(tmp_path: Path) -> None:
    path = tmp_path / "out.toml"
    path.write_text("old")
    path.chmod(0o664)
    ran = exporting(path)
    assert (mode(path), path.read_text()) == (0o600, TEXT)
    assert f"other users could read or write {path} (mode 664); its mode is now 0600" in ran.err
    assert exporting(path).err == f"Configuration written to {path}.\n"


def test_an_export_replaces_the_file_at_once(tmp_path: Path) -> None:
    """Who has the old file open keeps all of it, and nothing else is left in the folder."""
    path = tmp_path / "out.toml"
    path.write_text("old")
    with path.open() as old:
        exporting(path)
        assert (old.read(), path.read_text()) == ("old", TEXT)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_export_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.toml"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", refuse)
    assert (exporting(path).code, path.read_text(), list(tmp_path.iterdir())) == (Exit.FAILED, "old", [path])


@pytest.mark.parametrize("place", ["missing/out.toml", "file/out.toml"])
def test_an_export_that_fails_names_the_requested_file(tmp_path: Path, place: str) -> None:
    """Not the temporary one beside it."""
    (tmp_path / "file").write_text("no folder")
    ran = exporting(tmp_path / place)
    assert (ran.code, ran.err.count("\n")) == (Exit.FAILED, 1)
    assert f"({tmp_path / place})" in ran.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is full")
def test_an_export_into_a_full_device_names_it() -> None:
    assert "No space left on device (/dev/full)" in exporting("/dev/full").err


def test_an_export_through_a_link_replaces_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "out.toml", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    exporting(link)
    assert (link.is_symlink(), target.read_text(), mode(target)) == (True, TEXT, 0o600)


def test_an_export_goes_into_a_device_or_a_pipe(home: Path) -> None:
    assert exporting("/dev/null").code == Exit.OK
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert tollkeeper(home, "group", "add", "friends").code == Exit.OK
    assert tollkeeper(home, "config", "export", "/dev/stdout").out.startswith("#")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


LATIN_1 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "latin-1"}


def test_a_text_is_utf8_whatever_the_locale(home: Path) -> None:
    assert tollkeeper(home, "token", "add", "only").code == 0
    ran = subprocess.run(
        [*PROGRAM, "chat", "--model", "demo-echo"],
        env=environment(home) | LATIN_1, input="Straße".encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "Straße\n".encode("latin-1"))


@pytest.mark.parametrize("args", [("chat", "--model", "m"), ("channel", "key", "add", "x"), ("env", "--key", "-")])
def test_a_closed_stdin_is_an_empty_one(args: tuple[str, ...], home: Path) -> None:
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, *args], env=environment(home), capture_output=True, check=False
    )
    assert (closed.returncode, closed.stderr.count(b"\n")) == (Exit.USAGE, 1)


def test_a_secret_that_is_not_text_is_left_to_its_check() -> None:
    control = Control({"POST /channels/x/keys": CHANNEL})
    run("channel", "key", "add", "x", control=control, stdin="\udcff\n".encode(errors="surrogateescape"))
    assert control.bodies == [{"key": "\ufffd"}]


def test_a_secret_is_prompted_for_and_not_echoed(home: Path) -> None:
    ours, theirs = pytest.importorskip("pty").openpty()
    args = ("channel", "add", "x", "--dialect", "mock", "--models", "m", "--key", "-")
    with fork_server.start(
        [*PROGRAM, *args], env=environment(home), stdin=theirs, stdout=subprocess.PIPE, stderr=theirs,
        start_new_session=True,
    ) as process:  # fmt: skip
        asked = read_until(ours, b"key:")
        os.write(ours, b"sk-typed-secret-of-an-upstream\n")
        told = asked + read_until(ours, b"channel test x")
        assert process.wait(PATIENCE_S) == 0
    assert b"sk-typed" not in told
    assert tollkeeper(home, "channel", "show", "x", "--json").json["key"] == "…ream"
