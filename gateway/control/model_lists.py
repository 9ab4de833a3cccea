"""Model lists: fetches the models that upstreams list, when a channel is saved, on a schedule, and on request.

Fetching is free of charge. The last good list is kept, so its models stay offered while the upstream is down.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from gateway.control import validation
from gateway.control.edits import ConfigEdits
from gateway.control.vendor_prices import new_models, new_prices, with_known_prices
from gateway.core.catalog import Catalog
from gateway.core.engine import Engine
from gateway.core.model_prices import channel_price, with_price
from gateway.core.offered_models import newly_listed, offered_models
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Dialect, ServedModel, UpstreamModels
from gateway.domain.errors import BadRequest, GatewayError, UpstreamError
from gateway.domain.history import ChangeSource
from gateway.domain.human_values import count_text, first_of, plural
from gateway.domain.patterns import is_pattern
from gateway.domain.registry import Change, Registry
from gateway.domain.text import plain
from gateway.domain.units import HOUR_MS, Millis
from gateway.domain.upstream_views import ListedModel, ListingView
from gateway.upstream.vendors import find_vendor

_log = logging.getLogger("tollkeeper")

ALL = ("*",)
RETRY_MS = 600_000
"""The time after which a failed fetch is tried again, in milliseconds."""

_LIST_FIELDS = ("dialect", "base_url", "key", "keys", "headers", "preset", "proxy")
"""The fields of a channel that decide which list is fetched."""


async def changes_to_save(edits: ConfigEdits, channel: Channel, old: Channel | None) -> list[Change]:
    """Returns the changes that save a new or changed channel, with the models that its patterns select.

    Raises BadRequest with advice if new patterns, or patterns at a new address, have no list to select from.
    """
    channel = separate_patterns(channel)
    if old is None and not channel.models and not channel.patterns:
        channel = msgspec.structs.replace(channel, patterns=ALL)
    is_same_url = old is not None and old.base_url == channel.base_url
    before = _fetched_list(edits.registry.lists.get(channel.id)) if is_same_url else None
    listed = before
    needs_list = old is None or _has_other_list(old, channel)
    selects = bool(channel.patterns) and (old is None or needs_list or old.patterns != channel.patterns)
    if selects and (needs_list or before is None):
        channel, listed = await _fetch_or_keep(edits, channel, before, same_url=is_same_url)
    elif needs_list and channel.dialect.info.lists_models and not _is_known_root(channel):
        with suppress(UpstreamError, TimeoutError):
            channel, listed = await _find_root(edits, channel, before)
    if (fetched := _fetched_list(listed)) is not None:
        channel = offered_models(channel, fetched.models, edits.now)
        if selects and not channel.models:
            listed_count = count_text(len(fetched.models), "model")
            message = f"it lists {listed_count}, but not one matches {', '.join(channel.patterns)}"
            raise _no_list_error(channel, message)
    if not channel.dialect.info.lists_models and channel.patterns == ALL:
        fixed = tuple(msgspec.structs.replace(model, live=False) for model in channel.models)
        channel = msgspec.structs.replace(channel, models=fixed, patterns=())
    changes = [Change("channels", channel.id, channel)]
    return changes if listed is before else [*changes, Change("lists", channel.id, listed)]


async def refresh(edits: ConfigEdits, channel: Channel) -> None:
    """Fetch the list, and offer what its patterns match. Raises UpstreamError, which is noted on the last list."""
    engine = edits.engine
    try:
        fetched = await engine.upstreams.fetch_models(channel)
        listed = _new_list(edits, channel, fetched, edits.registry.lists.get(channel.id))
    except UpstreamError as error:
        _note_failure(engine, channel, error)
        raise
    current = edits.registry.channels.get(channel.id)
    if current is None or _has_other_list(current, channel):
        return  # it was edited in the meantime
    channel = offered_models(current, listed.models, listed.time)
    changes = [Change("lists", channel.id, listed)]
    engine.change(changes if channel == current else [*changes, Change("channels", channel.id, channel)])
    await _price_new_models(edits, channel, current)
    channel = engine.catalog.registry.channels.get(channel.id, channel)
    if names := models_without_price(channel, current, engine.catalog.registry):
        models_text = first_of([plain(model, 80) for model in names], 5)
        name = plain(channel.name)
        problem = "lists new models without a price, which no dollar budget stops"
        _log.warning("channel '%s' %s: %s", name, problem, models_text)


def models_without_price(channel: Channel, before: Channel | None, registry: Registry) -> list[str]:
    """Returns the models without a price that the channel did not have before. The demo's models need none."""
    models = () if channel.dialect is Dialect.MOCK else new_models(channel, before)
    return [model.name for model in models if channel_price(channel, model, registry.prices) is None]


