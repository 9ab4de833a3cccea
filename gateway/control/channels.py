"""Channels: add, edit and remove them and their keys, list their models, test and resume them. Keys are never shown."""

from collections.abc import Sequence
from typing import cast

import msgspec
from aiohttp import web

from gateway.control import model_lists, validation
from gateway.control.edits import ConfigEdits, edit_text
from gateway.control.probe import probe, test_key
from gateway.control.request_bodies import fields, members, missing, patch, read_body
from gateway.control.tokens import default_group
from gateway.control.usage import tallies
from gateway.control.vendor_prices import new_prices, with_known_prices
from gateway.control.views import channel_view, channel_views, price_view
from gateway.core.auth import new_id
from gateway.core.model_prices import channel_price, set_by_owner
from gateway.core.offered_models import chosen_by_hand, fix_models
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ChannelFields, Check, Dialect, UpstreamModels
from gateway.domain.errors import BadRequest, Conflict, NotFound, UpstreamError
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.human_values import count_text
from gateway.domain.registry import Change
from gateway.domain.text import plain
from gateway.domain.units import ChannelId
from gateway.domain.upstream_views import ListingView, SavedChannel
from gateway.domain.urls import checked_base_url
from gateway.domain.views import ChannelView
from gateway.upstream import mock
from gateway.upstream.vendors import PRESETS


class TestBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a test; without ``model`` no call is made."""

    model: str = ""


def default_base_url(dialect: Dialect, preset: str) -> str:
    """Returns the default address of an upstream; empty if it has none."""
    names = (preset, "" if dialect is Dialect.OPENAI else dialect)  # many vendors speak OpenAI's
    return next((PRESETS[name].base_url for name in names if name in PRESETS), "")


async def list_channels(edits: ConfigEdits, _: web.Request) -> list[ChannelView]:
    """GET /channels: all channels, by name."""
    return channel_views(edits.engine, await tallies(edits.engine))


async def show_channel(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """GET /channels/{ref}: one channel."""
    return await _view_of(edits, _channel_in(edits, request))


async def add_channel(edits: ConfigEdits, request: web.Request) -> SavedChannel:
    """POST /channels: add a channel with these fields; ``name`` is required, and either ``dialect`` or ``preset``.

    A preset implies ``dialect`` and ``base_url``; a dialect with only one vendor implies ``base_url``. Without
    ``models`` and ``patterns``, the channel offers all models that the upstream lists, and follows the list. Without
    ``groups``, it serves the group of a new token. Models without a price get a known price, unless ``known_prices`` is
    false.
    """
    body = await request.read()
    values = fields(body, Channel, (*ChannelFields.__struct_fields__, "dialect"), ("name",))
    validation.check_preset(values.get("preset", ""))
    if values.get("preset") in PRESETS:
        values.setdefault("dialect", PRESETS[values["preset"]].dialect)
    if "dialect" not in values:
        raise missing("dialect")
    values.setdefault("base_url", default_base_url(values["dialect"], values.get("preset", "")))
    if "groups" not in values:
        values["groups"] = (default_group(edits.registry),)
    channel = _check(Channel(id=ChannelId(new_id("ch")), created=edits.now, **values), edits)
    changes = await _changes_to_save(channel, None, edits)
    channel = _check(channel, edits)  # another request may have added a channel in the meantime
    await _commit(edits, None, changes, f"added channel '{channel.name}'", f"channel '{channel.name}' is removed")
    return await _saved_view(edits, channel.id, None)


async def edit_channel(edits: ConfigEdits, request: web.Request) -> SavedChannel:
    """PATCH /channels/{ref}: edit a channel. With a new key, its past failures are forgotten."""
    old = _channel_in(edits, request)
    body = await request.read()
    changes = await _edit_changes(edits, old, body)
    if edits.registry.channels.get(old.id) != old:
        msg = f"channel '{old.name}' has changed in the meantime; review it and try again"
        raise Conflict(msg, code="changed_meanwhile")
    done, undone = edit_text("channel", old, _channel_of(changes)), f"channel '{old.name}' is as before"
    unchanged = await _commit(edits, old, changes, done, undone)
    if not {"key", "keys"}.isdisjoint(members(body)):
        edits.engine.health.clear(old.id)  # sending a key, even the same one, means that it is valid
        listed = next((change.value for change in changes if change.table == "lists"), None)
        if isinstance(listed, UpstreamModels) and listed.key_refused and not edits.registry.channels[old.id].keys:
            edits.engine.health.note_failure(old.id, FailureKind.AUTH, listed.error)
        edits.engine.incident_watch.refresh()
    return msgspec.structs.replace(await _saved_view(edits, old.id, old), unchanged=unchanged)


def _with_matching_url(edited: Channel, old: Channel) -> Channel:
    """Returns the channel with an address for its dialect, if the dialect has changed but the address has not.

    The address is empty if the dialect has none, else the old one or the default. Raises BadRequest without either.
    """
    if edited.dialect is old.dialect or edited.base_url != old.base_url:
        return edited
    if not edited.dialect.info.needs_url:
        return msgspec.structs.replace(edited, base_url="", preset="" if edited.preset == old.preset else edited.preset)
    url = old.base_url or default_base_url(edited.dialect, edited.preset)
    if not url:
        raise BadRequest(f"base_url: the {edited.dialect} dialect needs the address of its upstream", param="base_url")
    return msgspec.structs.replace(edited, base_url=url)


def _channel_of(changes: Sequence[Change]) -> Channel:
    """Returns the channel that is saved: it is the first of the changes."""
    return cast("Channel", changes[0].value)


async def _changes_to_save(channel: Channel, old: Channel | None, edits: ConfigEdits) -> list[Change]:
    """Returns the changes that save the channel, with known prices for its new models and for renamed ones, and its
    list of models if that was fetched.

    All models get known prices if the channel did not use them before, or if it may belong to another vendor now.
    """
    changes = await model_lists.changes_to_save(_date_models(channel, old, edits), old, edits)
    channel = _channel_of(changes)
    offered = {(model.name, model.upstream_name) for model in channel.models}
    if old is not None and old.known_prices and not _may_change_vendor(channel, old):
        offered -= {(model.name, model.upstream_name) for model in old.models}
    if channel.known_prices:
        channel = await with_known_prices(channel, {name for name, _ in offered}, edits.registry, edits.now)
    return [Change("channels", channel.id, channel), *changes[1:]]


def _may_change_vendor(channel: Channel, old: Channel) -> bool:
    return (old.preset, old.base_url) != (channel.preset, channel.base_url)


async def _commit(edits: ConfigEdits, old: Channel | None, changes: Sequence[Change], done: str, undone: str) -> bool:
    """Commit a channel, and mention its new prices in the history. Returns whether nothing has changed."""
    new = new_prices(_channel_of(changes), old)
    priced = {served.name for served in old.models if served.price is not None} if old is not None else set()
    if new:
        done = f"{done} with {count_text(len(new), 'known price')}"
    if added := sum(price.model not in priced for price in new):
        undone = f"{undone}, without {count_text(added, 'price')} that it added"
    return (await edits.commit(done, undone, *changes))["done"] == NOTHING_CHANGED


async def _saved_view(edits: ConfigEdits, id_: ChannelId, old: Channel | None) -> SavedChannel:
    channel, prices = edits.registry.channels[id_], edits.registry.prices
    view = await _view_of(edits, channel)
    return SavedChannel(
        **{name: getattr(view, name) for name in view.__struct_fields__},
        new_prices=tuple(price_view(price, edits.now, channel=channel.name) for price in new_prices(channel, old)),
        refuses_unpriced=edits.registry.settings.refuse_unpriced,
        unpriced=tuple(model.name for model in channel.models if channel_price(channel, model, prices) is None),
    )


async def remove_channel(edits: ConfigEdits, request: web.Request) -> dict[str, str]:
    """DELETE /channels/{ref}: remove a channel with its prices."""
    channel = _channel_in(edits, request)
    change = Change("channels", channel.id, None)
    return await edits.commit(f"removed channel '{channel.name}'", f"channel '{channel.name}' is back", change)


async def plan_batch_change(edits: ConfigEdits, ref: str, body: bytes | None) -> tuple[str, Sequence[Change]]:
    """Returns, for a batch, the channel's name and the changes of an edit, or of its removal if the body is None."""
    channel = edits.engine.catalog.channel(ref)
    if body is None:
        return channel.name, [Change("channels", channel.id, None)]
    return channel.name, await _edit_changes(edits, channel, body)


