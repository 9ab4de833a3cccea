"""Search: the lines of the log whose calls fit some conditions, newest first, at the speed of memory.

Segments are passed over by their times and sums. Of the others each block of lines is searched for the needles of the
conditions; lines that have them all, or all lines of a block where the needles are not enough, are decoded to the few
fields that the conditions name. Only what fits is looked at further.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gateway.domain.call import Outcome
from gateway.domain.query import (
    EVERYTHING,
    SUCCESS,
    Condition,
    FailureCondition,
    NumberCondition,
    OneOf,
    Query,
    StateCondition,
)
from gateway.domain.units import Millis
from gateway.store.files import body_of, id_of, intact, split
from gateway.store.prefilter import (
    FIELDS,
    Exclusion,
    always,
    fields_of,
    may_hold,
    needle_of,
    never,
)
from gateway.store.segment import Segment, decode_entry
from gateway.store.sums import FOREVER

SLICE_S = 0.001
"""A search lets other threads run after each millisecond: they have calls to serve."""

REST_S = 0.000_05
"""Long enough for a thread that waits to get its turn."""


FEW = 32
"""Lines that are decoded sooner than a block is searched once more."""


class CallFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls: all conditions must hold, None is none. ``since <= ts < until``."""

    since: Millis | None = None
    until: Millis | None = None
    token: str | None = None
    """Token id."""
    model: str | None = None
    channel: str | None = None
    """Channel id."""
    app: str | None = None
    api: str | None = None
    """Name of the inbound API."""
    status: int | None = None
    outcome: Outcome | None = None
    failed: bool | None = None


class SearchDeadline:
    """How long a search may go on. It pauses now and then, so that it holds no other thread up."""

    def __init__(self, seconds: float = float("inf")) -> None:
        self._end = time.perf_counter() + seconds
        self._rested = time.perf_counter()
        self._cancelled = False

    def cancel(self) -> None:
        """End the search at once; from any thread."""
        self._cancelled = True

    def over(self) -> bool:
        """Whether to stop. Called often, it pauses when it is time to."""
        now = time.perf_counter()
        if now - self._rested > SLICE_S:
            time.sleep(REST_S)
            self._rested = time.perf_counter()
        return self._cancelled or now > self._end


class SearchStep(msgspec.Struct, frozen=True):
    """One block of lines that was searched, or a segment that was passed over."""

    lines: list[bytes]
    """Those that fit, newest first; a damaged one may be among them."""
    segment: Segment
    block: bytes = b""
    """Empty for a whole segment."""

    def oldest(self) -> tuple[int, Millis]:
        """Id and start of the oldest intact call that was looked at; zeros if there is none."""
        if not self.block:
            return self.segment.first, Millis(self.segment.t0)
        for line in split(self.block):
            if intact(line):
                return id_of(line), Millis(decode_entry(body_of(line)).ts)
        return 0, Millis(0)


class LogSearch:
    """The conditions of a filter and of a query, and what follows from them."""

    def __init__(self, where: CallFilter, query: Query = EVERYTHING) -> None:
        self._since = max(where.since or 0, query.since or 0)
        self._until = min(FOREVER if end is None else end for end in (where.until, query.until))
        wanted = [*_conditions(where), *query.conditions]
        self._impossible = any(map(never, wanted))
        self._conditions = [condition for condition in wanted if not always(condition)]
        self._inside = _Sieve(self._conditions)
        self._across = _Sieve([NumberCondition("time_ms", self._since, self._until - 1), *self._conditions])

    def steps(self, segments: Iterable[Segment], top: int) -> Iterator[SearchStep]:
        """What there is in the segments, newest first, of calls with smaller ids than ``top``."""
        if self._impossible:
            return
        for segment in segments:
            if segment.first >= top or segment.gone or not segment.n:
                continue
            if self._may_hold(segment):
                inside = self._since <= segment.t0 and segment.t1 < self._until
                sieve = self._inside if inside else self._across
                for block in segment.blocks(top if top <= segment.last else None):
                    yield SearchStep(sieve.lines(block), segment, block)
            else:
                yield SearchStep([], segment)

    def _may_hold(self, segment: Segment) -> bool:
        if segment.t1 < self._since or segment.t0 >= self._until:
            return False
        return all(may_hold(segment, condition) for condition in self._conditions)


