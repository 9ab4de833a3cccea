"""Known prices: what vendors charge, from the data inside the package ``genai-prices``, and what upstreams publish.

Nothing is fetched. A channel's vendor is known by its base URL, or by its preset if that is at another address; a model
by the name the vendor calls it. The package loads slowly, so it is loaded when somebody asks for it, and searched in a
thread.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from gateway.control.list_amounts import list_date, list_price
from gateway.control.list_rows import ListNames
from gateway.core.model_prices import is_mapping, set_by_owner
from gateway.core.price_change import differs, guard_of
from gateway.domain.channel import Channel, ServedModel, UpstreamModels
from gateway.domain.errors import Unavailable
from gateway.domain.price import Price
from gateway.domain.registry import Registry
from gateway.domain.units import ChannelId, Millis, Nanos
from gateway.upstream.vendors import vendor_of

if TYPE_CHECKING:
    from genai_prices.types import Provider

Find = Callable[[Channel, ServedModel, Millis], Price | None]
"""The list price of a channel's model at a moment; None if the list does not know it."""


async def load() -> "PriceList":
    """Raises Unavailable if the package is missing."""
    return await asyncio.to_thread(_load)


def propose_prices(
    channels: Iterable[Channel], registry: Registry, find: Find, now: Millis
) -> list[tuple[Channel, Price]]:
    """The list price of every model that is served, from the first of its channels whose vendor is known.

    Of a model that is in no list of ours the price is used that its upstream publishes. A mapping that has the same
    price from its target needs none of its own.
    """
    found: dict[str, tuple[Channel, Price]] = {}
    targets: dict[str, str] = {}
    for channel in sorted(channels, key=lambda c: (-c.priority, c.name)):
        for served in channel.models:
            price = None if served.name in found else known_price(channel, served, registry, find, now)
            if price is not None:
                found[served.name] = (channel, price)
                targets[served.name] = served.upstream_name
    known = {name: price for name, (_, price) in found.items()} | registry.prices
    return [
        found[name]
        for name in sorted(found)
        if name in registry.prices or not _inherits(found[name][1], targets[name], known)
    ]


async def new_prices(channel: Channel, registry: Registry, names: Collection[str], now: Millis) -> list[Price]:
    """Known prices of those of a channel's models that are named and have none, unless they look wrong.

    Without the price list only what the upstream itself publishes is known.
    """
    wanted = [served for served in channel.models if served.name in names and served.name not in registry.prices]
    if not wanted:
        return []
    return await asyncio.to_thread(_list_prices, channel, wanted, registry, await _find(), now)


async def prices_elsewhere(channel: Channel, registry: Registry, names: Collection[str], now: Millis) -> list[Price]:
    """Those of the named models' prices that are right for what the channel maps them to.

    Another channel tells so, that offers the same model by that name and knows this list price for it. A name that has
    its target's price without one of its own is left out.
    """
    wanted = {(served.name, served.upstream_name) for served in channel.models if served.name in names}
    there = [
        (one, served)
        for one in registry.channels.values()
        for served in (one.models if one.id != channel.id else ())
        if (served.name, served.upstream_name) in wanted and served.name in registry.prices
    ]
    if not there:
        return []
    find = await _find()
    left = {name: price for name, price in registry.prices.items() if name not in names}

    def right(at: Channel, served: ServedModel) -> bool:
        price = known_price(at, served, registry, find, now)
        same = price is not None and not differs(registry.prices[served.name], price)
        return same and not _inherits(registry.prices[served.name], served.upstream_name, left)

    kept = await asyncio.to_thread(lambda: {served.name for at, served in there if right(at, served)})
    return [registry.prices[name] for name in sorted(kept)]


async def _find() -> Find:
    try:
        return await load()
    except Unavailable:
        return _nothing


def _list_prices(
    channel: Channel, wanted: Sequence[ServedModel], registry: Registry, find: Find, now: Millis
) -> list[Price]:
    found: dict[str, Price] = {}
    for served in sorted(wanted, key=is_mapping):  # the targets first
        price = known_price(channel, served, registry, find, now)
        if price is None or guard_of(None, price):
            continue
        if not _inherits(price, served.upstream_name, found | registry.prices):
            found[served.name] = price
    return list(found.values())


def known_price(channel: Channel, served: ServedModel, registry: Registry, find: Find, now: Millis) -> Price | None:
    """The vendor's list price of a channel's model, else the one that its upstream publishes."""
    return find(channel, served, now) or upstream_price(channel, served, registry.lists, now)


