"""Batch: edits several tokens, groups, channels or prices as one change with one undo."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal

import msgspec
from aiohttp import web

from gateway.control import channels, groups, prices, tokens
from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import members, read_body
from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.human_values import count_text, first_of
from gateway.domain.registry import NOUNS, Change
from gateway.domain.text import plain
from gateway.domain.units import ChannelId

Kind = Literal["tokens", "groups", "channels", "prices"]
Planner = Callable[[ConfigEdits, str, bytes | None], Awaitable[tuple[str, Sequence[Change]]]]
"""Returns an entity's name and the changes that edit it, or remove it if the body is None."""


class BatchEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One edit: the entity, by id or name, and its new fields."""

    ref: str
    patch: msgspec.Raw = msgspec.Raw(b"null")
    """The fields to change; ``null`` removes the entity."""


class BatchBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a batch. Either all of its edits are made, or none."""

    kind: Kind
    edits: list[BatchEdit]


class BatchPlan:
    """What the edits so far will change."""

    def __init__(self, edits: ConfigEdits) -> None:
        self.edits = edits
        """The edits as if the changes so far had been made."""
        self.names: list[str] = []
        self.notes: list[str] = []
        self.changes: dict[tuple[str, str], Change] = {}
        self.channels_with_new_keys: list[ChannelId] = []


_PLANNERS: Mapping[Kind, Planner] = {
    "tokens": tokens.plan_batch_change,
    "groups": groups.plan_batch_change,
    "channels": channels.plan_batch_change,
    "prices": prices.plan_batch_change,
}


async def edit_many(edits: ConfigEdits, request: web.Request) -> dict[str, str]:
    """POST /batch {kind, edits}: make all edits or none, as one change. A rename must be the only edit."""
    body = await read_body(request, BatchBody)
    if not 1 <= len(body.edits) <= 1000:
        raise BadRequest("edits: must have from 1 to 1000 entries", param="edits")
    before, plan = edits.registry, BatchPlan(edits)
    for number, edit in enumerate(body.edits, start=1):
        await _plan_edit(body, edit, plan)
        if number % 20 == 0:
            await asyncio.sleep(0)  # calls can proceed
    if edits.registry is not before:
        raise Conflict("the configuration has changed in the meantime; try again", code="changed_meanwhile")
    done, undone = _sentences(body, plan.names)
    if body.kind == "tokens":
        edits.may_revive_keys = True  # enabling tokens is meant to make their keys work again
    result = await edits.commit("; ".join([done, *filter(None, plan.notes)]), undone, *plan.changes.values())
    for id_ in plan.channels_with_new_keys:
        edits.engine.health.clear(id_)  # sending a key, even the same one, means that it is valid
    return result


async def _plan_edit(body: BatchBody, edit: BatchEdit, plan: BatchPlan) -> None:
    """Add an edit to the plan. It may depend on the edits before it."""
    patch = None if bytes(edit.patch) == b"null" else bytes(edit.patch)
    if patch is not None and len(body.edits) > 1 and "name" in members(patch):
        raise BadRequest("name: cannot be changed for several at once", param="name")
    name, changes = await _PLANNERS[body.kind](plan.edits, edit.ref, patch)
    plan.names.append(name)
    if body.kind == "tokens" and patch is None:
        plan.notes.append(tokens.keyless_note(plan.edits.registry, name))
    if body.kind == "channels" and patch is not None and not {"key", "keys"}.isdisjoint(members(patch)):
        plan.channels_with_new_keys.append(ChannelId(changes[0].key))
    for change in changes:
        if change.table == body.kind and (change.table, change.key) in plan.changes:
            raise BadRequest(f"edits: '{plain(name)}' is edited twice", param="edits")
        plan.changes[change.table, change.key] = change
    plan.edits = plan.edits.with_planned(changes)


def _sentences(body: BatchBody, names: Sequence[str]) -> tuple[str, str]:
    """Returns what was done, and what is true once it is undone."""
    noun = NOUNS[body.kind]
    subject, listed = f"{noun} '{names[0]}'", ""
    if len(names) > 1:
        subject = count_text(len(names), noun)
        listed = ": " + first_of([f"'{name}'" for name in names], 5)
    patches = [msgspec.json.decode(edit.patch) for edit in body.edits]
    common = patches[0] if all(patch == patches[0] for patch in patches) else None
    if None in patches:
        done = f"{'edited' if any(patches) else 'removed'} {subject}{listed}"
    elif common in ({"enabled": True}, {"enabled": False}):
        done = f"{'enabled' if common == {'enabled': True} else 'disabled'} {subject}{listed}"
    elif common is not None and [*common] == ["group"]:
        done = f"moved {subject} to group '{plain(str(common['group']))}'{listed}"
    elif common is not None and [*common] == ["name"]:
        done = f"renamed {subject} to '{plain(str(common['name']))}'"
    else:
        changed = sorted({plain(name, 40) for patch in patches for name in patch})
        verb = "set" if body.kind == "prices" else f"changed {', '.join(changed)} of"
        done = f"{verb} {subject}{listed}"
    return done, f"{subject} {'is' if len(names) == 1 else 'are'} as before{listed}"
