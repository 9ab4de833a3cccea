"""Channels and their keys: add, edit, remove, list models, test, resume. Keys are never shown.

Long: the operations on one thing, one after another.
"""

from collections.abc import Sequence
from typing import cast

import msgspec
from aiohttp import web

from gateway.control import model_lists, validation
from gateway.control.edits import ConfigEdits, edit_text
from gateway.control.probe import look_at_key, probe
from gateway.control.request_bodies import fields, members, missing, patch, read_body
from gateway.control.usage import tallies
from gateway.control.vendor_prices import new_prices, with_known_prices
from gateway.control.views import channel_view, channel_views, price_view
from gateway.core.auth import new_id
from gateway.core.model_prices import channel_price, set_by_owner
from gateway.core.offered_models import chosen_by_hand, fix_models
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ChannelFields, Check, Dialect, ServedModel, UpstreamModels, key_id
from gateway.domain.errors import BadRequest, Conflict, NotFound, UpstreamError
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.human_values import count_text
from gateway.domain.price import Price
from gateway.domain.registry import Change
from gateway.domain.units import ChannelId
from gateway.domain.upstream_views import ListingView, SavedChannel
from gateway.domain.urls import checked_base_url
from gateway.domain.views import ChannelView
from gateway.upstream import mock
from gateway.upstream.dialects import DIALECTS
from gateway.upstream.vendors import PRESETS


class TestBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a test."""

    model: str = ""


def default_base_url(dialect: Dialect, preset: str) -> str:
    """Returns the default address of an upstream; empty if it has none."""
    if preset in PRESETS:
        return PRESETS[preset].base_url
    return DIALECTS[dialect].base_url


async def list_channels(edits: ConfigEdits, _: web.Request) -> list[ChannelView]:
    """GET /channels: all channels, by name."""
    return channel_views(edits.engine, await tallies(edits.engine))


async def show_channel(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """GET /channels/{ref}: one channel."""
    return await view_of(edits, channel_of(edits, request))


async def add_channel(edits: ConfigEdits, request: web.Request) -> SavedChannel:
    """POST /channels: add a channel with these fields; ``name`` is required, and either ``dialect`` or ``preset``.

    A preset implies ``dialect`` and ``base_url``; a dialect with only one vendor implies ``base_url``. Without
    ``models`` and ``patterns`` the channel offers all models that the upstream lists, and keeps them up to date. Models
    without a price get the known price, unless ``known_prices`` is false.
    """
    body = await request.read()
    values = fields(body, Channel, (*ChannelFields.__struct_fields__, "dialect"), ("name",))
    validation.preset(values.get("preset", ""))
    if values.get("preset") in PRESETS:
        values.setdefault("dialect", PRESETS[values["preset"]].dialect)
    if "dialect" not in values:
        raise missing("dialect")
    values.setdefault("base_url", default_base_url(values["dialect"], values.get("preset", "")))
    channel = _check(Channel(id=ChannelId(new_id("ch")), created=edits.now, **values), edits)
    changes = await model_lists.save_changes(_date_models(channel, None, edits), None, edits)
    changes[0] = await _with_new_prices(_channel_of(changes), None, edits)
    channel = _check(channel, edits)  # another request may have added a channel meanwhile
    await _commit(edits, None, changes, f"added channel '{channel.name}'", f"channel '{channel.name}' is removed")
    return await _saved_view(edits, channel.id, None)


async def edit_channel(edits: ConfigEdits, request: web.Request) -> SavedChannel:
    """PATCH /channels/{ref}: edit it; past failures are forgotten if the edit may have fixed them."""
    old = channel_of(edits, request)
    body = await request.read()
    changes = await _edit_changes(edits, old, body)
    if edits.registry.channels.get(old.id) != old:
        raise Conflict(
            f"channel '{old.name}' has changed in the meantime; review it and try again", code="changed_meanwhile"
        )
    done, undone = edit_text("channel", old, _channel_of(changes)), f"channel '{old.name}' is as before"
    unchanged = await _commit(edits, old, changes, done, undone)
    if not {"key", "keys"}.isdisjoint(members(body)):
        edits.engine.health.clear(old.id)  # sending a key, even the same one, means that it is valid
        listed = next((change.value for change in changes if change.table == "lists"), None)
        if isinstance(listed, UpstreamModels) and listed.key_refused and not edits.registry.channels[old.id].keys:
            edits.engine.health.failed(old.id, FailureKind.AUTH, listed.error)
        edits.engine.incident_watch.look()
    return msgspec.structs.replace(await _saved_view(edits, old.id, old), unchanged=unchanged)


def _at_home(asked: Channel, old: Channel) -> Channel:
    """Returns the channel with an address that fits its dialect, if the dialect changed and the address did not: none,
    the old one, or the default. Raises BadRequest if it needs an address and has none.
    """
    if asked.dialect is old.dialect or asked.base_url != old.base_url:
        return asked
    if not asked.dialect.info.needs_url:
        return msgspec.structs.replace(asked, base_url="", preset="" if asked.preset == old.preset else asked.preset)
    url = old.base_url or default_base_url(asked.dialect, asked.preset)
    if not url:
        raise BadRequest(f"base_url: the {asked.dialect} dialect needs the address of its upstream", param="base_url")
    return msgspec.structs.replace(asked, base_url=url)


def _channel_of(changes: Sequence[Change]) -> Channel:
    """Returns the channel that an edit adds or changes: its first change."""
    return cast("Channel", changes[0].value)


async def _with_new_prices(channel: Channel, old: Channel | None, edits: ConfigEdits) -> Change:
    """Returns the change that saves the channel, with known prices for the models (or names of models) that are new.

    The others get known prices too if the channel is to have them from now on, or if it may belong to another vendor
    now.
    """
    offered = {(model.name, model.upstream_name) for model in channel.models}
    if old is not None and old.known_prices and not _moves(channel, old):
        offered -= {(model.name, model.upstream_name) for model in old.models}
    if channel.known_prices:
        channel = await with_known_prices(channel, {name for name, _ in offered}, edits.registry, edits.now)
    return Change("channels", channel.id, channel)


def _moves(channel: Channel, old: Channel) -> bool:
    """Returns whether a channel may belong to another vendor now."""
    return (old.preset, old.base_url) != (channel.preset, channel.base_url)


async def _commit(edits: ConfigEdits, old: Channel | None, changes: Sequence[Change], done: str, undone: str) -> bool:
    """Commit a channel with the prices of its new models. Returns whether nothing has changed."""
    new = new_prices(_channel_of(changes), old)
    had = {served.name for served in old.models if served.price is not None} if old is not None else set()
    if new:
        done = f"{done} with {count_text(len(new), 'price')} known to the program"
    if brought := sum(price.model not in had for price in new):
        undone = f"{undone}, without {count_text(brought, 'price')} it brought"
    return (await edits.commit(done, undone, *changes))["done"] == NOTHING_CHANGED


async def _saved_view(edits: ConfigEdits, id_: ChannelId, old: Channel | None) -> SavedChannel:
    channel, prices = edits.registry.channels[id_], edits.registry.prices
    view = await view_of(edits, channel)
    return SavedChannel(
        **{name: getattr(view, name) for name in view.__struct_fields__},
        new_prices=tuple(price_view(price, edits.now, channel=channel.name) for price in new_prices(channel, old)),
        refuses_unpriced=edits.registry.settings.refuse_unpriced,
        unpriced=tuple(model.name for model in channel.models if channel_price(channel, model, prices) is None),
    )


async def remove_channel(edits: ConfigEdits, request: web.Request) -> dict[str, str]:
    """DELETE /channels/{ref}: remove it with its prices."""
    channel = channel_of(edits, request)
    change = Change("channels", channel.id, None)
    return await edits.commit(f"removed channel '{channel.name}'", f"channel '{channel.name}' is back", change)


async def plan_batch_change(edits: ConfigEdits, ref: str, body: bytes | None) -> tuple[str, Sequence[Change]]:
    """Returns, for a batch, the channel's name and the changes of an edit; without a body, those of its removal."""
    channel = edits.engine.catalog.channel(ref)
    if body is None:
        return channel.name, [Change("channels", channel.id, None)]
    return channel.name, await _edit_changes(edits, channel, body)


