"""Prices: set, import and remove them; and the public models with their prices."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from aiohttp import web

from gateway.control import validation
from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import fields, members, query, read_body
from gateway.control.usage import tallies
from gateway.control.vendor_prices import known_prices, load
from gateway.control.views import model_views, price_view
from gateway.core.catalog import ModelEntry, answering
from gateway.core.channel_health import HealthState
from gateway.core.engine import Engine
from gateway.core.model_prices import channel_price, in_order, set_by_owner, with_price
from gateway.core.price_change import change_of, differs, guard_of
from gateway.core.quota import known_limit
from gateway.core.routing import place
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.human_values import count_text, first_of, pause_text
from gateway.domain.patterns import near_names
from gateway.domain.price import LIKE, Price
from gateway.domain.price_view import PriceView
from gateway.domain.registry import Change
from gateway.domain.text import plain, word
from gateway.domain.units import ChannelId, Millis
from gateway.domain.upstream_views import ModelDetail, ModelRoute, PriceProposal
from gateway.domain.views import ModelView
from gateway.upstream.vendors import vendor_of


class PriceBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an import from the price list and the upstreams' lists."""

    apply: bool = False
    models: list[str] | None = None
    """The models to import prices for; None means all."""
    channel: str = ""
    """The name of a channel or a preset; empty means all."""
    accept: bool = False
    """Whether to import steep rises too, and prices that look like another unit."""


class LikeBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request that copies a price."""

    like: str
    """The model to copy from: one with a price here, or one of the price list: ``gpt-4o``,
    ``groq/llama-3.1-8b-instant``."""


EDITABLE = (
    "input",
    "output",
    "cached_input",
    "cache_write",
    "cache_write_long",
    "per_call",
    "extras",
    "tiers",
    "rules",
    "source",
)
"""The fields of a price that a request may set."""


async def list_prices(edits: ConfigEdits, _: web.Request) -> list[PriceView]:
    """GET /prices: the prices of models and their prices at single channels, sorted by model."""
    views = [price_view(price, edits.now) for price in edits.registry.prices.values()]
    views += [
        price_view(served.price, edits.now, served.name, channel=channel.name)
        for channel in in_order(edits.registry.channels.values())
        for served in channel.models
        if served.price is not None
    ]
    return sorted(views, key=lambda view: (view.model, view.channel != ""))


async def put_price(edits: ConfigEdits, request: web.Request) -> PriceView:
    """PUT /prices/{model}[?channel=REF]: set the whole price with ``input`` and ``output``, or copy another model's
    with ``like``.

    With ``channel`` it applies only to the calls that this channel answers.
    """
    model = request.match_info["model"]
    price = await _price_of(edits, model, await request.read())
    channel = _channel_param(edits, request)
    if channel is None:
        what, change = f"the price of '{model}'", Change("prices", model, price)
    else:
        what = f"the price of '{model}' at channel '{channel.name}'"
        change = Change("channels", channel.id, with_price(_require_model(channel, model), {model: price}))
    await edits.commit(f"set {what}", f"{what} is as before", change)
    return price_view(price, edits.now, channel=channel.name if channel is not None else "")


def _require_model(channel: Channel, model: str) -> Channel:
    """Returns the channel unchanged. Raises NotFound if it does not offer the model."""
    if model not in {served.name for served in channel.models}:
        raise NotFound(f"channel '{plain(channel.name)}' does not offer the model '{plain(model)}'", param="channel")
    return channel


def _channel_param(edits: ConfigEdits, request: web.Request) -> Channel | None:
    ref = query(request.query, {"channel": str}).get("channel")
    return edits.engine.catalog.channel(ref) if ref else None


async def _price_like(edits: ConfigEdits, model: str, other: str) -> Price:
    """Returns a copy of another model's price: the one it has here, else the one in the price list.

    Raises NotFound or BadRequest: see ``_common_price``.
    """
    price, source = edits.engine.catalog.price(other), LIKE + other
    if price is None or other == model:
        price = _common_price(other, (await load()).named(other, edits.now))
        source += f" in {price.source}"
    overrides = {"model": model, "updated": edits.now, "source": source, "as_of": Millis(0)}
    # the context is the other model's
    return msgspec.structs.replace(price, **overrides, context=None, context_source="")


def _common_price(name: str, by_vendor: Mapping[str, Price]) -> Price:
    """Returns the price that all vendors charge. Raises NotFound if there is none, BadRequest if they differ."""
    prices = list(by_vendor.values())
    if not prices:
        msg = f"no price is known for '{plain(name)}': it has no price here, and the price list does not contain it"
        raise NotFound(msg, param="like")
    if any(differs(prices[0], price) for price in prices):
        examples = ", ".join(f"{vendor}/{plain(name)}" for vendor in list(by_vendor)[:6])
        raise BadRequest(
            f"vendors charge different prices for '{plain(name)}'; name one of them: {examples}", param="like"
        )
    return prices[0]


async def import_prices(edits: ConfigEdits, request: web.Request) -> list[PriceProposal]:
    """POST /prices/import {apply, models?, channel?, accept}: what upstreams publish and vendors charge for the served
    models, compared with the prices before the import.

    With ``apply`` those that differ are imported in one change, except where the owner set a price by hand, and,
    without ``accept``, where a price rises steeply or looks like another unit. ``models`` and ``channel`` restrict the
    import.
    """
    asked = await read_body(request, PriceBody)
    registry, now = edits.registry, edits.now
    channels = [c for c in registry.channels.values() if not asked.channel or asked.channel in _names(c)]
    if asked.channel and not channels:
        there = ", ".join(sorted({name for c in registry.channels.values() for name in _names(c)}))
        msg = f"no channel or vendor '{plain(asked.channel)}'; there are: {there or 'none'}"
        raise NotFound(msg, param="channel")
    price_list = await load()
    known = await asyncio.to_thread(lambda: list(known_prices(channels, registry, price_list, now)))
    proposals: list[PriceProposal] = []
    prices: dict[ChannelId, dict[str, Price | None]] = {}
    sources: dict[str, None] = {}
    for channel, served, price in known:
        if asked.models is not None and served.name not in asked.models:
            continue
        proposal = _proposal(edits, channel, served, price, asked)
        proposals.append(proposal)
        if proposal.applied:
            prices.setdefault(channel.id, {})[served.name] = price
            sources[price.source] = None
    if prices:
        count = count_text(sum(map(len, prices.values())), "price")
        await edits.commit(
            f"imported {count} from {first_of([*sources], 2)}",
            f"the import of {count} is reverted",
            *(Change("channels", id_, with_price(registry.channels[id_], own)) for id_, own in prices.items()),
        )
    return proposals


def _names(channel: Channel) -> Sequence[str]:
    """Returns the channel's name, and its vendor's if that is known."""
    return [name for name in (channel.name, vendor_of(channel.preset, channel.base_url).name) if name]


def _proposal(
    edits: ConfigEdits, channel: Channel, served: ServedModel, known: Price, asked: PriceBody
) -> PriceProposal:
    current = channel_price(channel, served, edits.registry.prices)
    by_owner, changed, guard = set_by_owner(current), differs(current, known), guard_of(current, known)
    return PriceProposal(
        model=served.name,
        channel=channel.name,
        now=price_view(current, edits.now, served.name) if current is not None else None,
        listed=price_view(known, edits.now, served.name),
        kept=by_owner,
        differs=changed,
        change=change_of(current, known),
        guard=guard,
        applied=asked.apply and changed and not by_owner and (asked.accept or not guard),
    )


async def remove_price(edits: ConfigEdits, request: web.Request) -> dict[str, str]:
    """DELETE /prices/{model}[?channel=REF]: remove the model's price, or only its own price at that channel.

    Without ``channel``, a price that the owner set for a single channel stays.
    """
    model = request.match_info["model"]
    if (channel := _channel_param(edits, request)) is not None:
        if all(served.price is None for served in channel.models if served.name == model):
            raise NotFound(f"channel '{channel.name}' has no price of its own for '{plain(model)}'", param="model")
        what, change = f"the price of '{model}' at channel '{channel.name}'", with_price(channel, {model: None})
        return await edits.commit(f"removed {what}", f"{what} is back", Change("channels", channel.id, change))
    return await edits.commit(
        f"removed the price of '{model}'", f"the price of '{model}' is back", *_removal_changes(edits, model)
    )


async def plan_batch_change(edits: ConfigEdits, ref: str, body: bytes | None) -> tuple[str, Sequence[Change]]:
    """Returns, for a batch, the model and the change that sets its price; without a body, the changes of a removal."""
    if body is None:
        return ref, _removal_changes(edits, ref)
    return ref, [Change("prices", ref, await _price_of(edits, ref, body))]


async def _price_of(edits: ConfigEdits, model: str, body: bytes) -> Price:
    if "like" in members(body):
        price = await _price_like(edits, model, LikeBody(**fields(body, LikeBody, ("like",))).like)
    else:
        price = Price(model=model, updated=edits.now, **fields(body, Price, EDITABLE, ("input", "output")))
    validation.price(price)
    return _with_known_context(price, edits.engine.catalog.price(model))


def _with_known_context(price: Price, before: Price | None) -> Price:
    """Returns the price with the context length that the model had in the price list: it does not depend on
    the price.
    """
    if before is None or before.context is None:
        return price
    source = before.context_source or before.source
    return msgspec.structs.replace(price, context=before.context, context_source=source)


def _removal_changes(edits: ConfigEdits, model: str) -> list[Change]:
    """Returns the changes that remove the model's price, and those imported for channels. Raises NotFound
    without any.
    """
    changes = [Change("prices", model, None)] if model in edits.registry.prices else []
    changes += [
        Change("channels", channel.id, with_price(channel, {model: None}))
        for channel in edits.registry.channels.values()
        if any(served.name == model and served.price and not set_by_owner(served.price) for served in channel.models)
    ]
    if not changes:
        raise NotFound(f"no price for '{plain(model)}'{_other_price(edits, model)}", param="model")
    return changes


def _other_price(edits: ConfigEdits, model: str) -> str:
    """Returns the end of a message that names the price which a model still has: the owner's at one channel, or that of
    another model. Empty if it has none.
    """
    single = [
        channel.name
        for channel in in_order(edits.registry.channels.values())
        if any(served.name == model and served.price is not None for served in channel.models)
    ]
    if single:
        command = f"tollkeeper price remove {word(model)} --channel {word(single[0])}"
        names = first_of([f"'{plain(name)}'" for name in single], 3)
        return f" except at channel {names}: '{command}' removes that"
    target = edits.engine.catalog.price(model)
    return "" if target is None else f"; it is an alias of '{plain(target.model)}' and has its price"


async def show_model(edits: ConfigEdits, request: web.Request) -> ModelDetail:
    """GET /models/{model}: the channels that serve it, in order, the tokens that see it, and what it costs."""
    engine, name = edits.engine, request.match_info["model"]
    catalog, registry = engine.catalog, engine.catalog.registry
    offers = [(c, m) for c in in_order(registry.channels.values()) for m in c.models if m.name == name]
    in_groups = {group: catalog.group_models(group).get(name) for group in sorted(registry.groups)}
    entries = {group: entry for group, entry in in_groups.items() if entry is not None}
    if not entries and not offers:
        raise _no_model(name, {m.name for c in registry.channels.values() for m in c.models})
    (view,) = model_views(engine, await tallies(engine), only=name)
    routes = [route for group, entry in entries.items() for route in _routes_in_order(engine, group, entry)]
    used = {route.channel for route in routes}
    routes += [_model_route(engine, channel, served) for channel, served in offers if channel.name not in used]
    return ModelDetail(
        **{field: getattr(view, field) for field in view.__struct_fields__},
        max_output=next((answering(entry).max_output for entry in entries.values()), None),
        fallbacks={group: [other.name for other in entry.fallbacks] for group, entry in entries.items()},
        tokens=sorted(
            token.name
            for token in registry.tokens.values()
            if name in catalog.visible(token) and not token.outlived(edits.now)
        ),
        routes=routes,
    )


def _no_model(name: str, known: Collection[str]) -> NotFound:
    near = ", ".join(f"'{plain(other)}'" for other in near_names(name, known))
    meant = f"did you mean {near}?" if near else "'tollkeeper model list' lists the models"
    return NotFound(f"no model '{plain(name)}'; {meant}", param="model")


def _routes_in_order(engine: Engine, group: str, entry: ModelEntry) -> Iterator[ModelRoute]:
    """Yields the channels of a model in one group, in the order in which its policy tries them."""
    tiers = sorted({route.rank.tier for route in entry.routes})
    for route in entry.routes:
        view = _model_route(engine, route.channel, route.served)
        order, words = tiers.index(route.rank.tier) + 1, place(route, engine.health.pace)
        yield msgspec.structs.replace(view, group=group, order=order, place=words)


def _model_route(engine: Engine, channel: Channel, served: ServedModel) -> ModelRoute:
    state, missing_s = engine.channel_state(channel), engine.health.missing(channel.id).get(served.name, 0.0)
    if state.name == "ok" and missing_s:
        state = HealthState("cooling", f"does not have the model, retry in {pause_text(missing_s)}")
    return ModelRoute(
        group="",
        order=0,
        place="",
        channel=channel.name,
        dialect=channel.dialect.value,
        upstream_model=served.upstream_name,
        state=state.name,
        reason=state.reason,
        weight=channel.weight,
        limits=channel.limits,
        context=engine.catalog.context(served.name, served.context),
        context_source=engine.catalog.context_source(served.name, served.context),
        max_output=known_limit(channel, next(model for model in channel.models if model.name == served.name)),
        price=_route_price(engine, channel, served),
    )


def _route_price(engine: Engine, channel: Channel, served: ServedModel) -> PriceView | None:
    price = channel_price(channel, served, engine.catalog.registry.prices)
    return None if price is None else price_view(price, engine.now(), served.name)


async def list_models(edits: ConfigEdits, request: web.Request) -> list[ModelView]:
    """GET /models[?token=REF]: all models, or those that one token sees, with the prices it pays and its own calls."""
    engine, ref = edits.engine, query(request.query, {"token": str}).get("token")
    token = engine.catalog.token(ref) if ref else None
    return model_views(engine, await tallies(engine, token.id if token else None), token)
