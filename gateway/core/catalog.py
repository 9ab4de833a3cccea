"""Catalog: immutable lookups made from the registry, so that a call never searches the configuration.

Each change makes a new one. A running call keeps the one it began with.
"""

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from gateway.core.group_policy import Offer, Rank, models_after, rank_offers
from gateway.core.model_prices import PricesNow, channel_price, prices_by_model, repriced_models
from gateway.core.quota import NO_EFFECTS, ChannelEffects, effects_of, known_limit, with_limit
from gateway.core.rate_scopes import (
    CallScopes,
    ConcurrencyGate,
    RateScope,
    channel_scope,
    group_scope,
    scopes_of,
    token_scope,
)
from gateway.domain.channel import Channel, ServedModel, UpstreamPrices, key_id, key_name
from gateway.domain.errors import NotFound
from gateway.domain.group import Group
from gateway.domain.human_values import first_of
from gateway.domain.key_owners import find_owner
from gateway.domain.patterns import matches, near_names
from gateway.domain.price import UPSTREAM, Price, multiply
from gateway.domain.registry import Registry
from gateway.domain.settings import Settings
from gateway.domain.token import Token
from gateway.domain.units import ChannelId, Millis, TokenId

Key = TypeVar("Key", TokenId, ChannelId)
Entity = TypeVar("Entity", Token, Channel)


class Route(msgspec.Struct, frozen=True):
    """One way to a model: the channel, and the model as that channel serves it."""

    channel: Channel
    served: ServedModel
    rank: Rank = Rank()
    keys: tuple["Route", ...] = ()
    """The same route once for each key, if the channel has several: each ``channel`` has that key alone."""
    key_id: ChannelId = ChannelId("")
    """The id under which the state of one of several keys is kept."""
    key_name: str = ""
    """The key's number and mask, for records."""
    bound: RateScope | None = None
    """The channel's limits."""
    api: str = ""
    """The inbound API it is for, if not every channel offers that API."""

    @property
    def subject(self) -> str:
        """What the upstream may lack: the model, or the model through this API only."""
        return f"{self.served.name} by {self.api}" if self.api else self.served.name


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A public model name as one group sees it."""

    name: str
    created: Millis
    """When its first channel began to serve it."""
    owner: str
    """The name of the channel that is tried first."""
    context: int | None
    routes: tuple[Route, ...]
    """The routes in the order of the group's policy, then by channel name."""
    total_s: float = 600.0
    """The most seconds that a call may take, with all its attempts."""
    first_tier: tuple[Route, ...] = ()
    """The routes to draw from while all channels are well; empty if choosing takes more than a draw."""
    fallbacks: tuple["ModelEntry", ...] = ()
    """Other models that may answer when no route can. They have no fallbacks of their own."""
    bounds: tuple[RateScope, ...] = ()
    """The rates of the only channel, which then bind like the token's own."""
    effects: ChannelEffects = NO_EFFECTS
    """What its channels, without its fallbacks', make of a call's input and output."""
    told: UpstreamPrices | None = None
    """The price at the first channel whose upstream publishes one."""
    max_output: int | None = None
    """The largest output limit of its channels; None if one of them has none that is known."""


WILD = frozenset("*?")
"""The characters that make a name a pattern."""


def narrow_to_api(entry: ModelEntry, api: str, routes: Sequence[Route], fallbacks: Sequence[ModelEntry]) -> ModelEntry:
    """Returns the model for one API, with the routes whose channels can answer."""
    narrowed = [_route_for(route, api) for route in routes]
    sole = narrowed[0].bound if len(narrowed) == 1 else None
    return msgspec.structs.replace(
        entry,
        routes=tuple(narrowed),
        first_tier=_first_tier(narrowed) if narrowed else (),
        fallbacks=tuple(fallbacks),
        bounds=(sole,) if sole is not None and sole.rated and not fallbacks else (),
        effects=effects_of((route.channel, route.served) for route in narrowed),
        total_s=max((each.channel.timeouts.total for each in narrowed), default=entry.total_s),
    )


def _route_for(route: Route, api: str) -> Route:
    return msgspec.structs.replace(route, api=api, keys=tuple(_route_for(key_route, api) for key_route in route.keys))


