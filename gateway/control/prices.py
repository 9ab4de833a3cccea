"""Prices: list, set, import and remove them, and compare them with what the price list and the upstreams publish."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, cast

import msgspec
from aiohttp import web

from gateway.control import validation
from gateway.control.edits import ConfigEdits, EntityEdit, edit_conflict
from gateway.control.request_bodies import fields, query, read_body, types_of
from gateway.control.vendor_prices import PriceList, known_prices, load_price_list
from gateway.control.views import price_view
from gateway.core.model_prices import channel_price, in_order, set_by_owner, with_price
from gateway.core.price_change import OLD_MS, change_kind, differs, implausibility
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.errors import BadRequest, NotFound, Unavailable
from gateway.domain.human_values import count_text, first_of
from gateway.domain.price import LIKE, Price, PriceDraft, in_force, without_past
from gateway.domain.price_view import PriceHint, PriceNews, PriceRise, PriceView, PublishedPrice
from gateway.domain.registry import Change, Registry
from gateway.domain.text import plain, word
from gateway.domain.units import HOUR_MS, ChannelId, Millis
from gateway.domain.upstream_views import PriceProposal
from gateway.upstream.vendors import vendor_of


class ImportPricesBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an import of known prices."""

    apply: bool = False
    """Whether to import the prices instead of only listing them."""
    models: list[str] | None = None
    """The models to import prices for; None means all."""
    channel: str = ""
    """The id or name of a channel, or the name of a vendor; empty means all."""
    accept: bool = False
    """Whether to import steep rises too, and prices that look as if they were in another unit."""


EDITABLE = {name: types_of(Price)[name] for name in (*PriceDraft.__struct_fields__, "source")}
"""The fields of a price that a request may set, with their types."""


async def list_prices(edits: ConfigEdits, _: web.Request) -> list[PriceView]:
    """GET /prices: the prices of models, and those at single channels, sorted by model."""
    views = [price_view(price, edits.now) for price in edits.registry.prices.values()]
    views += [
        price_view(served.price, edits.now, served.name, channel=channel.name)
        for channel in in_order(edits.registry.channels.values())
        for served in channel.models
        if served.price is not None
    ]
    return sorted(views, key=lambda view: (view.model, view.channel != ""))


async def _price_like(edits: ConfigEdits, model: str, other: str) -> Price:
    """Returns a copy of another model's price, here or else in the list. Raises what ``_common_price`` raises."""
    price, source = edits.engine.catalog.price(other), LIKE + other
    if price is None or other == model:
        price = _common_price(other, (await asyncio.to_thread(load_price_list, edits.now)).prices_by_vendor(other))
        source += f" in {price.source}"
    overrides = {"model": model, "updated": edits.now, "source": source, "as_of": Millis(0)}
    # the context length belongs to the other model and is not copied
    return msgspec.structs.replace(price, **overrides, context=None, context_source="")


def _common_price(name: str, by_vendor: Mapping[str, Price]) -> Price:
    """Returns the price that all vendors charge. Raises NotFound if none has one, BadRequest if they differ."""
    prices = list(by_vendor.values())
    if not prices:
        msg = f"no price is known for '{plain(name)}': it has no price here, and the price list does not contain it"
        raise NotFound(msg, param="like")
    if any(differs(prices[0], price) for price in prices):
        examples = ", ".join(f"{vendor}/{plain(name)}" for vendor in list(by_vendor)[:6])
        msg = f"vendors charge different prices for '{plain(name)}'; name one of them: {examples}"
        raise BadRequest(msg, param="like")
    return prices[0]


async def import_prices(edits: ConfigEdits, request: web.Request) -> list[PriceProposal]:
    """POST /prices/import {apply, models?, channel?, accept}: compare prices with those of upstreams and vendors.

    With ``apply``, known prices that differ are imported in one change. Prices that the owner set are never replaced,
    and without ``accept`` a price is not imported if it rises steeply or looks as if it were in another unit.
    ``models`` and ``channel`` restrict the import. Raises Conflict if the configuration changes while prices are found.
    """
    body = await read_body(request, ImportPricesBody)
    registry = edits.registry
    channels = [c for c in registry.channels.values() if body.channel in ("", c.id, *_names(c))]
    if body.channel and not channels:
        names = ", ".join(sorted({name for c in registry.channels.values() for name in _names(c)}))
        msg = f"no channel or vendor '{plain(body.channel)}'; known are: {names or 'none'}"
        raise NotFound(msg, param="channel")
    price_list = await asyncio.to_thread(load_price_list, edits.now)
    candidates = await asyncio.to_thread(lambda: list(known_prices(channels, registry, price_list)))
    chosen = [known for known in candidates if body.models is None or known[1].name in body.models]
    proposals = [_proposal(edits, *known, body) for known in chosen]
    applied = [known for known, proposal in zip(chosen, proposals, strict=True) if proposal.applied]
    if applied and edits.registry is not registry:
        raise edit_conflict()
    if applied:
        await _set_known_prices(edits, applied)
    return proposals