async def _edit_changes(edits: ConfigEdits, old: Channel, body: bytes) -> list[Change]:
    asked = patch(old, body, (*ChannelFields.__struct_fields__, "dialect"))
    if asked.preset != old.preset:
        validation.preset(asked.preset)
    chosen = chosen_by_hand(old, _at_home(asked, old), sends_patterns="patterns" in members(body))
    channel = _date_models(_check(fix_models(chosen), edits), old, edits)
    changes = await model_lists.save_changes(channel, old, edits)
    changes[0] = await _with_new_prices(_channel_of(changes), old, edits)
    return changes


async def listing(edits: ConfigEdits, request: web.Request) -> ListingView:
    """GET /channels/{ref}/listing: the upstream's list as last fetched, without fetching it again."""
    return model_lists.listing_view(channel_of(edits, request), edits.engine.catalog, edits.now)


async def refresh_listing(edits: ConfigEdits, request: web.Request) -> ListingView:
    """POST /channels/{ref}/refresh: fetch the upstream's list; it shows which models are new and which are gone.

    If the list cannot be fetched, returns the last good one with the reason; raises UpstreamError if there is none.
    """
    channel = channel_of(edits, request)
    try:
        await model_lists.refresh(edits, channel)
    except UpstreamError:
        if (kept := edits.registry.lists.get(channel.id)) is None or not kept.time:
            raise
    return model_lists.listing_view(channel_of(edits, request), edits.engine.catalog, edits.now)


async def test_channel(edits: ConfigEdits, request: web.Request) -> Check:
    """POST /channels/{ref}/test {model?}: make a free probe, and one tiny real call if a model is given.

    The result is kept on the channel. A good one ends the channel's pause; after a lack of credit, only a real call
    does. A rejected key needs attention, as after a call.
    """
    channel = channel_of(edits, request)
    asked = await read_body(request, TestBody)
    check, health = await probe(edits.engine, channel, asked.model), edits.engine.health
    paused = check.ok and not asked.model and health.state_of(channel.id).kind is FailureKind.QUOTA
    if (current := edits.registry.channels.get(channel.id)) is not None:
        edits.change(Change("channels", current.id, msgspec.structs.replace(current, last_check=check)))
        if check.ok and not paused:
            # rejected keys stay out of use, and so do models that were not called now
            health.clear(current.id, keys=False, models=_other_names(channel, asked.model))
    edits.engine.incident_watch.look()  # incidents that the test found begin or end now
    return check


def _other_names(channel: Channel, name: str) -> list[str]:
    """Returns all names under which the channel offers the same upstream model, this one included."""
    called = {model.upstream_name for model in channel.models if model.name == name}
    return [model.name for model in channel.models if model.upstream_name in called]


