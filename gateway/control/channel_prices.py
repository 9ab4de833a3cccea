"""Prices of channels: what a vendor asks for a model of one channel, where another price holds for its name.

The first channel of a model whose price is known sets that of the model (``vendor_prices``); another channel with
another price has its own.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from gateway.control.vendor_prices import Find, known_price
from gateway.core.model_prices import channel_price, in_order, is_free_server, prices_in_effect, set_by_owner
from gateway.core.price_change import differs
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import NotFound
from gateway.domain.price import Price
from gateway.domain.registry import Change, Registry
from gateway.domain.text import plain
from gateway.domain.units import ChannelId, Millis


def own_list_prices(
    channels: Iterable[Channel], registry: Registry, find: Find, now: Millis
) -> list[tuple[Channel, Price]]:
    """The known prices of channels that are not what holds there; none where the owner set one."""
    prices, found = prices_in_effect(registry), list[tuple[Channel, Price]]()
    for channel in in_order(channels):
        if is_free_server(channel):
            continue
        for served in channel.models:
            holds = channel_price(channel, served, prices)
            if holds is not None and set_by_owner(holds):
                continue
            known = known_price(channel, served, registry, find, now)
            if known is not None and (holds is None or differs(_as(holds, known), known)):
                found.append((channel, known))
    return found


def _as(holds: Price, known: Price) -> Price:
    return msgspec.structs.replace(holds, model=known.model, context=known.context)


def own_price(channel: Channel, model: str) -> Price | None:
    """The price that a channel has of its own for a model."""
    return next((served.price for served in channel.models if served.name == model), None)


def with_price(channel: Channel, model: str, price: Price | None) -> Channel:
    """The channel with this price for one of its models, or with none of its own. Raises NotFound."""
    if model not in {served.name for served in channel.models}:
        raise NotFound(f"channel '{plain(channel.name)}' does not offer the model '{plain(model)}'", param="channel")
    return _with_prices(channel, {model: price})


def _with_prices(channel: Channel, prices: Mapping[str, Price | None]) -> Channel:
    models = tuple(
        msgspec.structs.replace(served, price=prices[served.name]) if served.name in prices else served
        for served in channel.models
    )
    return msgspec.structs.replace(channel, models=models)


def price_changes(registry: Registry, prices: Iterable[tuple[ChannelId, Price]]) -> list[Change]:
    """The changes that give channels these prices of their own."""
    by_channel: dict[ChannelId, dict[str, Price | None]] = {}
    for id_, price in prices:
        by_channel.setdefault(id_, {})[price.model] = price
    return [Change("channels", id_, _with_prices(registry.channels[id_], own)) for id_, own in by_channel.items()]


def keep_prices(models: tuple[ServedModel, ...], before: Collection[ServedModel]) -> tuple[ServedModel, ...]:
    """The models with the prices they had at the channel, as long as they stand for the same model there."""
    known = {(one.name, one.upstream_name): one.price for one in before if one.price is not None}
    if not known:
        return models
    return tuple(
        msgspec.structs.replace(one, price=known[one.name, one.upstream_name])
        if one.price is None and (one.name, one.upstream_name) in known
        else one
        for one in models
    )
