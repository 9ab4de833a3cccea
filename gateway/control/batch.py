"""Batch: edits of several tokens, groups, channels or prices, as one change with one undo."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Literal

import msgspec
from aiohttp import web

from gateway.control import channels, groups, prices, tokens
from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import members, read_body
from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.history import REVIVES_KEY
from gateway.domain.human_values import count_text, first_of
from gateway.domain.registry import Change
from gateway.domain.text import plain
from gateway.domain.units import ChannelId

Kind = Literal["tokens", "groups", "channels", "prices"]
Planner = Callable[[ConfigEdits, str, bytes | None], Awaitable[tuple[str, Sequence[Change]]]]
"""Plans an edit: returns the name of an entity and the changes of an edit; without a body, the changes that
remove it."""


class BatchEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entity, by id or name, and its new fields; ``null`` removes it."""

    ref: str
    patch: msgspec.Raw = msgspec.Raw(b"null")


class BatchBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a batch: the edits, of which all or none are made."""

    kind: Kind
    edits: list[BatchEdit]


_PLANNERS: Mapping[Kind, Planner] = {
    "tokens": tokens.plan_batch_change,
    "groups": groups.plan_batch_change,
    "channels": channels.plan_batch_change,
    "prices": prices.plan_batch_change,
}
_NOUNS: Mapping[Kind, str] = {"tokens": "token", "groups": "group", "channels": "channel", "prices": "price"}


async def edit_many(edits: ConfigEdits, request: web.Request) -> dict[str, str]:
    """POST /batch {kind, edits}: make all edits or none, as one change. Of several, names cannot be changed."""
    asked = await read_body(request, BatchBody)
    if not 1 <= len(asked.edits) <= 1000:
        raise BadRequest("edits: must be 1 to 1000", param="edits")
    before, plan = edits.registry, edits
    names: list[str] = []
    ends: list[str] = []
    given: list[ChannelId] = []
    changes: dict[tuple[str, str], Change] = {}
    async for edit in _in_turns(asked.edits):
        patch = _fields_of(edit, alone=len(asked.edits) == 1)
        name, planned = await _PLANNERS[asked.kind](plan, edit.ref, patch)
        plan = plan.after(planned)  # the next edit may depend on this one
        names.append(name)
        if asked.kind == "tokens" and patch is None:
            ends.append(tokens.keyless_end(before, name))
        if asked.kind == "channels" and patch is not None and not {"key", "keys"}.isdisjoint(members(patch)):
            given.append(ChannelId(planned[0].key))
        for change in planned:
            if change.table == asked.kind and (change.table, change.key) in changes:
                raise BadRequest(f"edits: '{plain(name)}' is edited twice", param="edits")
            changes[change.table, change.key] = change
    if edits.registry is not before:
        raise Conflict("the configuration has changed in the meantime; try again", code="changed_meanwhile")
    done, undone = _sentences(asked, names)
    if asked.kind == "tokens":
        edits.accepts = REVIVES_KEY  # enabling tokens is meant to make their keys work again
    made = await edits.commit("; ".join([done, *filter(None, ends)]), undone, *changes.values())
    for key in given:
        edits.engine.health.clear(key)  # sending a key, even the same one, means that it is valid
    return made


async def _in_turns(edits: Sequence[BatchEdit]) -> AsyncIterator[BatchEdit]:
    """Yields the edits, with pauses in which calls can proceed."""
    for number, edit in enumerate(edits, start=1):
        yield edit
        if number % 20 == 0:
            await asyncio.sleep(0)


def _fields_of(edit: BatchEdit, *, alone: bool) -> bytes | None:
    """Returns the fields of an edit; None for a removal. Raises BadRequest for a new name, unless it stands alone."""
    if bytes(edit.patch) == b"null":
        return None
    if not alone and "name" in members(bytes(edit.patch)):
        raise BadRequest("name: cannot be changed for several at once", param="name")
    return bytes(edit.patch)


def _sentences(asked: BatchBody, names: Sequence[str]) -> tuple[str, str]:
    """Returns what was done, and the sentence for its undo."""
    noun = _NOUNS[asked.kind]
    count, listed = f"{noun} '{names[0]}'", ""
    if len(names) > 1:
        count = count_text(len(names), noun)
        listed = ": " + first_of([f"'{name}'" for name in names], 5)
    patches = [msgspec.json.decode(edit.patch) for edit in asked.edits]
    alike = patches[0] if all(patch == patches[0] for patch in patches) else None
    if None in patches:
        done = f"{'removed' if alike is None and not any(patches) else 'edited'} {count}{listed}"
    elif alike in ({"enabled": True}, {"enabled": False}):
        done = f"{'enabled' if alike == {'enabled': True} else 'disabled'} {count}{listed}"
    elif alike is not None and [*alike] == ["group"]:
        done = f"moved {count} to group '{plain(str(alike['group']))}'{listed}"
    elif alike is not None and [*alike] == ["name"]:
        done = f"renamed {count} to '{plain(str(alike['name']))}'"
    else:
        changed = sorted({plain(name, 40) for patch in patches for name in patch})
        verb = "set" if asked.kind == "prices" else f"changed {', '.join(changed)} of"
        done = f"{verb} {count}{listed}"
    return done, f"{count} {'is' if len(names) == 1 else 'are'} as before{listed}"
