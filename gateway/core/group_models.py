"""Group models: which models a group has, with their routes and fallbacks. Pure.

They are computed when the configuration changes, so that a call only looks them up in the ``catalog``.
"""

from collections.abc import Container, Mapping
from typing import NamedTuple

import msgspec

from gateway.core.channel_effects import NO_EFFECTS, effects_of
from gateway.core.group_policy import Offer, Rank, fallback_models, rank_offers
from gateway.core.model_entry import ModelEntry, Route, scopes_of_only_channel, weighted_first_tier
from gateway.core.model_prices import channel_price
from gateway.core.rate_scopes import RateScope, channel_scope
from gateway.domain.channel import Channel, ServedModel, key_id, key_name
from gateway.domain.group import Group, Policy
from gateway.domain.patterns import matches
from gateway.domain.price import Price
from gateway.domain.registry import Registry
from gateway.domain.settings import Settings
from gateway.domain.units import ChannelId, Millis
from gateway.upstream.dialects import DIALECTS


def models_of(
    group: Group, registry: Registry, earlier: Mapping[str, ModelEntry], changed: set[str] | None
) -> dict[str, ModelEntry]:
    """Returns a group's models by name, without fallbacks. Only the ``changed`` ones are made again, None for all."""
    channels = [channel for channel in registry.channels.values() if channel.enabled and group.name in channel.groups]
    shared = {
        channel.id: _ChannelRoute(channel_scope(channel, registry.settings), _with_one_key(channel))
        for channel in channels
    }
    offers: dict[str, list[_PricedOffer]] = {}
    for channel in channels:
        for served in channel.models:
            if (changed is None or served.name in changed) and matches(served.name, group.models):
                offers.setdefault(served.name, []).append(_priced_offer(channel, served, registry))
    entries = {
        name: _entry(name, offers[name], group.policy, shared, refuse_unpriced=registry.settings.refuse_unpriced)
        for name in sorted(offers)
    }
    return entries if changed is None else {**earlier, **entries}


class _PricedOffer(NamedTuple):
    channel: Channel
    served: ServedModel
    """The model with its price and a bound of its output."""
    limit: int | None
    """Its own output limit, if that is known."""


def known_limit(channel: Channel, served: ServedModel) -> int | None:
    """Returns the model's own output limit, if the upstream's list or a vendor's table has it."""
    return served.max_output or DIALECTS[channel.dialect].model_limit(served.upstream_name)


def with_output_bound(channel: Channel, served: ServedModel, price: Price | None) -> ServedModel:
    """Returns the model with a bound of its output: its own limit, else the context in the list or the price."""
    limit = known_limit(channel, served) or served.context or (price.context if price is not None else None)
    return served if limit == served.max_output else msgspec.structs.replace(served, max_output=limit)


def _priced_offer(channel: Channel, served: ServedModel, registry: Registry) -> _PricedOffer:
    price = channel_price(channel, served, registry.prices)
    bounded = with_output_bound(channel, served, price)
    priced = bounded if price is bounded.price else msgspec.structs.replace(bounded, price=price)
    return _PricedOffer(channel, priced, known_limit(channel, served))


def _entry(
    name: str,
    offers: list[_PricedOffer],
    policy: Policy,
    shared: Mapping[ChannelId, "_ChannelRoute"],
    *,
    refuse_unpriced: bool,
) -> ModelEntry:
    """Returns a model as a group sees it. ``shared`` is what all routes of each channel share."""
    limits = [offer.limit for offer in offers if offer.limit is not None]
    usable: list[Offer] = [(offer.channel, offer.served) for offer in offers]
    if refuse_unpriced:  # an unpriced channel must not answer where another one has a price
        usable = [offer for offer in usable if offer[1].price is not None] or usable
    routes = tuple(_route(offer, rank, shared[offer[0].id]) for offer, rank in rank_offers(policy, usable))
    return ModelEntry(
        name=name,
        created=min(Millis(route.served.created or route.channel.created) for route in routes),
        owner=routes[0].channel.name,
        context=next((route.served.context for route in routes if route.served.context), None),
        scopes=scopes_of_only_channel(routes),
        effects=effects_of((route.channel, route.served) for route in routes),
        published_price=next((route.served.told for route in routes if route.served.told), None),
        max_output=max(limits) if len(limits) == len(offers) else None,
        routes=routes,
        first_tier=weighted_first_tier(routes),
        total_s=max(route.channel.timeouts.total for route in routes),
    )


def models_with_fallbacks(
    entries: dict[str, ModelEntry], group: Group, settings: Settings, priced: Container[str]
) -> dict[str, ModelEntry]:
    """Returns the models with their usable fallbacks in the group, and the names that only fallback rules have."""
    if not group.fallbacks:
        return entries
    usable = {name for name in entries if not settings.refuse_unpriced or name in priced}
    models = dict(entries)
    for name, entry in entries.items():
        fallbacks = [entries[other] for other in fallback_models(name, group.fallbacks) if other in usable]
        if fallbacks:
            models[name] = _with_fallbacks(entry, fallbacks)
    for rule in group.fallbacks:
        fallbacks = [entries[other] for other in rule.to if other in usable]
        is_pattern = "*" in rule.model or "?" in rule.model
        is_new_name = not is_pattern and rule.model not in models and matches(rule.model, group.models)
        if fallbacks and is_new_name:
            alias = msgspec.structs.replace(
                fallbacks[0], name=rule.model, routes=(), first_tier=(), published_price=None, effects=NO_EFFECTS
            )
            models[rule.model] = _with_fallbacks(alias, fallbacks)
    return dict(sorted(models.items()))


def _with_fallbacks(entry: ModelEntry, fallbacks: list[ModelEntry]) -> ModelEntry:
    """Returns the entry with fallbacks, and with time enough for each of them."""
    total_s = max(model.total_s for model in (entry, *fallbacks))
    return msgspec.structs.replace(entry, fallbacks=tuple(fallbacks), scopes=(), total_s=total_s)


def matching_models(models: Mapping[str, ModelEntry], patterns: tuple[str, ...]) -> dict[str, ModelEntry]:
    """Returns the models whose names match, with only those fallbacks that match too."""
    matching = {name: entry for name, entry in models.items() if matches(name, patterns)}
    for name, entry in list(matching.items()):
        if entry.fallbacks:
            fallbacks = tuple(other for other in entry.fallbacks if other.name in matching)
            matching[name] = msgspec.structs.replace(entry, fallbacks=fallbacks)
            if not (fallbacks or entry.routes):
                del matching[name]
    return matching


class _ChannelRoute(NamedTuple):
    scope: RateScope
    single_keys: list[tuple[Channel, ChannelId, str]]
    """The channel once for each key, if it has several."""


def _route(offer: Offer, rank: Rank, shared: _ChannelRoute) -> Route:
    channel, served = offer
    keys = tuple(Route(single, served, rank, (), id, name, shared.scope) for single, id, name in shared.single_keys)
    return Route(channel, served, rank, keys, scope=shared.scope)


def _with_one_key(channel: Channel) -> list[tuple[Channel, ChannelId, str]]:
    """Returns a channel of several keys as one channel for each key, with the key's id and name."""
    if not channel.keys:
        return []
    return [
        (channel.with_only_key(key), key_id(channel.id, number), key_name(number, key))
        for number, key in enumerate(channel.all_keys, start=1)
    ]
