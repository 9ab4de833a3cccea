"""History: list, undo and redo changes. An undo that may surprise the owner is refused until it is confirmed."""

import asyncio
from collections.abc import Collection, Iterator

import msgspec
from aiohttp import web

from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import query, read_body
from gateway.core.change_history import NOUNS, UndoPlan, entity_of, view_of
from gateway.core.engine import Engine
from gateway.domain.errors import BadRequest, Conflict, Unavailable
from gateway.domain.group import Group
from gateway.domain.history import (
    EntityChange,
    HistoryEntry,
    HistoryView,
    UndoDoubt,
    UndoView,
    ago,
    undone_entries,
)
from gateway.domain.human_values import count_text
from gateway.domain.key_owners import revivals
from gateway.domain.money import dollars
from gateway.domain.registry import Change, Registry, Table
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import Millis
from gateway.store.rollup import Dimension
from gateway.store.sums import FOREVER

_DIMENSIONS: dict[Table, Dimension] = {"tokens": "token", "channels": "channel", "groups": "group", "prices": "model"}
"""The dimension of calls for each table."""

KNOWN_KINDS = tuple(NOUNS.values())


class UndoBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an undo or redo."""

    id: int = 0
    """The number of the entry; 0 means the newest change that is not undone, for ``redo`` the newest undo."""
    accept: bool = False
    """Whether the owner accepts that the change was made elsewhere, or that what it removes has been used."""


async def list_history(edits: ConfigEdits, request: web.Request) -> list[HistoryView]:
    """GET /history?kind&name&since&until&limit&before: the entries, newest first; ``before`` is the number of
    an entry.
    """
    types = {"kind": tuple, "name": tuple, "since": int, "until": int, "limit": int, "before": int}
    asked = query(request.query, types)
    kinds, names, limit = asked.get("kind", ()), asked.get("name", ()), asked.get("limit", 100)
    if not set(kinds) <= set(KNOWN_KINDS):
        raise BadRequest(f"kind: must be one of {', '.join(KNOWN_KINDS)}", param="kind")
    if not 1 <= limit <= 1000:
        raise BadRequest("limit: must be from 1 to 1000", param="limit")
    since, until, before = asked.get("since", 0), asked.get("until", FOREVER), asked.get("before", FOREVER)
    entries = edits.history
    undone = undone_entries(entries)
    selected = [
        entry
        for entry in reversed(entries)
        if since <= entry.time < until and entry.id < before and _concerns(entry, kinds, names)
    ]
    return await asyncio.to_thread(lambda: [view_of(entry, entries, undone) for entry in selected[:limit]])


async def show_entry(edits: ConfigEdits, request: web.Request) -> HistoryView:
    """GET /history/{id}: one entry."""
    entry, entries = edits.chosen(_number(request)), edits.history
    return await asyncio.to_thread(view_of, entry, entries, undone_entries(entries))


async def undo(edits: ConfigEdits, request: web.Request) -> UndoView:
    """POST /undo {id?, accept?}: undo a change.

    Raises Conflict ``needs_confirmation`` with the reasons, unless they are accepted.
    """
    return await _undone(edits, request, redo=False)


async def redo(edits: ConfigEdits, request: web.Request) -> UndoView:
    """POST /redo {id?, accept?}: redo what was undone; see ``undo``."""
    return await _undone(edits, request, redo=True)


async def _undone(edits: ConfigEdits, request: web.Request, *, redo: bool) -> UndoView:
    asked = await read_body(request, UndoBody)
    entry = edits.chosen(asked.id, redo=redo)
    plan = edits.plan(entry)
    if not asked.accept:
        reasons = await _reasons(edits, entry, plan)
        if reasons:
            entries = edits.history
            view = await asyncio.to_thread(view_of, entry, entries, undone_entries(entries))
            raise Conflict(
                f"change {entry.id} ({plain(entry.done)}): {' '.join(reasons)}",
                code="needs_confirmation",
                details=msgspec.to_builtins(UndoDoubt(view, reasons)),
            )
        plan = edits.plan(edits.chosen(entry.id))  # another request may have changed the history meanwhile
    return await edits.undo(entry, plan)


async def clear_history(edits: ConfigEdits, _: web.Request) -> dict[str, str]:
    """DELETE /history: forget all changes. Then none of them can be undone, and no removed key is kept."""
    try:
        edits.engine.store.history.clear()
    except OSError as exc:
        raise Unavailable(f"the history cannot be written: {exc.strerror or exc}", code="store_failed") from exc
    return {"done": "history deleted"}


def _number(request: web.Request) -> int:
    text = request.match_info["id"]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 and int(text) else -1


def _concerns(entry: HistoryEntry, kinds: Collection[str], names: Collection[str]) -> bool:
    """Returns whether an entry changes an entity of one of these kinds with one of these names."""
    if not kinds and not names:
        return True
    return any(
        (not kinds or NOUNS.get(change.table) in kinds) and (not names or not _names(change).isdisjoint(names))
        for change in entry.changes
    )


def _names(change: EntityChange) -> set[str]:
    """Returns all names under which the owner may know an entity, former ones included."""
    former = [fields["name"] for fields in (change.before, change.after) if fields and "name" in fields]
    return {change.name, change.key, *map(str, former)}


async def _reasons(edits: ConfigEdits, entry: HistoryEntry, plan: UndoPlan) -> list[str]:
    """Returns the reasons to ask the owner first."""
    reasons = [*plan.reasons, *revivals(plan.changes, edits.registry, plan.registry, edits.now)]
    expiring = edits.expiring_records(plan.registry.settings.keep_days)
    if expiring.records:
        days = count_text(plan.registry.settings.keep_days, "day")
        reasons.append(f"Records are kept for {days} then: {expiring.text} are deleted for good.")
    if edits.source.elsewhere(entry.source):
        reasons.append(f"It was made by {entry.source.text(edits.source)}, {ago(edits.now - entry.time)}.")
    before, books = edits.registry, edits.engine.store.books
    counts = await asyncio.to_thread(_counts, edits.engine, entry.time)
    for change in plan.changes:
        reasons += _uses(before, plan.registry, change, counts)
    taken = before.granted - plan.registry.granted
    if taken > 0 and any(counts["group"].values()):
        left = dollars(books.balance() - taken)
        reasons.append(f"Calls were made since then. Without these {dollars(taken)} the balance is {left}.")
    return reasons


def _counts(engine: Engine, since: Millis) -> dict[str, dict[str, int]]:
    """Returns how many calls have begun since then or are running, by dimension and value."""
    by_dimension: dict[str, dict[str, int]] = {}
    running = list(engine.store.books.running.values())
    for dimension in _DIMENSIONS.values():
        rows = engine.store.calls.sums(dimension, since, Millis(FOREVER), "").rows
        sums = by_dimension[dimension] = {value: counts.calls for value, counts in rows.items()}
        for call in running:
            value = getattr(call, dimension)
            sums[value] = sums.get(value, 0) + 1
    return by_dimension


def _uses(before: Registry, after: Registry, change: Change, counts: dict[str, dict[str, int]]) -> Iterator[str]:
    """Yields how many calls used what would be removed: an entity, or the key of a token."""
    current = entity_of(before, change.table, change.key)
    if change.table not in _DIMENSIONS or current is None:
        return
    rotated = isinstance(current, Token) and isinstance(change.value, Token) and current.digest != change.value.digest
    key = current.id if isinstance(current, Group) else change.key
    if isinstance(current, Group) and key in {group.id for group in after.groups.values()}:
        return  # it only gets its former name back
    count = counts[_DIMENSIONS[change.table]].get(key, 0)
    if count and (change.value is None or rotated):
        name = plain(str(getattr(current, "name", "") or change.key))
        calls = count_text(count, "call")
        if rotated:
            yield f"{calls} used token '{name}' since then; its present key will stop working."
        else:
            yield f"{calls} used {NOUNS[change.table]} '{name}' since then; it will be removed."