async def resume_channel(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/clear: forget its failures."""
    channel = channel_of(edits, request)
    edits.engine.health.clear(channel.id)
    edits.engine.incident_watch.look()
    return await view_of(edits, channel)


def channel_of(edits: ConfigEdits, request: web.Request) -> Channel:
    """Returns the channel that a path names. Raises NotFound, naming those that exist."""
    return edits.engine.catalog.channel(request.match_info["ref"])


async def view_of(edits: ConfigEdits, channel: Channel) -> ChannelView:
    """Returns the channel as clients of this API see it."""
    return channel_view(edits.engine, channel, await tallies(edits.engine))


def _check(channel: Channel, edits: ConfigEdits) -> Channel:
    """Returns the channel with its URL and options normalised. Raises BadRequest or Conflict."""
    validation.channel(channel, edits.registry)
    for other in edits.registry.channels.values():
        if other.id != channel.id and channel.name in (other.name, other.id):
            raise Conflict(f"there is already a channel '{channel.name}'; choose another name", param="name")
    url = checked_base_url(channel.base_url) if channel.dialect.info.needs_url else ""
    return msgspec.structs.replace(channel, base_url=url, options=mock.spelt(channel.options))


def _date_models(channel: Channel, old: Channel | None, edits: ConfigEdits) -> Channel:
    """Returns the channel with the date of each model since when it has been offered here."""
    known = {model.name: model.created for model in old.models} if old is not None else {}
    dated = [msgspec.structs.replace(m, created=m.created or known.get(m.name) or edits.now) for m in channel.models]
    models = tuple(dated) if old is None else _keep_prices(tuple(dated), old, moves=_moves(channel, old))
    return msgspec.structs.replace(channel, models=models)


def _keep_prices(models: tuple[ServedModel, ...], old: Channel, *, moves: bool) -> tuple[ServedModel, ...]:
    """Returns the models with the prices that they had at the channel, if they still stand for the same upstream model.

    ``moves``: the channel may belong to another vendor now, so imported prices are dropped.
    """
    known = {(model.name, model.upstream_name): model.price for model in old.models}

    def price(model: ServedModel) -> Price | None:
        kept = model.price or known.get((model.name, model.upstream_name))
        return None if moves and not set_by_owner(kept) else kept

    return tuple(msgspec.structs.replace(model, price=price(model)) for model in models)


class KeyBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an added or replaced key."""

    key: str


async def add_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/keys {key}: add a key as the last one."""
    channel, key = channel_of(edits, request), await _given_ref(request)
    keys = (*channel.all_keys, key)
    return await _keep(edits, channel, keys, f"added a key to channel '{channel.name}'", new=len(keys))


async def replace_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """PATCH /channels/{ref}/keys/{number} {key}: replace a key."""
    channel, at, key = channel_of(edits, request), _place(edits, request), await _given_ref(request)
    keys = (*channel.all_keys[:at], key, *channel.all_keys[at + 1 :])
    return await _keep(edits, channel, keys, f"replaced key {at + 1} of channel '{channel.name}'", new=at + 1)


async def remove_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """DELETE /channels/{ref}/keys/{number}: remove a key; the numbers of later keys go down by one."""
    channel, at = channel_of(edits, request), _place(edits, request)
    keys = (*channel.all_keys[:at], *channel.all_keys[at + 1 :])
    return await _keep(edits, channel, keys, f"removed key {at + 1} of channel '{channel.name}'")


async def resume_key(edits: ConfigEdits, request: web.Request) -> ChannelView:
    """POST /channels/{ref}/keys/{number}/clear: forget a key's failures."""
    channel, at = channel_of(edits, request), _place(edits, request)
    edits.engine.health.clear(key_id(channel.id, at + 1) if channel.keys else channel.id)
    edits.engine.incident_watch.look()
    return await view_of(edits, channel)


async def _given_ref(request: web.Request) -> str:
    if key := (await read_body(request, KeyBody)).key:
        return key
    raise BadRequest("key: must not be empty; to delete a key, remove it", param="key")


def _place(edits: ConfigEdits, request: web.Request) -> int:
    """Returns the index of the key with this number. Raises NotFound, naming the numbers that exist."""
    channel, number = channel_of(edits, request), request.match_info["number"]
    count = len(channel.all_keys)
    if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= count):
        there = f"its keys are numbered 1 to {count}" if count else "it has none"
        raise NotFound(f"channel '{channel.name}' has no such key; {there}", param="number")
    return int(number) - 1


async def _keep(
    edits: ConfigEdits, channel: Channel, keys: tuple[str, ...], sentence: str, new: int = 0
) -> ChannelView:
    """Commit the keys. ``new`` is the number of a new key, which is tried at the upstream; 0 without one."""
    changed = msgspec.structs.replace(channel, key=keys[0] if keys else "", keys=keys[1:])
    validation.channel(changed, edits.registry)
    await edits.commit(
        sentence, f"the keys of channel '{channel.name}' are as before", Change("channels", channel.id, changed)
    )
    if new:
        await look_at_key(edits.engine, changed, new)
    return await view_of(edits, changed)