class Catalog:
    """What each token sees, and the routes to it."""

    def __init__(self, registry: Registry, before: "Catalog | None" = None) -> None:
        """``before`` is an earlier catalog: what depends on nothing that changed is reused."""
        self.registry = registry
        self.token_by_digest = {t.digest: t for t in registry.tokens.values()}.get
        """Returns the token whose key has this digest; None if it is unknown."""
        self.prices: Mapping[str, Price] = prices_by_model(registry)
        """The price of each model: the owner's, else that of its first channel with one."""
        self.prices_at = PricesNow().at
        """Returns the price for calls that begin at a moment, from prices of this catalog."""
        self.price = self.prices.get
        """Returns the price of a model; None if it has none."""
        changed = None if before is None else repriced_models(before.registry, registry)
        same = {} if before is None or changed is None else before.entries
        self.entries: dict[str, dict[str, ModelEntry]] = {
            name: _entries(group, registry, same.get(name, {}), changed) for name, group in registry.groups.items()
        }
        """The models of each group, without fallbacks."""
        self._groups = {
            name: _with_fallbacks(self.entries[name], group, registry.settings, self.prices)
            for name, group in registry.groups.items()
        }
        self.seen: dict[tuple[str, tuple[str, ...]], Mapping[str, ModelEntry]] = {}
        """What tokens see, by group and patterns, filled on demand; see ``visible``."""
        self.scopes: dict[TokenId, CallScopes] = {}
        """The limits of tokens, filled on demand; see ``terms``."""

    def price_shown(self, entry: ModelEntry) -> Price | None:
        """Returns the price of a model at the channel tried first; for an alias, that of the model that answers."""
        target = answering(entry)
        return target.routes[0].served.price if target.routes else self.price(target.name)

    def price_for(self, entry: ModelEntry, token: Token) -> Price | None:
        """Returns what a model costs this token: its price times the group's multiplier."""
        price, group = self.price_shown(entry), self.registry.groups.get(token.group)
        return price if price is None or group is None else multiply(price, group.multiplier)

    def context(self, name: str, listed: int | None) -> int | None:
        """Returns a model's context in tokens, as its upstream or else the price list has it."""
        price = None if listed else self.price(name)
        return price.context if price is not None else listed

    def context_source(self, name: str, listed: int | None) -> str:
        """Returns the source of ``context``: ``upstream`` or the name of a price list; empty if it is unknown."""
        price = None if listed else self.price(name)
        if listed:
            return UPSTREAM
        return price.context_source or price.source if price is not None and price.context else ""

    def token(self, ref: str) -> Token:
        """Returns a token by id or name. Raises NotFound, naming those that exist."""
        return _by_ref(_owner_id(ref, self.registry), self.registry.tokens, "token")

    def channel(self, ref: str) -> Channel:
        """Returns a channel by id or name. Raises NotFound, naming those that exist."""
        return _by_ref(_owner_id(ref, self.registry), self.registry.channels, "channel")

    def group(self, name: str) -> Group:
        """Returns a group by name. Raises NotFound, naming those that exist."""
        if (group := self.registry.groups.get(name)) is None:
            names = [*near_names(name, list(self.registry.groups)), *sorted(self.registry.groups)]
            raise NotFound(_missing("group", name, names), param="group")
        return group

    def group_models(self, group: str) -> Mapping[str, ModelEntry]:
        """Returns the models of a group, sorted by name; empty if the group is unknown."""
        return self._groups.get(group, {})

    def parties(self, token: Token) -> tuple[RateScope, ...]:
        """Returns the limits of a token and of its group."""
        settings, group = self.registry.settings, self.registry.groups.get(token.group)
        own = token_scope(token, settings)
        return (own,) if group is None else (own, group_scope(group, settings))

    def gates(self) -> dict[tuple[str, str], ConcurrencyGate]:
        """Returns the gates of all tokens, groups and channels by their keys."""
        registry = self.registry
        bounds = [token_scope(token, registry.settings) for token in registry.tokens.values()]
        bounds += [group_scope(group, registry.settings) for group in registry.groups.values()]
        bounds += [channel_scope(channel, registry.settings) for channel in registry.channels.values()]
        return {gate.key: gate for bound in bounds for gate in (bound.gate, bound.stream_gate) if gate is not None}

    def binding(self, token: Token, model: str) -> tuple[RateScope, ...]:
        """Returns the scopes whose rates bind a call: token, group, and a channel that alone serves the model."""
        entry = self.visible(token).get(model)
        return self.terms(token).bounds + (entry.bounds if entry is not None else ())

    def terms(self, token: Token) -> CallScopes:
        """Returns what limits a token's calls before a channel is chosen."""
        if (scopes := self.scopes.get(token.id)) is None:
            scopes = self.scopes[token.id] = scopes_of(self.parties(token))
        return scopes

    def visible(self, token: Token) -> Mapping[str, ModelEntry]:
        """Returns what a token sees: its group's models that match its own patterns, sorted by name."""
        key = (token.group, token.models)
        if (entries := self.seen.get(key)) is None:
            models = self.group_models(token.group)
            entries = _only(models, token.models) if token.models else models
            self.seen[key] = entries
        return entries


