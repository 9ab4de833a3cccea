"""Lists: the models that upstreams list, fetched when a channel is saved, on a schedule, and on request.

Fetching is free. The last good list is kept: its models stay offered while the upstream is down.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from gateway.control import validation
from gateway.control.edits import ConfigEdits
from gateway.control.vendor_prices import new_prices, with_known_prices
from gateway.core.catalog import Catalog
from gateway.core.engine import Engine
from gateway.core.model_prices import channel_price, with_price
from gateway.core.offered_models import newly_listed, offered_models
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Dialect, ServedModel, UpstreamModels
from gateway.domain.errors import BadRequest, GatewayError, UpstreamError
from gateway.domain.history import ChangeSource
from gateway.domain.human_values import first_of, plural
from gateway.domain.patterns import is_pattern
from gateway.domain.registry import Change, Registry
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.domain.upstream_views import ListedModel, ListingView
from gateway.upstream.vendors import vendor_of

_log = logging.getLogger("tollkeeper")

ALL = ("*",)
RETRY_MS = 600_000
"""The time after which a list that could not be fetched is tried again, in milliseconds."""
HOUR_MS = 3_600_000

_PLACE = ("dialect", "base_url", "key", "keys", "headers", "preset", "proxy")


async def save_changes(channel: Channel, old: Channel | None, edits: ConfigEdits) -> list[Change]:
    """Returns the changes that save a new or changed channel, with the models that its patterns select.

    Raises BadRequest with advice if new patterns, or patterns at a new address, have no list to select from.
    """
    channel = separate_patterns(channel)
    if old is None and not channel.models and not channel.patterns:
        channel = msgspec.structs.replace(channel, patterns=ALL)
    stays = old is not None and old.base_url == channel.base_url
    before = _good(edits.registry.lists.get(channel.id)) if stays else None
    listed, asks = before, old is None or _moved(old, channel)
    if channel.patterns:
        chooses = asks or (old is not None and old.patterns != channel.patterns)
        if asks or (chooses and before is None):
            channel, listed = await _fetch_list(channel, before, edits, stays=stays)
        if (good := _good(listed)) is not None:
            channel = offered_models(channel, good.models, edits.now)
            if chooses and not channel.models:
                message = f"none of the models it lists ({len(good.models):,}) matches {', '.join(channel.patterns)}"
                raise _no_list(channel, message)
        if not channel.dialect.info.lists_models and channel.patterns == ALL:
            channel = _frozen(channel)
    elif asks and channel.dialect.info.lists_models and not _known_place(channel):
        with suppress(UpstreamError, TimeoutError):
            channel, listed = await _looked_for(channel, before, edits)
            channel = offered_models(channel, listed.models, edits.now)
    changes = [Change("channels", channel.id, channel)]
    return changes if listed is before else [*changes, Change("lists", channel.id, listed)]


async def refresh(edits: ConfigEdits, channel: Channel) -> None:
    """Fetch the list and offer the models that match the patterns now.

    Raises UpstreamError; then the last list stays, with the error noted on it.
    """
    engine = edits.engine
    try:
        fetched = await engine.upstreams.fetch_models(channel)
        models = _some(channel, fetched, engine.upstreams.unnamed.get(channel.id, 0))
    except UpstreamError as error:
        _note(engine, channel, error)
        raise
    current, registry = engine.catalog.registry.channels.get(channel.id), engine.catalog.registry
    if current is None or _moved(current, channel):
        return
    now = engine.now()
    unnamed = engine.upstreams.unnamed.get(channel.id, 0)
    listed = newly_listed(registry.lists.get(channel.id), channel, models, now, unnamed)
    channel = offered_models(current, models, now)
    changes = [Change("lists", channel.id, listed)]
    engine.change(changes if channel == current else [*changes, Change("channels", channel.id, channel)])
    await _price_new_ones(edits, channel, current)
    channel = engine.catalog.registry.channels.get(channel.id, channel)
    if names := _models_without_price(channel, current, engine.catalog):
        name, new = plain(channel.name), first_of([plain(model, 80) for model in names], 5)
        _log.warning("channel '%s' lists new models without a price, which no budget stops: %s", name, new)


def _models_without_price(channel: Channel, before: Channel | None, catalog: Catalog) -> list[str]:
    """Returns the new models of a channel that have no price; those of the demo need none."""
    known = {model.name for model in before.models} if before is not None else ()
    new = [model for model in channel.models if model.name not in known and channel.dialect is not Dialect.MOCK]
    prices = catalog.registry.prices
    return [model.name for model in new if channel_price(channel, model, prices) is None]


async def _price_new_ones(edits: ConfigEdits, channel: Channel, before: Channel) -> None:
    """Give the new models of a channel their known prices if they have none, as a change in the history."""
    names = {model.name for model in channel.models} - {model.name for model in before.models}
    if not names or not channel.known_prices:
        return
    priced = new_prices(await with_known_prices(channel, names, edits.registry, edits.now), channel)
    current = edits.registry.channels.get(channel.id)
    if priced and current is not None:
        name, count = plain(channel.name), len(priced)
        models = f"{count:,} new {plural(count, 'model')} of channel '{name}'"
        await edits.commit(
            f"set the known prices of {models}",
            f"{models} {'has' if count == 1 else 'have'} no price",
            Change("channels", channel.id, with_price(current, {price.model: price for price in priced})),
        )
        _log.info("channel '%s' lists new models; %d got known prices", name, count)


async def keep_fresh(engine: Engine) -> None:
    """Fetch the lists that are due, every minute, until it is cancelled."""
    while True:
        await refresh_due(engine)
        await asyncio.sleep(60.0)


async def refresh_due(engine: Engine) -> None:
    """Fetch all lists that are due, concurrently."""
    edits = ConfigEdits(engine).by(ChangeSource(via="gateway"))
    async with asyncio.TaskGroup() as group:
        for channel in due(engine.catalog.registry, engine.now()):
            group.create_task(_try_refresh(edits, channel))


def due(registry: Registry, now: Millis) -> list[Channel]:
    """Returns the channels with patterns whose list is old, or whose last fetch failed some time ago."""
    span = registry.settings.refresh_models_h * HOUR_MS
    channels = []
    for channel in registry.channels.values():
        listed = registry.lists.get(channel.id)
        if not span or not channel.enabled or not channel.patterns or not channel.dialect.info.lists_models:
            continue
        if listed is None or now >= max(listed.time + span, listed.tried + RETRY_MS if listed.error else 0):
            channels.append(channel)
    return channels


def listing_view(channel: Channel, catalog: Catalog, now: Millis) -> ListingView:
    """Returns the last list, with the models that are offered of it."""
    listed = catalog.registry.lists.get(channel.id)
    span = catalog.registry.settings.refresh_models_h * HOUR_MS
    return ListingView(
        channel=channel.name,
        patterns=list(channel.patterns),
        time_ms=(listed.time or None) if listed else None,
        stale=listed is not None and bool(listed.error or (span and now - listed.time > 2 * span)),
        error=listed.error if listed else "",
        models=_rows(channel, listed, catalog) if listed else [],
        unnamed=listed.unnamed if listed else 0,
        unpriced=_models_without_price(channel, None, catalog),
    )


def _rows(channel: Channel, listed: UpstreamModels, catalog: Catalog) -> list[ListedModel]:
    """Returns the listed models in their order, then those that are gone."""
    offered: dict[str, list[ServedModel]] = {}
    for model in channel.models:
        offered.setdefault(model.upstream_name, []).append(model)
    there = {model.name for model in listed.models}
    gone = [ServedModel(name=name) for name in listed.gone if name not in there]
    gone += [ours[0] for name, ours in offered.items() if name not in there and name not in listed.gone]
    rows = [(model, offered.get(model.name, []), "new" if model.name in listed.new else "") for model in listed.models]
    rows += [(model, offered.get(model.upstream_name, []), "gone") for model in gone]
    return [_row(*row, catalog) for row in rows]


def _row(model: ServedModel, offered: list[ServedModel], state: str, catalog: Catalog) -> ListedModel:
    """Returns one row. ``offered`` are the channel's models for it, which may have several names."""
    names = sorted((served.name for served in offered), key=lambda name: name != model.upstream_name)
    name = names[0] if names else model.name
    return ListedModel(
        name=model.upstream_name,
        state=state or ("offered" if offered else "kept_out"),
        served=bool(offered),
        public=name if offered else "",
        context=model.context,
        told=model.told,
        max_output=model.max_output,
        known_context=catalog.context(name, model.context),
        context_source=catalog.context_source(name, model.context),
    )


