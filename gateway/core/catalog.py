"""Catalog: immutable lookups made from the registry, so that a call never searches the configuration.

A new one is made on each change; a running call keeps the one it began with.
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
    """The same way with each of its keys, if the channel has several: its ``channel`` has that key alone."""
    key_id: ChannelId = ChannelId("")
    """Of a way with one of several keys: where the key's state is remembered."""
    key_name: str = ""
    """The key's number and mask, for records."""
    bound: RateScope | None = None
    """The limits of the channel."""
    api: str = ""
    """The inbound API it is for, if not every channel offers that."""

    @property
    def subject(self) -> str:
        """What the upstream may not know: the model, or the model by this API alone."""
        return f"{self.served.name} by {self.api}" if self.api else self.served.name


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A public model name as one group sees it."""

    name: str
    created: Millis
    """When the first of its channels began to serve it."""
    owner: str
    """Name of the channel that is tried first."""
    context: int | None
    routes: tuple[Route, ...]
    """In the order in which the group's policy tries them, then by channel name."""
    total_s: float = 600.0
    """How long a call may take at most, all its attempts together."""
    easy: tuple[Route, ...] = ()
    """The routes of which one is drawn while all channels are well; empty if that takes more than a draw."""
    fallbacks: tuple["ModelEntry", ...] = ()
    """Other models that may answer when none of the routes can; without fallbacks of their own."""
    bounds: tuple[RateScope, ...] = ()
    """Of a channel that is the only way: its rates bind as those of the token do."""
    effects: ChannelEffects = NO_EFFECTS
    """What its channels, without those of its fallbacks, make of a call's input and output."""
    told: UpstreamPrices | None = None
    """The price at the first channel whose upstream publishes one."""
    max_output: int | None = None
    """The largest of its channels' own output limits; None: it is not known of all of them."""


WILD = frozenset("*?")
"""What makes a pattern of a name."""


def narrow_to_api(entry: ModelEntry, api: str, routes: Sequence[Route], fallbacks: Sequence[ModelEntry]) -> ModelEntry:
    """The model by one API, with those of its routes whose channels can answer."""
    found = [_route_for(route, api) for route in routes]
    sole = found[0].bound if len(found) == 1 else None
    return msgspec.structs.replace(
        entry,
        routes=tuple(found),
        easy=_easy(found) if found else (),
        fallbacks=tuple(fallbacks),
        bounds=(sole,) if sole is not None and sole.rated and not fallbacks else (),
        effects=effects_of((route.channel, route.served) for route in found),
        total_s=max((one.channel.timeouts.total for one in found), default=entry.total_s),
    )


def _route_for(route: Route, api: str) -> Route:
    return msgspec.structs.replace(route, api=api, keys=tuple(_route_for(one, api) for one in route.keys))


