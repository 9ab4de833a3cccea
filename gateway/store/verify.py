"""Verify: every balance and sum computed again from the call log, and compared with the gateway's.

``take`` is quick and belongs to the thread of the books. ``check`` reads every file and may run in another thread.
"""

from collections.abc import Iterator
from typing import NamedTuple

from gateway.domain.budget import Amounts
from gateway.domain.call import ACCOUNT, Record, Scope
from gateway.domain.diagnosis import Verdict
from gateway.domain.units import Millis, Nanos
from gateway.store.books import DIMENSION
from gateway.store.files import body_of, id_of, intact
from gateway.store.log import SegmentView
from gateway.store.rollup import DIMENSIONS, Countable, Counts, Rollup, by_day
from gateway.store.segment import decode_entry
from gateway.store.store import Store
from gateway.store.sums import total


class BooksSnapshot(NamedTuple):
    """The gateway's own numbers."""

    parts: list[SegmentView]
    backlog: list[Record]
    counters: list[tuple[Scope, Millis, Amounts]]
    granted: Nanos
    balance: Nanos
    damage: list[str]
    """The damage found when the store was opened."""
    last: int
    """The newest document id ever given."""


def verify(store: Store) -> Verdict:
    """Take the numbers and check them at once."""
    return check(take(store))


def take(store: Store) -> BooksSnapshot:
    """Returns a copy of the present state."""
    books = store.books
    balance = books.balance()
    with books.counters.lock, store.calls.log.lock:
        parts = store.calls.log.views()
        backlog, last = books.counters.backlog(), store.calls.log.last
    damage = list(store.calls.log.damage)
    return BooksSnapshot(parts, backlog, books.counters.known(), store.entities.granted, balance, damage, last)


def check(snapshot: BooksSnapshot) -> Verdict:
    """Compare everything. Reports the first difference, and all the damage."""
    audit, difference = _Audit(snapshot), ""
    for text in audit.differences():
        difference = difference or text
    return Verdict(
        equal=not difference,
        calls=audit.calls,
        cost_nanos=Nanos(audit.cost),
        granted_nanos=snapshot.granted,
        balance_nanos=snapshot.balance,
        checks=audit.checks,
        difference=difference,
        damage=audit.damage,
    )