async def _price_new_models(edits: ConfigEdits, channel: Channel, before: Channel) -> None:
    """Set the known prices of a channel's new models that have none, as a change in the history."""
    priced = new_prices(await with_known_prices(channel, before, edits.registry, edits.now), channel)
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
    """Every minute, fetch the lists that are due, until it is cancelled."""
    while True:
        await refresh_due(engine)
        await asyncio.sleep(60.0)


async def refresh_due(engine: Engine) -> None:
    """Fetch all lists that are due, concurrently."""
    edits = ConfigEdits(engine).for_source(ChangeSource(via="gateway"))
    async with asyncio.TaskGroup() as group:
        for channel in channels_due(engine.catalog.registry, engine.now()):
            group.create_task(_try_refresh(edits, channel))


def channels_due(registry: Registry, now: Millis) -> Iterator[Channel]:
    """Yields the channels with patterns whose list is old, or whose last fetch failed some time ago."""
    interval = registry.settings.refresh_models_h * HOUR_MS
    for channel in registry.channels.values():
        listed = registry.lists.get(channel.id)
        if not interval or not channel.enabled or not channel.patterns or not channel.dialect.info.lists_models:
            continue
        if listed is None or now >= max(listed.time + interval, listed.tried + RETRY_MS if listed.error else 0):
            yield channel


def listing_view(channel: Channel, catalog: Catalog, now: Millis) -> ListingView:
    """Returns the view of the last list, which says which models are offered."""
    listed = catalog.registry.lists.get(channel.id)
    interval = catalog.registry.settings.refresh_models_h * HOUR_MS
    return ListingView(
        channel=channel.name,
        patterns=list(channel.patterns),
        time_ms=(listed.time or None) if listed else None,
        stale=listed is not None and bool(listed.error or (interval and now - listed.time > 2 * interval)),
        error=listed.error if listed else "",
        models=_rows(channel, listed, catalog) if listed else [],
        unnamed=listed.unnamed if listed else 0,
        unpriced=models_without_price(channel, None, catalog.registry),
        refuses_unpriced=catalog.registry.settings.refuse_unpriced,
    )


def _rows(channel: Channel, listed: UpstreamModels, catalog: Catalog) -> list[ListedModel]:
    """Returns the listed models in the order of the list, then those that have disappeared from it."""
    offered: dict[str, list[ServedModel]] = {}
    for model in channel.models:
        offered.setdefault(model.upstream_name, []).append(model)
    listed_names = {model.name for model in listed.models}
    gone = [ServedModel(name=name) for name in listed.gone if name not in listed_names]
    gone += [models[0] for name, models in offered.items() if name not in listed_names and name not in listed.gone]
    rows = [(model, offered.get(model.name, []), "new" if model.name in listed.new else "") for model in listed.models]
    rows += [(model, offered.get(model.upstream_name, []), "gone") for model in gone]
    return [_row(*row, catalog) for row in rows]


def _row(model: ServedModel, offered: list[ServedModel], state: str, catalog: Catalog) -> ListedModel:
    """Returns the row of a model. ``offered`` are the channel's models that stand for it."""
    names = sorted((served.name for served in offered), key=lambda name: name != model.upstream_name)
    name = names[0] if names else model.name
    return ListedModel(
        name=model.upstream_name,
        state=state or ("offered" if offered else "kept_out"),
        served=bool(offered),
        public=name if offered else "",
        context=model.context,
        published=model.published,
        max_output=model.max_output,
        known_context=catalog.context(name, model.context),
        context_source=catalog.context_source(name, model.context),
    )


async def _try_refresh(edits: ConfigEdits, channel: Channel) -> None:
    with suppress(GatewayError):  # the error is noted on the list
        await refresh(edits, channel)


def _note_failure(engine: Engine, channel: Channel, error: UpstreamError) -> None:
    """Note on the list that it could not be fetched. If the channel has patterns but no list, add an empty one."""
    listed = engine.catalog.registry.lists.get(channel.id)
    if listed is None and channel.patterns:
        listed = UpstreamModels(channel=channel.id, time=Millis(0))
    if listed is not None and channel.id in engine.catalog.registry.channels:
        text = plain(reason_of(channel, error), 300)
        engine.change([Change("lists", channel.id, msgspec.structs.replace(listed, tried=engine.now(), error=text))])