async def _set_known_prices(edits: ConfigEdits, known: Sequence[tuple[Channel, ServedModel, Price]]) -> None:
    """Set prices of models at their channels, in one change."""
    prices: dict[ChannelId, dict[str, Price | None]] = {}
    for channel, served, price in known:
        prices.setdefault(channel.id, {})[served.name] = price
    count, sources = count_text(len(known), "price"), [*dict.fromkeys(price.source for _, _, price in known)]
    channels = {channel.id: channel for channel, _, _ in known}
    priced = [with_price(channels[id_], new_prices) for id_, new_prices in prices.items()]
    changes = [Change("channels", channel.id, channel) for channel in priced]
    await edits.commit(f"imported {count} from {first_of(sources, 2)}", f"the import of {count} is reverted", *changes)


def _names(channel: Channel) -> Sequence[str]:
    """Returns the channel's name, and the name of its vendor if known."""
    return [name for name in (channel.name, vendor_of(channel).name) if name]


def _proposal(
    edits: ConfigEdits, channel: Channel, served: ServedModel, known_price: Price, body: ImportPricesBody
) -> PriceProposal:
    current = _price_now(edits.registry, channel, served, edits.now)
    by_owner, changed = set_by_owner(current), differs(current, known_price)
    guard = implausibility(current, known_price)
    return PriceProposal(
        model=served.name,
        channel=channel.name,
        now=price_view(current, edits.now, served.name) if current is not None else None,
        listed=price_view(known_price, edits.now, served.name),
        kept=by_owner,
        differs=changed,
        change=change_kind(current, known_price),
        guard=guard,
        applied=body.apply and changed and not by_owner and (body.accept or not guard),
    )


async def plan_edit(edits: ConfigEdits, edit: EntityEdit) -> tuple[str, Sequence[Change]]:
    """Returns the model, and the changes that set its price or remove it, at one channel or at all.

    Without a channel, prices that the owner set at single channels stay.
    """
    model = edit.ref
    price = None if edit.patch is None else await _price_of(edits, model, edit.patch)
    if edit.channel:
        channel = edits.engine.catalog.channel(edit.channel)
        channel = edits.registry.channels.get(channel.id, channel)  # with the prices that are planned already
        offers = [served for served in channel.models if served.name == model]
        if price is not None and not offers:
            msg = f"channel '{plain(channel.name)}' does not offer the model '{plain(model)}'"
            raise NotFound(msg, param="channel")
        if price is None and all(served.price is None for served in offers):
            raise NotFound(f"channel '{channel.name}' has no price of its own for '{plain(model)}'", param="model")
        return model, [Change("channels", channel.id, with_price(channel, {model: price}))]
    return model, _removal_changes(edits, model) if price is None else [Change("prices", model, price)]


def saved_view(edits: ConfigEdits, model: str, change: Change) -> PriceView:
    """Returns the view of the price that a change set."""
    if isinstance(channel := change.value, Channel):
        price = next(served.price for served in channel.models if served.name == model)
        return price_view(cast("Price", price), edits.now, channel=channel.name)
    return price_view(cast("Price", change.value), edits.now)


async def _price_of(edits: ConfigEdits, model: str, body: dict[str, Any]) -> Price:
    """Returns the price that a body sets: one like another model's, or amounts. Raises BadRequest or NotFound."""
    if "like" in body:
        price = await _price_like(edits, model, fields(body, {"like": str})["like"])
    else:
        price = Price(model=model, updated=edits.now, **fields(body, EDITABLE, "input", "output"))
    validation.check_price(price)
    before = edits.engine.catalog.price(model)
    if before is None or before.context is None:
        return price
    # the context length, which came with the former price, does not change
    source = before.context_source or before.source
    return msgspec.structs.replace(price, context=before.context, context_source=source)


def _removal_changes(edits: ConfigEdits, model: str) -> list[Change]:
    """Returns the changes that remove the model's price and its imported prices. Raises NotFound if it has neither."""
    changes = [Change("prices", model, None)] if model in edits.registry.prices else []
    changes += [
        Change("channels", channel.id, with_price(channel, {model: None}))
        for channel in edits.registry.channels.values()
        if any(served.name == model and served.price and not set_by_owner(served.price) for served in channel.models)
    ]
    if not changes:
        raise NotFound(f"no price for '{plain(model)}'{_remaining_price(edits, model)}", param="model")
    return changes


def _remaining_price(edits: ConfigEdits, model: str) -> str:
    """Returns, for a message, which price the model still has: the owner's at a channel, or its target's."""
    offers = ((c.name, m) for c in in_order(edits.registry.channels.values()) for m in c.models if m.name == model)
    if channels := [name for name, served in offers if served.price is not None]:
        command = f"tollkeeper price remove {word(model)} --channel {word(channels[0])}"
        names = first_of([f"'{plain(name)}'" for name in channels], 3)
        return f" except at channel {names}: '{command}' removes that"
    target = edits.engine.catalog.price(model)
    return "" if target is None else f"; it is an alias of '{plain(target.model)}' and has its price"