class _Audit:
    """Sums everything again. ``checks`` counts the comparisons."""

    def __init__(self, snapshot: BooksSnapshot) -> None:
        self.checks, self.calls, self.cost = 0, 0, 0
        self.damage = list(snapshot.damage)
        self._snapshot = snapshot
        self._next = 1
        """The id of the next document: ids are consecutive, also across segments."""
        self._spent: dict[Scope, dict[Millis, Counts]] = {}
        for scope, since, _ in snapshot.counters:
            self._spent.setdefault(scope, {})[since] = Counts()
        self._ids: set[int] = set()

    def differences(self) -> Iterator[str]:
        for part in self._snapshot.parts:
            yield from self._part(part)
        self._end()
        for record in self._snapshot.backlog:
            yield from self._call(record, record.id)
        for scope, since, spent in self._snapshot.counters:
            sums = self._spent[scope][since]
            counted = Amounts(Nanos(sums.cost), sums.input + sums.output, sums.admitted)
            yield from self._same(f"what {' '.join(scope).strip()} spent since {since}", spent, counted)
        balance = self._snapshot.granted - self.cost
        yield from self._same("the balance", self._snapshot.balance, balance)

    def _part(self, part: SegmentView) -> Iterator[str]:
        """Check a segment against its file. If that is gone or damaged, its sums are all there is to go by."""
        lines = _lines(part)
        if lines is None:
            self._believe(part)
            return
        name, damaged = part.segment.name, False
        fresh, count, last, gaps = Rollup(), 0, 0, list[str]()
        for line in lines:
            if not intact(line):
                damaged = True
                continue
            doc_id, call = id_of(line), decode_entry(body_of(line))
            fresh.add(call)
            count += 1
            yield from self._call(call, call.id)
            if doc_id <= last:
                yield f"{name}: document {doc_id} follows {last}"
            gaps += self._before(name, doc_id, doc_id)
            last = doc_id
        if count == part.n:  # else calls are missing that the sums know
            self.damage += gaps
        self._next = max(self._next, part.last + 1)
        if damaged:
            yield f"{name}: its content differs from what was written; its sums stay as they were"
        yield from self._same(f"{name}: number of calls", part.n, count)
        for by in DIMENSIONS:
            yield from self._same(f"{name}: totals by {by}", part.sums.totals(by), fresh.totals(by))
            table = fresh.table(by) if part.sums.step(by) == fresh.step(by) else by_day(fresh.table(by))
            yield from self._same(f"{name}: table by {by}", part.sums.table(by), table)

    def _call(self, call: Countable, call_id: str) -> Iterator[str]:
        """Check one call: its id must be unique, and everything it draws on must be charged."""
        self.calls += 1
        self.cost += call.cost
        known = hash(call_id)
        if known in self._ids:
            yield f"call {call_id} is recorded twice"
        self._ids.add(known)
        drawn: tuple[Scope, ...] = (ACCOUNT, ("token", call.token), ("group", call.group), ("channel", call.channel))
        for scope in drawn:
            for since, spent in self._spent.get(scope, {}).items():
                if call.ts >= since:
                    spent.book(call)

    def _before(self, name: str, first: int, last: int) -> Iterator[str]:
        """Report what is missing before these documents."""
        begin, end, self._next = self._next, first - 1, max(self._next, last + 1)
        if begin <= end:
            yield f"{name}: {_numbers(begin, end)} missing before {first}, and what they cost is in no sum"

    def _end(self) -> None:
        """Report what is missing after the last document."""
        begin, end = self._next, self._snapshot.last
        if begin <= end:
            self.damage.append(f"{_numbers(begin, end)} missing from the end, and what they cost is in no sum")

    def _believe(self, part: SegmentView) -> None:
        """Accept the sums of a segment without its calls."""
        segment = part.segment
        self.damage += self._before(segment.name, segment.first, segment.last)
        if segment.partial and not segment.gone:
            self.damage.append(
                f"{segment.name}: damage left it {part.n} of its calls, and its sums stay as they were; "
                "restore it from a backup, or delete it"
            )
        groups = total(part.sums.totals("group").values())
        self.calls += groups.calls
        self.cost += groups.cost
        for scope, moments in self._spent.items():
            for value, rows in part.sums.table(DIMENSION[scope[0]]).items():
                if scope == ACCOUNT or scope[1] == value:
                    for since, spent in moments.items():
                        whole = since <= segment.t0
                        spent.merge(total(counts for start, counts in rows.items() if whole or start >= since))

    def _same(self, what: str, kept: object, counted: object) -> Iterator[str]:
        self.checks += 1
        if kept != counted:
            yield f"{what}{_difference(kept, counted)}"


def _numbers(begin: int, end: int) -> str:
    return f"document {begin} is" if begin == end else f"documents {begin} to {end} are"


def _lines(part: SegmentView) -> Iterator[bytes] | None:
    """Returns the lines to check; None for a segment that is partial, or whose file was deleted."""
    if part.segment.partial:
        return None
    try:
        return part.segment.all_lines(part.end)
    except FileNotFoundError:
        return None if part.segment.gone else iter(())


def _difference(kept: object, counted: object) -> str:
    """Returns the first cell that differs between two tables."""
    if isinstance(kept, dict) and isinstance(counted, dict):
        key = next(key for key in {**kept, **counted} if kept.get(key) != counted.get(key))
        return f" {key or '(none)'}{_difference(kept.get(key), counted.get(key))}"
    return f": the gateway has {kept}, the call log has {counted}"
