"""Samples: calls, holds and grants made of a number, so that a test can say which one it means."""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tinydb import TinyDB

from gateway.config import Config
from gateway.domain.account import Grant
from gateway.domain.call import Record, Running
from gateway.domain.query import FAILURE, SUCCESS, Condition, NumberCondition, OneOf, Query, StateCondition
from gateway.domain.registry import Change
from gateway.domain.units import DOLLAR, CallId, Millis, Nanos, TokenId
from gateway.store.calls import CallLog
from gateway.store.line_format import TAIL, id_of, pack
from gateway.store.log import Log
from gateway.store.rollup import Dimension
from gateway.store.segment import EMPTY, HEAD, Segment
from gateway.store.store import Store
from gateway.store.sums import FOREVER, Step, Sums
from gateway.store.tail import repair
from tests.fakes.stored import copied
from tests.fakes.syncing import ManualSyncer

T0 = 1_763_640_000_000
"""A Thursday in November 2025, noon in UTC."""

MODELS = ("m-large", "m-small", "m-tiny")


def retype(data: bytes) -> bytes:
    """A file whose second line is intact, but has a number where a text is expected."""
    lines = data.split(b"\n")
    lines[1] = pack(id_of(lines[1]), b'{"id":5}')
    return b"\n".join(lines)


HURTS: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda _: b"",
    "one byte": lambda data: data[:1],
    "half a head": lambda data: data[: len(HEAD) // 2],
    "the head alone": lambda _: HEAD,
    "no calls": lambda _: EMPTY,
    "half a line": lambda data: data[: len(HEAD) + 120],
    "two and a half lines": lambda data: b"\n".join(data.split(b"\n")[:4])[:-100],
    "no end": lambda data: data[: -len(TAIL)],
    "emptied by stock TinyDB": lambda _: b'{"meta": {"1": {"format": 1}}, "calls": {}}',
    "another TinyDB": lambda _: b'{"calls": {"1": {"cost": "a word"}, "x": {}}}',
    "a field of another type": retype,
    "garbage": lambda _: bytes(range(256)) * 20,
    "zeros": lambda data: bytes(len(data) + 1),
}
"""What may become of a file."""


_FIELDS = {"token": "token_id", "channel": "channel_id", "group": "group_id"}


def where(*, since: Millis | None = None, until: Millis | None = None, **values: Any) -> Query:
    """The query for records with these values."""
    conditions = [_condition(name, value) for name, value in values.items()]
    return Query(since=since, until=until, conditions=tuple(conditions))


def _condition(name: str, value: Any) -> Condition:
    if name == "failed":
        return FAILURE if value else SUCCESS
    if name == "outcome":
        return StateCondition(value)
    if name == "status":
        return NumberCondition("status", value, value)
    return OneOf(_FIELDS.get(name, name), frozenset([value]))


def call_id(i: int, ts: int = T0) -> CallId:
    return CallId(f"req_{ts:012x}{i:014x}")


def record(i: int, *, ts: int | None = None, **fields: Any) -> Record:
    """The i-th call: it began i milliseconds after T0, and every eighth one failed."""
    moment = Millis(T0 + i if ts is None else ts)
    sample: dict[str, Any] = {
        "token": f"tok_{i % 5}",
        "token_name": f"laptop {i % 5}",
        "group": "default" if i % 3 else "vip",
        "model": MODELS[i % 3],
        "channel": f"ch_{i % 2}",
        "app": "curl" if i % 4 else "openai-python",
        "status": 200 if i % 8 else 429,
        "input": 100 + i % 50,
        "output": 10 + i % 7,
        "cost": 1000 + i,
        "ms": 500 + i % 100,
        "ttft": 100 + i % 10 if i % 8 else None,
    }
    return Record(id=call_id(i, moment), ts=moment, **{**sample, **fields})


def running(i: int, *, held: int = 5000, **fields: Any) -> Running:
    """The i-th call while it runs."""
    done = record(i)
    sample: dict[str, Any] = {"token": done.token, "group": done.group, "model": done.model, "channel": done.channel}
    return Running(id=done.id, ts=done.ts, held=Nanos(held), held_tokens=200, **{**sample, **fields})


def busy(seed: int, count: int, *, days: float = 1.0) -> Iterator[Record]:
    """Random calls spread over some days, in the order of their ends, which is not that of their starts."""
    rng = random.Random(seed)
    for i in range(count):
        ts = T0 + int(i * days * 86_400_000 / count) - rng.randrange(120_000)
        yield record(i, ts=ts, token=f"tok_{rng.randrange(6)}", status=rng.choice((200, 200, 200, 429, 0)))


def log_of(folder: Path, count: int = 0, **options: Any) -> CallLog:
    """A log of the first calls."""
    calls = CallLog(Log(folder, **options))
    for i in range(count):
        calls.log.append([record(i)])
    return calls


def seal(calls: CallLog) -> None:
    """Sync, and seal what is closed."""
    calls.log.sync()
    calls.log.seal()


def sealed_log(folder: Path, calls: Sequence[Record]) -> CallLog:
    """A log of these calls that was sealed before the last of them."""
    found = log_of(folder, limit=20_000)
    for i, call in enumerate(calls):
        found.log.append([call])
        if i == 450:
            seal(found)
    return found


def sums_of(calls: CallLog, by: Dimension, step: Step = "") -> Sums:
    """Over all time."""
    return calls.sums(by, Millis(0), Millis(FOREVER), step)


def store_of(home: Path, *, clock: int = T0, **options: Any) -> Store:
    """A store that syncs only when asked."""
    return Store(Config(home=home), now=lambda: Millis(clock), **{"syncer": ManualSyncer, **options})


def grant(store: Store, dollars: int = 10, key: str = "g1") -> None:
    store.entities.apply([Change("grants", key, Grant(id=key, nanos=Nanos(dollars * DOLLAR), time=Millis(T0)))])


def funded_store(home: Path, calls: int = 0, **options: Any) -> Store:
    """A store with ten dollars, of which the first calls have spent some."""
    store = store_of(home, **options)
    grant(store)
    for i in range(calls):
        settle(store, i)
    return store


def settle(store: Store, i: int, **fields: Any) -> Record:
    """Open and settle the i-th call."""
    store.books.open(running(i))
    return store.books.settle(record(i, **fields))


def scan(segment: Segment) -> bool:
    """Count the calls of a file as the next start would. Whether it is undamaged; a repair changes only a copy."""
    path = segment.path
    with copied(path) as segment.path:
        is_undamaged = repair(segment, 0, 7) == ""
    segment.path = path
    return is_undamaged


def stock(path: Path) -> list[dict[str, Any]]:
    """The calls of a segment as TinyDB reads them that knows nothing of us."""
    with TinyDB(path, access_mode="r") as tinydb:
        return [dict(document) for document in tinydb.table("calls")]


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("calls-*.json"))


def token(i: int) -> TokenId:
    return TokenId(f"tok_{i}")
