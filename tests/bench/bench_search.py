"""How long each word of the filter takes on a big home: ``python -m tests.bench.bench_search HOME [options]``.

HOME is built if it does not exist (a million records: two minutes, 550 MB). Every filter is run as a user runs it,
``usage list WORDS``, in a process of its own; ``--cold`` drops the files from the page cache before each, ``--cli``
measures another version of the program, ``--only`` some of the filters.
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from gateway.config import Config
from gateway.domain.call import Attempt, FailureKind, Outcome, Record
from gateway.domain.price import Rates
from gateway.domain.units import DAY_MS, CallId, Millis, Nanos
from gateway.domain.usage import UsageSource
from gateway.store.store import Store
from tests.fakes.syncing import ManualSyncer, sync_store

DAYS = 60
HALF_AN_HOUR = DAY_MS // 48
LIMIT_S = 240.0
"""A filter that takes longer is stopped."""

TOKENS = ("laptop", "phone", "ci", "notebook-2", "editor", "cron", "Büro", "team-a", "team-b", "research", "bot", "web")
MODELS = ("gpt-4o", "gpt-4o-mini", "claude-sonnet-4", "claude-haiku-4", "gemini-2.5-pro", "llama3.3:70b", "o3", "qwen3")
CHANNELS = ("openai", "openai-backup", "anthropic", "google", "local ollama", "openrouter", "groq", "azure")
APPS = ("openai-python/2.8.0", "openai-node/6.1.0", "Zed/0.214", "aider/0.86", "langchain/1.0", "OpenAI/JS 5.2")
ERRORS: tuple[tuple[int, Outcome, str, str], ...] = (
    (429, Outcome.ERROR, "rate_limit_exceeded", "Rate limit reached for requests per minute; retry in 20s"),
    (400, Outcome.ERROR, "context_length_exceeded", "The maximum context length is 128000 tokens"),
    (502, Outcome.ERROR, "upstream_error", "the upstream answered 500: the server had an error"),
    (504, Outcome.TIMEOUT, "upstream_timeout", "the upstream sent nothing for 120 seconds"),
    (499, Outcome.CLIENT_CLOSED, "", ""),
    (429, Outcome.REFUSED, "token_quota_exceeded", "token 'ci' has spent its budget of $5.00 a day"),
)

NONE, RARE, MANY = "none", "rare", "many"

FILTERS: tuple[tuple[str, str], ...] = (
    ("", MANY),
    ("req_x", NONE),
    ("zzz-nothing", NONE),
    ("quota-of-the-disk", RARE),
    ("claude", MANY),
    ("ttft", NONE),
    ("büroklammer", NONE),
    ("BÜRO", MANY),
    ("id:{unknown}", NONE),
    ("id:{known}", RARE),
    ("id:*fffff", RARE),
    ("tok:nobody", NONE),
    ("tok:rarely", RARE),
    ("tok:laptop", MANY),
    ("grp:nobody", NONE),
    ("grp:staff", RARE),
    ("grp:def*", MANY),
    ("ch:nowhere", NONE),
    ("ch:OLD-*", RARE),
    ("ch:openai*", MANY),
    ("model:none*", NONE),
    ("model:*-preview", RARE),
    ("model:gpt-*", MANY),
    ("app:curl", NONE),
    ("app:httpie*", RARE),
    ("app:*node*", MANY),
    ("st:418", NONE),
    ("st:lost", RARE),
    ("st:err", MANY),
    ("st:>=505", NONE),
    ("st:running", NONE),
    ("st:<200", RARE),
    ("dur:>2h", NONE),
    ("dur:>50m", RARE),
    ("dur:>5s", MANY),
    ("ttft:>1h", NONE),
    ("ttft:>10m", RARE),
    ("ttft:<1s", MANY),
    ("in:>5m", NONE),
    ("in:>1m", RARE),
    ("in:<100", MANY),
    ("in:<2", NONE),
    ("out:>5m", NONE),
    ("out:>1m", RARE),
    ("out:>1k", MANY),
    ("cost:>1000", NONE),
    ("cost:>100", RARE),
    ("cost:>0.01", MANY),
    ("since:10m", NONE),
    ("until:2026-01-01", NONE),
    ("!tok:*", NONE),
    ("!app:*/*", RARE),
    ("!e", NONE),
    ("!st:ok", MANY),
    ("!dur:<50m", RARE),
    ("st:err dur:>39s ttft:<100ms !tok:laptop", NONE),
    ("--token tok_nobody", NONE),
    ("--app curl", NONE),
    ("--status 418", NONE),
    ("--errors --model qwen3", MANY),
)


def records(count: int, start: int, days: float = DAYS, *, rare: bool = True) -> Iterator[Record]:
    """Yields records as a busy gateway writes them. ``rare``: a few unusual ones are in the middle of its history."""
    rng = random.Random(7)
    for i in range(count):
        ts = Millis(start + int(i * days * DAY_MS / count))
        yield _rare(rng, ts, i) if rare and i % (count // 4) == count // 8 else _usual(rng, ts)


def _id(rng: random.Random, ts: int) -> CallId:
    return CallId(f"req_{ts:012x}{rng.getrandbits(56):014x}")


def _usual(rng: random.Random, ts: Millis) -> Record:
    token, channel = min(int(rng.expovariate(0.4)), len(TOKENS) - 1), rng.randrange(len(CHANNELS))
    model = MODELS[rng.randrange(len(MODELS))]
    status, outcome, code, error = rng.choice(ERRORS) if rng.random() < 0.04 else (200, Outcome.DONE, "", "")
    ok = status == 200
    served = outcome is not Outcome.REFUSED
    return Record(
        id=_id(rng, ts),
        ts=ts,
        token=f"tok_{token:02d}",
        token_name=TOKENS[token],
        group="default" if rng.random() < 0.8 else "vip",
        model=model,
        upstream_model=f"{model}-2026-08-06" if rng.random() < 0.5 else "",
        channel=f"ch_{channel:02d}" if served else "",
        channel_name=CHANNELS[channel] if served else "",
        app=rng.choice(APPS),
        status=status,
        outcome=outcome,
        code=code,
        error=error,
        finish="stop" if ok else "",
        stream=rng.random() < 0.7,
        ms=Millis(rng.randrange(100, 40_000)),
        ttft=Millis(rng.randrange(80, 2500)) if ok else None,
        overhead=rng.randrange(300, 2000),
        input=rng.randrange(20, 8000),
        cached=rng.randrange(20) if ok else 0,
        output=rng.randrange(1, 2000) if ok else 0,
        source=UsageSource.REPORTED if ok else UsageSource.NONE,
        cost=Nanos(rng.randrange(1, 50_000_000)) if ok else Nanos(0),
        rates=Rates(150, 75, 150, 600, 0, 1_000_000) if ok else None,
        held=Nanos(12_000_000) if served else Nanos(0),
        balance=Nanos(rng.randrange(10_000_000_000)),
        attempts=(_attempt(channel, status),) if served else (),
        upstream_id=f"chatcmpl-{rng.getrandbits(64):016x}" if ok else "",
    )


def _attempt(channel: int, status: int) -> Attempt:
    if status == 200:
        return Attempt(channel=CHANNELS[channel], status=200, ms=Millis(500))
    return Attempt(channel=CHANNELS[channel], status=429, ms=Millis(500), kind=FailureKind.RATE, reason="rate limited")


def _rare(rng: random.Random, ts: Millis, i: int) -> Record:
    return Record(
        id=CallId(f"req_{ts:012x}{i:09x}fffff"),
        ts=ts,
        token="tok_rare",
        token_name="rarely",
        group="staff",
        model="o9-preview",
        channel="ch_old",
        channel_name="old-relay",
        app="HTTPie",
        outcome=Outcome.LOST,
        code="lost",
        error="the quota-of-the-disk was exceeded",
        ms=Millis(3_300_000),
        ttft=Millis(700_000),
        input=1_500_000,
        output=1_200_000,
        cost=Nanos(150_000_000_000),
        balance=Nanos(rng.randrange(10_000_000_000)),
    )


def build(home: Path, count: int) -> None:
    """A home with ``count`` records of the last sixty days, half an hour ago the newest."""
    now = int(time.time() * 1000)
    with closing(Store(Config(home=home), now=lambda: Millis(now), syncer=ManualSyncer)) as store:
        source = records(count, now - DAYS * DAY_MS - HALF_AN_HOUR)
        while chunk := list(islice(source, 5_000)):
            for record in chunk:
                store.calls.log.append([record])
            sync_store(store)


def known(home: Path) -> str:
    """The id of a call in the middle of the history."""
    segments = sorted((home / "usage").glob("calls-*.json"))
    line = segments[len(segments) // 2].read_bytes().split(b"\n", 2)[1]
    return line.split(b'"id":"', 1)[1][:30].decode()


def drop_cache(home: Path) -> None:
    """Forget what the system keeps in memory of the files."""
    for path in (home / "usage").iterdir():
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def took(cli: Path, home: Path, words: str) -> tuple[float, float, int, str]:
    """Seconds, those of computing, how many calls were found, and what went wrong."""
    command = [sys.executable, str(cli), "--home", str(home), "usage", "list", "--json", "--", *words.split()]
    if words.startswith("--"):
        command.remove("--")
    begun, before = time.perf_counter(), _computing()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return time.perf_counter() - begun, 0.0, 0, "given up"
    seconds = time.perf_counter() - begun
    return seconds, _computing() - before, done.stdout.count('"id": "req_'), done.stderr.strip()[:60]


def _computing() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--cli", type=Path, default=Path(__file__).parents[2] / "cli.py")
    parser.add_argument("--only", default="")
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    if not given.home.exists():
        build(given.home, given.records)
    names = {"known": known(given.home), "unknown": f"{known(given.home)[:16]}{'0' * 14}"}
    print(f"{'words':42} {'match':5} {'seconds':>8} {'of CPU':>8} {'found':>6}")
    for words, match in FILTERS:
        if given.only in words:
            if given.cold:
                drop_cache(given.home)
            seconds, computing, found, trouble = took(given.cli, given.home, words.format(**names))
            print(f"{words:42} {match:5} {seconds:8.2f} {computing:8.2f} {found:6}  {trouble}", flush=True)


if __name__ == "__main__":
    main()
