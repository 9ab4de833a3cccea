"""Rollup: sums of calls by hour. Charts, totals and balances are computed from them.

While a segment grows, its calls are summed in a Rollup, by hour and by all dimensions at once. When it is sealed, the
sums become a SealedSegment, with one table for each dimension, in the ledger.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from sys import intern
from typing import Any, Literal, get_args

import msgspec

from gateway.domain.call import NOT_UPSTREAM, REPEATED_MARK, Outcome, Record, mark_total, wait_of
from gateway.domain.units import DAY_MS, HOUR_MS

Dimension = Literal["token", "model", "channel", "group", "app", "api", "token|model"]
"""What calls are summed by. A value of the last one has the form ``TOKEN|MODEL``; it has a row for each day only."""

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

CALL_FIELDS: tuple[Dimension, ...] = DIMENSIONS[:-1]
"""The dimensions that are fields of a record."""


class Counts(msgspec.Struct, array_like=True, gc=False):
    """Sums of some calls. Costs are in nano-dollars, times in milliseconds."""

    calls: int = 0
    errors: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    cost: int = 0
    possible: int = 0
    ms: int = 0
    ttft: int = 0
    firsts: int = 0
    """The number of calls with a first byte: ``ttft / firsts`` is the average."""
    refused: int = 0
    """The number of calls that were refused before any upstream request. Daily limits do not count them."""
    aborts: int = 0
    """The number of errors whose calls were ended by the client, the owner or a stop of the gateway."""
    refused_ms: int = 0
    """The part of ``ms`` that belongs to refused calls. Some of them waited in a queue before."""
    repeats: int = 0
    """The number of refusals without a record of their own. They are not in ``calls``, ``errors`` and ``refused``."""
    lost: int = 0
    """The number of errors whose calls were running when the gateway died."""
    waited: int = 0
    """The part of ``ttft`` that calls waited for a free slot, before any upstream request."""

    @property
    def failures(self) -> int:
        """Returns the number of errors, without calls that were aborted or lost."""
        return self.errors - self.aborts - self.lost

    @property
    def admitted(self) -> int:
        return self.calls - self.refused

    def add(self, call: Record) -> None:
        self.calls += 1
        if not 200 <= call.status < 300:
            self.errors += 1
            if call.outcome in NOT_UPSTREAM:
                self.aborts += 1
            elif call.outcome == Outcome.LOST:
                self.lost += 1
        if call.outcome == Outcome.REFUSED:
            self.refused += 1
            self.refused_ms += call.ms
            self.repeats += mark_total(call.marks, REPEATED_MARK)
        self.input += call.input
        self.cached += call.cached
        self.output += call.output
        self.cost += call.cost
        self.possible += call.possible
        self.ms += call.ms
        if call.ttft is not None:
            self.ttft += call.ttft
            self.firsts += 1
            if call.marks:
                self.waited += min(wait_of(call.marks)[0], call.ttft)

    def merge(self, other: "Counts") -> None:
        """Add the sums of other calls. A loop over the fields would take twice as long."""
        self.calls += other.calls
        self.errors += other.errors
        self.input += other.input
        self.cached += other.cached
        self.output += other.output
        self.cost += other.cost
        self.possible += other.possible
        self.ms += other.ms
        self.ttft += other.ttft
        self.firsts += other.firsts
        self.refused += other.refused
        self.aborts += other.aborts
        self.refused_ms += other.refused_ms
        self.repeats += other.repeats
        self.lost += other.lost
        self.waited += other.waited


Totals = dict[str, Counts]
"""Maps a value of a dimension to its sums."""

Table = dict[str, dict[int, Counts]]
"""Maps a value of a dimension to the start of an hour or day (milliseconds) to its sums."""


def total(rows: Iterable[Counts]) -> Counts:
    """Returns the sums of all rows together."""
    whole = Counts()
    for counts in rows:
        whole.merge(counts)
    return whole


def totals_of(table: Table) -> Totals:
    """Returns the sums of each value over all hours or days."""
    return {value: total(rows.values()) for value, rows in table.items()}


_values_of: Callable[[Record], tuple[str, ...]] = attrgetter(*CALL_FIELDS)


class Rollup:
    """The sums of a growing segment. Adding a call takes one look-up in a dictionary; tables are made on demand."""

    def __init__(self) -> None:
        self._counts_by_key: dict[tuple[Any, ...], Counts] = {}
        """The sums by the start of an hour and the values of ``CALL_FIELDS``."""
        self.last_used: dict[str, int] = {}
        """Maps each token's id to the start of its latest call."""

    def add(self, call: Record) -> None:
        hour, values = call.ts // HOUR_MS * HOUR_MS, _values_of(call)
        counts = self._counts_by_key.get((hour, *values))
        if counts is None:  # thousands of keys have the same values
            counts = self._counts_by_key[(hour, *map(intern, values))] = Counts()
        counts.add(call)
        for channel, nanos in call.possible_elsewhere.items():
            at_channel = _values_of(msgspec.structs.replace(call, channel=channel))
            self._counts_by_key.setdefault((hour, *at_channel), Counts()).possible += nanos
        if call.ts > self.last_used.get(call.token, 0):
            self.last_used[call.token] = call.ts

    def step(self, by: Dimension) -> int:
        """Returns the time that a row of the table stands for, in milliseconds: an hour or a day."""
        return DAY_MS if by == "token|model" else HOUR_MS

    def table(self, by: Dimension) -> Table:
        """Returns the sums of each value by hour or day."""
        step, table = self.step(by), Table()
        places = [place for place, field in enumerate(CALL_FIELDS, 1) if field in by.split("|")]
        for key, counts in list(self._counts_by_key.items()):  # a copy: it may grow while it is read
            value = "|".join(key[place] for place in places)
            table.setdefault(value, {}).setdefault(key[0] // step * step, Counts()).merge(counts)
        return table

    def totals(self, by: Dimension) -> Totals:
        return totals_of(self.table(by))

    def copy(self) -> "Rollup":
        """Returns a copy, which calls that are added later do not change."""
        copied = Rollup()
        copied._counts_by_key = {key: msgspec.structs.replace(counts) for key, counts in self._counts_by_key.items()}
        copied.last_used = dict(self.last_used)
        return copied


class SealedSegment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The permanent entry of a sealed segment in the ledger: which calls it held, and their sums."""

    name: str
    """The file's name. A segment named in the ledger is never counted again."""
    count: int = msgspec.field(name="n")
    """The number of calls in the sums, whatever happens to the file."""
    first: int
    """The smallest document id."""
    last: int
    """The largest document id."""
    earliest: int = msgspec.field(name="t0")
    """When the first of its calls began."""
    latest: int = msgspec.field(name="t1")
    """When the last of its calls began."""
    end: int
    """The number of bytes before the closing braces."""
    remaining: int | None = msgspec.field(default=None, name="left")
    """The number of calls that are still in the file, if damage removed some; else None."""
    edited: bool = False
    """Whether another program changed the file, so that the sums may not match its content."""
    hourly: bool
    """Whether its tables have a row for each hour; otherwise for each day."""
    last_used: dict[str, int] = msgspec.field(name="latest")
    """Maps each token's id to the start of its latest call."""
    raw_totals: dict[Dimension, msgspec.Raw] = msgspec.field(name="all")
    """Encoded totals, decoded on demand because there are many and most are never needed."""
    raw_tables: dict[Dimension, msgspec.Raw] = msgspec.field(name="tables")
    """Encoded tables, decoded when a chart or a window needs them."""

    def step(self, by: Dimension) -> int:
        return HOUR_MS if self.hourly and by != "token|model" else DAY_MS

    def table(self, by: Dimension) -> Table:
        return _decode_table(self.raw_tables[by])

    def totals(self, by: Dimension) -> Totals:
        return _decode_totals(self.raw_totals[by])


def encode_sums(sums_by: Callable[[Dimension], Totals | Table]) -> dict[Dimension, msgspec.Raw]:
    """Returns the totals or tables of all dimensions, each encoded."""
    return {by: msgspec.Raw(msgspec.json.encode(sums_by(by))) for by in DIMENSIONS}


def to_daily(sealed: SealedSegment) -> SealedSegment:
    """Returns the segment with tables by day instead of hour, for a segment too old for an hourly chart."""
    tables = encode_sums(lambda by: daily_table(sealed.table(by)))
    return msgspec.structs.replace(sealed, hourly=False, raw_tables=tables)


def daily_table(table: Table) -> Table:
    """Returns the sums of a table by day instead of hour."""
    days = Table()
    for value, rows in table.items():
        for start, counts in rows.items():
            days.setdefault(value, {}).setdefault(start // DAY_MS * DAY_MS, Counts()).merge(counts)
    return days


_decode_totals = msgspec.json.Decoder(Totals).decode
_decode_table = msgspec.json.Decoder(Table).decode