def _owner_id(ref: str, registry: Registry) -> str:
    """Returns the id of the token or channel that has or had this key; other text is returned unchanged."""
    owner = find_owner(registry, ref)
    return ref if owner is None else owner.id


def stands_for(entry: ModelEntry) -> str:
    """Returns the first model that answers for an alias of a group; empty for other models."""
    return "" if (target := answering(entry)) is entry else target.name


def answering(entry: ModelEntry) -> ModelEntry:
    """Returns the model itself, or, for an alias of a group, the first model that answers for it."""
    return entry.fallbacks[0] if entry.fallbacks and not entry.routes else entry


def _entries(
    group: Group, registry: Registry, same: Mapping[str, ModelEntry], changed: set[str] | None
) -> dict[str, ModelEntry]:
    """Returns the models of a group by name. ``same`` are its earlier models; only the ``changed`` names differ."""
    offers: dict[str, list[tuple[Channel, ServedModel]]] = {}
    limits: dict[str, list[int | None]] = {}
    channel_routes: dict[ChannelId, _ChannelRoute] = {}
    for channel in registry.channels.values():
        if channel.enabled and group.name in channel.groups:
            channel_routes[channel.id] = _ChannelRoute(
                channel_scope(channel, registry.settings), _with_one_key(channel)
            )
            for served in channel.models:
                if (changed is None or served.name in changed) and matches(served.name, group.models):
                    price = channel_price(channel, served, registry.prices)
                    known = with_limit(channel, served, price)
                    offer = (channel, known if price is known.price else msgspec.structs.replace(known, price=price))
                    offers.setdefault(served.name, []).append(offer)
                    limits.setdefault(served.name, []).append(known_limit(channel, served))
    entries = {}
    if registry.settings.refuse_unpriced:
        # an unpriced channel must not answer where another one has a price
        offers = {
            name: [pair for pair in offered if pair[1].price is not None] or offered for name, offered in offers.items()
        }
    for name in sorted(offers):
        order = rank_offers(group.policy, offers[name])
        entry = _entry(name, [_route(offer, rank, channel_routes[offer[0].id]) for offer, rank in order])
        entries[name] = msgspec.structs.replace(entry, max_output=_largest(limits[name]))
    return entries if changed is None else {**same, **entries}


