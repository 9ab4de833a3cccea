"""Groups: what they tie together moves with them. One in use is not removed, and a new name reaches all who use it."""

from collections.abc import Iterator

import msgspec
from aiohttp import web

from gateway.control import checks
from gateway.control.desk import Desk
from gateway.control.inputs import patched, query, required
from gateway.control.views import group_view, group_views
from gateway.domain.change import Change
from gateway.domain.errors import Conflict
from gateway.domain.group import Group
from gateway.domain.registry import Registry
from gateway.domain.views import GroupView

EDITABLE = ("name", "models", "multiplier", "policy", "sticky", "fallbacks", "budgets", "limits", "note")


async def listed(desk: Desk, _: web.Request) -> list[GroupView]:
    """GET /groups."""
    return group_views(desk.engine)


async def show(desk: Desk, request: web.Request) -> GroupView:
    """GET /groups/{name}."""
    return group_view(desk.engine, _found(desk, request))


async def add(desk: Desk, request: web.Request) -> GroupView:
    """POST /groups: the fields of a group; ``name`` is required."""
    body = await request.read()
    required(body, "name")
    group = patched(Group(name="", created=desk.now), body, EDITABLE)
    checks.group(group)
    _check_unused(group.name, desk.registry)
    desk.commit(f"added group '{group.name}'", Change("groups", group.name, group))
    return group_view(desk.engine, group)


async def edit(desk: Desk, request: web.Request) -> GroupView:
    """PATCH /groups/{name}; with a new ``name``, tokens and channels follow in the same change."""
    old = _found(desk, request)
    group = patched(old, await request.read(), EDITABLE)
    checks.group(group)
    changes = [Change("groups", group.name, group)]
    if group.name != old.name:
        _check_unused(group.name, desk.registry)
        changes += [Change("groups", old.name, None), *_moves(desk.registry, old.name, group.name)]
    desk.commit(f"changed group '{old.name}'", *changes)
    return group_view(desk.engine, group)


async def remove(desk: Desk, request: web.Request) -> dict[str, str]:
    """DELETE /groups/{name}[?move=OTHER]. Raises Conflict while it is in use, unless its users move to another."""
    group, registry = _found(desk, request), desk.registry
    target = query(request.query, {"move": str}).get("move", "")
    users = _users(registry, group.name)
    if target:
        checks.group_exists(target, registry, field="move")
    if users and target in ("", group.name):
        raise Conflict(
            f"group '{group.name}' is used by {', '.join(users)}; change these first, or move them to another group "
            f"while removing it (--move GROUP)",
            code="group_in_use",
            param="name",
        )
    moves = _moves(registry, group.name, target) if target else ()
    return desk.commit(f"removed group '{group.name}'", Change("groups", group.name, None), *moves)


def _found(desk: Desk, request: web.Request) -> Group:
    return desk.engine.catalog.group(request.match_info["name"])


def _check_unused(name: str, registry: Registry) -> None:
    if name in registry.groups:
        raise Conflict(f"there is already a group '{name}'; choose another name", param="name")


def _users(registry: Registry, group: str) -> list[str]:
    tokens = sorted(f"token '{t.name}'" for t in registry.tokens.values() if t.group == group)
    return tokens + sorted(f"channel '{c.name}'" for c in registry.channels.values() if group in c.groups)


def _moves(registry: Registry, old: str, new: str) -> Iterator[Change]:
    """What tokens and channels of one group become when they belong to another."""
    for token in registry.tokens.values():
        if token.group == old:
            yield Change("tokens", token.id, msgspec.structs.replace(token, group=new))
    for channel in registry.channels.values():
        if old in channel.groups:
            names = dict.fromkeys(new if name == old else name for name in channel.groups)
            yield Change("channels", channel.id, msgspec.structs.replace(channel, groups=tuple(names)))
