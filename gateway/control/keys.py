"""Keys: those of a channel, one at a time: added, replaced, removed, cleared. Nobody is ever told one."""

import msgspec
from aiohttp import web

from gateway.control import checks
from gateway.control.channels import found, view
from gateway.control.desk import Desk
from gateway.control.inputs import fields, required
from gateway.domain.change import Change
from gateway.domain.channel import Channel, key_id
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.views import ChannelView


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a body says."""

    key: str


async def add(desk: Desk, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/keys {key}: one more, the last in number."""
    channel, key = found(desk, request), await _given(request)
    return await _keep(desk, channel, (*channel.all_keys, key), f"gave channel '{channel.name}' one more key")


async def replace(desk: Desk, request: web.Request) -> ChannelView:
    """PATCH /channels/{ref}/keys/{number} {key}: another in its place."""
    channel, at, key = found(desk, request), _place(desk, request), await _given(request)
    keys = (*channel.all_keys[:at], key, *channel.all_keys[at + 1 :])
    return await _keep(desk, channel, keys, f"replaced key {at + 1} of channel '{channel.name}'")


async def remove(desk: Desk, request: web.Request) -> ChannelView:
    """DELETE /channels/{ref}/keys/{number}: those after it move up."""
    channel, at = found(desk, request), _place(desk, request)
    keys = (*channel.all_keys[:at], *channel.all_keys[at + 1 :])
    return await _keep(desk, channel, keys, f"removed key {at + 1} of channel '{channel.name}'")


async def clear(desk: Desk, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/keys/{number}/clear: what is held against it is forgotten."""
    channel, at = found(desk, request), _place(desk, request)
    desk.engine.health.clear(key_id(channel.id, at + 1) if channel.keys else channel.id)
    return await view(desk, channel)


async def _given(request: web.Request) -> str:
    body = await request.read()
    required(body, "key")
    key = Given(**fields(body, Given, ("key",))).key
    if not key:
        raise BadRequest("key: must not be empty; to take a key away, remove it", param="key")
    return key


def _place(desk: Desk, request: web.Request) -> int:
    """Where in the list the key of this number stands. Raises NotFound, naming the numbers there are."""
    channel, number = found(desk, request), request.match_info["number"]
    count = len(channel.all_keys)
    if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= count):
        there = f"its keys are numbered 1 to {count}" if count else "it has none"
        raise NotFound(f"channel '{channel.name}' has no such key; {there}", param="number")
    return int(number) - 1


async def _keep(desk: Desk, channel: Channel, keys: tuple[str, ...], sentence: str) -> ChannelView:
    changed = msgspec.structs.replace(channel, key=keys[0] if keys else "", keys=keys[1:])
    checks.channel(changed, desk.registry)
    desk.commit(sentence, Change("channels", channel.id, changed))
    return await view(desk, changed)
