"""Usage: sums over calls, for the owner's tables and charts, computed in a thread because a long history takes time."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from aiohttp import web

from gateway.control.calls import CALL_FILTERS, calls_query
from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import query
from gateway.core.engine import Engine
from gateway.domain.errors import BadRequest
from gateway.domain.query import OneOf, Query
from gateway.domain.registry import Registry
from gateway.domain.units import Millis, Nanos, TokenId
from gateway.domain.views import Point, Summary, SumRow
from gateway.store.calls import CallLog, filtered_sums_of, has_deleted
from gateway.store.latency import LatencyCounts, LatencyTable, percentile
from gateway.store.rollup import DIMENSIONS, Counts, Dimension, total
from gateway.store.search import SearchDeadline
from gateway.store.sums import FOREVER, Step, Sums

TOKEN_AND_MODEL: Dimension = "token|model"
"""The keys and names of its rows are joined with a vertical bar too."""

SUM_TURN = web.AppKey("sum_turn", asyncio.Semaphore)
"""Allows one filtered sum at a time. Sums read the whole log, so they do not make searches wait."""

_STEPS = [step for step in get_args(Step) if step]
_PARAMETERS = {"by": DIMENSIONS, "step": _STEPS, "since": int, "until": int, "percentiles": bool, **CALL_FILTERS}

Tallies = Mapping[str, Mapping[str, Counts]]
"""The sums of all calls ever made, by ``channel`` id and by ``model``; or of one token's calls, by ``model`` only."""


async def tallies(engine: Engine, token: TokenId | None = None) -> Tallies:
    """Returns the sums that the tables of channels and models show, or with ``token`` the sums of its calls."""
    return await asyncio.to_thread(_tallies, engine.store.calls, token)


async def summary(edits: ConfigEdits, request: web.Request) -> Summary:
    """GET /usage?by&since&until&step&percentiles: sums of calls with ``since <= start < until``, in milliseconds.

    With any of ``token``, ``group``, ``model``, ``channel``, ``app``, ``api``, ``failed`` and ``words``, the words of a
    query, only matching calls count, and only those whose records have not been deleted.
    """
    params = query(request.query, _PARAMETERS)
    if params.get("by") == TOKEN_AND_MODEL and "step" in params:
        raise BadRequest(f"step: sums by {TOKEN_AND_MODEL} cannot be divided by time", param="step")
    if not CALL_FILTERS.keys() & params:
        return await asyncio.to_thread(_summary, edits, params, None, SearchDeadline())
    filters = calls_query(edits, params)
    async with request.app[SUM_TURN]:
        deadline = SearchDeadline()
        try:
            return await asyncio.to_thread(_summary, edits, params, filters, deadline)
        finally:
            deadline.cancel()  # stops the search if the request is cancelled


def _tallies(calls: CallLog, token: TokenId | None) -> Tallies:
    def rows(dimension: Dimension) -> Mapping[str, Counts]:
        return calls.sums(dimension, Millis(0), Millis(FOREVER), "").rows

    if token is None:
        return {"channel": rows("channel"), "model": rows("model")}
    split = ((key.partition("|"), counts) for key, counts in rows(TOKEN_AND_MODEL).items())
    return {"model": {model: counts for (owner, _, model), counts in split if owner == token}}


def _summary(edits: ConfigEdits, params: Mapping[str, Any], filters: Query | None, deadline: SearchDeadline) -> Summary:
    """Returns the sums of the calls that ``filters`` select, or of all in the span, even those without a record."""
    calls, by, step = edits.engine.store.calls, params.get("by", ""), params.get("step", "")
    dimension: Dimension = by or "group"
    since, until = params.get("since", Millis(0)), params.get("until", Millis(FOREVER))
    if filters is not None:
        sums, table = filtered_sums_of(calls, filters, dimension, step, deadline)
    else:
        span = (dimension, since, until, step)
        sums, table = calls.sums(*span), calls.latency(*span) if params.get("percentiles") else {}
    names = _names(calls, edits.registry, by, sums.rows)
    rows = []
    for key, counts in sums.rows.items() if by else ():
        rows.append(_row(key, names.get(key, key), counts, table.get(key, {}).values()))
    whole = (counts for cells in table.values() for counts in cells.values())
    return Summary(
        since_ms=since,
        until_ms=min(until, edits.now),
        by=by,
        total=_row("", "", sums.total, whole),
        rows=sorted(rows, key=lambda row: (-row.cost_nanos, -row.calls, row.name)),
        series=[*_series(sums, names, table, by)],
        first_ms=sums.first,
        incomplete=filters is not None and has_deleted(calls, filters.since or 0),
    )


def _series(sums: Sums, names: Mapping[str, str], table: LatencyTable, by: str) -> Iterator[Point]:
    """Yields the sums over time of each value, or of all calls if they are not summed ``by`` anything."""
    points: dict[tuple[int, str], list[str]] = {}
    for value, cells in sums.table.items():
        for start in cells:
            points.setdefault((start, value if by else ""), []).append(value)
    for (start, key), values in sorted(points.items()):
        latencies = (table[value][start] for value in values if start in table.get(value, {}))
        row = _row(key, names.get(key, key), total(sums.table[value][start] for value in values), latencies)
        yield Point(start_ms=Millis(start), key=key, row=row)


def _names(calls: CallLog, registry: Registry, by: str, ids: Iterable[str]) -> dict[str, str]:
    """Returns the names of tokens, groups or channels by id; for removed ones, those in their last calls."""
    if by == TOKEN_AND_MODEL:
        pairs = {key: key.partition("|") for key in ids}
        tokens = _names(calls, registry, "token", {token for token, _, _ in pairs.values()})
        return {key: f"{tokens.get(token, token)}|{model}" for key, (token, _, model) in pairs.items()}
    if by not in ("token", "group", "channel"):
        return {}
    names = {entity.id: entity.name for entity in getattr(registry, f"{by}s").values()}
    for key in ids:
        if key and key not in names:
            last = calls.find(Query(conditions=(OneOf(f"{by}_id", frozenset([key])),)), limit=1)
            names[key] = (getattr(last[0], f"{by}_name") if last else "") or key
    return names


def _row(key: str, name: str, counts: Counts, latencies: Iterable[LatencyCounts]) -> SumRow:
    latency = LatencyCounts({}, {})
    for part in latencies:
        latency.merge(part)
    percentiles: dict[str, Any] = {
        f"{measure}_p{percent}_ms": percentile(histogram, percent / 100)
        for measure, histogram in (("duration", latency.durations), ("first_byte", latency.first_bytes))
        for percent in (50, 95)
    }
    return SumRow(
        key=key,
        name=name,
        calls=counts.calls + counts.repeats,
        errors=counts.failures + counts.repeats,
        input_tokens=counts.input,
        cached_tokens=counts.cached,
        output_tokens=counts.output,
        cost_nanos=Nanos(counts.cost),
        possible_nanos=Nanos(counts.possible),
        duration_ms=counts.ms,
        first_byte_ms=counts.ttft,
        refused=counts.refused + counts.repeats,
        repeats=counts.repeats,
        first_bytes=counts.firsts,
        aborts=counts.aborts,
        refused_ms=counts.refused_ms,
        lost=counts.lost,
        waited_ms=counts.waited,
        **percentiles,
    )
