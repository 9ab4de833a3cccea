"""Whatever file operation the disk refuses while calls are in flight, clients were shown what the ledger says.

A whole gateway runs in a process of its own: its upstream and its clients on loopback, plain calls and streams at
once, segments that seal every dozen calls. One operation on one of its files fails, or from then on all of that file or
of the disk; the calls go on; then it is killed, while the disk fails or after it has recovered. What it has told until
then is compared with what the next start finds.
"""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from gateway.domain.call import Outcome, Record
from gateway.domain.settings import Durability
from gateway.store import files
from gateway.store.line_format import TAIL
from gateway.store.recorder import Backlog
from gateway.store.store import Store
from gateway.store.tail import Tail
from tests.crash.judge import records_of
from tests.crash.service import Fault, Shown, live
from tests.fakes.audit import verify
from tests.fakes.disk import REASONS, WRITES
from tests.fakes.gateway import GRANTED
from tests.house import FULL
from tests.store.samples import segments, stock, store_of

SAMPLE = 46
"""Lives in the ordinary run, so many that each operation and each reason has its turn; with TOLLKEEPER_FULL=1 all."""
SHARDS = 4
REPAIRED = "was damaged; "
"""The first start after a disk that did not let go of a torn line says so; the second has nothing more to say."""


class Place(NamedTuple):
    """An operation on a kind of file."""

    name: str
    kind: str


PLACES = tuple(
    Place(*text.split(" "))
    for text in (
        *("pwrite calls", "fdatasync calls", "open calls", "replace calls", "ftruncate calls"),
        *("open calls.tmp", "write calls.tmp"),
        *("write inflight.log", "fdatasync inflight.log", "ftruncate inflight.log", "replace inflight.log"),
        *("open inflight.log.tmp", "write inflight.log.tmp", "fsync inflight.log.tmp"),
        *("open ledger.json.tmp", "write ledger.json.tmp", "fsync ledger.json.tmp", "replace ledger.json"),
        *("open ledger.old.json.tmp", "write ledger.old.json.tmp", "fsync ledger.old.json.tmp"),
        *("replace ledger.old.json", "open usage", "fsync usage"),
        *("open high-water", "write high-water"),
    )
)
"""All that there are while calls run; ``test_every_operation_has_its_turn`` holds it so."""

NTHS = (1, 2, 3, 5, 8, 13)
REACHES = ("once", "file", "disk", "ftruncate", "replace")


def faults() -> Iterator[Fault]:
    """Every one that makes sense."""
    for place in PLACES:
        for nth in NTHS if place in (Place("pwrite", "calls"), Place("write", "inflight.log")) else NTHS[:3]:
            for reason, refusal in REASONS.items():
                if refusal.part and place.name not in WRITES:
                    continue
                for reach in REACHES if place.name in WRITES else REACHES[:3]:
                    for durability in Durability:
                        for heals in (True, False):
                            yield Fault(
                                name=place.name,
                                kind=place.kind,
                                nth=nth,
                                reason=reason,
                                reach=reach,
                                durability=durability.value,
                                heals=heals,
                            )


def chosen(shard: int) -> list[Fault]:
    """A shard of all of them, or of a sample."""
    found = list(faults())
    random.Random(4).shuffle(found)
    return (found if FULL else sample_of(found))[shard::SHARDS]


def sample_of(found: Sequence[Fault]) -> list[Fault]:
    """One for each operation, then one for each reason that those lack, then others."""
    of_operations = {(fault.name, fault.kind): fault for fault in reversed(found)}
    of_reasons = {(fault.reason, fault.reach): fault for fault in reversed(found)}
    for fault in of_operations.values():
        of_reasons.pop((fault.reason, fault.reach), None)
    return list(dict.fromkeys([*of_operations.values(), *of_reasons.values(), *found]))[:SAMPLE]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_clients_saw_the_ledger(scratch: Path, shard: int, record_property: Callable[[str, object], None]) -> None:
    tally: Counter[str] = Counter()
    broken: dict[Fault, list[str]] = {}
    for number, fault in enumerate(chosen(shard)):
        home = scratch / str(number)
        shown = live(home, fault)
        if found := judge(home, fault, shown, tally):
            broken[fault] = found
        shutil.rmtree(home)
    record_property("figures", dict(tally))
    assert broken == {}
    assert tally["fired"] > tally["lives"] / 3


def test_without_a_fault_all_is_complete(scratch: Path) -> None:
    for durability in Durability:
        home, tally = scratch / durability, Counter[str]()
        fault = Fault(durability=durability.value)
        assert judge(home, fault, live(home, fault), tally) == []
        assert (tally["complete"], tally["errors"], tally["lost"]) == (24, 0, 0)


def test_a_sample_has_each_operation_and_each_reason() -> None:
    sample = [fault for shard in range(SHARDS) for fault in chosen(shard)]
    assert {(fault.name, fault.kind) for fault in sample} == set(PLACES)
    assert {(fault.reason, fault.reach) for fault in sample} == {(fault.reason, fault.reach) for fault in faults()}


