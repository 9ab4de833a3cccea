"""Group models: which models a group has and its tokens see, with their routes and fallbacks. Pure.

A model is put together when it is first looked up, so that an edit takes little time however many models there are.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gateway.core.channel_effects import NO_EFFECTS, effects_of
from gateway.core.group_policy import Offer, Rank, fallback_models, rank_offers
from gateway.core.model_entry import ModelEntry, Route, scopes_of_only_channel
from gateway.core.model_prices import channel_price, set_by_owner
from gateway.core.rate_scopes import channel_scope
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.group import Group
from gateway.domain.patterns import is_pattern, matches
from gateway.domain.price import Price
from gateway.domain.registry import Registry
from gateway.domain.units import Millis
from gateway.upstream.dialects import DIALECTS


class GroupModels:
    """The models of a group: those that its channels serve, and the names that only its fallback rules have."""

    def __init__(self, group: Group, registry: Registry, now: Millis) -> None:
        self._group = group
        self._registry = registry
        self._now = now
        channels = [c for c in registry.channels.values() if c.enabled and group.name in c.groups]
        self._scopes = {channel.id: channel_scope(channel, registry.settings) for channel in channels}
        self._single_keys = {
            channel.id: [(channel.with_only_key(key), id, name) for key, id, name in channel.several_keys]
            for channel in channels
        }
        """Each of several keys: the channel with this key only, the id of the key's state, and its name."""
        self.offers: dict[str, list[Offer]] = {}
        """The channels that serve each model."""
        for channel in channels:
            for served in channel.models:
                if matches(served.name, group.models):
                    self.offers.setdefault(served.name, []).append((channel, served))
        aliases = {rule.model for rule in group.fallbacks if not is_pattern(rule.model)}
        self.names = sorted({*self.offers, *(name for name in aliases if matches(name, group.models))})
        self._entries: dict[str, ModelEntry] = {}

    def fallbacks(self, name: str) -> list[str]:
        """Returns the models of the group that may answer for this one."""
        rules = self._group.fallbacks
        if name in self.offers:
            return list(filter(self._may_answer, fallback_models(name, rules)))
        usable = (list(filter(self._may_answer, rule.to)) for rule in rules if rule.model == name)
        return next(filter(None, usable), [])

    def _may_answer(self, name: str) -> bool:
        if name not in self.offers:
            return False
        return not self._registry.settings.refuse_unpriced or bool(self.entry(name).effects.prices)

    def entry(self, name: str) -> ModelEntry:
        """Returns a model that channels serve, without fallbacks."""
        if (entry := self._entries.get(name)) is None:
            entry = self._entries.setdefault(name, self._make_entry(name, self.offers[name]))
        return entry

    def _make_entry(self, name: str, offers: Sequence[Offer]) -> ModelEntry:
        registry = self._registry
        limits = [known_limit(*offer) for offer in offers]
        usable = [(channel, priced_model(channel, served, registry.prices)) for channel, served in offers]
        if registry.settings.refuse_unpriced:  # an unpriced channel must not answer where another one has a price
            usable = [offer for offer in usable if offer[1].price is not None] or usable
        ranked = rank_offers(self._group.policy, usable, self._now)
        routes = tuple(self._route(offer, rank) for offer, rank in ranked)
        return ModelEntry(
            name=name,
            created=min(Millis(route.served.created or route.channel.created) for route in routes),
            owner=routes[0].channel.name,
            context=next((route.served.context for route in routes if route.served.context), None),
            scopes=scopes_of_only_channel(routes),
            effects=effects_of((route.channel, route.served) for route in routes),
            published_price=next((route.served.published for route in routes if route.served.published), None),
            max_output=None if None in limits else max(limit or 0 for limit in limits),
            routes=routes,
            total_s=max(route.channel.timeouts.total for route in routes),
        )

    def _route(self, offer: Offer, rank: Rank) -> Route:
        channel, served = offer
        scope, single_keys = self._scopes[channel.id], self._single_keys[channel.id]
        keys = tuple(Route(single, served, scope, rank, (), id, name) for single, id, name in single_keys)
        return Route(channel, served, scope, rank, keys)


class VisibleModels(Mapping[str, ModelEntry]):
    """The models of a group whose names match a token's patterns, sorted by name, with the fallbacks that match too."""

    def __init__(self, group: GroupModels, patterns: tuple[str, ...]) -> None:
        self._group = group
        self._patterns = patterns
        names = (name for name in group.names if matches(name, patterns))
        self._names = dict.fromkeys(name for name in names if name in group.offers or self._fallbacks(name))
        self._entries: dict[str, ModelEntry] = {}

    def __getitem__(self, name: str) -> ModelEntry:
        entry = self._entries.get(name)
        if entry is None:
            if name not in self._names:
                raise KeyError(name)
            entry = self._entries.setdefault(name, self._make_entry(name))
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _fallbacks(self, name: str) -> list[str]:
        return [other for other in self._group.fallbacks(name) if matches(other, self._patterns)]

    def _make_entry(self, name: str) -> ModelEntry:
        """Returns the model with its fallbacks, and with time enough for each of them."""
        fallbacks = tuple(map(self._group.entry, self._fallbacks(name)))
        if name in self._group.offers:
            entry = self._group.entry(name)
        else:
            entry = msgspec.structs.replace(
                fallbacks[0], name=name, routes=(), published_price=None, effects=NO_EFFECTS
            )
        if not fallbacks:
            return entry
        total_s = max(model.total_s for model in (entry, *fallbacks))
        return msgspec.structs.replace(entry, fallbacks=fallbacks, scopes=(), total_s=total_s)


def known_limit(channel: Channel, served: ServedModel) -> int | None:
    """Returns the model's own output limit, if the upstream's list or a vendor's table has it."""
    return served.max_output or DIALECTS[channel.dialect].model_limit(served.upstream_name)


def priced_model(channel: Channel, served: ServedModel, prices: Mapping[str, Price]) -> ServedModel:
    """Returns the model with its price at the channel, and its output limit, for which the context length may stand."""
    price = channel_price(channel, served, prices)
    limit = known_limit(channel, served) or served.context or (price.context if price is not None else None)
    published = None if set_by_owner(served.price) else served.published
    return msgspec.structs.replace(served, price=price, max_output=limit, published=published)