def _inherits(price: Price, target: str, prices: Mapping[str, Price]) -> bool:
    """Whether a model need not have this price, because its target's applies: the owner's, or the same one."""
    there = prices.get(target) if target != price.model else None
    if there is None or set_by_owner(there):
        return there is not None
    return not differs(msgspec.structs.replace(there, model=price.model), price)


def _nothing(_channel: Channel, _served: ServedModel, _now: Millis) -> None:
    """The price list of a program that has none."""


def upstream_price(
    channel: Channel, served: ServedModel, lists: Mapping[ChannelId, UpstreamModels], now: Millis
) -> Price | None:
    """The price that the upstream's own list of models tells."""
    if served.told is None:
        return None
    listed = lists.get(channel.id)
    return Price(
        model=served.name,
        input=served.told.input,
        output=served.told.output,
        cached_input=served.told.cached_input,
        cache_write=served.told.cache_write,
        cache_write_long=served.told.cache_write_long,
        per_call=served.told.per_call,
        extras=served.told.extras,
        tiers=served.told.tiers,
        source=f"the list of {channel.name}",
        updated=now,
        as_of=listed.time if listed else now,
    )


class PriceList:
    """The list, loaded."""

    def __init__(self, providers: "Sequence[Provider]", version: str) -> None:
        self._vendors = providers
        self._names = ListNames(providers)
        self._as_of: Millis | None = None
        self._source = f"genai-prices {version}"

    def __call__(self, channel: Channel, served: ServedModel, now: Millis) -> Price | None:
        """The list price of a channel's model."""
        vendor = self._vendor(channel)
        return None if vendor is None else self._price(vendor, served.upstream_name, served.name, now, channel.base_url)

    def hint(self, channel: Channel, upstream: str) -> str:
        """Why a channel's model has no list price, and the closest names that have one; empty: nothing is known."""
        vendor = self._vendor(channel)
        if vendor is None:
            return ""
        why, near = self._names.row(vendor, upstream, channel.base_url).why, self._names.near(vendor, upstream)
        closest = f"closest: {', '.join(near)}" if near else ""
        return "; ".join(filter(None, (why, closest)))

    def as_of(self, now: Millis) -> Millis:
        """When the list was last brought up to date."""
        if self._as_of is None:
            self._as_of = list_date([row for vendor in self._vendors for row in vendor.models], now)
        return self._as_of

    def _vendor(self, channel: Channel) -> "Provider | None":
        for url in (channel.base_url, vendor_of(channel.preset, "").base_url):
            if (vendor := self._names.vendor(url)) is not None:
                return vendor
        return None

    def named(self, name: str, now: Millis) -> dict[str, Price]:
        """The list prices of a model by its name alone, by vendor; of ``vendor/model`` only that vendor's.

        If a vendor makes the model itself, that one's price counts.
        """
        maker, _, short = name.partition("/")
        named = self._names.named(maker) if short else []
        makers = [v for v in self._vendors if v.model_match is not None and v.model_match.is_match(name.lower())]
        for vendors, model in ((named, short), (makers[:1], name), (self._vendors, name)):
            found = {vendor.id: self._price(vendor, model, name, now) for vendor in vendors}
            known = {vendor: price for vendor, price in found.items() if price is not None}
            if known:
                return known
        return {}

    def _price(self, vendor: "Provider", upstream: str, model: str, now: Millis, base_url: str = "") -> Price | None:
        found = self._names.row(vendor, upstream, base_url)
        as_of = self.as_of(now)
        if found.amounts is not None:
            first, second, cached = found.amounts
            known = Price(model=model, input=Nanos(first), output=Nanos(second), updated=now, as_of=as_of)
            cached_input = None if cached is None else Nanos(cached)
            return msgspec.structs.replace(
                known, cached_input=cached_input, source=f"{vendor.name}'s price {found.rule}"
            )
        if found.row is None:
            return None
        source = f"{self._source}, {found.maker}'s own price" if found.maker else self._source
        price = list_price(model, found.row, source, now, upstream)
        return price and msgspec.structs.replace(price, as_of=as_of, context=found.row.context_window)


def _load() -> PriceList:
    try:
        from genai_prices import __version__  # noqa: PLC0415 - slow
        from genai_prices.data import providers  # noqa: PLC0415 - the same
    except ImportError as exc:
        raise Unavailable(
            f"the price list cannot be loaded here ({exc}): install the package genai-prices, or set prices by hand",
            code="no_price_list",
        ) from exc
    return PriceList(providers, __version__)
