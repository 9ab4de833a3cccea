"""Model prices: which price applies to a model at a channel, and who set it.

The first of these applies: the owner's price for the model at that channel; the owner's price for the model, by its
name or the upstream's name for it; the price imported for that channel, which its upstream publishes or its vendor
lists; zero at a local server; any other price of the model's name, such as the demo's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter

import msgspec

from gateway.domain.channel import Channel, ServedModel
from gateway.domain.group import Group
from gateway.domain.price import Price, in_force, is_set_by_owner, multiply
from gateway.domain.registry import Registry
from gateway.domain.units import MILLION, Millis, Nanos
from gateway.domain.urls import is_private
from gateway.upstream.vendors import LOCAL, find_vendor


def set_by_owner(price: Price | None) -> bool:
    """Returns whether the owner set this price. If so, no list replaces it."""
    return price is not None and is_set_by_owner(price.source)


def channel_price(channel: Channel, served: ServedModel, prices: Mapping[str, Price]) -> Price | None:
    """Returns what a model costs at a channel; None if unknown. ``prices`` are the prices of models by name."""
    own_price = served.price
    if set_by_owner(own_price):
        return own_price
    price_by_name = prices.get(served.name)
    price_by_upstream_name = prices.get(served.upstream) if served.upstream else None
    for price in (price_by_name, price_by_upstream_name):
        if set_by_owner(price):
            return price
    if own_price is not None:
        return own_price
    if is_free_server(channel):
        return Price(model=served.name, input=Nanos(0), output=Nanos(0), source="local server")
    return price_by_name or price_by_upstream_name


def upstream_model_price(channel: Channel, name: str, registry: Registry, moment: Millis) -> Price | None:
    """Returns the price in force of a model, by the upstream's name with or without a date; None if it is unknown."""
    short = _DATE.sub("", name)
    for served in channel.models:
        if _DATE.sub("", served.upstream_name) == short:
            price = channel_price(channel, served, registry.prices)
            return None if price is None else in_force(price, moment)
    return None


_DATE = re.compile(r"-20\d{6}$")


def is_free_server(channel: Channel) -> bool:
    """Returns whether the channel is a kind of model server that usually runs on the owner's machine and is free."""
    return _is_free(channel.preset, channel.base_url)


@lru_cache(maxsize=256)
def _is_free(preset: str, base_url: str) -> bool:
    return find_vendor(preset, base_url).name in LOCAL and (bool(preset) or is_private(base_url))


def prices_by_model(registry: Registry) -> dict[str, Price]:
    """Returns the price of each priced model by public name: the owner's, else its first priced channel's."""
    prices = {name: price for name, price in registry.prices.items() if set_by_owner(price)}
    for channel in in_order(registry.channels.values()):
        for served in channel.models:
            if served.name not in prices and (price := channel_price(channel, served, registry.prices)) is not None:
                prices[served.name] = price
    return {**registry.prices, **prices}


def with_price(channel: Channel, prices: Mapping[str, Price | None]) -> Channel:
    """Returns the channel with these prices of its own, by model name; None removes one."""
    models = tuple(
        msgspec.structs.replace(served, price=prices[served.name]) if served.name in prices else served
        for served in channel.models
    )
    return msgspec.structs.replace(channel, models=models)


def different_prices(prices: Iterable[Price], group: Group | None) -> list[Price]:
    """Returns the different prices that a model's channels charge a group; empty if all are equal."""
    by_amounts = {(price.input, price.output): price for price in prices}
    factor = MILLION if group is None else group.multiplier
    return [multiply(price, factor) for price in by_amounts.values()] if len(by_amounts) > 1 else []


class PricesNow:
    """Caches the prices in force of one configuration for a minute each: no rule begins or ends within one."""

    def __init__(self) -> None:
        self._cached: dict[tuple[int, ...], tuple[int, Sequence[Price]]] = {}
        """The minute and the prices, by the identities of the prices, which live as long as the configuration."""

    def at(self, prices: Sequence[Price], moment: Millis) -> Sequence[Price]:
        """Returns the prices for calls that begin then."""
        if not any(map(attrgetter("rules"), prices)):
            return prices
        key, minute = tuple(map(id, prices)), moment // 60_000
        cached = self._cached.get(key)
        if cached is None or cached[0] != minute:
            cached = self._cached[key] = minute, [in_force(price, moment) for price in prices]
        return cached[1]


def in_order(channels: Iterable[Channel]) -> list[Channel]:
    """Returns channels in the order their prices count: those in use first, then by priority and name."""
    return sorted(channels, key=lambda channel: (not channel.enabled, -channel.priority, channel.name))
