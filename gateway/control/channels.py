"""Channels: add, edit and remove them and their keys, list their models, test and resume them. Keys are never shown."""

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec
from aiohttp import web

from gateway.control import model_lists, validation
from gateway.control.edits import ConfigEdits, EntityEdit
from gateway.control.probe import probe, test_key
from gateway.control.request_bodies import fields, missing, patch, types_of
from gateway.control.tokens import default_group
from gateway.control.usage import tallies
from gateway.control.vendor_prices import new_prices, with_known_prices
from gateway.control.views import channel_view, price_view
from gateway.core.auth import new_id
from gateway.core.model_prices import set_by_owner
from gateway.core.offered_models import fit_to_patterns
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ChannelFields, Check, Dialect, UpstreamModels
from gateway.domain.errors import BadRequest, NotFound, UpstreamError
from gateway.domain.human_values import plural
from gateway.domain.registry import Change, Registry
from gateway.domain.text import plain
from gateway.domain.units import ChannelId
from gateway.domain.upstream_views import ListingView, SavedChannel
from gateway.domain.urls import checked_base_url
from gateway.domain.views import ChannelView
from gateway.upstream import mock
from gateway.upstream.vendors import PRESETS


def default_base_url(dialect: Dialect, preset: str) -> str:
    """Returns the default address of an upstream; empty if it has none."""
    names = (preset, "" if dialect is Dialect.OPENAI else dialect)  # many vendors speak OpenAI's
    return next((PRESETS[name].base_url for name in names if name in PRESETS), "")


async def add_channel(edits: ConfigEdits, request: web.Request) -> SavedChannel:
    """POST /channels: add a channel with these fields; ``name`` is required, and either ``dialect`` or ``preset``.

    A preset implies ``dialect`` and ``base_url``; a dialect of one vendor implies ``base_url``. Without ``models`` and
    ``patterns``, the channel offers all models that the upstream lists, and follows the list. Without ``groups``, it
    serves the group of a new token. Models without a price get a known one, unless ``known_prices`` is false.
    """
    values = fields(await request.read(), types_of(ChannelFields) | {"dialect": Dialect}, "name")
    validation.check_preset(values.get("preset", ""))
    if values.get("preset") in PRESETS:
        values.setdefault("dialect", PRESETS[values["preset"]].dialect)
    if "dialect" not in values:
        raise missing("dialect")
    values.setdefault("base_url", default_base_url(values["dialect"], values.get("preset", "")))
    if "groups" not in values:
        values["groups"] = (default_group(edits.registry),)
    channel = Channel(id=ChannelId(new_id("ch")), created=edits.now, **values)
    changes = await _changes_to_save(edits, channel, None)
    done = f"added channel '{channel.name}'{price_text(changes, edits.registry)}"
    await edits.commit(done, f"channel '{channel.name}' is removed", *changes)
    return await saved_view(edits, channel.id, None)


async def plan_edit(edits: ConfigEdits, edit: EntityEdit) -> tuple[str, Sequence[Change]]:
    """Returns the channel's name, and the changes that edit it, or remove it with its prices."""
    old = edits.engine.catalog.channel(edit.ref)
    if edit.patch is None:
        return old.name, [Change("channels", old.id, None)]
    edited = patch(old, edit.patch, types_of(ChannelFields) | {"dialect": Dialect})
    if edited.preset != old.preset:
        validation.check_preset(edited.preset)
    edited = fit_to_patterns(old, _with_matching_url(edited, old), sends_patterns="patterns" in edit.patch)
    return old.name, await _changes_to_save(edits, edited, old)


def accept_key(edits: ConfigEdits, id_: ChannelId, listed: Change | None) -> None:
    """Forget the failures of a channel whose key was sent, unless the upstream refused it when its list was fetched.

    Sending even the same key again means that it is valid.
    """
    edits.engine.health.clear(id_)
    models = listed.value if listed is not None else None
    if isinstance(models, UpstreamModels) and models.key_refused and not edits.registry.channels[id_].keys:
        edits.engine.health.note_failure(id_, FailureKind.AUTH, models.error)
    edits.engine.incident_watch.refresh()


def _with_matching_url(edited: Channel, old: Channel) -> Channel:
    """Returns the channel with an address for its dialect, if the dialect has changed but the address has not.

    The address is empty if the dialect has none, else the old one or the default.
    """
    if edited.dialect is old.dialect or edited.base_url != old.base_url:
        return edited
    if not edited.dialect.info.needs_url:
        return msgspec.structs.replace(edited, base_url="", preset="" if edited.preset == old.preset else edited.preset)
    return msgspec.structs.replace(edited, base_url=old.base_url or default_base_url(edited.dialect, edited.preset))


async def _changes_to_save(edits: ConfigEdits, channel: Channel, old: Channel | None) -> list[Change]:
    """Returns the changes that save the channel, with known prices for its new models and for renamed ones, and its
    list of models if it was fetched.

    All models get known prices if the channel did not use them before, or if it may belong to another vendor now.
    """
    changes = await model_lists.changes_to_save(edits, _date_models(edits, _check(edits, channel), old), old)
    channel = cast("Channel", changes[0].value)
    keeps_prices = old is not None and old.known_prices and not _may_change_vendor(channel, old)
    channel = await with_known_prices(channel, old if keeps_prices else None, edits.registry, edits.now)
    channel = _check(edits, channel)  # another channel may have got its name in the meantime
    return [Change("channels", channel.id, channel), *changes[1:]]


def _may_change_vendor(channel: Channel, old: Channel) -> bool:
    return (old.preset, old.base_url) != (channel.preset, channel.base_url)