async def _edit_changes(edits: ConfigEdits, old: Channel, body: bytes) -> list[Change]:
    edited = patch(old, body, (*ChannelFields.__struct_fields__, "dialect"))
    if edited.preset != old.preset:
        validation.check_preset(edited.preset)
    edited = chosen_by_hand(old, _with_matching_url(edited, old), sends_patterns="patterns" in members(body))
    return await _changes_to_save(_check(fix_models(edited), edits), old, edits)


async def show_listing(edits: ConfigEdits, request: web.Request) -> ListingView:
    """GET /channels/{ref}/listing: the upstream's list as last fetched, without fetching it again."""
    return model_lists.listing_view(_channel_in(edits, request), edits.engine.catalog, edits.now)


async def refresh_listing(edits: ConfigEdits, request: web.Request) -> ListingView:
    """POST /channels/{ref}/refresh: fetch the upstream's list, and show which models are new and which are gone.

    If the list cannot be fetched, returns the last good one with the reason, or raises UpstreamError if there is none.
    """
    channel = _channel_in(edits, request)
    try:
        await model_lists.refresh(edits, channel)
    except UpstreamError:
        if (last := edits.registry.lists.get(channel.id)) is None or not last.time:
            raise
    return model_lists.listing_view(_channel_in(edits, request), edits.engine.catalog, edits.now)


async def test_channel(edits: ConfigEdits, request: web.Request) -> Check:
    """POST /channels/{ref}/test {model?}: list the upstream's models, which is free, or make a tiny call to ``model``.

    The result is stored with the channel. Success ends the channel's pause, but only a call ends a pause for lack of
    credit. A rejected key needs attention, as after a call.
    """
    channel = _channel_in(edits, request)
    body = await read_body(request, TestBody)
    check, health = await probe(edits.engine, channel, body.model), edits.engine.health
    paused = check.ok and not body.model and health.state_of(channel.id).kind is FailureKind.QUOTA
    if (current := edits.registry.channels.get(channel.id)) is not None:
        edits.change(Change("channels", current.id, msgspec.structs.replace(current, last_check=check)))
        if check.ok and not paused:
            called = {model.upstream_name for model in channel.models if model.name == body.model}
            names = [model.name for model in channel.models if model.upstream_name in called]
            # rejected keys stay out of use, and so do other models that the upstream did not have
            health.clear(current.id, keys=False, models=names)
    edits.engine.incident_watch.refresh()  # begins or ends incidents by the result
    return check


