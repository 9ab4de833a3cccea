"""Channels: made, edited, removed, asked for their models, tested, cleared."""

import msgspec
from aiohttp import web

from gateway.control import checks, lists
from gateway.control.desk import Desk
from gateway.control.inputs import fields, patched, required
from gateway.control.probe import probe
from gateway.control.usage import tallies
from gateway.control.views import channel_view, channel_views
from gateway.core.ids import new_id
from gateway.core.lineup import chosen_by_hand, fixed
from gateway.domain.change import Change
from gateway.domain.channel import Channel, Check, Dialect, Served
from gateway.domain.errors import BadRequest, Conflict, UpstreamError
from gateway.domain.offered import ListingView
from gateway.domain.units import ChannelId
from gateway.domain.urls import checked_base_url
from gateway.domain.views import ChannelView
from gateway.upstream import knobs
from gateway.upstream.traits import ANTHROPIC, GEMINI, PRESETS

EDITABLE = (
    "name",
    "base_url",
    "key",
    "keys",
    "models",
    "patterns",
    "groups",
    "priority",
    "weight",
    "cost_factor",
    "enabled",
    "preset",
    "limits",
    "timeouts",
    "headers",
    "overrides",
    "proxy",
    "token_limit_field",
    "strict",
    "finish_abandoned",
    "options",
    "note",
)


_HOMES = {Dialect.ANTHROPIC: ANTHROPIC.base_url, Dialect.GEMINI: GEMINI.base_url}
"""Dialects that only their vendor speaks, and where it lives."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a test may be asked for."""

    model: str = ""


def default_base_url(dialect: Dialect, preset: str) -> str:
    """Where an upstream is found if nothing else is said; empty if it has no fixed place."""
    if preset in PRESETS:
        return PRESETS[preset].base_url
    return _HOMES.get(dialect, "")


async def listed(desk: Desk, _: web.Request) -> list[ChannelView]:
    """GET /channels."""
    return channel_views(desk.engine, await tallies(desk.engine))


async def show(desk: Desk, request: web.Request) -> ChannelView:
    """GET /channels/{ref}."""
    return await view(desk, found(desk, request))


async def add(desk: Desk, request: web.Request) -> ChannelView:
    """POST /channels: the fields of a channel; ``name`` is required, and either ``dialect`` or ``preset``.

    A preset implies dialect and ``base_url``, a dialect of one vendor the ``base_url``; without ``models`` and
    ``patterns`` all that the upstream lists is offered, and kept up to date.
    """
    body = await request.read()
    values = fields(body, Channel, (*EDITABLE, "dialect"))
    if values.get("preset") in PRESETS:
        values.setdefault("dialect", PRESETS[values["preset"]].dialect)
    required(body, "name", *(() if "dialect" in values else ("dialect",)))
    values.setdefault("base_url", default_base_url(values["dialect"], values.get("preset", "")))
    channel = _checked(Channel(id=ChannelId(new_id("ch")), created=desk.now, **values), desk)
    changes = await lists.saved(_dated(channel, None, desk), None, desk)
    channel = _checked(channel, desk)  # others may have come meanwhile
    desk.commit(f"added channel '{channel.name}'", *changes)
    return await view(desk, desk.registry.channels[channel.id])


async def edit(desk: Desk, request: web.Request) -> ChannelView:
    """PATCH /channels/{ref}; what was held against it is forgotten, for it may be cured."""
    old = found(desk, request)
    asked = patched(old, await request.read(), EDITABLE)
    channel = _dated(_checked(fixed(chosen_by_hand(old, asked)), desk), old, desk)
    changes = await lists.saved(channel, old, desk)
    if desk.registry.channels.get(old.id) != old:
        raise Conflict(
            f"channel '{old.name}' was changed meanwhile; look at it and try again", code="changed_meanwhile"
        )
    desk.commit(f"changed channel '{old.name}'", *changes)
    desk.engine.health.clear(channel.id)
    return await view(desk, desk.registry.channels[channel.id])


async def remove(desk: Desk, request: web.Request) -> dict[str, str]:
    """DELETE /channels/{ref}."""
    channel = found(desk, request)
    changes = [Change("channels", channel.id, None)]
    if channel.id in desk.registry.lists:
        changes.append(Change("lists", channel.id, None))
    return desk.commit(f"removed channel '{channel.name}'", *changes)


async def models(desk: Desk, request: web.Request) -> list[Served]:
    """GET /channels/{ref}/models: what the upstream lists now."""
    return await desk.engine.upstreams.fetch_models(found(desk, request))


async def listing(desk: Desk, request: web.Request) -> ListingView:
    """GET /channels/{ref}/listing: what the upstream listed last; nobody is asked."""
    return lists.listing_view(found(desk, request), desk.registry, desk.now)


async def refresh(desk: Desk, request: web.Request) -> ListingView:
    """POST /channels/{ref}/refresh: what the upstream lists now, and what is new and gone.

    If it cannot be had, the last good list with the reason; without one the failure itself.
    """
    channel = found(desk, request)
    try:
        await lists.refreshed(desk.engine, channel)
    except UpstreamError:
        if (kept := desk.registry.lists.get(channel.id)) is None or not kept.time:
            raise
    return lists.listing_view(found(desk, request), desk.registry, desk.now)


async def test(desk: Desk, request: web.Request) -> Check:
    """POST /channels/{ref}/test {model?}: a free probe, and one tiny real call if a model is given.

    The result is kept on the channel; a good one ends its rest.
    """
    channel = found(desk, request)
    asked = Asked(**fields(await request.read(), Asked, ("model",)))
    check = await probe(desk.engine, channel, asked.model)
    if (current := desk.registry.channels.get(channel.id)) is not None:
        desk.change(Change("channels", current.id, msgspec.structs.replace(current, last_check=check)))
        if check.ok:
            desk.engine.health.clear(current.id, keys=False)  # a key that is refused stays out of use
    return check


async def clear(desk: Desk, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/clear: what the machine holds against it is forgotten."""
    channel = found(desk, request)
    desk.engine.health.clear(channel.id)
    return await view(desk, channel)


def found(desk: Desk, request: web.Request) -> Channel:
    """The channel a path names. Raises NotFound, naming those there are."""
    return desk.engine.catalog.channel(request.match_info["ref"])


async def view(desk: Desk, channel: Channel) -> ChannelView:
    """The channel as it is told."""
    return channel_view(desk.engine, channel, await tallies(desk.engine))


def _checked(channel: Channel, desk: Desk) -> Channel:
    """The channel with its URL and its knobs in the usual form. Raises BadRequest or Conflict."""
    if channel.preset not in ("", *PRESETS):
        raise BadRequest(f"preset: must be one of {', '.join(sorted(PRESETS))}", param="preset")
    checks.channel(channel, desk.registry)
    for other in desk.registry.channels.values():
        if other.id != channel.id and channel.name in (other.name, other.id):
            raise Conflict(f"there is already a channel '{channel.name}'; choose another name", param="name")
    url = checked_base_url(channel.base_url) if channel.dialect is not Dialect.MOCK else ""
    return msgspec.structs.replace(channel, base_url=url, options=knobs.spelt(channel.options))


def _dated(channel: Channel, old: Channel | None, desk: Desk) -> Channel:
    """Every model says since when it is served here."""
    known = {model.name: model.created for model in old.models} if old is not None else {}
    dated = [msgspec.structs.replace(m, created=m.created or known.get(m.name) or desk.now) for m in channel.models]
    return msgspec.structs.replace(channel, models=tuple(dated))
