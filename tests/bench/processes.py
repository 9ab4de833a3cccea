"""Processes: the servers under measurement and the load generator, each a process of its own on a core of its own."""

import http.client
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
import psutil

from tests.bench.load import Job, Result

ROOT = Path(__file__).resolve().parents[2]
SERVER_CORE, LOAD_CORE = 0, 1
"""What is measured has a core for itself; load generator and upstream share the other one."""
PATIENCE_S = 20.0


class Child:
    def __init__(self, command: Sequence[str], core: int) -> None:
        self._popen = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a server that fails says so thousands of times; the call log knows it, too
            text=True,
            env=environ(),
        )
        self.process = psutil.Process(self._popen.pid)
        self._pin(core)

    @property
    def out(self) -> IO[str]:
        assert self._popen.stdout is not None
        return self._popen.stdout

    @property
    def into(self) -> IO[str]:
        assert self._popen.stdin is not None
        return self._popen.stdin

    def cpu_s(self) -> float:
        """Seconds of all its threads so far, its children's not counted."""
        tasks = list(Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"))
        if tasks:  # nanoseconds, where the usual figure counts hundredths
            return sum(int(task.read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def rss_mib(self) -> float:
        return float(self.process.memory_info().rss) / (1 << 20)

    def end(self) -> None:
        self._popen.terminate()
        try:
            self._popen.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self.into.close()
        self.out.close()

    def _pin(self, core: int) -> None:
        if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
            os.sched_setaffinity(self._popen.pid, {core})


class Load(Child):
    def __init__(self) -> None:
        super().__init__([sys.executable, "-m", "tests.bench.load"], LOAD_CORE)

    def run(self, job: Job) -> Result:
        self.into.write(msgspec.json.encode(job).decode() + "\n")
        self.into.flush()
        return msgspec.json.decode(self.out.readline(), type=Result)


@contextmanager
def module(name: str, *args: str, core: int) -> Iterator[tuple[Child, int]]:
    """A module that serves and prints its port."""
    child = Child([sys.executable, "-m", name, *args], core)
    try:
        yield child, int(child.out.readline())
    finally:
        child.end()


def environ() -> dict[str, str]:
    """Ours, but compiled modules are kept, as in every installation; only not beside the sources."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "tollkeeper-bench-pycache")}


def tollkeeper(home: Path, *args: str) -> str:
    command = [sys.executable, "cli.py", *args, "--home", str(home)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, env=environ()).stdout


@contextmanager
def serving(home: Path, port: int) -> Iterator[Child]:
    """Our own server, without waiting for it."""
    child = Child([sys.executable, "cli.py", "serve", "--home", str(home), "--port", str(port)], SERVER_CORE)
    try:
        yield child
    finally:
        child.end()


def until_answered(port: int, key: str) -> float:
    """Seconds until ``/v1/models`` is answered."""
    began = time.perf_counter()
    while time.perf_counter() - began < PATIENCE_S:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        try:
            connection.request("GET", "/v1/models", headers={"authorization": f"Bearer {key}"})
            if connection.getresponse().status == 200:
                return time.perf_counter() - began
        except OSError:
            time.sleep(0.002)
        finally:
            connection.close()
    raise TimeoutError(f"nothing answered on port {port}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def machine() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        info = ""
    name = re.search(r"model name\s*: (.*)", info)
    load = os.getloadavg()[0]
    return (
        f"{name[1] if name else sys.platform}, {os.cpu_count()} cores, Python {sys.version.split()[0]}, load {load:.1f}"
    )