async def resume_channel(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/clear: forget the channel's failures, so that it gets calls again."""
    channel = _channel_in(edits, request)
    edits.engine.health.clear(channel.id)
    edits.engine.incident_watch.refresh()
    return await _view_of(edits, channel)


async def add_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/keys {key}: add a key as the last one."""
    channel, key = _channel_in(edits, request), await _new_key(request)
    keys = (*channel.all_keys, key)
    return await _commit_keys(edits, channel, keys, f"added a key to channel '{channel.name}'", new=len(keys))


async def replace_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """PATCH /channels/{ref}/keys/{number} {key}: replace a key."""
    channel, index, key = _channel_in(edits, request), _key_index(edits, request), await _new_key(request)
    keys = (*channel.all_keys[:index], key, *channel.all_keys[index + 1 :])
    done = f"replaced key {index + 1} of channel '{channel.name}'"
    return await _commit_keys(edits, channel, keys, done, new=index + 1)


async def remove_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """DELETE /channels/{ref}/keys/{number}: remove a key; the numbers of later keys go down by one."""
    channel, index = _channel_in(edits, request), _key_index(edits, request)
    keys = (*channel.all_keys[:index], *channel.all_keys[index + 1 :])
    return await _commit_keys(edits, channel, keys, f"removed key {index + 1} of channel '{channel.name}'")


async def resume_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/keys/{number}/clear: forget a key's failures."""
    channel, index = _channel_in(edits, request), _key_index(edits, request)
    edits.engine.health.clear(channel.state_ids[index])
    edits.engine.incident_watch.refresh()
    return await _view_of(edits, channel)


async def _new_key(request: web.Request) -> str:
    """Returns the key in the body. Raises BadRequest if it is empty."""
    if key := fields(await request.read(), Channel, ("key",), ("key",))["key"]:
        return str(key)
    raise BadRequest("key: must not be empty; to delete a key, remove it instead", param="key")


def _key_index(edits: ConfigEdits, request: web.Request) -> int:
    """Returns the index of the key whose number is in the path. Raises NotFound."""
    channel, number = _channel_in(edits, request), request.match_info["number"]
    count = len(channel.all_keys)
    if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= count):
        hint = f"its keys are numbered 1 to {count}" if count else "it has none"
        raise NotFound(f"channel '{channel.name}' has no key {plain(number, 20)}; {hint}", param="number")
    return int(number) - 1


async def _commit_keys(
    edits: ConfigEdits, channel: Channel, keys: tuple[str, ...], done: str, new: int = 0
) -> ChannelView:
    """Commit the keys. ``new`` is the number of a new key, which is then tried at the upstream; 0 if no key is new."""
    changed = msgspec.structs.replace(channel, key=keys[0] if keys else "", keys=keys[1:])
    validation.check_channel(changed, edits.registry)
    undone = f"the keys of channel '{channel.name}' are as before"
    await edits.commit(done, undone, Change("channels", channel.id, changed))
    if new:
        await test_key(edits.engine, changed, new)
    return await _view_of(edits, changed)


def _channel_in(edits: ConfigEdits, request: web.Request) -> Channel:
    """Returns the channel in the path. Raises NotFound if it does not exist."""
    return edits.engine.catalog.channel(request.match_info["ref"])


async def _view_of(edits: ConfigEdits, channel: Channel) -> ChannelView:
    """Returns the channel's view, with the sums of its calls."""
    return channel_view(edits.engine, channel, await tallies(edits.engine))


def _check(channel: Channel, edits: ConfigEdits) -> Channel:
    """Returns the channel with its URL and options normalized. Raises BadRequest, and Conflict for a used name."""
    validation.check_channel(channel, edits.registry)
    for other in edits.registry.channels.values():
        if other.id != channel.id and channel.name in (other.name, other.id):
            raise Conflict(f"there is already a channel '{channel.name}'; choose another name", param="name")
    url = checked_base_url(channel.base_url) if channel.dialect.info.needs_url else ""
    return msgspec.structs.replace(channel, base_url=url, options=mock.with_stored_names(channel.options))


def _date_models(channel: Channel, old: Channel | None, edits: ConfigEdits) -> Channel:
    """Returns the channel with the date since when each model has been offered here, and with the price that it had.

    If the channel may belong to another vendor now, only prices that the owner set are kept.
    """
    old_models = old.models if old is not None else ()
    dates = {model.name: model.created for model in old_models}
    prices = {(model.name, model.upstream_name): model.price for model in old_models}
    drops_imported = old is not None and _may_change_vendor(channel, old)
    models = []
    for model in channel.models:
        price = model.price or prices.get((model.name, model.upstream_name))
        kept = None if drops_imported and not set_by_owner(price) else price
        created = model.created or dates.get(model.name) or edits.now
        models.append(msgspec.structs.replace(model, created=created, price=kept))
    return msgspec.structs.replace(channel, models=tuple(models))
