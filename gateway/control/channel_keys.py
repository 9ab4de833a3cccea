"""Channel keys: add, replace, remove and resume single keys of a channel. Keys are never shown."""

import msgspec
from aiohttp import web

from gateway.control import validation
from gateway.control.channels import channel_of, view_of
from gateway.control.edits import ConfigEdits
from gateway.control.probe import test_key
from gateway.control.request_bodies import read_body
from gateway.domain.channel import Channel, key_id
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.registry import Change
from gateway.domain.text import plain
from gateway.domain.views import ChannelView


class KeyBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an added or replaced key."""

    key: str


async def add_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/keys {key}: add a key as the last one."""
    channel, key = channel_of(edits, request), await _new_key(request)
    keys = (*channel.all_keys, key)
    return await _commit_keys(edits, channel, keys, f"added a key to channel '{channel.name}'", new=len(keys))


async def replace_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """PATCH /channels/{ref}/keys/{number} {key}: replace a key."""
    channel, index, key = channel_of(edits, request), _key_index(edits, request), await _new_key(request)
    keys = (*channel.all_keys[:index], key, *channel.all_keys[index + 1 :])
    return await _commit_keys(
        edits, channel, keys, f"replaced key {index + 1} of channel '{channel.name}'", new=index + 1
    )


async def remove_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """DELETE /channels/{ref}/keys/{number}: remove a key; the numbers of later keys go down by one."""
    channel, index = channel_of(edits, request), _key_index(edits, request)
    keys = (*channel.all_keys[:index], *channel.all_keys[index + 1 :])
    return await _commit_keys(edits, channel, keys, f"removed key {index + 1} of channel '{channel.name}'")


async def resume_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/keys/{number}/clear: forget a key's failures."""
    channel, index = channel_of(edits, request), _key_index(edits, request)
    edits.engine.health.clear(key_id(channel.id, index + 1) if channel.keys else channel.id)
    edits.engine.incident_watch.refresh()
    return await view_of(edits, channel)


async def _new_key(request: web.Request) -> str:
    """Returns the key in the body. Raises BadRequest if it is empty."""
    if key := (await read_body(request, KeyBody)).key:
        return key
    raise BadRequest("key: must not be empty; to delete a key, remove it instead", param="key")


def _key_index(edits: ConfigEdits, request: web.Request) -> int:
    """Returns the index of the key whose number is in the path. Raises NotFound."""
    channel, number = channel_of(edits, request), request.match_info["number"]
    count = len(channel.all_keys)
    if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= count):
        hint = f"its keys are numbered 1 to {count}" if count else "it has none"
        raise NotFound(f"channel '{channel.name}' has no key {plain(number, 20)}; {hint}", param="number")
    return int(number) - 1


async def _commit_keys(
    edits: ConfigEdits, channel: Channel, keys: tuple[str, ...], done: str, new: int = 0
) -> ChannelView:
    """Commit the keys. ``new`` is the number of a new key, which is then tried at the upstream; 0 if there is none."""
    changed = msgspec.structs.replace(channel, key=keys[0] if keys else "", keys=keys[1:])
    validation.channel(changed, edits.registry)
    await edits.commit(
        done, f"the keys of channel '{channel.name}' are as before", Change("channels", channel.id, changed)
    )
    if new:
        await test_key(edits.engine, changed, new)
    return await view_of(edits, changed)
