"""Groups: add them and plan their edits. Tokens and channels name their groups, so a rename changes them too."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from aiohttp import web

from gateway.control import validation
from gateway.control.edits import ConfigEdits, EntityEdit
from gateway.control.request_bodies import fields, patch, types_of
from gateway.control.views import group_view
from gateway.core.auth import new_id
from gateway.domain.errors import Conflict
from gateway.domain.group import Group, GroupFields
from gateway.domain.registry import Change, Registry
from gateway.domain.views import GroupView


async def add_group(edits: ConfigEdits, request: web.Request) -> GroupView:
    """POST /groups: add a group with these fields; ``name`` is required."""
    values = fields(await request.read(), types_of(GroupFields), "name")
    group = Group(id=group_id(values["name"], edits.registry.groups), created=edits.now, **values)
    validation.check_named_entity("groups", group, edits.registry)
    done, undone = f"added group '{group.name}'", f"group '{group.name}' is removed"
    await edits.commit(done, undone, Change("groups", group.name, group))
    return group_view(edits.engine, group)


async def plan_edit(edits: ConfigEdits, edit: EntityEdit) -> tuple[str, Sequence[Change]]:
    """Returns the group's name, and the changes that edit or remove it. A rename changes its tokens and channels."""
    old, registry = edits.engine.catalog.group(edit.ref), edits.registry
    if edit.patch is None:
        return old.name, _removal_changes(edits, old, edit.move)
    group = patch(old, edit.patch, types_of(GroupFields))
    validation.check_named_entity("groups", group, registry)
    if group.name == old.name:
        return old.name, [Change("groups", group.name, group)]
    moves = _moves(registry, old.name, group.name)
    return old.name, [Change("groups", group.name, group), Change("groups", old.name, None), *moves]


def _removal_changes(edits: ConfigEdits, group: Group, target: str) -> list[Change]:
    """Returns the changes that remove a group and move its users to ``target``, except for programs that ended."""
    registry, now = edits.registry, edits.now
    tokens = [token for token in registry.tokens.values() if token.group == group.name]
    users = sorted(f"token '{token.name}'" for token in tokens if not token.program_ended(now))
    users += sorted(f"channel '{c.name}'" for c in registry.channels.values() if group.name in c.groups)
    if target:
        validation.check_group_exists(target, registry, field="move")
    if users and target in ("", group.name):
        advice = "change these first, or move them to another group when removing it (--move GROUP)"
        message = f"group '{group.name}' is used by {', '.join(users)}; {advice}"
        raise Conflict(message, code="group_in_use", param="name")
    moves = _moves(registry, group.name, target) if target else ()
    removals = () if target else [Change("tokens", token.id, None) for token in tokens]  # all of them have ended
    return [Change("groups", group.name, None), *removals, *moves]


def group_id(name: str, groups: Mapping[str, Group]) -> str:
    """Returns the id of a new group: its name, unless a renamed group still has that id."""
    return new_id("grp") if any(group.id == name for group in groups.values()) else name


def _moves(registry: Registry, old: str, new: str) -> Iterator[Change]:
    for token in registry.tokens.values():
        if token.group == old:
            yield Change("tokens", token.id, msgspec.structs.replace(token, group=new))
    for channel in registry.channels.values():
        if old in channel.groups:
            names = dict.fromkeys(new if name == old else name for name in channel.groups)
            yield Change("channels", channel.id, msgspec.structs.replace(channel, groups=tuple(names)))
