"""A real server whose system allows few open files: it answers all who come, stores what it promised, and recovers."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from tests.e2e.test_processes import PATIENCE_S, PROGRAM, Server, run, settled

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")

LIMIT = 256
CLIENTS = 96
"""What is left of it for their connections."""
ROUNDS = 3 if os.environ.get("TOLLKEEPER_FULL") else 2


@contextmanager
def confined(home: Path) -> Iterator[Server]:
    """A server that may open so many files, and a file with what it writes to stderr."""
    words = ["sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh", *PROGRAM, "--home", str(home)]
    with (
        (home.parent / "stderr").open("w") as stderr,
        subprocess.Popen([*words, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        try:
            yield Server(home, process)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def call(server: Server) -> tuple[int, str]:
    """Status and error code of one plain call."""
    body = json.dumps({"model": "demo-echo", "messages": [{"role": "user", "content": "hi"}]})
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)) as connection:
        connection.request("POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {server.key}"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
    return answer.status, found.get("error", {}).get("code", "")


def crowd(server: Server, stack: ExitStack, count: int) -> list[socket.socket]:
    return [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)) for _ in range(count)]


def answered(peer: socket.socket) -> bool:
    """Whether the server has said something, or closed without a word."""
    peer.settimeout(0.01)
    try:
        said = peer.recv(16)
    except TimeoutError:
        return False
    assert said.startswith(b"HTTP/1.1 503"), said
    return True


def test_clients_that_hog_all_files_starve_nobody_but_each_other(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with confined(home) as server:
        good = 0
        assert call(server) == (200, "")
        good += 1
        for number in range(ROUNDS):
            with ExitStack() as stack:
                peers = crowd(server, stack, 4 * LIMIT)
                deadline = time.monotonic() + PATIENCE_S
                while call(server) != (503, "overloaded"):
                    assert time.monotonic() < deadline
                turned_away = sum(answered(peer) for peer in peers)
                # A connection that its client has closed may be found out a moment later.
                assert len(peers) - turned_away in (CLIENTS - 1, CLIENTS)
                # The store and the control surface have files of their own.
                assert run(home, "settings", "set", "--keep-days", str(300 + number)).returncode == 0
            deadline = time.monotonic() + PATIENCE_S
            while (found := call(server))[0] == 503:
                assert time.monotonic() < deadline
            assert found == (200, "")
            good += 1
        status = run(home, "status").stdout
        assert f"of {CLIENTS}; the system allows this server {LIMIT} open files" in status
        assert f"{CLIENTS}; the system allows" in run(home, "settings", "show").stdout
        doctor = run(home, "doctor", "--json").stdout
        assert f"enough for {CLIENTS} connections of clients instead of 2048" in doctor
    assert len([record for record in settled(home) if record["status"] == 200]) >= good
    log = (tmp_path / "stderr").read_text()
    (told,) = [line for line in log.splitlines() if "connections are turned away" in line]
    assert re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d WARNING: ", told), log