def _largest(limits: Sequence[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None


def _with_fallbacks(
    entries: dict[str, ModelEntry], group: Group, settings: Settings, priced: Container[str]
) -> dict[str, ModelEntry]:
    """Returns the models with their usable fallbacks in the group.

    A name that only a rule has, and no channel, is included: its fallbacks answer for it.
    """
    if not group.fallbacks:
        return entries
    usable = {name for name in entries if not settings.refuse_unpriced or name in priced}
    out = dict(entries)
    for name, entry in entries.items():
        others = [other for other in models_after(name, group.fallbacks) if other in usable]
        if others:
            out[name] = _with_others(entry, [entries[other] for other in others])
    for rule in group.fallbacks:
        others = [other for other in rule.to if other in usable]
        if others and rule.model not in out and matches(rule.model, group.models) and not WILD & set(rule.model):
            first = entries[others[0]]
            out[rule.model] = _with_others(
                msgspec.structs.replace(
                    first, name=rule.model, routes=(), first_tier=(), told=None, effects=NO_EFFECTS
                ),
                [entries[other] for other in others],
            )
    return dict(sorted(out.items()))


def _with_others(entry: ModelEntry, others: list[ModelEntry]) -> ModelEntry:
    """Returns an entry for a name that only others answer for."""
    all_of_them = (entry, *others)
    return msgspec.structs.replace(
        entry,
        fallbacks=tuple(others),
        bounds=(),
        total_s=max(model.total_s for model in all_of_them),
    )


def _only(models: Mapping[str, ModelEntry], patterns: tuple[str, ...]) -> dict[str, ModelEntry]:
    """Returns the models whose names match, with only those fallbacks that match too."""
    out = {name: entry for name, entry in models.items() if matches(name, patterns)}
    for name, entry in list(out.items()):
        if entry.fallbacks:
            others = tuple(other for other in entry.fallbacks if other.name in out)
            out[name] = msgspec.structs.replace(entry, fallbacks=others)
            if not (others or entry.routes):
                del out[name]
    return out


class _ChannelRoute(NamedTuple):
    """What all routes of a channel share."""

    bound: RateScope
    single_keys: list[tuple[Channel, ChannelId, str]]
    """The channel once for each key, if it has several."""


def _route(offer: Offer, rank: Rank, channel_route: _ChannelRoute) -> Route:
    channel, served = offer
    keys = tuple(
        Route(single, served, rank, (), id, name, channel_route.bound) for single, id, name in channel_route.single_keys
    )
    return Route(channel, served, rank, keys, bound=channel_route.bound)


def _with_one_key(channel: Channel) -> list[tuple[Channel, ChannelId, str]]:
    """Returns a channel of several keys as one channel for each key, with the key's id and name."""
    if not channel.keys:
        return []
    return [
        (msgspec.structs.replace(channel, key=key, keys=()), key_id(channel.id, number), key_name(number, key))
        for number, key in enumerate(channel.all_keys, start=1)
    ]


def _entry(name: str, routes: list[Route]) -> ModelEntry:
    first = routes[0]
    sole = first.bound if len(routes) == 1 else None
    return ModelEntry(
        name=name,
        created=min(Millis(r.served.created or r.channel.created) for r in routes),
        owner=first.channel.name,
        context=next((r.served.context for r in routes if r.served.context), None),
        bounds=(sole,) if sole is not None and sole.rated else (),
        effects=effects_of((r.channel, r.served) for r in routes),
        told=next((r.served.told for r in routes if r.served.told), None),
        routes=tuple(routes),
        first_tier=_first_tier(routes),
        total_s=max(route.channel.timeouts.total for route in routes),
    )


def _first_tier(routes: list[Route]) -> tuple[Route, ...]:
    """Returns the first tier if only weights decide within it."""
    tier = tuple(route for route in routes if route.rank.tier == routes[0].rank.tier)
    rated = any(route.bound is not None and route.bound.rated for route in tier)
    measured = any(route.keys or route.rank.spill or route.rank.timed for route in tier)
    return () if rated or measured else tier


def _by_ref(ref: str, table: Mapping[Key, Entity], noun: str) -> Entity:
    for key, entity in table.items():
        if ref in (key, entity.name):
            return entity
    lasting: list[str] = [
        item.name for item in table.values() if not getattr(item, "temporary", False)
    ]  # tokens made for programs expire
    names: list[str] = near_names(ref, [item.name for item in table.values()]) + sorted(lasting)
    raise NotFound(_missing(noun, ref, names), param=noun)


NAMED = 20
"""How many names an error lists."""


def _missing(noun: str, ref: str, names: list[str]) -> str:
    """Returns the error for an unknown name, listing those that exist in this order."""
    there = first_of(list(dict.fromkeys(names)), NAMED) or "none yet"
    return f"no {noun} '{ref}'; there are: {there}"
