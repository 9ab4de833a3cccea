"""The process as the system sees it: signals, drain, kills.

The same tests hold the executable: ``TOLLKEEPER_PROGRAM`` names it, and ``TOLLKEEPER_REPEATS`` how often each is run.
"""

import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests import fork_server

PROGRAM = shlex.split(os.environ.get("TOLLKEEPER_PROGRAM", "")) or [sys.executable, fork_server.CLI]
FROZEN = "TOLLKEEPER_PROGRAM" in os.environ
REPEATS = int(os.environ.get("TOLLKEEPER_REPEATS", "1"))
PATIENCE_S = 90.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


@pytest.fixture(params=range(REPEATS), autouse=True)
def _again() -> None:
    """Each test, as often as told."""


class Server:
    """A running server and what it printed."""

    def __init__(self, home: Path, process: "subprocess.Popen[str]") -> None:
        self.home = home
        self.process = process
        said = ""
        assert process.stdout is not None
        while "OPENAI_API_KEY" not in said and (line := process.stdout.readline()):
            said += line
        self.key = next(word for word in said.split() if word.startswith("sk-tk-"))
        self.port = int(said.split("http://127.0.0.1:")[1].split("/")[0])
        self.pid = int(json.loads((home / "run.json").read_text())["pid"])
        """Of the server itself: in a one-file executable the process started is only its outer half."""
        self._connections: list[http.client.HTTPConnection] = []
        self._answers: list[http.client.HTTPResponse] = []

    def stream(self, prompt: str) -> http.client.HTTPResponse:
        """A streamed call whose first bytes have come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        self._connections.append(connection)
        ask = {"model": "demo-story", "stream": True, "messages": [{"role": "user", "content": prompt}]}
        connection.request("POST", "/v1/chat/completions", json.dumps(ask), {"Authorization": f"Bearer {self.key}"})
        answer = connection.getresponse()
        self._answers.append(answer)
        assert answer.readline().startswith(b"data: ")
        return answer

    def close(self) -> None:
        """The client's ends of all connections."""
        for answer in self._answers:
            answer.close()
        for connection in self._connections:
            connection.close()


def run(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return fork_server.run([*PROGRAM, "--home", str(home), *words], timeout=PATIENCE_S)


@contextmanager
def serving(home: Path, drain_s: float = 30) -> Iterator[Server]:
    words = [*PROGRAM, "--home", str(home), "serve", "--port", "0", "--drain", str(drain_s)]
    with fork_server.start(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        server = Server(home, process)
        try:
            yield server
        finally:
            server.close()
            for pid in (process.pid, server.pid):
                if psutil.pid_exists(pid) and process.poll() is None:
                    os.kill(pid, signal.SIGKILL)


def ended(pid: int) -> bool:
    """Whether a process is gone within two seconds and a bit."""
    deadline = time.monotonic() + 6
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def _refuses(port: int) -> None:
    """Wait until a server takes no new connections."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return
        time.sleep(0.01)
    raise AssertionError("it still takes connections")


def settled(home: Path) -> list[dict[str, object]]:
    """All records, once the books have been found right."""
    assert run(home, "verify").returncode == 0
    records: list[dict[str, object]] = json.loads(run(home, "usage", "list", "--json").stdout)
    return records


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_idle_server_ends_well(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "home") as server:
        os.kill(server.pid if number is signal.SIGHUP else server.process.pid, number)
        assert server.process.wait(PATIENCE_S) == 0
    assert not (tmp_path / "home" / "run.json").exists()


def test_running_streams_end_before_the_server(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        answers = [server.stream("!speed=200 tell") for _ in range(10)]
        server.process.send_signal(signal.SIGTERM)
        assert all(answer.read().endswith(b"data: [DONE]\n\n") for answer in answers)
        assert server.process.wait(PATIENCE_S) == 0
    assert [record["outcome"] for record in settled(tmp_path / "home")] == ["done"] * 10


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        answer = server.stream("!speed=1 tell")
        server.process.send_signal(signal.SIGTERM)
        _refuses(server.port)  # the first signal is known; two at the same moment are one
        server.process.send_signal(signal.SIGTERM)
        assert b"gateway_stopping" in answer.read()
        assert server.process.wait(PATIENCE_S) == 0
    assert [record["outcome"] for record in settled(tmp_path / "home")] == ["stopped"]


def test_a_stream_longer_than_the_drain_ends_in_an_error(tmp_path: Path) -> None:
    with serving(tmp_path / "home", drain_s=1) as server:
        answer = server.stream("!speed=1 tell")
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        told = answer.read()
        assert server.process.wait(PATIENCE_S) == 0
    assert time.monotonic() - began < 10  # a second and the way out; the machine may be busy
    assert (b"gateway_stopping" in told, b"[DONE]" in told) == (True, False)
    (record,) = settled(tmp_path / "home")
    assert (record["outcome"], record["status"], record["usage_source"]) == ("stopped", 503, "estimated")
    assert int(str(record["cost_nanos"])) > 0


def test_a_killed_server_is_followed_by_another(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home) as server:
        server.stream("!speed=1 tell")
        os.kill(server.pid, signal.SIGKILL)
        assert server.process.wait(PATIENCE_S) != 0
    assert "no server is running" in run(home, "status").stderr
    assert [record["outcome"] for record in settled(home)] == ["lost"]


@pytest.mark.skipif(not FROZEN, reason="only the executable has an outer half")
def test_a_server_whose_outer_half_is_killed_drains_and_ends(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home) as server:
        assert server.pid != server.process.pid
        answer = server.stream("!speed=50 tell")
        os.kill(server.process.pid, signal.SIGKILL)
        assert answer.read().endswith(b"data: [DONE]\n\n")
        assert ended(server.pid)
    assert [record["outcome"] for record in settled(home)] == ["done"]


@pytest.mark.skipif(not FROZEN, reason="only the executable unpacks itself")
def test_what_a_killed_executable_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked = tmp_path / "tmp"
    unpacked.mkdir()
    monkeypatch.setenv("TMPDIR", str(unpacked))
    with serving(tmp_path / "one") as server:
        for pid in (server.process.pid, server.pid):
            os.kill(pid, signal.SIGKILL)
        server.process.wait(PATIENCE_S)
        assert ended(server.pid)
    assert len(list(unpacked.glob("_MEI*"))) == 1
    with serving(tmp_path / "two") as server:
        assert len(list(unpacked.glob("_MEI*"))) == 1
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(PATIENCE_S)
    assert list(unpacked.glob("_MEI*")) == []
