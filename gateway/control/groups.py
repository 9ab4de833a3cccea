"""Groups: add, edit and remove them. Tokens and channels name their groups, so a rename changes them too."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from aiohttp import web

from gateway.control import validation
from gateway.control.edits import ConfigEdits, edit_text
from gateway.control.request_bodies import fields, patch, query
from gateway.control.views import group_view, group_views
from gateway.core.auth import new_id
from gateway.domain.errors import Conflict
from gateway.domain.group import Group, GroupFields
from gateway.domain.registry import Change, Registry
from gateway.domain.views import GroupView


async def list_groups(edits: ConfigEdits, _: web.Request) -> list[GroupView]:
    """GET /groups: all groups, by name."""
    return group_views(edits.engine)


async def show_group(edits: ConfigEdits, request: web.Request) -> GroupView:
    """GET /groups/{name}: one group."""
    return group_view(edits.engine, _group_of(edits, request))


async def add_group(edits: ConfigEdits, request: web.Request) -> GroupView:
    """POST /groups: add a group with these fields; ``name`` is required."""
    values = fields(await request.read(), Group, GroupFields.__struct_fields__, ("name",))
    group = Group(id=group_id(values["name"], edits.registry.groups), created=edits.now, **values)
    validation.check_group(group)
    _check_unused(group.name, edits.registry)
    done, undone = f"added group '{group.name}'", f"group '{group.name}' is removed"
    await edits.commit(done, undone, Change("groups", group.name, group))
    return group_view(edits.engine, group)


async def edit_group(edits: ConfigEdits, request: web.Request) -> GroupView:
    """PATCH /groups/{name}: edit a group. If it is renamed, its tokens and channels are updated in the same change."""
    old, body = _group_of(edits, request), await request.read()
    group, changes = _edit_changes(edits.registry, old, body)
    await edits.commit(edit_text("group", old, group), f"group '{old.name}' is as before", *changes)
    return group_view(edits.engine, group)


async def remove_group(edits: ConfigEdits, request: web.Request) -> dict[str, str]:
    """DELETE /groups/{name}[?move=OTHER]: remove a group. Its users move to OTHER; without it, they cause Conflict."""
    group = _group_of(edits, request)
    target = query(request.query, {"move": str}).get("move", "")
    changes = _removal_changes(edits, group, target)
    return await edits.commit(f"removed group '{group.name}'", f"group '{group.name}' is back", *changes)


async def plan_batch_change(edits: ConfigEdits, ref: str, body: bytes | None) -> tuple[str, Sequence[Change]]:
    """Returns, for a batch, the group's name and the changes of an edit, or of its removal if the body is None."""
    group = edits.engine.catalog.group(ref)
    if body is None:
        return group.name, _removal_changes(edits, group, "")
    return group.name, _edit_changes(edits.registry, group, body)[1]


def _edit_changes(registry: Registry, old: Group, body: bytes) -> tuple[Group, list[Change]]:
    group = patch(old, body, GroupFields.__struct_fields__)
    validation.check_group(group)
    if group.name == old.name:
        return group, [Change("groups", group.name, group)]
    _check_unused(group.name, registry)
    moves = _moves(registry, old.name, group.name)
    return group, [Change("groups", group.name, group), Change("groups", old.name, None), *moves]


def _removal_changes(edits: ConfigEdits, group: Group, target: str) -> list[Change]:
    """Returns the changes that remove a group and move its users to ``target``, except for programs that ended."""
    registry, now = edits.registry, edits.now
    tokens = [token for token in registry.tokens.values() if token.group == group.name]
    users = sorted(f"token '{token.name}'" for token in tokens if not token.outlived(now))
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


def _group_of(edits: ConfigEdits, request: web.Request) -> Group:
    return edits.engine.catalog.group(request.match_info["name"])


def _check_unused(name: str, registry: Registry) -> None:
    if name in registry.groups:
        raise Conflict(f"there is already a group '{name}'; choose another name", param="name")


def _moves(registry: Registry, old: str, new: str) -> Iterator[Change]:
    for token in registry.tokens.values():
        if token.group == old:
            yield Change("tokens", token.id, msgspec.structs.replace(token, group=new))
    for channel in registry.channels.values():
        if old in channel.groups:
            names = dict.fromkeys(new if name == old else name for name in channel.groups)
            yield Change("channels", channel.id, msgspec.structs.replace(channel, groups=tuple(names)))
