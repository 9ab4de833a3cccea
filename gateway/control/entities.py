"""Entities: shows, edits and removes tokens, groups and channels, one of them, or several as one change with one undo.

Prices are edited here too, if they are those of models. What is special about a noun is in its own file.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, cast

import msgspec
from aiohttp import web

from gateway.control import channels, groups, prices, tokens
from gateway.control.edits import REVIVES_KEY, ConfigEdits, EntityEdit, edit_conflict
from gateway.control.request_bodies import members, query, read_body
from gateway.control.usage import tallies
from gateway.control.views import EntityView, entity_view, entity_views
from gateway.domain.channel import Channel
from gateway.domain.errors import BadRequest
from gateway.domain.group import Group
from gateway.domain.human_values import count_text, first_of
from gateway.domain.price_view import PriceView
from gateway.domain.registry import NOUNS, Change, Registry
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import ChannelId

_PLANNERS: Mapping[str, Callable[[ConfigEdits, EntityEdit], Awaitable[tuple[str, Sequence[Change]]]]] = {
    "tokens": tokens.plan_edit,
    "groups": groups.plan_edit,
    "channels": channels.plan_edit,
    "prices": prices.plan_edit,
}
"""Functions that return an entity's name and the changes that an edit makes, first the entity's own."""


class _EditPlan(msgspec.Struct):
    """What several edits come to."""

    names: list[str] = []
    changes: dict[tuple[str, str], Change] = {}
    """The changes by table and key, first the first entity's own."""
    channels_with_new_keys: list[ChannelId] = []


class BatchBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a batch. Either all of its edits are made, or none."""

    kind: Literal["tokens", "groups", "channels", "prices"]
    edits: list[EntityEdit]


async def list_entities(edits: ConfigEdits, request: web.Request) -> Sequence[EntityView]:
    """GET /tokens, /groups or /channels: all of them, by name."""
    kind = request.match_info["kind"]
    return entity_views(edits.engine, kind, await tallies(edits.engine) if kind == "channels" else {})


async def show_entity(edits: ConfigEdits, request: web.Request) -> EntityView:
    """GET /{kind}/{ref}: one token, group or channel."""
    return await _view(edits, _entity_in(edits, request))


async def edit_entity(edits: ConfigEdits, request: web.Request) -> EntityView:
    """PATCH /{kind}/{ref}: edit a token, group or channel. With a new key, a channel's past failures are forgotten."""
    old = _entity_in(edits, request)
    edit = EntityEdit(ref=request.match_info["ref"], patch=members(await request.read()))
    _, changes = await _commit(edits, request.match_info["kind"], [edit])
    if isinstance(old, Channel):
        return await channels.saved_view(edits, old.id, old)
    return await _view(edits, cast("Token | Group", changes[0].value))


async def set_price(edits: ConfigEdits, request: web.Request) -> PriceView:
    """PUT /prices/{ref}[?channel=REF]: set a model's price, at one channel or all. The body has amounts or ``like``."""
    model, channel = request.match_info["ref"], query(request.query, {"channel": str}).get("channel", "")
    edit = EntityEdit(ref=model, patch=members(await request.read()), channel=channel)
    _, changes = await _commit(edits, "prices", [edit])
    return prices.saved_view(edits, model, changes[0])


async def remove_entity(edits: ConfigEdits, request: web.Request) -> dict[str, str]:
    """DELETE /{kind}/{ref}: remove a token, group, channel or price. ``note`` says what else stops working.

    ``?move=OTHER`` moves the users of a group to another one; without it, they cause Conflict. ``?channel=REF`` removes
    a price at that channel only.
    """
    kind = request.match_info["kind"]
    parameters = {"groups": {"move": str}, "prices": {"channel": str}}.get(kind, {})
    edit = EntityEdit(ref=request.match_info["ref"], **query(request.query, parameters))
    return (await _commit(edits, kind, [edit]))[0]


async def edit_many(edits: ConfigEdits, request: web.Request) -> dict[str, str]:
    """POST /batch {kind, edits}: make all edits or none, as one change. A rename must be the only edit."""
    body = await read_body(request, BatchBody)
    if not 1 <= len(body.edits) <= 1000:
        raise BadRequest("edits: must have from 1 to 1000 entries", param="edits")
    return (await _commit(edits, body.kind, body.edits))[0]


