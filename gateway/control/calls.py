"""Calls: lists them page by page, shows one in full, and cancels a running one."""

import asyncio
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
from aiohttp import web

from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import ParameterType, query
from gateway.core.engine import Engine
from gateway.core.refusal_log import LONG_GAP_S
from gateway.domain.call import REPEATED_MARK, Running, began_at, mark_total
from gateway.domain.channel import Channel
from gateway.domain.current_names import CurrentNames, names_in, removed_names
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.group import Group
from gateway.domain.key_owners import find_owner
from gateway.domain.query import FAILURE, SORT_KEYS, SUCCESS, CallOrder, Condition, OneOf, Query, parse
from gateway.domain.text import plain, word
from gateway.domain.token import Token
from gateway.domain.units import CallId, Millis
from gateway.domain.views import CallPage, CallView, call_view, running_view
from gateway.store.calls import CallLog, SearchExtent
from gateway.store.search import VIEW_FIELDS, SearchDeadline
from gateway.store.sums import FOREVER

SEARCH_S = 0.5
"""The maximum time to search for one page, in seconds."""

SEARCH_TURN = web.AppKey("search_turn", asyncio.Semaphore)
"""Allows one search of the call log at a time, because a search competes with the thread that serves calls."""

_encode = msgspec.json.Encoder().encode

CALL_FILTERS: dict[str, ParameterType] = {**dict.fromkeys(VIEW_FIELDS, tuple), "failed": bool, "words": str}

_LIMITS = range(1, 5001)

_PARAMETERS: dict[str, ParameterType] = {
    **CALL_FILTERS,
    "since": int,
    "until": int,
    "limit": _LIMITS,
    "before": str,
    "sort": SORT_KEYS,
    "ascending": bool,
}


async def list_calls(edits: ConfigEdits, request: web.Request) -> web.Response:
    """GET /calls: a page of calls, newest first, running calls before all others.

    ``before`` is the cursor of the previous page, or the id of a call. ``words`` are the words of a query. A page whose
    search takes long ends before it is full, so that the client can show the progress, and stop.

    With ``sort``, one of ``SORT_KEYS``, each page has the top calls among the ended calls that it searched, largest
    first unless ``ascending``. The client gets the top calls overall by merging all pages.
    """
    params = query(request.query, _PARAMETERS)
    limit, before = params.get("limit", 100), params.get("before", "")
    order = CallOrder(params["sort"], params.get("ascending", False)) if "sort" in params else None
    selected, calls, deadline = calls_query(edits, params), edits.engine.store.calls, SearchDeadline(SEARCH_S)
    unsettled = {**edits.engine.store.books.running, **{call.id: call for call in edits.engine.pipeline.waiting.all()}}
    running = [] if order else list(islice(_running_views(unsettled, selected, before, edits.now), limit))

    def search() -> bytes:
        """Returns the page as JSON, because encoding takes as long as the search and belongs in the thread too."""
        if order:
            below = _number_below(calls, before)
            return _page(*calls.best(selected, order, limit=limit, below=below, deadline=deadline))
        after = "" if before in unsettled else before  # ended calls follow after the last running one
        below = _number_below(calls, after)
        records, extent = calls.search(selected, limit=limit - len(running), below=below, deadline=deadline)
        views = []
        for record in records:
            views.append(call_view(record))
            deadline.pause()
        return _page(running + views, extent)

    if len(running) == limit:
        return _json(_encode(CallPage(calls=running, cursor=running[-1].id, left=calls.count)))
    async with request.app[SEARCH_TURN]:
        try:
            return _json(await asyncio.to_thread(search))
        finally:
            deadline.cancel()  # stops the search if the request is cancelled


def _page(calls: list[CallView], extent: SearchExtent) -> bytes:
    cursor = None if extent.cursor is None else str(extent.cursor)
    return _encode(CallPage(calls=calls, cursor=cursor, back_to_ms=extent.back_to, left=extent.left))


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


async def list_numbered(edits: ConfigEdits, request: web.Request) -> web.Response:
    """GET /records: ended calls from number ``at`` down. The oldest is number 1, the newest ``status.records``."""
    params = query(request.query, {"at": int, "limit": _LIMITS})
    calls, at, limit = edits.engine.store.calls, params.get("at", 0), params.get("limit", 100)
    return _json(await asyncio.to_thread(lambda: _encode([call_view(r) for r in calls.by_number(at, limit)])))


def _number_below(calls: CallLog, after: str) -> int:
    """Returns the number below which a search continues after a cursor or a call's id."""
    if not after:
        return FOREVER
    is_number = after.isascii() and after.isdecimal() and len(after) < 20
    return int(after) if is_number else calls.number_of(CallId(after))


