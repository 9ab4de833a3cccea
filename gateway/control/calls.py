"""Calls: pages of the log, one call whole, and the hand that ends a running one."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from aiohttp import web

from gateway.control.desk import Desk
from gateway.control.inputs import query
from gateway.control.views import running_view
from gateway.core.engine import Engine
from gateway.domain.call import Outcome, Record, Running
from gateway.domain.channel import Channel
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import CallId
from gateway.domain.views import CallView, call_view
from gateway.store.calls import CallFilter

PAGE = 100
PAGE_LIMIT = 5000

_PARAMETERS: dict[str, type] = {
    "since": int,
    "until": int,
    "token": str,
    "group": str,
    "model": str,
    "channel": str,
    "app": str,
    "status": int,
    "outcome": str,
    "failed": bool,
    "limit": int,
    "before": str,
    "at": int,
}


async def listed(desk: Desk, request: web.Request) -> list[CallView]:
    """GET /calls: newest first, running ones before all others. ``before`` is the id of the last one of a page.

    With ``at`` instead: the ended calls from that number on downwards. The oldest kept is 1, the newest
    ``status.records``.
    """
    asked = query(request.query, _PARAMETERS)
    limit, before = asked.pop("limit", PAGE), CallId(asked.pop("before", ""))
    if not 1 <= limit <= PAGE_LIMIT:
        raise BadRequest(f"limit: must be from 1 to {PAGE_LIMIT}", param="limit")
    if (at := asked.pop("at", None)) is not None:
        return await _numbered(desk, at, limit, alone=not (asked or before))
    where = _filter(desk, asked)
    engine, now = desk.engine, desk.now
    views = [running_view(call, now) for call in _running(engine, where, before)][:limit]
    if len(views) == limit:
        return views
    after = None if before in engine.store.books.running else before or None
    find = engine.store.calls.find
    records = await asyncio.to_thread(find, where, limit=limit - len(views), before=after)
    return views + [call_view(record) for record in records]


async def _numbered(desk: Desk, at: int, limit: int, *, alone: bool) -> list[CallView]:
    if not alone:
        raise BadRequest("at: goes with limit alone; page through filtered calls with before", param="at")
    records = await asyncio.to_thread(desk.engine.store.calls.numbered, at, limit)
    return [call_view(record) for record in records]


async def show(desk: Desk, request: web.Request) -> CallView:
    """GET /calls/{id}: running or ended."""
    call_id = CallId(request.match_info["id"])
    if (running := desk.engine.store.books.running.get(call_id)) is not None:
        return running_view(running, desk.now)
    kept = next((record for record in desk.engine.bus.recent if record.id == call_id), None)
    record = kept or await asyncio.to_thread(desk.engine.store.calls.get, call_id)
    if record is None:
        raise NotFound(f"there is no call '{plain(call_id, 64)}'; old ones are not kept for ever", param="id")
    return call_view(record)


async def cancel(desk: Desk, request: web.Request) -> dict[str, str]:
    """POST /calls/{id}/cancel."""
    call_id = CallId(request.match_info["id"])
    if not desk.engine.cancel(call_id):
        raise NotFound(f"call '{plain(call_id, 64)}' does not run", code="not_running", param="id")
    return {"done": f"cancelled call {call_id}"}


def newest(engine: Engine, limit: int) -> list[Record]:
    """The calls that ended last, newest first: those of this run, then those of the log."""
    recent = list(reversed(engine.bus.recent))[:limit]
    if len(recent) == limit:
        return recent
    known = {record.id for record in recent}
    return (recent + [r for r in engine.store.calls.newest(limit) if r.id not in known])[:limit]


def _filter(desk: Desk, asked: dict[str, Any]) -> CallFilter:
    """Names of tokens and channels become ids; removed ones are known by id only.

    Raises NotFound for a name that nothing has: no call can fit.
    """
    catalog = desk.engine.catalog
    if ref := asked.get("token"):
        asked["token"] = _id_of(ref, catalog.token, "tok")
    if ref := asked.get("channel"):
        asked["channel"] = _id_of(ref, catalog.channel, "ch")
    known = [outcome.value for outcome in Outcome]
    if asked.get("outcome", known[0]) not in known:
        raise BadRequest(f"outcome: must be one of {', '.join(known)}", param="outcome")
    return msgspec.convert(asked, CallFilter)


def _id_of(ref: str, find: Callable[[str], Token | Channel], prefix: str) -> str:
    try:
        return find(ref).id
    except NotFound as error:
        if ref.startswith(f"{prefix}_"):
            return ref
        raise NotFound(f"{error.message}; calls of a removed one are found by the word {prefix}:NAME") from error


def _running(engine: Engine, where: CallFilter, before: CallId) -> Iterator[Running]:
    """Running calls that fit, newest first; none on the pages that go on from an ended call."""
    if where.status is not None or where.outcome is not None or where.failed is not None:
        return
    calls = engine.store.books.running
    if before and before not in calls:
        return
    for call_id in sorted(calls, reverse=True):
        if (not before or call_id < before) and _fits(calls[call_id], where):
            yield calls[call_id]


def _fits(call: Running, where: CallFilter) -> bool:
    if (where.since is not None and call.ts < where.since) or (where.until is not None and call.ts >= where.until):
        return False
    wanted = (
        (where.token, call.token),
        (where.group, call.group),
        (where.model, call.model),
        (where.channel, call.channel),
        (where.app, call.app),
    )
    return all(value is None or value == have for value, have in wanted)
