"""What the console costs: ``python -m tests.bench.bench_console [start] [load] [history]``.

``start``: processor time from the command to the first frame, in front of a running server.
``load``: 200 calls a second arrive while a console watches; its processor time, what it writes to the terminal, and
the gateway's own times with and without it, in turns. ``history``: a console in front of a million records: its first
frame, scrolling, jumping and filtering, as a person sees them in a terminal.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pexpect
import psutil

from gateway.client import launch
from gateway.client.control import ControlClient
from gateway.config import Config
from gateway.runfile import Endpoint
from tests.bench.bench_search import build
from tests.bench.load import Job, Result, chat_request
from tests.bench.processes import Load
from tests.house import ROOT
from tests.tui.terminal import Terminal, terminal

RATE = 200
SECONDS = 8.0
ROUNDS = 7
STARTS = 10
RECORDS = 1_000_000


def main(*what: str) -> None:
    for name, run in (("start", start), ("load", load), ("history", history)):
        if not what or name in what:
            with tempfile.TemporaryDirectory() as folder:
                asyncio.run(run(Config(home=Path(folder) / "home", port=0)))


async def start(config: Config) -> None:
    """The first two starts only fill caches."""
    server = await launch.start(config)
    try:
        spent = [await asyncio.to_thread(first_frame, config) for _ in range(STARTS + 2)]
        times = sorted(spent[2:])
        print(
            f"first frame after {statistics.median(times) * 1000:.0f} ms of processor time "
            f"({times[0] * 1000:.0f} to {times[-1] * 1000:.0f}, {STARTS} starts)"
        )
    finally:
        await launch.stop(server, now=True)


def first_frame(config: Config) -> float:
    """Seconds of processor time until the first frame is in the terminal."""
    child = spawn(config)
    try:
        child.expect_exact(b"following")
        return busy(psutil.Process(child.pid))
    finally:
        child.close(force=True)


async def load(config: Config) -> None:
    """200 calls a second, with and without a console."""
    server = await launch.start(config)
    client = ControlClient(server)
    generator = Load()
    try:
        key = (await client.add_token({"name": "load"})).key
        await fire(generator, server, key, 3)
        alone: list[Result] = []
        watched: list[Result] = []
        shares, rates, memory = [], [], 0.0
        gateway = psutil.Process(server.pid)
        costs: dict[bool, float] = {False: 0.0, True: 0.0}
        for _ in range(ROUNDS):
            before = busy(gateway)
            alone.append(await fire(generator, server, key, SECONDS))
            costs[False] += busy(gateway) - before
            with console(config) as shown:
                await asyncio.sleep(3)
                own, before, wrote, start = busy(shown.process), busy(gateway), shown.wrote, time.monotonic()
                watched.append(await fire(generator, server, key, SECONDS))
                spent = time.monotonic() - start
                costs[True] += busy(gateway) - before
                shares.append((busy(shown.process) - own) / spent)
                rates.append((shown.wrote - wrote) / spent / 1024)
                memory = shown.process.memory_info().rss / 2**20
        share, rate = statistics.median(shares), statistics.median(rates)
        print(f"console: {share:.1%} of a core, {memory:.0f} MiB, {rate:.0f} KiB/s to the terminal")
        for name, rounds, cost in (("alone", alone, costs[False]), ("watched", watched, costs[True])):
            p50, p99 = (statistics.median(times) / 1000 for times in ([r.p50 for r in rounds], [r.p99 for r in rounds]))
            spent = cost / sum(r.calls for r in rounds) * 1000
            print(f"gateway {name}: p50 {p50:.2f} ms, p99 {p99:.2f} ms, {spent:.2f} ms of processor time a call")
        ratios = [one.p99 / other.p99 for one, other in zip(watched, alone, strict=True)]
        print(f"p99 watched / alone: {statistics.median(ratios):.2f}")
    finally:
        generator.end()
        await launch.stop(server, now=True)


async def fire(load: Load, server: Endpoint, key: str, seconds: float) -> Result:
    """Calls at the rate for so long, from a process of their own: what reads the terminal must not delay them."""
    body = json.dumps({"model": "demo-echo", "messages": [{"role": "user", "content": "Hello, how much is this?"}]})
    port = urlsplit(server.address).port or 0
    job = Job(port=port, request=chat_request(port, key, body), calls=int(RATE * seconds), connections=32, rate=RATE)
    result = await asyncio.to_thread(load.run, job)
    assert not result.errors, f"{result.errors} calls failed"
    return result


class Shown:
    """A console in a terminal that only counts what is written to it."""

    def __init__(self, child: pexpect.spawn) -> None:
        self.process = psutil.Process(child.pid)
        self.wrote = 0
        self._child = child
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(pexpect.EOF, OSError):
            while True:
                with suppress(pexpect.TIMEOUT):
                    self.wrote += len(self._child.read_nonblocking(65536, timeout=1))


@contextmanager
def console(config: Config) -> Iterator[Shown]:
    child = spawn(config)
    try:
        yield Shown(child)
    finally:
        child.close(force=True)


def spawn(config: Config) -> pexpect.spawn:
    """A console in a terminal of 140 by 40, a process that begins with the interpreter."""
    environ = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    arguments = ["cli.py", "--home", str(config.home)]
    return pexpect.spawn(sys.executable, arguments, cwd=str(ROOT), env=environ, dimensions=(40, 140))


def busy(process: psutil.Process) -> float:
    """Seconds of processor time so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