class Catalog:
    """What each token may see and where it leads."""

    def __init__(self, registry: Registry, before: "Catalog | None" = None) -> None:
        """``before``: that of another configuration; what depends on nothing that changed since is the same."""
        self.registry = registry
        self.token_by_digest = {t.digest: t for t in registry.tokens.values()}.get
        """Gives the token whose key has this digest; None if there is none."""
        self.prices: Mapping[str, Price] = prices_by_model(registry)
        """What each model costs: the owner's price, else what its first channel with one asks."""
        self.prices_at = PricesNow().at
        """Gives the price of calls that begin at a moment, of prices of this catalog."""
        self.price = self.prices.get
        """Gives the price of a model; None if it has none."""
        changed = None if before is None else repriced_models(before.registry, registry)
        same = {} if before is None or changed is None else before.entries
        self.entries: dict[str, dict[str, ModelEntry]] = {
            name: _entries(group, registry, same.get(name, {}), changed) for name, group in registry.groups.items()
        }
        """What each group offers, without fallbacks."""
        self._groups = {
            name: _with_fallbacks(self.entries[name], group, registry.settings, self.prices)
            for name, group in registry.groups.items()
        }
        self.seen: dict[tuple[str, tuple[str, ...]], Mapping[str, ModelEntry]] = {}
        """What tokens see that were asked for, by their group and patterns; see ``visible``."""
        self.scopes: dict[TokenId, CallScopes] = {}
        """What limits those tokens; see ``terms``."""

    def price_shown(self, entry: ModelEntry) -> Price | None:
        """The price of a model at the channel that is tried first; of an alias, that of the model that answers."""
        target = answering(entry)
        return target.routes[0].served.price if target.routes else self.price(target.name)

    def price_for(self, entry: ModelEntry, token: Token) -> Price | None:
        """What a model costs this token: the price, times the multiplier of its group."""
        price, group = self.price_shown(entry), self.registry.groups.get(token.group)
        return price if price is None or group is None else multiply(price, group.multiplier)

    def context(self, name: str, listed: int | None) -> int | None:
        """A model's context: what its upstream lists, else what the price list says."""
        price = None if listed else self.price(name)
        return price.context if price is not None else listed

    def context_source(self, name: str, listed: int | None) -> str:
        """Where ``context`` has it from: ``upstream``, or the name of a price list; empty if it is not known."""
        price = None if listed else self.price(name)
        if listed:
            return UPSTREAM
        return price.context_source or price.source if price is not None and price.context else ""

    def token(self, ref: str) -> Token:
        """A token by id or name. Raises NotFound, naming those that exist."""
        return _by_ref(_owner_id(ref, self.registry), self.registry.tokens, "token")

    def channel(self, ref: str) -> Channel:
        """A channel by id or name. Raises NotFound, naming those that exist."""
        return _by_ref(_owner_id(ref, self.registry), self.registry.channels, "channel")

    def group(self, name: str) -> Group:
        """Raises NotFound, naming those that exist."""
        if (group := self.registry.groups.get(name)) is None:
            names = [*near_names(name, list(self.registry.groups)), *sorted(self.registry.groups)]
            raise NotFound(_missing("group", name, names), param="group")
        return group

    def group_models(self, group: str) -> Mapping[str, ModelEntry]:
        """What a group shows, sorted by name; empty if there is no such group."""
        return self._groups.get(group, {})

    def parties(self, token: Token) -> tuple[RateScope, ...]:
        """The limits of a token and of its group."""
        settings, group = self.registry.settings, self.registry.groups.get(token.group)
        own = token_scope(token, settings)
        return (own,) if group is None else (own, group_scope(group, settings))

    def gates(self) -> dict[tuple[str, str], ConcurrencyGate]:
        """Of all tokens, groups and channels, by their keys."""
        registry = self.registry
        bounds = [token_scope(token, registry.settings) for token in registry.tokens.values()]
        bounds += [group_scope(group, registry.settings) for group in registry.groups.values()]
        bounds += [channel_scope(channel, registry.settings) for channel in registry.channels.values()]
        return {gate.key: gate for bound in bounds for gate in (bound.gate, bound.stream_gate) if gate is not None}

    def binding(self, token: Token, model: str) -> tuple[RateScope, ...]:
        """Whose rates bind a call: of its token, its group, and the channel that alone serves the model."""
        entry = self.visible(token).get(model)
        return self.terms(token).bounds + (entry.bounds if entry is not None else ())

    def terms(self, token: Token) -> CallScopes:
        """What limits a token's calls before a channel is chosen."""
        if (found := self.scopes.get(token.id)) is None:
            found = self.scopes[token.id] = scopes_of(self.parties(token))
        return found

    def visible(self, token: Token) -> Mapping[str, ModelEntry]:
        """What a token sees: its group's models that fit its own patterns, sorted by name."""
        key = (token.group, token.models)
        if (found := self.seen.get(key)) is None:
            models = self.group_models(token.group)
            found = _only(models, token.models) if token.models else models
            self.seen[key] = found
        return found


def _owner_id(ref: str, registry: Registry) -> str:
    """The id of the token or channel that has or had a key, by its handle; anything else as it is."""
    owner = find_owner(registry, ref)
    return ref if owner is None else owner.id


def stands_for(entry: ModelEntry) -> str:
    """The first model that answers for one that no channel serves, an alias of a group; empty for other models."""
    return "" if (target := answering(entry)) is entry else target.name


def answering(entry: ModelEntry) -> ModelEntry:
    """The model itself, or of an alias of a group the first model that answers for it."""
    return entry.fallbacks[0] if entry.fallbacks and not entry.routes else entry


