"""Catalog: lookups made from the registry once, so that a call never searches the configuration.

Each change makes a new catalog, and so does each minute if a group's channels go by price. It is empty at first: what
calls need is added when it is first looked up. A running call keeps the catalog it began with.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from gateway.core.channel_effects import effects_of
from gateway.core.group_models import GroupModels, VisibleModels
from gateway.core.model_entry import ModelEntry, Route, answering_model, scopes_of_only_channel
from gateway.core.model_prices import PricesNow, prices_by_model
from gateway.core.rate_scopes import (
    CallScopes,
    ConcurrencyGate,
    RateScope,
    channel_scope,
    combine_scopes,
    group_scope,
    token_scope,
)
from gateway.domain.channel import Channel
from gateway.domain.errors import NotFound
from gateway.domain.group import Group, Policy
from gateway.domain.human_values import first_of
from gateway.domain.key_owners import find_owner
from gateway.domain.patterns import near_names
from gateway.domain.price import UPSTREAM, Price, multiply
from gateway.domain.registry import Registry
from gateway.domain.token import Token
from gateway.domain.units import ChannelId, Millis, TokenId

Key = TypeVar("Key", TokenId, ChannelId, str)
Entity = TypeVar("Entity", Token, Channel, Group)


class Catalog:
    """What each token sees, and the routes to it."""

    def __init__(self, registry: Registry, now: Millis) -> None:
        self.registry = registry
        self._now = now
        by_price = any(group.policy is Policy.CHEAPEST for group in registry.groups.values())
        self.end = now - now % 60_000 + 60_000 if by_price else None
        """The next time when prices may change the order of channels; None if no group orders them by price."""
        self.token_by_digest = {t.digest: t for t in registry.tokens.values()}.get
        """Returns the token whose key has this digest; None if it is unknown."""
        self.price = prices_by_model(registry).get
        """Returns the price of a model: the owner's, else its first priced channel's; None if it has none."""
        self.prices_at = PricesNow().at
        """Returns the prices for calls that begin at a moment, from prices of this catalog."""
        self._groups: dict[str, GroupModels] = {}
        """The models by group, filled on demand."""
        self._visible: dict[tuple[str, tuple[str, ...]], VisibleModels] = {}
        """The visible models by group and patterns, filled on demand."""
        self._call_scopes: dict[TokenId, CallScopes] = {}
        """The limits by token, filled on demand."""
        self._narrowed: dict[tuple[object, ...], ModelEntry] = {}
        """Models for one API, by the API and the identities of model, routes and fallbacks, filled on demand."""

    def price_shown(self, entry: ModelEntry) -> Price | None:
        """Returns the price of a model at the channel tried first; for an alias, the answering model's."""
        target = answering_model(entry)
        return target.routes[0].served.price if target.routes else self.price(target.name)

    def price_for(self, entry: ModelEntry, token: Token) -> Price | None:
        """Returns what a model costs this token: its price times the group's multiplier."""
        price, group = self.price_shown(entry), self.registry.groups.get(token.group)
        return price if price is None or group is None else multiply(price, group.multiplier)

    def context(self, name: str, listed: int | None) -> int | None:
        """Returns a model's context in tokens, from its upstream or else the price list."""
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
        return _by_ref(ref, self.registry, self.registry.tokens, "token")

    def channel(self, ref: str) -> Channel:
        """Returns a channel by id or name. Raises NotFound, naming those that exist."""
        return _by_ref(ref, self.registry, self.registry.channels, "channel")

    def group(self, name: str) -> Group:
        """Returns a group by name. Raises NotFound, naming those that exist."""
        return _by_ref(name, self.registry, self.registry.groups, "group")

    def group_models(self, group: str, patterns: tuple[str, ...] = ()) -> Mapping[str, ModelEntry]:
        """Returns the models of a group that match the patterns, sorted by name; empty if the group is unknown."""
        key = (group, patterns)
        if (visible := self._visible.get(key)) is None:
            if group not in self.registry.groups:
                return {}
            if group not in self._groups:
                self._groups[group] = GroupModels(self.registry.groups[group], self.registry, self._now)
            visible = self._visible[key] = VisibleModels(self._groups[group], patterns)
        return visible

    def token_scopes(self, token: Token) -> tuple[RateScope, ...]:
        """Returns the limits of a token and of its group."""
        settings, group = self.registry.settings, self.registry.groups.get(token.group)
        own = token_scope(token, settings)
        return (own,) if group is None else (own, group_scope(group, settings))

    def gates(self) -> dict[tuple[str, str], ConcurrencyGate]:
        registry = self.registry
        scopes = [token_scope(token, registry.settings) for token in registry.tokens.values()]
        scopes += [group_scope(group, registry.settings) for group in registry.groups.values()]
        scopes += [channel_scope(channel, registry.settings) for channel in registry.channels.values()]
        return {gate.key: gate for scope in scopes for gate in (scope.gate, scope.stream_gate) if gate is not None}

    def rated_scopes(self, token: Token, model: str) -> tuple[RateScope, ...]:
        """Returns the scopes whose rates count a call: token, group, and a channel that alone serves the model."""
        entry = self.visible(token).get(model)
        return self.call_scopes(token).rated_scopes + (entry.scopes if entry is not None else ())

    def call_scopes(self, token: Token) -> CallScopes:
        """Returns what limits a token's calls before a channel is chosen."""
        if (scopes := self._call_scopes.get(token.id)) is None:
            scopes = self._call_scopes[token.id] = combine_scopes(self.token_scopes(token))
        return scopes

    def visible(self, token: Token) -> Mapping[str, ModelEntry]:
        """Returns the models that a token sees, sorted by name: those of its group that match its own patterns."""
        return self.group_models(token.group, token.models)

    def narrow(
        self, entry: ModelEntry, api: str, routes: Sequence[Route], fallbacks: Sequence[ModelEntry] = ()
    ) -> ModelEntry:
        """Returns a model of this catalog as an API reaches it, by these of its routes and fallbacks."""
        key = (api, id(entry), *map(id, routes), *map(id, fallbacks))
        if (narrowed := self._narrowed.get(key)) is None:
            of_api = tuple(route.for_api(api) for route in routes)
            narrowed = self._narrowed[key] = msgspec.structs.replace(
                entry,
                routes=of_api,
                fallbacks=tuple(fallbacks),
                scopes=() if fallbacks else scopes_of_only_channel(of_api),
                effects=effects_of((route.channel, route.served) for route in of_api),
                total_s=max((route.channel.timeouts.total for route in of_api), default=entry.total_s),
            )
        return narrowed


def _by_ref(ref: str, registry: Registry, table: Mapping[Key, Entity], noun: str) -> Entity:
    """Returns the entity that has this id or name, or has or had this key. Raises NotFound, naming those that exist."""
    if (owner := find_owner(registry, ref)) is not None:
        ref = owner.id
    for key, entity in table.items():
        if ref in (key, entity.name):
            return entity
    near: tuple[str, ...] = near_names(ref, tuple([entity.name for entity in table.values()]))
    # tokens made for programs expire
    lasting: list[str] = [entity.name for entity in table.values() if not getattr(entity, "temporary", False)]
    existing = first_of(list(dict.fromkeys([*near, *sorted(lasting)])), 20) or "none yet"
    missing = f"'{ref}'" if re.fullmatch(r"[a-z]+_[0-9a-f]{16}", ref) is None else f"has the id '{ref}'"
    raise NotFound(f"no {noun} {missing}; there are: {existing}", param=noun)