async def history(config: Config) -> None:
    build(config.home, RECORDS)
    server = await launch.start(config)
    try:
        await asyncio.to_thread(look, config)
    finally:
        await launch.stop(server, now=True)


def look(config: Config) -> None:
    """What a person waits for."""
    for _ in range(3):
        start = time.perf_counter()
        with terminal("cli.py", "--home", str(config.home), columns=140, rows=40) as shown:
            shown.wait("following")
            framed = time.perf_counter() - start
            shown.wait(f"{RECORDS:,} calls", "✓200")
            print(f"first frame {framed * 1000:.0f} ms, with its calls {(time.perf_counter() - start) * 1000:.0f} ms")
            shown.keys("q")
            shown.ended()
    with terminal("cli.py", "--home", str(config.home), columns=140, rows=40) as shown:
        shown.wait(f"{RECORDS:,} calls", "✓200")
        timed(shown, "to the oldest (G)", "G", lambda: "…" not in rows(shown) and "not following" in shown.text)
        timed(shown, "a page up", "\x02", changed(shown))
        timed(shown, "a page up", "\x02", changed(shown))
        timed(shown, "to the newest (g)", "g", lambda: "▸ following" in shown.text)
        shown.keys("w").wait("Jump to")
        timed(shown, "jump to 30 days ago", "30d\r", changed(shown))
        shown.keys("g").wait("▸ following")
        timed(shown, "filter st:429, screen full", "/st:429\r", lambda: shown.text.count("✗429") > 20)
        shown.keys("\x1b").wait(f"{RECORDS:,} calls")
        timed(
            shown,
            "filter for what is nowhere (st:418), to the end",
            "/st:418\r",
            lambda: "0 calls, searched all" in shown.text,
        )
        shown.keys("\x1b").wait("✓200").keys("q")
        shown.ended()


def rows(shown: Terminal) -> str:
    return "\n".join(shown.screen.display[4:-1])


def changed(shown: Terminal) -> Callable[[], bool]:
    before = rows(shown)
    return lambda: rows(shown) != before and "…" not in rows(shown) and "Jump to" not in shown.text


def timed(shown: Terminal, what: str, keys: str, there: Callable[[], bool]) -> None:
    start = time.perf_counter()
    shown.keys(keys).until(there, f"{what} did not happen")
    print(f"{what}: {(time.perf_counter() - start) * 1000:.0f} ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