async def _try_refresh(edits: ConfigEdits, channel: Channel) -> None:
    with suppress(GatewayError):  # the error is noted on the list
        await refresh(edits, channel)


def _note(engine: Engine, channel: Channel, error: UpstreamError) -> None:
    """Note on the list that it could not be fetched. If patterns have no list yet, add one without models."""
    listed = engine.catalog.registry.lists.get(channel.id)
    if listed is None and channel.patterns:
        listed = UpstreamModels(channel=channel.id, time=Millis(0))
    if listed is not None and channel.id in engine.catalog.registry.channels:
        text = plain(reason_of(channel, error), 300)
        engine.change([Change("lists", channel.id, msgspec.structs.replace(listed, tried=engine.now(), error=text))])


async def _fetch_list(
    channel: Channel, before: UpstreamModels | None, edits: ConfigEdits, *, stays: bool
) -> tuple[Channel, UpstreamModels]:
    """Returns the channel at the root that was found, and its list; if it cannot be fetched now, the last good one.

    A channel that keeps its address and has no list yet continues to wait for its first one. Raises BadRequest for a
    new address without a list.
    """
    try:
        return await _looked_for(channel, before, edits)
    except UpstreamError as exc:
        edits.engine.upstreams.forget(channel.id)
        text = plain(reason_of(channel, exc), 500)
        if before is None and not stays:
            raise _no_list(channel, text, _field_at_fault(channel, exc), busy=exc.code in _BUSY) from exc
        kept = before or UpstreamModels(channel=channel.id, time=Millis(0))
        return channel, msgspec.structs.replace(kept, tried=edits.now, error=text, key_refused=refuses_key(exc))