async def _fetch_or_keep(
    edits: ConfigEdits, channel: Channel, before: UpstreamModels | None, *, same_url: bool
) -> tuple[Channel, UpstreamModels]:
    """Returns the channel at the root that was found and its list, or the unchanged channel and its last list.

    At a new address there must be a list, else BadRequest is raised. With ``same_url`` the channel may go on without a
    list, and wait for its first one.
    """
    try:
        return await _find_root(edits, channel, before)
    except UpstreamError as exc:
        edits.engine.upstreams.forget(channel.id)
        text = plain(reason_of(channel, exc), 500)
        if before is None and not same_url:
            raise _no_list_error(channel, text, _field_at_fault(channel, exc), busy=exc.code in _BUSY) from exc
        last = before or UpstreamModels(channel=channel.id, time=Millis(0))
        return channel, msgspec.structs.replace(last, tried=edits.now, error=text, key_refused=refuses_key(exc))


async def _find_root(
    edits: ConfigEdits, channel: Channel, before: UpstreamModels | None
) -> tuple[Channel, UpstreamModels]:
    """Returns the channel at the API's root, and its list. Raises UpstreamError or, with named models, TimeoutError."""
    # if the owner has named the models, the list is not worth a long wait
    async with asyncio.timeout(None if channel.patterns else 5.0):
        root, fetched = await edits.engine.upstreams.discover_root(channel)
    channel = msgspec.structs.replace(channel, base_url=root)
    return channel, _new_list(edits, channel, fetched, before)


def _new_list(
    edits: ConfigEdits, channel: Channel, fetched: Iterable[ServedModel], before: UpstreamModels | None
) -> UpstreamModels:
    """Returns the list of the fetched models with valid names. Raises UpstreamError if no name is valid."""
    usable, unnamed = dict[str, ServedModel](), edits.engine.upstreams.unnamed.get(channel.id, 0)
    for served in fetched:
        with suppress(BadRequest):
            validation.check_served((served,))
            usable.setdefault(served.name, served)
    if not usable:
        reason = "its list of models is empty"
        if unnamed:
            reason = f"its list of models has no ids ({count_text(unnamed, 'model')})"
        raise UpstreamError(f"channel '{channel.name}': {reason}", param="models")
    return newly_listed(before, channel, tuple(usable.values()), edits.now, unnamed)


def separate_patterns(channel: Channel) -> Channel:
    """Returns the channel with the patterns that are among its models moved to its patterns."""
    patterns = tuple(m.name for m in channel.models if is_pattern(m.name) and not m.upstream)
    models = tuple(m for m in channel.models if m.name not in patterns)
    merged = tuple(dict.fromkeys((*channel.patterns, *patterns)))
    return msgspec.structs.replace(channel, models=models, patterns=merged)


def refuses_key(error: UpstreamError) -> bool:
    """Returns whether the upstream rejects the key. Status 403 does not count: the key may still make calls."""
    return error.kind is FailureKind.AUTH and error.status != 403


def reason_of(channel: Channel, error: UpstreamError) -> str:
    """Returns the reason of an upstream's failure, without the channel's name, to be a part of another sentence."""
    return error.message.removeprefix(f"channel '{channel.name}': ").removesuffix(".")


def _fetched_list(listed: UpstreamModels | None) -> UpstreamModels | None:
    """Returns the list if it has ever been fetched, else None."""
    return listed if listed is not None and listed.time else None


def _has_other_list(old: Channel, new: Channel) -> bool:
    """Returns whether the list may differ, because the channel has another upstream or key."""
    return any(getattr(old, field) != getattr(new, field) for field in _LIST_FIELDS)


def _field_at_fault(channel: Channel, error: UpstreamError) -> str:
    """Returns what to correct: the key if it is rejected, the models if the address is right, else the address."""
    if error.kind in (FailureKind.AUTH, FailureKind.UNSET):
        return "key"
    vendor = find_vendor("", channel.base_url)
    is_right_url = vendor.base_url == channel.base_url or (error.status or 0) >= 500 or error.code in _BUSY
    return "models" if is_right_url or error.param == "models" else "base_url"


def _is_known_root(channel: Channel) -> bool:
    """Returns whether the root is certain: the dialect has only one, or it is the one of a known vendor."""
    row = find_vendor("", channel.base_url)
    return not channel.dialect.info.root_may_vary or (bool(row.key_variable) and row.base_url == channel.base_url)


_BUSY = ("upstream_rate_limited", "upstream_overloaded")
"""Error codes of an upstream that works, but has no time now."""


def _no_list_error(channel: Channel, reason: str, param: str = "models", *, busy: bool = False) -> BadRequest:
    advice = f"check its {'address' if param == 'base_url' else 'address and its key'}; "
    if busy:
        advice = "try again in a minute; "
    elif "Check " in reason:  # it says what to check
        advice = ""
    names = "if it has no list, name its models: 'tollkeeper channel add NAME --models a,b,c'"
    ending = "" if param == "key" else f"; {advice}{names}"
    message = f"no list of models from channel '{channel.name}': {reason}{ending}"
    return BadRequest(message, code="no_model_list", param=param)
