"""Judge: whether a store that was opened after a crash keeps every promise that was made before it."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from tinydb import TinyDB

from gateway.domain.call import Outcome, Record
from gateway.domain.errors import GatewayError
from gateway.store.store import Store
from tests.crash.life import SEGMENT_BYTES, settled
from tests.fakes.audit import verify
from tests.store.samples import stock, store_of

Acks = Iterable[tuple[str, str]]


def judge(home: Path, acks: Acks, *, power: bool = True) -> list[str]:
    """Open the store, as the next start would; every broken promise. Without power, calls may be missing."""
    try:
        store = store_of(home, segment_bytes=SEGMENT_BYTES)
    except (GatewayError, msgspec.DecodeError) as exc:
        return [f"does not open: {exc}"]
    try:
        return [*_promises(store, acks), *_sums(store, power=power), *_stock(home, store)]
    finally:
        store.close()


def records_of(store: Store) -> dict[str, Record]:
    return {record.id: record for record in store.calls.find(limit=1 << 30)}


def _promises(store: Store, acks: Acks) -> list[str]:
    records = records_of(store)
    broken = (
        [] if len(records) == store.calls.count else [f"{store.calls.count} calls, {len(records)} of them different"]
    )
    for kind, text in acks:
        if kind == "H" and text not in records:
            broken.append(f"{text} was running and is forgotten")
        if kind == "C" and (lost := records.get(text)) and lost.outcome is Outcome.LOST and lost.channel != "ch_other":
            broken.append(f"{text} was lost at {lost.channel}")
        if kind == "S":
            record = settled(text.encode())
            if records.get(record.id) != record:
                broken.append(f"{record.id} was settled and is now {records.get(record.id)}")
        if kind == "G" and text not in store.entities.registry.grants:
            broken.append(f"grant {text} is gone")
    wrong = [r.id for r in records.values() if r.outcome is Outcome.LOST and r.cost]
    return [*broken, *(f"{call} is lost and was charged" for call in wrong)]


def _sums(store: Store, *, power: bool) -> list[str]:
    verdict = verify(store)
    spent = sum(record.cost for record in records_of(store).values())
    broken = [] if verdict.equal else [verdict.difference]
    if power:
        broken += [told for told in verdict.damage if " missing before " in told or "not a byte was left" in told]
    if store.books.balance() != store.entities.registry.granted - spent:
        broken.append(f"the balance is {store.books.balance()}")
    return broken


def _stock(home: Path, store: Store) -> list[str]:
    """TinyDB as it is reads every file."""
    try:
        found = [call["id"] for path in sorted((home / "usage").glob("calls-*.json")) for call in stock(path)]
    except ValueError as exc:
        return [f"stock TinyDB cannot read it: {exc}"]
    broken = [] if len(found) == store.calls.count else [f"stock TinyDB finds {len(found)} calls"]
    for path in (home / "config.json", home / "usage" / "ledger.json"):
        if path.exists():
            with TinyDB(path, access_mode="r") as tinydb:
                broken += [] if "meta" in tinydb.tables() else [f"stock TinyDB finds nothing in {path.name}"]
    return broken
