"""Model prices: which price applies to a model at a channel, and who set it.

Of these the first one counts: the price that the owner set for the model at that channel; the one the owner set for the
model; the one imported for that channel, which its upstream publishes or its vendor lists; nothing at all at a local
server; the one imported for the model.

A price is set by the owner, or imported from a price list. A model that a channel offers under another name (a mapping)
has the price of its target, the model it stands for there, unless it has one of its own. A price that the owner set
comes before an imported one: a mapping whose own price was imported follows its target once the owner prices that.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gateway.core.price_change import differs
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.cost import dearest
from gateway.domain.group import Group
from gateway.domain.price import Price, in_force, multiply
from gateway.domain.registry import Registry
from gateway.domain.units import MILLION, Millis, Nanos
from gateway.domain.urls import is_near
from gateway.upstream.vendors import LOCAL, vendor_of

MANUAL = "manual"
"""Source of a price that the owner set."""
LIKE = "like "
"""How the source of a price begins that the owner copied from another model."""


def set_by_owner(price: Price) -> bool:
    """Whether the owner chose this price; then no list replaces it."""
    return price.source == MANUAL or price.source.startswith(LIKE)


LOCAL_SOURCE = "local server"
"""Source of the price of what runs on this machine: nothing."""


def channel_price(channel: Channel, served: ServedModel, prices: Mapping[str, Price]) -> Price | None:
    """What a model costs at a channel; None: it is not known. ``prices``: of models, see ``prices_in_effect``."""
    own, named = served.price, prices.get(served.name)
    if own is not None and set_by_owner(own):
        return own
    if named is not None and set_by_owner(named):
        return named
    if own is not None:
        return own
    if is_free_server(channel):
        return Price(model=served.name, input=Nanos(0), output=Nanos(0), source=LOCAL_SOURCE)
    return named


def is_free_server(channel: Channel) -> bool:
    """Whether the channel is a model server that usually runs on the owner's machine, and asks for nothing."""
    known = vendor_of(channel.preset, channel.base_url).name in LOCAL
    return known and (bool(channel.preset) or is_near(channel.base_url))


def prices_in_effect(registry: Registry) -> dict[str, Price]:
    """The price of each model that has one, by public name; of a mapping that has none of its own its target's."""
    own = registry.prices
    found = dict(own)
    targets: dict[str, list[str]] = {}
    models: set[str] = set()
    """Those that some channel offers under its upstream's name: they are more than a mapping."""
    for channel in in_order(registry.channels.values()):
        for served in channel.models:
            if is_mapping(served):
                targets.setdefault(served.name, []).append(served.upstream)
            else:
                models.add(served.name)
    for name, others in targets.items():
        price = own.get(name)
        if price is None or (name not in models and not set_by_owner(price)):
            target = next((own[other] for other in others if other in own), None)
            if target is not None and (price is None or set_by_owner(target)):
                found[name] = target
    return found


def prices_by_model(named: Mapping[str, Price], registry: Registry) -> dict[str, Price]:
    """The same, and of a model without a price of its own what its first channel with one asks."""
    found = dict(named)
    for channel in in_order(registry.channels.values()):
        for served in channel.models:
            if served.name not in found and (price := channel_price(channel, served, named)) is not None:
                found[served.name] = price
    return found


def different_prices(prices: Iterable[Price], group: Group | None) -> list[Price]:
    """What the channels of a model ask of a group, of prices with the same input and output one; empty if all do."""
    found = {(price.input, price.output): price for price in prices}
    factor = MILLION if group is None else group.multiplier
    return [multiply(price, factor) for price in found.values()] if len(found) > 1 else []


class PricesNow:
    """The prices of one configuration that have rules, and of models with several prices, as they are in force.

    They are found out once a minute: no rule begins or ends within one.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[int, ...], tuple[int, Price]] = {}
        """By the identities of the prices, which live as long as the configuration."""

    def at(self, prices: Sequence[Price], moment: Millis) -> Price | None:
        """The price of calls that begin then: of several the highest amounts; None if there is none."""
        if not prices or (len(prices) == 1 and not prices[0].rules):
            return prices[0] if prices else None
        key, minute = tuple(map(id, prices)), moment // 60_000
        found = self._found.get(key)
        if found is None or found[0] != minute:
            found = self._found[key] = minute, dearest([in_force(price, moment) for price in prices])
        return found[1]


def own_prices(
    channel: Channel, registry: Registry, prices: Mapping[str, Price]
) -> Iterator[tuple[Channel, ServedModel, Price]]:
    """Mappings of the channel's names, here and at other channels, that do not have the price of their target.

    Their name has the list price of a model of that name, or of what it stands for at another channel. A price that the
    owner set for the name itself is meant for all.
    """
    names = {served.name for served in channel.models}
    models = {m.name for one in registry.channels.values() for m in one.models if not is_mapping(m)}
    targets: dict[str, set[str]] = {}
    for served in (served for one in registry.channels.values() for served in one.models):
        targets.setdefault(served.name, set()).add(served.upstream_name)
    for one in in_order(registry.channels.values()):
        for served in one.models:
            price, own = prices.get(served.name), registry.prices.get(served.name)
            if served.name not in names or not is_mapping(served) or price is None or (own and set_by_owner(own)):
                continue
            if price is own and served.upstream in targets and served.upstream not in models:
                continue  # the price of that name is the one of what it stands for, not of the upstream's model
            target = registry.prices.get(served.upstream)
            if target is None and price is own and (len(targets[served.name]) == 1 or one.id != channel.id):
                continue  # the list price of a target that nobody offers under its own name
            if target is None or differs(target, price):
                yield one, served, price


def in_order(channels: Iterable[Channel]) -> list[Channel]:
    """Channels as their prices count: those in use first, then by priority and name."""
    return sorted(channels, key=lambda channel: (not channel.enabled, -channel.priority, channel.name))


def is_mapping(served: ServedModel) -> bool:
    """Whether the channel offers the model under another name than its upstream's."""
    return served.upstream not in ("", served.name)
