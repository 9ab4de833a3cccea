"""Law: what must hold after every test that used a gateway, whether the test asked for it or not.

Money is conserved to the nano-dollar between grants, records and holds; a hold stands for a running call and for
nothing else; what the provider billed is what was recorded; and nothing that was opened stays open.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gateway.domain.call import Outcome, Record
from gateway.domain.errors import GatewayError
from gateway.domain.usage import UsageSource
from tests.fakes.audit import verify
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Bill, Provider
from tests.fakes.stored import opened

UNFINISHED = frozenset(
    {Outcome.CLIENT_CLOSED, Outcome.CANCELLED, Outcome.STOPPED, Outcome.TIMEOUT, Outcome.UPSTREAM_CUT}
)


MOMENT_S = 2.0
"""How long what is ending may take to end."""


def breaches(gateway: Gateway, providers: Iterable[Provider] = ()) -> list[str]:
    """Every way in which the law is broken now. Calls may be running."""
    records = gateway.records
    bills = [exchange.bill for provider in providers for exchange in provider.exchanges if exchange.bill]
    return [*_money(gateway, records), *_holds(gateway), *_records(records), *_witness(records, bills)]


def _money(gateway: Gateway, records: list[Record]) -> Iterator[str]:
    books, registry = gateway.engine.store.books, gateway.engine.catalog.registry
    spent = sum(record.cost for record in records)
    held = sum(call.held for call in books.running.values())
    yield from _differ("balance", books.balance(), registry.granted - spent)
    yield from _differ("available", books.available(), registry.granted - spent - held)
    yield from _differ("spent by the account", books.spent(("account", "")).nanos, spent)
    scopes: dict[str, Callable[[Record], str]] = {
        "token": lambda record: record.token,
        "group": lambda record: record.group,
        "channel": lambda record: record.channel,
    }
    for noun, key_of in scopes.items():
        for key in {key_of(record) for record in records} - {""}:
            mine = [record for record in records if key_of(record) == key]
            sums = books.spent((noun, key))  # type: ignore[arg-type]
            yield from _differ(f"spent by {noun} {key}", sums.nanos, sum(record.cost for record in mine))
            yield from _differ(f"tokens of {noun} {key}", sums.tokens, sum(r.input + r.output for r in mine))


def _holds(gateway: Gateway) -> Iterator[str]:
    books = gateway.engine.store.books
    yield from _differ("open holds", sorted(books.running), sorted(gateway.engine.live.calls))
    held = books.held(("account", ""))
    yield from _differ("held", held.nanos, sum(call.held for call in books.running.values()))
    yield from _differ("calls that hold", held.calls, len(books.running))


def _records(records: list[Record]) -> Iterator[str]:
    yield from (f"{id} is recorded {n} times" for id, n in Counter(r.id for r in records).items() if n > 1)
    for record in records:
        yield from _differ(f"cost of {record.id}", record.cost, _cost(record))
        if min(record.input, record.cached, record.cache_write, record.output, record.reasoning) < 0:
            yield f"{record.id} has a negative count"
        whole = (record.input, record.cache_write, record.output)
        parts = (record.cached + record.cache_write, record.cache_write_long, record.reasoning)
        if any(part > all_of_it for part, all_of_it in zip(parts, whole, strict=True)):
            yield f"{record.id} has parts larger than their whole"


def _cost(record: Record) -> int:
    """The cost computed again from the kept numbers, in another way than with the gateway's own formula."""
    if record.rates is None:
        return 0
    at = record.rates
    fresh = record.input - record.cached - record.cache_write
    long_rate = at.cache_write if at.cache_write_long is None else at.cache_write_long
    written = record.cache_write - record.cache_write_long
    parts = (
        *((fresh, at.input), (record.cached, at.cached_input)),
        *((written, at.cache_write), (record.cache_write_long, long_rate)),
    )
    nanos_millionths = sum(n * rate for n, rate in parts) + record.output * at.output + at.per_call * 10**6
    others = {"other_input": at.input, "other_output": at.output, "other_cached": at.cached_input}
    others |= {"other_write": at.cache_write, "other_write_long": long_rate}
    own = at.extras or {}
    nanos_millionths += sum(record.parts.get(n, 0) * (own[n] - rate) for n, rate in others.items() if n in own)
    whole, rest = divmod(nanos_millionths * at.multiplier, 10**12)
    return whole + (2 * rest >= 10**12)


def _witness(records: list[Record], bills: list[Bill]) -> Iterator[str]:
    billed = {bill.id: bill for bill in bills}
    for record in records:
        if record.source is UsageSource.REPORTED and (bill := billed.get(record.upstream_id)) is not None:
            yield from _differ(f"usage of {record.id}", (record.input, record.output), (bill.input, bill.output))
    recorded = {record.upstream_id for record in records}
    unfinished = any(record.outcome in UNFINISHED for record in records)
    yield from (f"{id} was billed and not recorded" for id in billed if id not in recorded and not unfinished)


def on_disk(home: Path) -> list[str]:
    """What the store contains, read again after the gateway has closed it."""
    try:
        with opened(home) as store:
            verdict = verify(store)
    except GatewayError as error:
        return [f"verify: {error.message}"]
    wrong = [] if verdict.equal else [verdict.difference]
    return [f"verify: {words}" for words in (*wrong, *verdict.damage)]


class Ajar:
    """What is open in this process at the moment this is made; ``closed`` fails if more stays open."""

    def __init__(self) -> None:
        self._tasks = asyncio.all_tasks()
        self._files = _open_files()

    async def closed(self) -> None:
        """Give what is ending a moment to end."""
        until = time.monotonic() + MOMENT_S  # of the wall: the loop's time may be hasty
        while time.monotonic() < until:
            if not self._left() and _open_files() <= self._files:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"left open: {self._left()}, {_open_files() - self._files} files")

    def _left(self) -> list[str]:
        return [repr(task) for task in asyncio.all_tasks() - self._tasks if task is not asyncio.current_task()]


def _open_files() -> int:
    descriptors = Path("/proc/self/fd")
    return len(list(descriptors.iterdir())) if descriptors.is_dir() else 0


def _differ(what: str, found: object, wanted: object) -> Iterator[str]:
    if found != wanted:
        yield f"{what} is {found}, not {wanted}"
