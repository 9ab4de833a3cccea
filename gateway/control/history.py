"""History: list, undo and redo changes. An undo that may surprise the owner needs a confirmation."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator

from aiohttp import web

from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import fields, query
from gateway.core.change_history import entity_of, view_of
from gateway.core.engine import Engine
from gateway.core.undo import UndoPlan, undo_plan
from gateway.domain.errors import BadRequest
from gateway.domain.group import Group
from gateway.domain.history import EntityChange, HistoryEntry, HistoryView, UndoView, entry_states
from gateway.domain.human_values import ago, count_text
from gateway.domain.key_owners import revivals
from gateway.domain.money import dollars
from gateway.domain.registry import NOUNS, Change, Registry, Table
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import Millis
from gateway.store.rollup import Dimension
from gateway.store.sums import FOREVER

_DIMENSIONS: dict[Table, Dimension] = {"tokens": "token", "channels": "channel", "groups": "group", "prices": "model"}
"""The dimension that counts the calls of each table's entities."""


async def list_history(edits: ConfigEdits, request: web.Request) -> list[HistoryView]:
    """GET /history?kind&name&since&until&limit: the entries, newest first."""
    params = query(request.query, {"kind": tuple, "name": tuple, "since": int, "until": int, "limit": range(1, 1001)})
    kinds, names, limit = params.get("kind", ()), params.get("name", ()), params.get("limit", 100)
    if not set(kinds) <= set(NOUNS.values()):
        raise BadRequest(f"kind: must be one of {', '.join(NOUNS.values())}", param="kind")
    since, until = params.get("since", 0), params.get("until", FOREVER)
    states = reversed(entry_states(edits.history).values())
    in_time = (state for state in states if since <= state.entry.time < until)
    selected = [state for state in in_time if _concerns(state.entry, kinds, names)]
    return await asyncio.to_thread(lambda: [*map(view_of, selected[:limit])])


async def show_entry(edits: ConfigEdits, request: web.Request) -> HistoryView:
    """GET /history/{id}: one entry."""
    text = request.match_info["id"]
    is_number = text.isascii() and text.isdecimal() and len(text) < 16 and int(text)
    return await asyncio.to_thread(view_of, edits.find_entry(int(text) if is_number else -1))  # no entry is number -1


async def revert(edits: ConfigEdits, request: web.Request) -> UndoView:
    """POST /undo or /redo {id?}: undo a change, or redo one that was undone. Raises Conflict if it is not confirmed.

    ``id`` is the number of the entry, by default of the newest change that is in force, or for redo of the newest undo.
    """
    verb = request.match_info["verb"]
    confirmed = edits.accepted.removeprefix(f"{verb} ")  # the next change may be another one by now
    number = fields(await request.read(), {"id": int}).get("id", 0) or int(confirmed if confirmed.isdecimal() else 0)
    entry = edits.find_entry(number, redo=verb == "redo").entry
    reasons = await _reasons_to_ask(edits, entry, undo_plan(entry, edits.history, edits.registry))
    text = f"{verb.capitalize()} change {entry.id} ({plain(entry.done)})?"
    edits.require_confirmed(text, reasons, verb.capitalize(), f"{verb} {entry.id}")
    # another request may have changed the history in the meantime
    return await edits.undo(entry, undo_plan(edits.find_entry(entry.id).entry, edits.history, edits.registry))


async def clear_history(edits: ConfigEdits, _: web.Request) -> dict[str, str]:
    """DELETE /history: forget all changes. They cannot be undone any more, and removed keys are gone."""
    edits.engine.store.history.clear()
    edits.engine.bus.publish_change()
    return {"done": "history deleted"}


def _concerns(entry: HistoryEntry, kinds: Collection[str], names: Collection[str]) -> bool:
    if not kinds and not names:
        return True
    return any(
        (not kinds or NOUNS.get(change.table) in kinds) and (not names or not _names(change).isdisjoint(names))
        for change in entry.changes
    )


def _names(change: EntityChange) -> set[str]:
    """Returns the names of a changed entity, before and after the change, and its key."""
    former = [fields["name"] for fields in (change.before, change.after) if fields and "name" in fields]
    return {change.name, change.key, *map(str, former)}


async def _reasons_to_ask(edits: ConfigEdits, entry: HistoryEntry, plan: UndoPlan) -> list[str]:
    """Returns the reasons to ask the owner before an undo."""
    reasons = [*plan.reasons, *revivals(plan.changes, edits.registry, plan.registry, edits.now)]
    expiring = edits.expiring_records(plan.registry.settings.keep_days)
    if expiring.records:
        days = count_text(plan.registry.settings.keep_days, "day")
        reasons.append(f"Records are then kept for {days} only, and {expiring.text} are deleted for good.")
    if edits.source.differs_from(entry.source):
        reasons.append(f"It was made by {entry.source.text(edits.source)}, {ago(edits.now - entry.time)}.")
    before = edits.registry
    counts = await asyncio.to_thread(_call_counts, edits.engine, entry.time)
    for change in plan.changes:
        reasons += _use_reasons(before, plan.registry, change, counts)
    lost = before.granted - plan.registry.granted
    if lost > 0 and any(counts["group"].values()):
        left = dollars(edits.engine.store.books.balance() - lost)
        reasons.append(f"Calls were made since then. Without these {dollars(lost)} the balance is {left}.")
    return reasons


def _call_counts(engine: Engine, since: Millis) -> dict[str, Counter[str]]:
    """Returns the number of calls that began since then or are running, by dimension and value."""
    by_dimension = dict[str, Counter[str]]()
    for dimension in _DIMENSIONS.values():
        rows = engine.store.calls.sums(dimension, since, Millis(FOREVER), "").rows
        counts = by_dimension[dimension] = Counter({value: sums.calls for value, sums in rows.items()})
        counts.update(getattr(call, dimension) for call in [*engine.store.books.running.values()])
    return by_dimension


def _use_reasons(before: Registry, after: Registry, change: Change, counts: dict[str, Counter[str]]) -> Iterator[str]:
    """Yields how many calls used what the change removes: an entity, or the current key of a token."""
    current = entity_of(before, change.table, change.key)
    if change.table not in _DIMENSIONS or current is None:
        return
    key = current.id if isinstance(current, Group) else change.key
    if isinstance(current, Group) and key in {group.id for group in after.groups.values()}:
        return  # the group is not removed, it only gets its former name back
    if not (count := counts[_DIMENSIONS[change.table]][key]):
        return
    name = plain(str(getattr(current, "name", "") or change.key))
    used = f"{count_text(count, 'call')} used {NOUNS[change.table]} '{name}' since then"
    if change.value is None:
        yield f"{used}; it will be removed."
    elif isinstance(current, Token) and isinstance(change.value, Token) and current.digest != change.value.digest:
        yield f"{used}; its current key will stop working."