def price_text(changes: Iterable[Change], before: Registry) -> str:
    """Returns how the prices that new models get end a sentence of the history: ``" with 3 list prices"``."""
    saved = [change.value for change in changes if isinstance(change.value, Channel)]
    count = sum(len(new_prices(channel, before.channels.get(channel.id))) for channel in saved)
    return f" with {count:,} list {plural(count, 'price')}" if count else ""


async def saved_view(edits: ConfigEdits, id_: ChannelId, old: Channel | None) -> SavedChannel:
    """Returns the view of a channel that was added or edited."""
    channel = edits.registry.channels[id_]
    view = await view_of(edits, channel)
    return SavedChannel(
        **{name: getattr(view, name) for name in view.__struct_fields__},
        new_prices=tuple(price_view(price, edits.now, channel=channel.name) for price in new_prices(channel, old)),
        refuses_unpriced=edits.registry.settings.refuse_unpriced,
        unpriced=tuple(model_lists.models_without_price(channel, old, edits.registry)),
        unchanged=channel == old,
    )


async def show_listing(edits: ConfigEdits, request: web.Request) -> ListingView:
    """GET /channels/{ref}/listing: the upstream's list as last fetched, without fetching it again."""
    return model_lists.listing_view(_channel_in(edits, request), edits.engine.catalog, edits.now)


async def refresh_listing(edits: ConfigEdits, request: web.Request) -> ListingView:
    """POST /channels/{ref}/refresh: fetch the upstream's list, and show which models are new and which are gone.

    If the list cannot be fetched, returns the last good one with the reason, or raises UpstreamError.
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
    called_model = fields(await request.read(), {"model": str}).get("model", "")
    check, health = await probe(edits.engine, channel, called_model), edits.engine.health
    paused = check.ok and not called_model and health.state_of(channel.id).kind is FailureKind.QUOTA
    if (current := edits.registry.channels.get(channel.id)) is not None:
        edits.engine.change([Change("channels", current.id, msgspec.structs.replace(current, last_check=check))])
        if check.ok and not paused:
            called = {model.upstream_name for model in channel.models if model.name == called_model}
            names = [model.name for model in channel.models if model.upstream_name in called]
            # rejected keys stay out of use, and so do other models that the upstream did not have
            health.clear(current.id, keys=False, models=names)
    edits.engine.incident_watch.refresh()  # begins or ends incidents by the result
    return check


async def resume(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """POST /channels/{ref}[/keys/{number}]/clear: forget the failures of a channel or key, which then gets calls."""
    channel = _channel_in(edits, request)
    id_ = channel.state_ids[_key_index(edits, request)] if "number" in request.match_info else channel.id
    edits.engine.health.clear(id_)
    edits.engine.incident_watch.refresh()
    return await view_of(edits, channel)


async def add_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/keys {key}: add a key as the last one."""
    channel, key = _channel_in(edits, request), await _new_key(request)
    keys = (*channel.all_keys, key)
    return await _save_keys(edits, channel, keys, f"added a key to channel '{channel.name}'", new=len(keys))


async def replace_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """PATCH /channels/{ref}/keys/{number} {key}: replace a key."""
    channel, index, key = _channel_in(edits, request), _key_index(edits, request), await _new_key(request)
    keys = (*channel.all_keys[:index], key, *channel.all_keys[index + 1 :])
    done = f"replaced key {index + 1} of channel '{channel.name}'"
    return await _save_keys(edits, channel, keys, done, new=index + 1)


async def remove_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """DELETE /channels/{ref}/keys/{number}: remove a key; the numbers of later keys go down by one."""
    channel, index = _channel_in(edits, request), _key_index(edits, request)
    keys = (*channel.all_keys[:index], *channel.all_keys[index + 1 :])
    return await _save_keys(edits, channel, keys, f"removed key {index + 1} of channel '{channel.name}'")


async def _new_key(request: web.Request) -> str:
    """Returns the key in the body. Raises BadRequest if it is empty."""
    if key := fields(await request.read(), {"key": str}, "key")["key"]:
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


async def _save_keys(edits: ConfigEdits, channel: Channel, keys: Sequence[str], done: str, new: int = 0) -> ChannelView:
    """Commit the keys. ``new`` is the number of a new key, which is then tried at the upstream; 0 if no key is new."""
    changed = msgspec.structs.replace(channel, key=keys[0] if keys else "", keys=tuple(keys[1:]))
    validation.check_entity("channels", changed, edits.registry)
    undone = f"the keys of channel '{channel.name}' are as before"
    await edits.commit(done, undone, Change("channels", channel.id, changed))
    if new:
        await test_key(edits.engine, changed, new)
    return await view_of(edits, changed)


def _channel_in(edits: ConfigEdits, request: web.Request) -> Channel:
    """Returns the channel in the path. Raises NotFound if it does not exist."""
    return edits.engine.catalog.channel(request.match_info["ref"])


async def view_of(edits: ConfigEdits, channel: Channel) -> ChannelView:
    """Returns the channel's view, with the sums of its calls."""
    return channel_view(edits.engine, channel, await tallies(edits.engine))


def _check(edits: ConfigEdits, channel: Channel) -> Channel:
    """Returns the channel with its URL and options normalized. Raises BadRequest, and Conflict for a used name."""
    validation.check_named_entity("channels", channel, edits.registry)
    url = checked_base_url(channel.base_url) if channel.dialect.info.needs_url else ""
    return msgspec.structs.replace(channel, base_url=url, options=mock.with_stored_names(channel.options))


def _date_models(edits: ConfigEdits, channel: Channel, old: Channel | None) -> Channel:
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