def _entries(
    group: Group, registry: Registry, same: Mapping[str, ModelEntry], changed: set[str] | None
) -> dict[str, ModelEntry]:
    """What a group offers, by name. ``same``: its models before, of which only the ``changed`` names differ."""
    offers: dict[str, list[tuple[Channel, ServedModel]]] = {}
    limits: dict[str, list[int | None]] = {}
    ways: dict[ChannelId, _ChannelRoute] = {}
    for channel in registry.channels.values():
        if channel.enabled and group.name in channel.groups:
            ways[channel.id] = _ChannelRoute(channel_scope(channel, registry.settings), _with_one_key(channel))
            for served in channel.models:
                if (changed is None or served.name in changed) and matches(served.name, group.models):
                    price = channel_price(channel, served, registry.prices)
                    known = with_limit(channel, served, price)
                    offer = (channel, known if price is known.price else msgspec.structs.replace(known, price=price))
                    offers.setdefault(served.name, []).append(offer)
                    limits.setdefault(served.name, []).append(known_limit(channel, served))
    entries = {}
    if registry.settings.refuse_unpriced:
        offers = {name: _priced_offers(found) for name, found in offers.items()}
    for name in sorted(offers):
        order = rank_offers(group.policy, offers[name])
        entry = _entry(name, [_route(offer, rank, ways[offer[0].id]) for offer, rank in order])
        entries[name] = msgspec.structs.replace(entry, max_output=_largest(limits[name]))
    return entries if changed is None else {**same, **entries}


def _priced_offers(offers: list[tuple[Channel, ServedModel]]) -> list[tuple[Channel, ServedModel]]:
    """Those with a price, if any has one: an unpriced channel is not to answer where unpriced models are refused."""
    return [offer for offer in offers if offer[1].price is not None] or offers


def _largest(limits: Sequence[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None


def _with_fallbacks(
    entries: dict[str, ModelEntry], group: Group, settings: Settings, priced: Container[str]
) -> dict[str, ModelEntry]:
    """The models with those that may answer for them, as far as the group has them and they may be used at all.

    A model that no channel serves is there as well if a rule names it: the others answer for it.
    """
    if not group.fallbacks:
        return entries
    usable = {name for name in entries if not settings.refuse_unpriced or name in priced}
    out = dict(entries)
    for name, entry in entries.items():
        others = [other for other in models_after(name, group.fallbacks) if other in usable]
        if others:
            out[name] = _lent(entry, [entries[other] for other in others])
    for rule in group.fallbacks:
        others = [other for other in rule.to if other in usable]
        if others and rule.model not in out and matches(rule.model, group.models) and not WILD & set(rule.model):
            first = entries[others[0]]
            out[rule.model] = _lent(
                msgspec.structs.replace(first, name=rule.model, routes=(), easy=(), told=None, effects=NO_EFFECTS),
                [entries[other] for other in others],
            )
    return dict(sorted(out.items()))


def _lent(entry: ModelEntry, others: list[ModelEntry]) -> ModelEntry:
    """A model for which others may answer."""
    all_of_them = (entry, *others)
    return msgspec.structs.replace(
        entry,
        fallbacks=tuple(others),
        bounds=(),
        total_s=max(one.total_s for one in all_of_them),
    )


def _only(models: Mapping[str, ModelEntry], patterns: tuple[str, ...]) -> dict[str, ModelEntry]:
    """The models whose names fit, and of those that may answer for them only such, too."""
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
    ones: list[tuple[Channel, ChannelId, str]]
    """The channel with one of its keys each, if it has several."""


def _route(offer: Offer, rank: Rank, way: _ChannelRoute) -> Route:
    channel, served = offer
    keys = tuple(Route(one, served, rank, (), id, name, way.bound) for one, id, name in way.ones)
    return Route(channel, served, rank, keys, bound=way.bound)


def _with_one_key(channel: Channel) -> list[tuple[Channel, ChannelId, str]]:
    """A channel of several keys as one channel a key, each with its key's id and name."""
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
        easy=_easy(routes),
        total_s=max(route.channel.timeouts.total for route in routes),
    )


def _easy(routes: list[Route]) -> tuple[Route, ...]:
    """The first tier, if there is nothing to it but its weights."""
    tier = tuple(route for route in routes if route.rank.tier == routes[0].rank.tier)
    rated = any(route.bound is not None and route.bound.rated for route in tier)
    measured = any(route.keys or route.rank.spill or route.rank.timed for route in tier)
    return () if rated or measured else tier


def _by_ref(ref: str, table: Mapping[Key, Entity], noun: str) -> Entity:
    for key, entity in table.items():
        if ref in (key, entity.name):
            return entity
    lasting: list[str] = [
        one.name for one in table.values() if not getattr(one, "temporary", False)
    ]  # tokens of programs end
    names: list[str] = near_names(ref, [one.name for one in table.values()]) + sorted(lasting)
    raise NotFound(_missing(noun, ref, names), param=noun)


NAMED = 20
"""Names that an error lists."""


def _missing(noun: str, ref: str, names: list[str]) -> str:
    """The error for a name that does not exist, with those that do, in this order."""
    there = first_of(list(dict.fromkeys(names)), NAMED) or "none yet"
    return f"there is no {noun} '{ref}'; there are: {there}"