MAX_ROWS = 500
"""The maximum number of news of each kind."""

NEWS_CACHE = web.AppKey("news_cache", dict[int, tuple[Registry, PriceNews]])
"""The latest news and the configuration that they are for, by the hour since 1970."""


async def show_news(edits: ConfigEdits, request: web.Request) -> PriceNews:
    """GET /prices/news[?hints=true]: the news, computed at most once an hour unless the configuration changes.

    The hints say why models have no list price. They take longer than the rest, so they are given on request only.
    """
    has_hints = query(request.query, {"hints": bool}).get("hints")
    registry, hour = edits.registry, edits.now // HOUR_MS
    try:
        price_list = await asyncio.to_thread(load_price_list, edits.now)
    except Unavailable:
        return PriceNews()
    cache = request.app[NEWS_CACHE]
    known, news = cache.get(hour, (None, PriceNews()))
    if known is not registry:
        news = await asyncio.to_thread(price_news, registry, price_list)
        cache.clear()
        cache[hour] = registry, news
    hints = await asyncio.to_thread(price_hints, registry, price_list) if has_hints else []
    return msgspec.structs.replace(news, hints=hints)


def price_news(registry: Registry, price_list: PriceList) -> PriceNews:
    """Returns the news about a configuration's prices, without hints. What the owner set is left out of the counts."""
    kinds = []
    for channel, served, price in known_prices(registry.channels.values(), registry, price_list):
        before = _price_now(registry, channel, served, price_list.now)
        if not set_by_owner(before):
            kinds.append(change_kind(before, price))
    rises = {(rise.model, rise.since_ms): rise for rise in _next_rises(registry, price_list.now)}
    return PriceNews(
        as_of_ms=price_list.as_of,
        as_of=_day(price_list.as_of),
        stale=price_list.now - price_list.as_of > OLD_MS,
        raised=kinds.count("up"),
        lowered=kinds.count("down"),
        added=kinds.count("new"),
        rises=sorted(rises.values(), key=lambda rise: rise.since_ms)[:MAX_ROWS],
        published=list(islice(_published_prices(registry, price_list.now), MAX_ROWS)),
    )


def price_hints(registry: Registry, price_list: PriceList) -> list[PriceHint]:
    """Returns why models without a price have no list price, with the closest names that have one."""
    hints = (
        PriceHint(model=served.name, channel=channel.name, text=price_list.hint(channel, served.upstream_name))
        for channel, served, price in _prices_in_use(registry, price_list.now)
        if price is None and channel.dialect is not Dialect.MOCK
    )
    return list(islice((hint for hint in hints if hint.text), MAX_ROWS))


def _prices_in_use(registry: Registry, now: Millis) -> Iterator[tuple[Channel, ServedModel, Price | None]]:
    """Yields every model of every channel with its price there; None if it has none."""
    for channel in registry.channels.values():
        for served in channel.models:
            yield channel, served, _price_now(registry, channel, served, now)


def _price_now(registry: Registry, channel: Channel, served: ServedModel, now: Millis) -> Price | None:
    """Returns the price of a channel's model, without the amounts that a rule has ended; None if it has none."""
    price = channel_price(channel, served, registry.prices)
    return None if price is None else without_past(price, now)


def _next_rises(registry: Registry, now: Millis) -> Iterator[PriceRise]:
    """Yields the next known rise of each price. Rules for variants or for some hours are ignored."""
    for _, served, price in _prices_in_use(registry, now):
        if price is None or not price.rules:
            continue
        current = in_force(price, now)
        for rule in price.rules:
            is_later = rule.since > now and not rule.variant and not rule.during
            if is_later and (rule.input > current.input or rule.output > current.output):
                yield PriceRise(
                    model=served.name,
                    since_ms=rule.since,
                    day=_day(rule.since),
                    input_nanos=current.input,
                    output_nanos=current.output,
                    next_input_nanos=rule.input,
                    next_output_nanos=rule.output,
                )
                break


def _published_prices(registry: Registry, now: Millis) -> Iterator[PublishedPrice]:
    for channel, served, price in _prices_in_use(registry, now):
        published = served.published
        if published is None or price is None or set_by_owner(price):
            continue
        pairs = ((published.input, price.input), (published.output, price.output))
        if any(abs(theirs - ours) > 0.05 * max(theirs, ours) for theirs, ours in pairs):
            yield PublishedPrice(
                model=served.name,
                channel=channel.name,
                input_nanos=price.input,
                output_nanos=price.output,
                published_input_nanos=published.input,
                published_output_nanos=published.output,
            )


def _day(moment: Millis) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).date().isoformat()