def test_every_operation_has_its_turn(scratch: Path) -> None:
    """What a gateway does to its files while calls run is what is refused here."""
    seen: set[Place] = set()
    for number, durability in enumerate([*Durability] * 3):
        shown = live(scratch / str(number), Fault(durability=durability.value))
        seen |= {Place(*words) for words in shown.of("O")}
    assert seen <= set(PLACES)
    assert len(seen) > 20


def judge(home: Path, fault: Fault, shown: Shown, tally: Counter[str]) -> list[str]:
    """Every broken promise."""
    if shown.status != -9:
        return [f"it ended with {shown.status}: {shown.of('!')}"]
    complete, errors = _ids(shown, "S"), _ids(shown, "E")
    broken = [f"it did not recover: {words}" for words in shown.of("N")]
    broken += ["a connection broke off"] * len(shown.of("G"))
    damages = []
    for _ in range(2):
        store = store_of(home)
        damages.append(verify(store).damage)
        records = records_of(store)
        broken += _truth(records, complete, errors, tally if len(damages) == 1 else Counter())
        broken += _sums(store, records)
        broken += [f"stock TinyDB cannot read {path.name}" for path in segments(home / "usage") if not _readable(path)]
        store.close()
    broken += [text for text in damages[0] if REPAIRED not in text] + damages[1]
    tally.update(lives=1, fired=bool(shown.of("F")), complete=len(complete), errors=len(errors))
    tally.update(survived=not broken)
    return broken


def _ids(shown: Shown, letter: str) -> dict[str, int]:
    return {words[0]: int(words[1]) for words in shown.of(letter)}


def _truth(
    records: dict[str, Record], complete: dict[str, int], errors: dict[str, int], tally: Counter[str]
) -> Iterator[str]:
    """What clients were shown, against the records of their calls."""
    for call in complete:
        record = records.get(call)
        good = record is not None and record.status == 200 and record.outcome is Outcome.DONE
        tally["lost"] += not good
        if not good:
            yield f"{call} was shown complete, its record is {record}"
    for call, status in errors.items():
        record = records.get(call)
        if record is None:
            continue
        tally[f"errors recorded as {record.outcome}"] += 1
        if not record.failed or record.cost:
            yield f"{call} was shown an error ({status}), its record is {record}"
    for call, record in records.items():
        if not record.failed and call not in complete:
            yield f"{call} is recorded as a success, and nobody was shown it"


def _sums(store: Store, records: dict[str, Record]) -> Iterator[str]:
    spent = sum(record.cost for record in records.values())
    if store.books.balance() != GRANTED - spent:
        yield f"the balance is {store.books.balance()}, and {spent} was spent"
    if difference := verify(store).difference:
        yield difference
    if len(records) != store.calls.count:
        yield f"{store.calls.count} records of {len(records)} calls"


def _readable(path: Path) -> bool:
    try:
        stock(path)
    except ValueError:
        return False
    return True


def answers_go_out_anyway(patch: pytest.MonkeyPatch) -> None:
    """A record that was refused waits in memory, and its client is shown the answer."""
    patch.setattr(Backlog, "_withhold", lambda *_: [])


def closed_before_cut(patch: pytest.MonkeyPatch) -> None:
    """What a failed write has left is closed with braces first, and then cut off."""

    def cut(tail: Tail) -> None:
        end = tail.segment.end
        files.write_all(tail._fd, TAIL, end)  # noqa: SLF001
        os.ftruncate(tail._fd, end + len(TAIL))  # noqa: SLF001
        tail._torn = False  # noqa: SLF001

    patch.setattr(Tail, "_truncate", cut)


def whole_lines_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Lines of a failed write that cannot be undone are taken for lines that are not there."""

    def undo(tail: Tail, *_: object) -> None:
        tail._torn = True  # noqa: SLF001
        with suppress(OSError):
            tail._truncate()  # noqa: SLF001

    patch.setattr(Tail, "_undo", undo)


MUTANTS: dict[Callable[[pytest.MonkeyPatch], None], Fault] = {
    answers_go_out_anyway: Fault(name="pwrite", kind="calls", reach="disk"),
    closed_before_cut: Fault(name="pwrite", kind="calls", reason="short", reach="ftruncate"),
    whole_lines_forgotten: Fault(name="pwrite", kind="calls", reason="short", reach="disk"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_an_outage_finds_what_is_missing(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, mutant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """Each life is a fork of this process, so that it has what is taken away here."""
    found = False
    for number in range(120):  # how soon depends on when the store repairs its files, and so on the load
        fault = msgspec.structs.replace(MUTANTS[mutant], nth=1 + number % 12)
        with monkeypatch.context() as patch:
            mutant(patch)
            shown = live(scratch / str(number), fault)
        if found := judge(scratch / str(number), fault, shown, Counter()) != []:
            break
    assert found