async def show_call(edits: ConfigEdits, request: web.Request) -> CallView:
    """GET /calls/{id}: a running or an ended call."""
    call_id = CallId(request.match_info["id"])
    books, calls = edits.engine.store.books, edits.engine.store.calls
    waiting = edits.engine.pipeline.waiting.calls.get(call_id)
    running = books.running.get(call_id) or (waiting.running if waiting is not None else None)
    if running is not None:
        return running_view(running, edits.now)
    record = next((record for record in books.waiting() if record.id == call_id), None)
    record = record or await asyncio.to_thread(calls.get, call_id)
    if record is None:
        message = f"no call '{plain(call_id, 64)}'; 'tollkeeper usage list' lists the calls with their ids"
        raise NotFound(message + await asyncio.to_thread(_repeat_hint, calls, call_id), param="id")
    return call_view(record)


def _repeat_hint(calls: CallLog, call_id: CallId) -> str:
    """Returns where the call may be counted, for the error: of identical refusals, only the first has a record."""
    if (began := began_at(call_id)) is None:
        return ""
    just_before = Query(since=Millis(began - round(LONG_GAP_S * 1000)), until=Millis(began + 1))
    ids = [record.id for record in calls.find(just_before, limit=1000) if mark_total(record.marks, REPEATED_MARK)]
    if not ids:
        return "; identical refusals within a second are counted with the first of them ('x3')"
    return f"; if it was an identical refusal, it is counted with {' or '.join(ids[:3])}"


async def cancel_call(edits: ConfigEdits, request: web.Request) -> dict[str, str]:
    """POST /calls/{id}/cancel: cancel a running call."""
    call_id = CallId(request.match_info["id"])
    if not edits.engine.cancel(call_id):
        raise NotFound(f"no running call '{plain(call_id, 64)}'", code="not_running", param="id")
    return {"done": f"cancelled call {call_id}"}


def calls_query(edits: ConfigEdits, params: Mapping[str, Any]) -> Query:
    """Returns the query for the calls that these parameters select.

    Names of tokens, channels and groups become ids; a removed token or channel is found by its last name. Words find
    the calls of an entity by its current name, and by its name at the time of the call. Raises NotFound for an unknown
    name, because no call can match it.
    """
    names = names_in(edits.registry, names_of_removed(edits.engine))
    words = names.widen(parse(params.get("words", ""), edits.now))
    conditions: list[Condition] = [
        OneOf(field, frozenset(_field_value(edits, names, name, text) for text in params[name]))
        for name, field in VIEW_FIELDS.items()
        if name in params
    ]
    if "failed" in params:
        conditions.append(FAILURE if params["failed"] else SUCCESS)
    return Query(
        since=Millis(max(params.get("since", 0), words.since or 0)),
        until=Millis(min(params.get("until", FOREVER), FOREVER if words.until is None else words.until)),
        conditions=(*conditions, *words.conditions),
    )


def names_of_removed(engine: Engine) -> dict[str, str]:
    """Returns the last names of removed tokens and channels by id; empty if the history cannot be read."""
    try:
        return removed_names(engine.store.history.entries, engine.catalog.registry)
    except OSError:  # the pages and commands of the history report it
        return {}


def _field_value(edits: ConfigEdits, names: CurrentNames, parameter: str, ref: str) -> str:
    """Returns the value that a call's field must have: for a token, channel or group its id.

    ``ref`` is then the id, name or key of a current or removed one. Raises NotFound, and BadRequest for an unknown API.
    """
    apis = edits.engine.apis
    if parameter == "api" and ref not in apis:
        raise BadRequest(f"unknown API '{plain(ref, 40)}'; use one of {', '.join(apis)}", param="api")
    # the prefix of an id is also the word that filters by an entity of that kind
    if (prefix := {"token": "tok", "channel": "ch", "group": "grp"}.get(parameter)) is None:
        return ref
    try:
        entity: Token | Channel | Group = getattr(edits.engine.catalog, parameter)(ref)
    except NotFound as error:
        if ref.startswith(f"{prefix}_"):
            return ref
        if (owner := find_owner(edits.registry, ref)) is not None and owner.id.startswith(prefix):
            return owner.id
        ids: list[str] = [key for key, name in getattr(names, f"{parameter}s").items() if name == ref]
        if len(ids) == 1:
            return ids[0]
        hint = f"to find calls under a former name, use the filter word {prefix}:{word(ref)} instead of the option"
        raise NotFound(f"{error.message}; {hint}", param=parameter) from error
    return entity.id


def _running_views(calls: Mapping[CallId, Running], selected: Query, before: str, now: Millis) -> Iterator[CallView]:
    """Yields the running calls that match, newest first; none if the page continues from an ended call."""
    if before and before not in calls:
        return
    for call_id in sorted(calls, reverse=True):
        view = running_view(calls[call_id], now)
        if (not before or call_id < before) and selected.matches(view):
            yield view
