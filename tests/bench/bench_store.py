"""The goals of the store, S1 to S9, measured and printed as ratios: ``python -m tests.bench.bench_store [records]``.

A million records take about two minutes and 400 MB of disk in the folder for temporary files.
"""

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec
from tinydb import TinyDB
from tinydb.storages import JSONStorage, MemoryStorage

from gateway.config import Config
from gateway.domain.call import ACCOUNT, Record, Running, Scope
from gateway.domain.query import EVERYTHING
from gateway.domain.units import DAY_MS, CallId, Millis
from gateway.store.calls import CallLog
from gateway.store.line_format import body_of
from gateway.store.log import Log
from gateway.store.store import Store
from tests.bench.bench_search import DAYS, records
from tests.fakes.syncing import sync_store, syncer_of
from tests.store.samples import where

T0 = 1_760_000_000_000 // DAY_MS * DAY_MS
OPEN_CALLS = 10_000
"""Calls in the open segment of every store, so that opening them differs by the history only."""

encode = msgspec.json.encode


def calls(count: int, *, start: int = T0, days: float = DAYS) -> Iterator[Record]:
    return records(count, start, days, rare=False)


def timed(do: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def each(values: Iterable[Any], do: Callable[[Any], object]) -> list[float]:
    """Seconds of doing it with each of the values."""
    return [timed(partial(do, value)) for value in values]


def median(do: Callable[[], object], rounds: int = 7) -> float:
    return statistics.median(timed(do) for _ in range(rounds))


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def resident() -> float:
    """Mebibytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def goal(name: str, text: str, value: float, limit: float, *, least: bool = False) -> None:
    held = value >= limit if least else value <= limit
    print(
        f"{name}  {'ok ' if held else 'NOT'}  {value:10.2f}  ({'>=' if least else '<='} {limit:g})  {text}", flush=True
    )


def in_turn(count: int, *doers: Callable[[Record], object]) -> list[float]:
    """The median seconds of each of several ways, taken in turn, so that a busy machine is unfair to none."""
    costs: list[list[float]] = [[] for _ in doers]
    source = calls(count, start=T0 + (DAYS + 1) * DAY_MS, days=0.9)
    while chunk := list(islice(source, 100)):
        for found, do in zip(costs, doers, strict=True):
            found.extend(each(chunk, do))
    return [statistics.median(found) for found in costs]


def build(folder: Path, count: int) -> None:
    """A log of ``count`` records, the last of them in its open segment."""
    log = CallLog(Log(folder))
    source = calls(count - OPEN_CALLS)
    while chunk := list(islice(source, 20_000)):
        for call in chunk:
            log.log.append([call])
        log.log.sync()
        log.log.seal()
    for call in calls(OPEN_CALLS, start=T0 + DAYS * DAY_MS, days=0.5):
        log.log.append([call])
    log.log.close()


def appends(root: Path, most: int) -> None:
    """S1, S2 and S3."""
    for size in (10_000 + OPEN_CALLS, 100_000, most):
        print(f"    building {size:,}: {timed(partial(build, root / str(size), size)):.0f} s", flush=True)
    logs = [CallLog(Log(root / name)) for name in ("fresh", "100000", str(most))]
    ours, raw = partial(_append, logs[2]), RawFile(root / "raw").write
    fresh, hundred, big, plain = in_turn(5000, partial(_append, logs[0]), partial(_append, logs[1]), ours, raw)
    print(f"    append at 1,000 / 100,000 / {most:,}: {fresh * 1e6:.2f} / {hundred * 1e6:.2f} / {big * 1e6:.2f} us")
    goal("S1", f"append at {most:,} / at 1,000", big / fresh, 1.2)
    goal("S3", f"append / (encode + raw pwrite: {plain * 1e6:.2f} us)", big / plain, 9)
    for count, times in ((10_000, 2000), (100_000, 50_000)):
        goal("S2", f"JSONStorage / our append at {count:,}", json_insert(root, count) / big, times, least=True)
    for log in logs:
        log.log.close()


def _append(log: CallLog, call: Record) -> None:
    log.log.append([call])


class RawFile:
    """The least that any log must do."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT)
        self._at = 0

    def write(self, call: Record) -> None:
        self._at += os.pwrite(self._fd, encode(call), self._at)


def json_insert(root: Path, count: int) -> float:
    with TinyDB(root / f"stock-{count}.json", storage=JSONStorage) as stock:
        stock.insert_multiple(msgspec.to_builtins(call) for call in calls(count))
        document = msgspec.to_builtins(next(calls(1)))
        return median(lambda: stock.insert(document), 5)


def hold_of(call: Record) -> Running:
    return Running(
        id=call.id,
        ts=call.ts,
        token=call.token,
        group=call.group,
        model=call.model,
        channel=call.channel,
        app=call.app,
        held=call.held,
        held_tokens=2000,
        input=call.input,
    )


def store_at(home: Path, sync_s: float) -> Store:
    """With the windows of two tokens', a group's and the account's budgets asked for."""
    store = Store(Config(home=home), now=lambda: Millis(T0), syncer=syncer_of(sync_s))
    scopes: list[Scope] = [ACCOUNT, ("token", "tok_01"), ("token", "tok_02"), ("group", "default")]
    for scope in scopes:
        store.books.spent(scope, Millis(T0))
        store.books.spent(scope)
    return store


def hot_path(root: Path) -> None:
    """S4, and how long a hold and its settlement take."""
    store = store_at(root / "hot", 0)
    store.books.open(Running(id=CallId("req_" + "f" * 26), ts=Millis(T0)))

    def whole(call: Record) -> None:
        store.books.open(hold_of(call))
        store.books.settle(call)

    both, holds = in_turn(10_000, whole, hold_of)
    print(f"    open + settle {(both - holds) * 1e6:.2f} us")
    call = next(calls(1, start=T0 + 5))
    written = list(writes(partial(whole, call)))
    goal("S4", "write system calls per call", len(written), 3)
    goal("S4", "bytes written / bytes of the record", sum(written) / len(encode(call)), 1.8)
    store.close()


def writes(do: Callable[[], object]) -> list[int]:
    """The sizes of the writes that doing it takes."""
    sizes: list[int] = []
    reals = {name: getattr(os, name) for name in ("write", "pwrite")}

    def counting(real: Callable[..., int], fd: int, data: bytes, *rest: int) -> int:
        sizes.append(len(data))
        return real(fd, data, *rest)

    for name, real in reals.items():
        setattr(os, name, partial(counting, real))
    do()
    for name, real in reals.items():
        setattr(os, name, real)
    return sizes


def reading(root: Path, most: int) -> None:
    """S5 and S7."""
    small, large = (CallLog(Log(root / str(count))) for count in (10_000 + OPEN_CALLS, most))
    end = T0 + DAYS * DAY_MS + DAY_MS // 2
    month = Millis(end - 30 * DAY_MS)
    token = where(token="tok_03", since=month)
    last = [median(partial(log.find, limit=1000)) for log in (small, large)]
    some = [median(partial(log.find, token, limit=200)) for log in (small, large)]
    goal("S5", f"last 1000 at {most:,} / at 10,000", last[1] / last[0], 1.3)
    goal("S5", f"200 of a token at {most:,} / at 10,000", some[1] / some[0], 1.5)
    goal("S5", "last 1000, ms", last[1] * 1000, 20)
    goal("S5", "200 of a token, ms", some[1] * 1000, 10)
    glances(large, end)
    filtered = timed(partial(large.find, token, limit=most))
    decoded = timed(
        lambda: sum(len(msgspec.json.decode(body_of(line))) for s in large.log.segments for line in s.lines())
    )
    goal("S7", "decode every line / 30-day filter, all hits", decoded / filtered, 1.5, least=True)
    for log in (small, large):
        log.log.close()


def glances(log: CallLog, end: int) -> None:
    """No goals: what the console asks for."""
    day, month, most = Millis(end - DAY_MS), Millis(end - 30 * DAY_MS), 1 << 60
    for text, wanted, limit in (
        ("last 50", EVERYTHING, 50),
        ("token, 24 h, all", where(token="tok_03", since=day), most),
        ("token and 429, 30 d, all", where(token="tok_03", status=429, since=month), most),
        ("200 failed", where(failed=True), 200),
        ("an app nobody uses", where(app="nothing"), 1),
    ):
        print(f"    {text}: {median(partial(log.find, wanted, limit=limit), 3) * 1000:.2f} ms")
    known = log.find(where(until=Millis(T0 + DAY_MS)), limit=1)[0].id
    for text, call_id in (("a known id", known), ("an unknown id", CallId("req_" + "0" * 26))):
        print(f"    {text}: {median(partial(log.get, call_id), 3) * 1000:.2f} ms")
    steps: tuple[Literal["", "hour", "day"], ...] = ("", "hour", "day")
    for step in steps:
        cost = median(partial(log.sums, "token", month, Millis(end), step), 3)
        print(f"    sums by token, 30 d, step {step or 'none'}: {cost * 1000:.2f} ms")


def open_and_close(folder: Path) -> None:
    Log(folder).close()


def opening(root: Path, most: int) -> None:
    """S6."""
    opened = {count: median(partial(open_and_close, root / str(count)), 5) for count in (100_000, most)}
    goal("S6", f"open at {most:,} / at 100,000", opened[most] / opened[100_000], 3)
    stock = timed(lambda: TinyDB(root / "stock-100000.json").table("_default").get(doc_id=1)) * most / 100_000
    text = f"open / stock TinyDB's load (of 100,000, scaled), {opened[most] * 1000:.0f} ms"
    goal("S6", text, opened[most] / stock, 0.05)


PROBE = """
import sys
from pathlib import Path
from typing import Any, Literal
from tests.bench.bench_store import memory
memory(Path(sys.argv[1]), sys.argv[2])
"""


def memory(folder: Path, kind: str) -> None:
    """In a process of its own: mebibytes above where it began."""
    if kind == "stock":
        before = resident()
        stock = TinyDB(storage=MemoryStorage)
        stock.insert_multiple(msgspec.to_builtins(call) for call in calls(100_000))
        print(resident() - before)
        return
    before = resident()
    log = CallLog(Log(folder))
    log.find(limit=1000)
    log.find(where(token="tok_03"), limit=200)
    log.sums("token", Millis(0), Millis(1 << 60), "hour")
    gc.collect()
    print(resident() - before)
    sum(1 for segment in log.log.segments for _ in segment.lines())
    print(resident() - before)


def residents(root: Path, most: int) -> None:
    """S8."""

    def run(kind: str) -> list[float]:
        done = subprocess.run(
            [sys.executable, "-c", PROBE, str(root / str(most)), kind], capture_output=True, text=True, check=True
        )
        return [float(line) for line in done.stdout.split()]

    (queried, scanned), (stock,) = run("ours"), run("stock")
    goal("S8", "MiB after open and queries", queried, 50)
    goal("S8", "MiB after a full scan", scanned, 100)
    goal("S8", "after queries / MemoryStorage (of 100,000, scaled)", queried / (stock * most / 100_000), 0.15)


def pauses(root: Path) -> None:
    """What an event loop feels at some 200 calls a second."""
    felt = {
        "never": pace(store_at(root / "pace-never", 0), lambda _: None),
        "thread": pace(store_at(root / "pace-thread", 0.1), lambda _: None),
        "each": pace(store_at(root / "pace-each", 0), sync_store),
    }
    p99 = {name: percentile(values, 0.99) for name, values in felt.items()}
    for name, values in felt.items():
        print(f"    settle, sync {name}: p50 {statistics.median(values) * 1e6:.0f}, p99 {p99[name] * 1e6:.0f} us")
    goal("S9", "p99 of settle, thread / never", p99["thread"] / p99["never"], 1.5)
    goal("S9", "p99 of settle, thread / sync each", p99["thread"] / p99["each"], 0.3)
    goal("S9", "longest pause while sealing, ms", sealing(root) * 1000, 100)


def pace(store: Store, then: Callable[[Store], object]) -> list[float]:
    def settle(call: Record) -> None:
        store.books.settle(call)
        then(store)

    costs: list[float] = []
    for call in calls(2000, days=0.01):
        time.sleep(0.003)
        store.books.open(hold_of(call))
        costs += each([call], settle)
    store.close()
    return costs


def sealing(root: Path) -> float:
    """The longest append while a dozen segments are sealed in the thread."""
    store = store_at(root / "seal", 0.1)
    longest = 0.0
    source = calls(80_000, days=12)
    while chunk := list(islice(source, 4000)):
        longest = max(longest, *each(chunk, lambda call: store.calls.log.append([call])))
        store.books.record_refusal(chunk[0])
        time.sleep(0.1)
    store.close()
    return longest


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        appends(root, most)
        hot_path(root)
        reading(root, most)
        opening(root, most)
        residents(root, most)
        pauses(root)


if __name__ == "__main__":
    main()
