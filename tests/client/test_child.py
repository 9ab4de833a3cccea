import os
import sys
import time
from pathlib import Path

import pytest

from gateway.client import launch
from gateway.client.launch import command, environment, spawn, tail
from gateway.config import Config
from gateway.domain.errors import Unavailable


@pytest.fixture
def config(home: Path) -> Config:
    home.mkdir(mode=0o700)
    return Config(home=home, port=0)


def test_this_python_runs_cli_py(config: Config) -> None:
    python, cli, *words = command(config)
    assert (python, Path(cli).name, Path(cli).is_file()) == (sys.executable, "cli.py", True)
    assert words == ["serve", "--home", str(config.home), "--host", "127.0.0.1", "--port", "0", "--no-token"]


def test_the_frozen_program_runs_itself(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert command(config)[:2] == [sys.executable, "serve"]


def test_the_frozen_child_unpacks_itself_anew_in_our_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert environment({"A": "b"}, tmp_path) == {"A": "b"}
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    launch = environment({"A": "b", "TMPDIR": "/tmp"}, tmp_path)
    assert launch == {"A": "b", "TMPDIR": str(tmp_path), "PYINSTALLER_RESET_ENVIRONMENT": "1"}


def test_a_program_in_one_file_is_known_by_where_it_unpacked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not launch.is_one_file()
    monkeypatch.setattr(sys, "_MEIPASS", str(Path(sys.executable).parent / "_internal"), raising=False)
    assert not launch.is_one_file()
    monkeypatch.setattr(sys, "_MEIPASS", "/tmp/_MEI123456", raising=False)
    assert launch.is_one_file()


def test_what_killed_servers_left_is_swept(tmp_path: Path) -> None:
    for name, age in (("_MEIold", 100.0), ("_MEInew", 200.0), ("other", 100.0)):
        (tmp_path / name / "lib").mkdir(parents=True)
        os.utime(tmp_path / name, (age, age))
    launch.sweep(tmp_path, 150.0)
    launch.sweep(tmp_path / "nothing", 150.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_MEInew", "other"]


def test_each_home_unpacks_into_a_folder_of_its_own(tmp_path: Path) -> None:
    one, other = (launch.cache_of(Config(home=tmp_path / name)) for name in "ab")
    assert (one.parent, one != other) == (other.parent, True)


def test_the_end_of_a_log_is_told_harmlessly(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"old\n" + b"".join(b"line %d\n" % number for number in range(50)) + b"\x1b[2J\xff\n\n")
    assert tail(log)[-2:] == ["line 49", "\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}"]
    assert len(tail(log)) == launch.TAIL_LINES
    assert tail(log, begin=log.stat().st_size) == []
    assert tail(log, begin=10**9) == []
    assert tail(tmp_path / "nothing") == []


def test_a_program_that_is_not_there_is_told(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "command", lambda _: [str(config.home / "nothing")])
    with pytest.raises(Unavailable, match="cannot be started"):
        spawn(config)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no sessions")
def test_a_child_has_a_session_of_its_own_and_nothing_to_read(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import os, sys; sys.exit(f'{os.getsid(0) == os.getpid()} {sys.stdin.read()!r} {os.getcwd()}')"
    monkeypatch.setattr(launch, "command", lambda _: [sys.executable, "-c", program])
    started = spawn(config)
    assert started.wait(10) == 1
    assert tail(config.log) == [f"True '' {config.home}"]


@pytest.mark.skipif(os.name == "nt", reason="needs a right on Windows")
def test_a_log_that_is_a_link_is_not_written_to(config: Config) -> None:
    config.log.symlink_to(config.home / "elsewhere")
    with pytest.raises(OSError, match=r"symbolic|links"):
        spawn(config)


@pytest.mark.skipif(os.name == "nt", reason="Windows ends processes otherwise")
def test_what_a_child_started_ends_with_it(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import os, time; os.fork(); os.write(2, b'up\\n'); time.sleep(600)"
    monkeypatch.setattr(launch, "command", lambda _: [sys.executable, "-c", program])
    started = spawn(config)
    while len(tail(config.log)) < 2:
        assert started.poll() is None
    launch.kill(started)
    assert _ended(started.pid)


def _ended(group: int) -> bool:
    """Whether nobody of a process group is left, or soon will be."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False