async def _looked_for(
    channel: Channel, before: UpstreamModels | None, edits: ConfigEdits
) -> tuple[Channel, UpstreamModels]:
    """Find the root and fetch the list; returns the channel at that root, and the list.

    Raises UpstreamError, and TimeoutError if the owner has named the models.
    """
    upstreams = edits.engine.upstreams
    # if the owner has named the models, the list is not worth a long wait
    async with asyncio.timeout(None if channel.patterns else 5.0):
        root, fetched = await upstreams.discover_root(channel)
    channel, unnamed = msgspec.structs.replace(channel, base_url=root), upstreams.unnamed.get(channel.id, 0)
    return channel, newly_listed(before, channel, _some(channel, fetched, unnamed), edits.now, unnamed)


def _some(channel: Channel, fetched: Iterable[ServedModel], unnamed: int = 0) -> tuple[ServedModel, ...]:
    """Returns the listed models whose names can be shown, each once. Raises UpstreamError if none is left."""
    usable: dict[str, ServedModel] = {}
    for served in fetched:
        with suppress(BadRequest):
            validation.check_served((served,))
            usable.setdefault(served.name, served)
    if not usable:
        lack = f"its list of models says no id for {'any of them' if unnamed > 1 else 'its only one'} ({unnamed:,})"
        why = lack if unnamed else "its list of models is empty"
        raise UpstreamError(f"channel '{channel.name}': {why}", param="models")
    return tuple(usable.values())


def separate_patterns(channel: Channel) -> Channel:
    """Returns the channel after moving the patterns among its models to its patterns."""
    patterns = tuple(m.name for m in channel.models if is_pattern(m.name) and not m.upstream)
    if not patterns:
        return channel
    models = tuple(m for m in channel.models if m.name not in patterns)
    merged = tuple(dict.fromkeys((*channel.patterns, *patterns)))
    return msgspec.structs.replace(channel, models=models, patterns=merged)


def _frozen(channel: Channel) -> Channel:
    """Returns the channel with its built-in models as fixed ones."""
    models = tuple(msgspec.structs.replace(model, live=False) for model in channel.models)
    return msgspec.structs.replace(channel, models=models, patterns=())


def refuses_key(error: UpstreamError) -> bool:
    """Returns whether the upstream rejects the key; a key that may not list models may still make calls."""
    return error.kind is FailureKind.AUTH and error.status != 403


def reason_of(channel: Channel, error: UpstreamError) -> str:
    """Returns an upstream's failure as a part of a sentence that already names the channel."""
    return error.message.removeprefix(f"channel '{channel.name}': ").removesuffix(".")


def _good(listed: UpstreamModels | None) -> UpstreamModels | None:
    return listed if listed is not None and listed.time else None


def _moved(old: Channel, new: Channel) -> bool:
    return any(getattr(old, field) != getattr(new, field) for field in _PLACE)


def _field_at_fault(channel: Channel, error: UpstreamError) -> str:
    """Returns the field to correct if the list cannot be fetched: the key if it is rejected, the address if it has no
    list, or the models, which must be named if the address is known to be right.
    """
    if error.kind in (FailureKind.AUTH, FailureKind.UNSET):
        return "key"
    vendor = vendor_of("", channel.base_url)
    known = vendor.base_url == channel.base_url or (error.status or 0) >= 500 or error.code in _BUSY
    return "models" if known or error.param == "models" else "base_url"


def _known_place(channel: Channel) -> bool:
    """Returns whether the root is known: the dialect has only one, or the vendor's own documentation names this one."""
    row = vendor_of("", channel.base_url)
    return not channel.dialect.info.root_may_vary or (bool(row.key_variable) and row.base_url == channel.base_url)


_BUSY = ("upstream_rate_limited", "upstream_overloaded")


def _no_list(channel: Channel, why: str, param: str = "models", *, busy: bool = False) -> BadRequest:
    advice = "" if "Check " in why else f"check its {'address' if param == 'base_url' else 'address and its key'}; "
    advice = "try again in a minute; " if busy else advice
    names = "without a list, name them: 'tollkeeper channel add NAME --models a,b,c'"
    return BadRequest(
        f"no list of models from channel '{channel.name}': {why}" + ("" if param == "key" else f"; {advice}{names}"),
        code="no_model_list",
        param=param,
    )