class _Sieve:
    """Conditions that all must hold: finds the lines of a block whose calls fit."""

    def __init__(self, conditions: list[Condition]) -> None:
        self._needles = [needle for needle in map(needle_of, conditions) if needle is not None]
        self._exclusion = Exclusion(conditions)
        quick = [condition for condition in conditions if len(fields_of(condition)) == 1]
        self._tests = [_Test(some) for some in (quick, [one for one in conditions if one not in quick]) if some]

    def lines(self, block: bytes) -> list[bytes]:
        """Newest first."""
        fewest: list[int] | None = None
        for needle in self._needles:
            hits = needle.hits(block)
            if hits is not None and not hits:
                return []
            if hits is not None and (fewest is None or len(hits) < len(fewest)):
                fewest = hits
                if len(hits) <= FEW:
                    break
        tests = self._tests
        found = self._exclusion.left(block) if fewest is None else _cut(block, fewest)
        if found is None:
            found, tests = (tests[0].all(block), tests[1:]) if tests else ([line for line in split(block) if line], [])
        return [line for line in reversed(found) if all(test.fits(line) for test in tests)]


class _Test:
    """Conditions that need the same few fields of a call, and the decoding to these."""

    def __init__(self, conditions: list[Condition]) -> None:
        self._conditions = [condition.fits for condition in conditions]
        names = sorted({name for condition in conditions for name in fields_of(condition)})
        glimpse = msgspec.defstruct(
            "Glimpse",
            [(name, FIELDS[name][1], FIELDS[name][2]) for name in names],
            rename={name: FIELDS[name][0] for name in names},
            namespace={"state": "settled"},
            frozen=True,
            gc=False,
        )
        self._decode = msgspec.json.Decoder(glimpse).decode
        self._decode_all = msgspec.json.Decoder(dict[str, glimpse]).decode  # type: ignore[valid-type]

    def fits(self, line: bytes) -> bool:
        """Whether all conditions hold; not for a damaged line."""
        try:
            call = self._decode(body_of(line))
        except (msgspec.DecodeError, ValueError):
            return False
        return all(fits(call) for fits in self._conditions)

    def all(self, block: bytes) -> list[bytes]:
        """The lines of the block that fit, in its order. Decoding it at once takes a third of the time."""
        count = block.count(b"\n") + (not block.startswith(b"\n"))
        try:
            calls = self._decode_all(b"{%s}" % block.lstrip(b"\n,"))
        except (msgspec.DecodeError, UnicodeDecodeError):
            calls = {}
        if len(calls) != count:  # damage: one line at a time
            return [line for line in split(block) if line and self.fits(line)]
        wanted: Iterable[tuple[int, Any]] = enumerate(calls.values())
        for fits in self._conditions:
            wanted = [(i, call) for i, call in wanted if fits(call)]
        if not wanted:
            return []
        lines = [line for line in split(block) if line]
        return [lines[i] for i, _ in wanted]


def _conditions(where: CallFilter) -> Iterator[Condition]:
    exact = (
        ("token_id", where.token),
        ("channel_id", where.channel),
        ("model", where.model),
        ("app", where.app),
        ("api", where.api),
    )
    yield from (OneOf(field, frozenset((value,))) for field, value in exact if value is not None)
    if where.status is not None:
        yield NumberCondition("status", where.status, where.status)
    if where.outcome is not None:
        yield StateCondition(where.outcome.value)
    if where.failed is not None:
        yield FailureCondition() if where.failed else SUCCESS


def _cut(block: bytes, hits: list[int]) -> list[bytes]:
    """The lines at these offsets, in the order of the block, each once."""
    lines, done = [], -1
    for hit in sorted(hits):
        if hit >= done:
            end = block.find(b"\n", hit)
            done = len(block) if end < 0 else end
            lines.append(block[block.rfind(b"\n", 0, hit) + 1 : done].removeprefix(b","))
    return lines
