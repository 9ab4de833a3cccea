"""Verify: computes every balance and sum again from the call log, and compares it with the gateway's own."""

from collections.abc import Iterator

from gateway.domain.budget import Amounts
from gateway.domain.call import ACCOUNT, Record, Scope
from gateway.domain.diagnosis import Verdict
from gateway.domain.units import Nanos
from gateway.store.books import DIMENSION, scopes
from gateway.store.log import missing_records
from gateway.store.rollup import DIMENSIONS, Counts, Rollup, daily_table, total
from gateway.store.segment import Segment, read_call
from gateway.store.store import Store
from gateway.store.sums import Span


class Audit:
    """The gateway's own numbers at the moment of its creation, and their recomputation from the call log.

    Create it in the thread of the books, which is quick. ``verdict`` reads every file and may run in another thread.
    """

    def __init__(self, store: Store) -> None:
        books, log = store.books, store.calls.log
        self.granted, self.balance = store.entities.granted, books.balance()
        with books.counters.lock, log.lock:
            self.segments = [(segment, segment.copy()) for segment in log.segments]
            """Each segment, and a copy that later writes do not change."""
            self._backlog, self._last = books.counters.backlog(), log.last
        self.counters = books.counters.cached_totals()
        """What each scope has spent in a span of time."""
        self.damage = list(log.damage)
        self.checks, self.calls, self.cost, self._difference = 0, 0, 0, ""
        self._next = 1
        """The id that the next document must have: ids are consecutive, also across segments."""
        self._spent: dict[Scope, dict[Span, Counts]] = {}
        for scope, span, _ in self.counters:
            self._spent.setdefault(scope, {})[span] = Counts()
        self._hashed_ids: set[int] = set()

    def verdict(self) -> Verdict:
        """Compare everything, once. Returns the first difference and all damage."""
        for segment, then in self.segments:
            self._check_segment(segment, then)
        if self._next <= self._last:
            self.damage.append(f"{missing_records(self._next, self._last)} from the end; the cost is in no sum")
        for record in self._backlog:
            self._check_call(record)
        for scope, span, spent in self.counters:
            sums = self._spent[scope][span]
            counted = Amounts(Nanos(sums.cost), sums.input + sums.output, sums.admitted)
            self._compare(f"what {' '.join(scope).strip()} spent since {span.since}", spent, counted)
        self._compare("the balance", self.balance, self.granted - self.cost)
        return Verdict(
            equal=not self._difference,
            calls=self.calls,
            cost_nanos=Nanos(self.cost),
            granted_nanos=self.granted,
            balance_nanos=self.balance,
            checks=self.checks,
            difference=self._difference,
            damage=self.damage,
        )

    def _check_segment(self, segment: Segment, then: Segment) -> None:
        """Compare a segment's sums, as they were ``then``, with its calls, if its file is there and complete."""
        damaged = False
        counted, gaps = Rollup(), list[str]()
        count = following = 0
        for line in () if segment.incomplete else then.lines():
            numbered_call = read_call(line)
            if numbered_call is None:
                damaged = True
                continue
            doc_id, call = numbered_call
            counted.add(call)
            count += 1
            self._check_call(call)
            if following and doc_id >= following:
                self._note(f"{segment.name}: record {following} follows {doc_id}")
            gaps += _gap(segment, doc_id + 1, following)
            following = doc_id
        gaps += _gap(segment, self._next, following or segment.first)
        self._next = max(self._next, then.last + 1)
        if segment.incomplete or (segment.deleted and not count):
            self.damage += gaps
            self._add_sums(segment, then)
            return
        if count == then.count:  # otherwise the missing calls are in the sums
            self.damage += reversed(gaps)
        if damaged:
            self._note(f"{segment.name}: its content differs from what was written; its sums stay as they were")
        self._compare(f"{segment.name}: number of calls", then.count, count)
        self._compare_sums(then, counted)

    def _compare_sums(self, segment: Segment, counted: Rollup) -> None:
        name, sums = segment.name, segment.sums
        for by in DIMENSIONS:
            self._compare(f"{name}: totals by {by}", sums.totals(by), counted.totals(by))
            table = counted.table(by) if sums.step(by) == counted.step(by) else daily_table(counted.table(by))
            self._compare(f"{name}: table by {by}", sums.table(by), table)

    def _check_call(self, call: Record) -> None:
        """Check that the id of a call is unique, and charge the call to its scopes."""
        self.calls += 1
        self.cost += call.cost
        hashed_id = hash(call.id)
        if hashed_id in self._hashed_ids:
            self._note(f"call {call.id} is recorded twice")
        self._hashed_ids.add(hashed_id)
        for scope in scopes(call):
            for span, spent in self._spent.get(scope, {}).items():
                if span.since <= call.ts < span.until:
                    spent.add(call)

    def _add_sums(self, segment: Segment, then: Segment) -> None:
        """Add the sums of a segment whose calls cannot be read, as it was ``then``."""
        if segment.incomplete and not segment.deleted:
            self.damage.append(
                f"{segment.name}: damage left it {then.count} of its calls, and its sums stay as they were; "
                "restore it from a backup, or delete it"
            )
        groups = total(then.sums.totals("group").values())
        self.calls += groups.calls
        self.cost += groups.cost
        for scope, spans in self._spent.items():
            for value, rows in then.sums.table(DIMENSION[scope[0]]).items():
                if scope == ACCOUNT or scope[1] == value:
                    for (since, until), spent in spans.items():
                        first = 0 if since <= segment.earliest else since
                        spent.merge(total(counts for start, counts in rows.items() if first <= start < until))

    def _compare(self, subject: str, stored: object, counted: object) -> None:
        self.checks += 1
        if stored != counted:
            self._note(f"{subject}{_difference(stored, counted)}")

    def _note(self, difference: str) -> None:
        """Keep the first difference."""
        self._difference = self._difference or difference


def _gap(segment: Segment, begin: int, end: int) -> Iterator[str]:
    """Yields a text if the records from ``begin`` to the one before ``end`` are missing."""
    if begin < end:
        yield f"{segment.name}: {missing_records(begin, end - 1)} before {end}; the cost is in no sum"


def _difference(stored: object, counted: object) -> str:
    """Returns how two values differ, in tables the first cells that do: `` tok_1: the gateway has 1, …``."""
    if isinstance(stored, dict) and isinstance(counted, dict):
        key = next(key for key in {**stored, **counted} if stored.get(key) != counted.get(key))
        return f" {key or '(none)'}{_difference(stored.get(key), counted.get(key))}"
    return f": the gateway has {stored}, the call log has {counted}"
