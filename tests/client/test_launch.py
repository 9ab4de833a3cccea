import asyncio
import errno
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway import runfile
from gateway.client import launch
from gateway.client.control import ControlClient
from gateway.client.launch import (
    command,
    ensure,
    environment,
    find,
    find_unless_silent,
    is_running,
    spawn,
    start,
    stop,
    tail,
)
from gateway.commands.exit_codes import Exit
from gateway.config import Config
from gateway.domain.errors import Unavailable
from gateway.domain.token import PREFIX
from gateway.runfile import Endpoint
from gateway.store.store import lock_store
from tests.client.scripted import talking
from tests.control.conftest import Surface


@pytest.fixture
def config(home: Path) -> Config:
    home.mkdir(mode=0o700)
    return Config(home=home, port=0)


def test_this_python_runs_cli_py(config: Config) -> None:
    python, cli, *words = command(config)
    assert (python, Path(cli).name, Path(cli).is_file()) == (sys.executable, "cli.py", True)
    address = ["--host", "127.0.0.1", "--port", "0", "--drain", "30"]
    assert words == ["serve", "--home", str(config.home), *address, "--no-token"]


def test_the_frozen_program_runs_itself(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert command(config)[:2] == [sys.executable, "serve"]


def test_the_frozen_child_unpacks_itself_again_in_our_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = Config(home=tmp_path, starter="c0")
    assert environment(config, {"A": "b"}, tmp_path) == {"A": "b", "TOLLKEEPER_STARTER": "c0"}
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    launch = environment(config, {"A": "b", "TMPDIR": "/tmp"}, tmp_path)
    unpacking = {"TMPDIR": str(tmp_path), "PYINSTALLER_RESET_ENVIRONMENT": "1"}
    assert launch == {"A": "b", "TOLLKEEPER_STARTER": "c0", **unpacking}


def test_the_end_of_a_log_is_reported_harmlessly(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"old\n" + b"".join(b"line %d\n" % number for number in range(50)) + b"\x1b[2J\xff\n\n")
    assert tail(log)[-2:] == ["line 49", "\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}"]
    assert len(tail(log)) == 12
    assert tail(log, begin=log.stat().st_size) == []
    assert tail(log, begin=10**9) == []
    assert tail(tmp_path / "nothing") == []


def test_a_program_that_is_not_there_is_reported(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(Unavailable, match=r"cannot be started: .*(symbolic|links)"):
        spawn(config)


def test_a_home_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "home"
    with pytest.raises(Unavailable, match=rf"^the server cannot be started: .*{re.escape(str(home))}"):
        spawn(Config(home=home))


@pytest.mark.skipif(os.name == "nt", reason="Windows ends processes otherwise")
def test_a_childs_processes_end_with_it(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.fixture
async def server(config: Config) -> AsyncIterator[Endpoint]:
    server = await start(config)
    yield server
    await end(server)


async def end(server: Endpoint) -> None:
    await stop(server, now=True, wait_s=10)
    assert await asyncio.to_thread(os.waitpid, server.pid, 0) == (server.pid, 0)


async def kill(server: Endpoint) -> None:
    os.kill(server.pid, signal.SIGKILL)
    await asyncio.to_thread(os.waitpid, server.pid, 0)


async def test_without_a_runfile_there_is_no_server(config: Config) -> None:
    assert await find(config) is None


async def test_a_server_that_answers_as_itself_is_found(surface: Surface, gateway: object, home: Path) -> None:
    config = Config(home=home)
    runfile.write(config.runfile, surface.unix)
    assert await find(config) == surface.unix


@pytest.mark.parametrize("field", ["instance", "secret"])
async def test_one_that_answers_as_another_is_not(surface: Surface, home: Path, field: str) -> None:
    """The runfile of a dead server whose place another one has taken."""
    config = Config(home=home)
    runfile.write(config.runfile, msgspec.structs.replace(surface.unix, **{field: "other"}))
    assert await find(config) is None


async def test_one_that_is_gone_is_not_found(config: Config) -> None:
    runfile.write(config.runfile, Endpoint(instance="x", secret="s", socket=str(config.home / "gone"), pid=os.getpid()))
    assert await find(config) is None


async def test_one_that_hangs_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    monkeypatch.setattr(launch, "ASK_S", 0.05)
    async with talking(hang) as place:
        assert not await is_running(Endpoint(instance="x", secret="s", port=place.port))


@pytest.mark.skipif(os.name == "nt", reason="a TCP port may have another owner by now")
@pytest.mark.parametrize("silence", ["closes the connection", "answers too late"])
async def test_a_server_that_does_not_answer_is_not_taken_for_none(
    config: Config, monkeypatch: pytest.MonkeyPatch, silence: str
) -> None:
    """One whose table of files is full closes at once what it cannot take."""
    ended = asyncio.Semaphore(0)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if "late" in silence:
            await reader.read()
        writer.transport.abort()
        ended.release()

    monkeypatch.setattr(launch, "ASK_S", 0.05 if "late" in silence else 10.0)
    socket = config.home / "s"
    runfile.write(config.runfile, Endpoint(instance="x", secret="s", socket=str(socket), pid=4711))
    async with await asyncio.start_unix_server(talk, socket):
        with pytest.raises(Unavailable) as silent:
            await find_unless_silent(config)
        assert await find(config) is None
        for _ in range(4):
            await ended.acquire()
    assert silent.value.code == "server_slow"
    assert f"(pid 4711) is running but does not answer: it {silence}" in silent.value.message
    assert await find_unless_silent(config) is None


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_full_table_of_files_of_our_own_says_nothing_of_a_server(
    config: Config, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    runfile.write(config.runfile, Endpoint(instance="x", secret="s", socket=str(config.home / "s"), pid=4711))
    monkeypatch.setattr(asyncio, "open_unix_connection", refuse)
    with pytest.raises(Unavailable, match="this process cannot open another file") as caught:
        await find(config)
    assert caught.value.code == "too_many_files"


async def test_a_home_that_may_not_be_read_is_not_called_a_home_without_a_server(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    runfile.write(config.runfile, Endpoint(instance="x", secret="s", socket=str(config.home / "s"), pid=4711))
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(Unavailable) as caught:
        await find_unless_silent(config)
    assert caught.value.code == "store_failed"
    assert caught.value.message.startswith(f"{config.runfile} cannot be read; make the data folder yours")
    assert await find(config) is None


async def test_a_child_that_fails_is_reported_with_its_words(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    config.log.write_text("of an earlier run\n")
    program = [sys.executable, "-c", "import os; os.write(2, b'no \\x1b[31mluck'); os._exit(3)"]
    monkeypatch.setattr(launch, "command", lambda _: program)
    with pytest.raises(Unavailable) as caught:
        await start(config)
    assert caught.value.code == "start_failed"
    assert "status 3" in caught.value.message
    assert "no \N{REPLACEMENT CHARACTER}[31mluck" in caught.value.message
    assert "earlier" not in caught.value.message


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> "list[subprocess.Popen[bytes]]":
    """Those that are started instead of servers; they never answer."""
    found: list[subprocess.Popen[bytes]] = []

    class Remembered(launch.Child):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            found.append(self)

    monkeypatch.setattr(launch, "Child", Remembered)
    monkeypatch.setattr(launch, "command", lambda _: [sys.executable, "-c", "import time; time.sleep(600)"])
    return found


async def test_a_child_that_never_answers_is_ended(
    config: Config, children: "list[subprocess.Popen[bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "START_S", 0.3)
    with pytest.raises(Unavailable, match="did not answer"):
        await start(config)
    assert children[0].returncode is not None


async def test_a_giving_up_starter_leaves_no_child(config: Config, children: "list[subprocess.Popen[bytes]]") -> None:
    starting = asyncio.create_task(start(config))
    async with asyncio.timeout(20):
        while not children:  # noqa: ASYNC110 - a thread may start it
            await asyncio.sleep(0.005)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert children[0].returncode is not None


@pytest.mark.parametrize(("wait_s", "text"), [(0.1, "0.1 seconds"), (1, "1 second")])
async def test_a_server_that_still_drains_is_reported(surface: Surface, wait_s: float, text: str) -> None:
    with pytest.raises(Unavailable) as caught:
        await stop(surface.unix, wait_s=wait_s)
    assert caught.value.code == "still_draining"
    assert f"still waits for running calls after {text}; " in caught.value.message


@pytest.mark.slow
async def test_a_started_server_answers_and_is_found_and_stops(config: Config) -> None:
    server = await ensure(config)
    assert await find(config) == server
    assert await ensure(config) == server
    status = await ControlClient(server).status()
    assert (status.state, status.pid) == ("serving", server.pid)
    await end(server)
    assert await find(config) is None
    assert not config.runfile.exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no sessions and no modes")
async def test_it_has_a_session_of_its_own_and_a_log_for_us_alone(server: Endpoint, config: Config) -> None:
    assert os.getsid(server.pid) == server.pid != os.getsid(0)
    assert stat.S_IMODE(config.log.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.runfile.stat().st_mode) == 0o600
    assert config.socket is not None
    assert stat.S_IMODE(config.socket.stat().st_mode) == 0o600


@pytest.mark.slow
async def test_a_server_nobody_reads_makes_no_token(server: Endpoint, config: Config) -> None:
    assert await ControlClient(server).tokens() == []
    assert PREFIX not in config.log.read_text()


@pytest.mark.slow
async def test_a_home_that_is_just_in_use_is_waited_for(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in use while the first child starts, and free when the second one does."""
    locks = [lock_store(config.home / "lock")]
    spawn = launch.spawn

    def spawn_again(config: Config) -> launch.Child:
        if config.log.exists() and config.log.stat().st_size:
            os.close(locks.pop())
        return spawn(config)

    monkeypatch.setattr(launch, "BUSY_S", 60)
    monkeypatch.setattr(launch, "spawn", spawn_again)
    server = await start(config)
    assert locks == []
    await end(server)


async def test_a_home_that_stays_in_use_is_reported(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "BUSY_S", 0.2)
    monkeypatch.setattr(
        launch, "command", lambda _: [sys.executable, "-c", "import os; os.write(2, b'busy'); os._exit(8)"]
    )
    with pytest.raises(Unavailable, match="busy"):
        await start(config)


def test_the_status_of_a_failed_store_is_the_program_s() -> None:
    assert launch.STORE_FAILED == Exit.STORE


@pytest.mark.slow
async def test_the_slower_of_two_starters_attaches_to_the_faster_ones_server(config: Config) -> None:
    starters = [msgspec.structs.replace(config, starter=name) for name in ("one", "other")]
    server, same = await asyncio.gather(*map(start, starters))
    assert server == same
    assert server.starter in ("one", "other")
    await end(server)


@pytest.mark.slow
async def test_a_port_that_is_taken_is_reported(server: Endpoint, tmp_path: Path) -> None:
    port = int(server.address.rpartition(":")[2].partition("/")[0])
    with pytest.raises(Unavailable, match=f"^the server did not start: cannot listen on 127.0.0.1:{port}"):
        await start(Config(home=tmp_path / "other", port=port))