async def _commit(
    edits: ConfigEdits, kind: str, entity_edits: Sequence[EntityEdit]
) -> tuple[dict[str, str], list[Change]]:
    """Make the edits as one change. Returns what was done, and the changes, first the first entity's.

    Raises Conflict ``changed_meanwhile`` if the configuration changes while they are planned.
    """
    before = edits.registry
    plan = await _plan(edits, kind, entity_edits)
    changes = [*plan.changes.values()]
    if _is_outdated(changes, kind, before, edits.registry):
        raise edit_conflict()
    refs = {edit.channel for edit in entity_edits}
    place = f" at channel '{edits.engine.catalog.channel(*refs).name}'" if len(refs) == 1 and any(refs) else ""
    done, undone = _sentences(kind, entity_edits, plan.names, place)
    with_prices = channels.price_text(changes, before) if kind == "channels" else ""
    note = tokens.closed_port_note(changes, before.settings)
    if kind == "tokens":
        edits.accepted = REVIVES_KEY  # enabling a token, or a later expiry, is meant to make its key work again
    done = "; ".join(filter(None, [f"{done}{with_prices}", note]))
    result = await edits.commit(done, undone, *changes)
    for id_ in plan.channels_with_new_keys:
        channels.accept_key(edits, id_, plan.changes.get(("lists", id_)))
    return {**result, "note": note}, changes


async def _plan(edits: ConfigEdits, kind: str, entity_edits: Sequence[EntityEdit]) -> _EditPlan:
    """Plan the edits one after another: each may depend on earlier ones. Raises what the noun's planner raises."""
    plan = _EditPlan()
    for number, edit in enumerate(entity_edits, start=1):
        sent = edit.patch or {}
        if "name" in sent and len(entity_edits) > 1:
            raise BadRequest("name: cannot be changed for several at once", param="name")
        try:
            name, planned = await _PLANNERS[kind](edits, edit)
        except BadRequest as error:
            if kind != "prices" or len(entity_edits) == 1:
                raise
            message = f"price of '{plain(edit.ref)}': {error.message}"  # a file has different ones
            raise BadRequest(message, code=error.code, param=error.param) from error
        if any((kind, change.key) in plan.changes for change in planned if change.table == kind):
            raise BadRequest(f"edits: '{plain(name)}' is edited twice", param="edits")
        plan.names.append(name)
        plan.changes |= {(change.table, change.key): change for change in planned}
        if kind == "channels" and not {"key", "keys"}.isdisjoint(sent):
            plan.channels_with_new_keys.append(ChannelId(planned[0].key))
        edits = edits.with_planned(planned)
        if number % 20 == 0:
            await asyncio.sleep(0)  # calls can proceed
    return plan


def _is_outdated(changes: Sequence[Change], kind: str, before: Registry, now: Registry) -> bool:
    """Returns whether the changes may be wrong for the current configuration.

    Edits of channels may wait for upstreams, and other changes are likely in that time. Then only changes of these
    channels and of groups count.
    """
    if kind != "channels" or now.groups is not before.groups:
        return now is not before
    ids = [ChannelId(change.key) for change in changes if change.table == "channels"]
    return any(now.channels.get(id_) != before.channels.get(id_) for id_ in ids)


def _sentences(kind: str, entity_edits: Sequence[EntityEdit], names: Sequence[str], place: str) -> tuple[str, str]:
    """Returns what was done, and what is true once it is undone. ``place`` follows the names of prices."""
    noun = NOUNS[kind]
    subject, listed = f"the price of '{names[0]}'{place}" if kind == "prices" else f"{noun} '{names[0]}'", ""
    if len(names) > 1:
        subject = f"{count_text(len(names), noun)}{place}"
        listed = ": " + first_of([f"'{name}'" for name in names], 5)
    patches = [edit.patch for edit in entity_edits]
    state = "back" if all(patch is None for patch in patches) else "as before"
    undone = f"{subject} {'is' if len(names) == 1 else 'are'} {state}"
    return f"{_done_text(kind, patches, subject)}{listed}", f"{undone}{listed}"


def _done_text(kind: str, patches: Sequence[Mapping[str, object] | None], subject: str) -> str:
    """Returns what the patches did: ``disabled token 'ci'``, ``changed note of 2 tokens``."""
    if None in patches:
        return f"{'edited' if any(patches) else 'removed'} {subject}"
    common = (patches[0] or {}) if all(patch == patches[0] for patch in patches) else {}
    match common:
        case {"enabled": bool(enabled)} if len(common) == 1:
            return f"{'enabled' if enabled else 'disabled'} {subject}"
        case {"group": group} if len(common) == 1:
            return f"moved {subject} to group '{plain(str(group))}'"
        case {"name": name} if len(common) == 1:
            return f"renamed {subject} to '{plain(str(name))}'"
    fields = sorted({plain(name, 40).replace("_", " ") for patch in patches for name in patch or ()})
    changed = f"changed {', '.join(fields)} of" if fields else "changed"
    return f"{'set' if kind == 'prices' else changed} {subject}"


def _entity_in(edits: ConfigEdits, request: web.Request) -> Token | Group | Channel:
    """Returns the entity in the path. Raises NotFound if it does not exist."""
    noun = NOUNS[request.match_info["kind"]]
    find: Callable[[str], Token | Group | Channel] = getattr(edits.engine.catalog, noun)
    return find(request.match_info["ref"])


async def _view(edits: ConfigEdits, entity: Token | Group | Channel) -> EntityView:
    sums = await tallies(edits.engine) if isinstance(entity, Channel) else {}
    return entity_view(edits.engine, entity, sums)
