"""Vendor prices: what vendors charge, by the data of the package ``genai-prices``, and what upstreams publish.

Nothing is fetched. A channel's vendor is recognized by the base URL, or by the preset if the URL is not a vendor's; a
model by the vendor's name for it. The package loads slowly, so it is loaded only when needed, and used in a thread.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.control.list_amounts import list_date, list_price
from gateway.control.list_rows import ListNames
from gateway.core.model_prices import channel_price, in_order, is_free_server, set_by_owner, with_price
from gateway.core.price_change import implausibility
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import Unavailable
from gateway.domain.price import Price, map_parts, multiply
from gateway.domain.registry import Registry
from gateway.domain.units import Millis, Nanos
from gateway.domain.urls import is_private
from gateway.domain.usage import LONGEST_WRITE
from gateway.upstream.vendors import find_vendor, vendor_of

if TYPE_CHECKING:
    from genai_prices.types import Provider


def known_prices(
    channels: Iterable[Channel], registry: Registry, price_list: "PriceList"
) -> Iterator[tuple[Channel, ServedModel, Price]]:
    """Yields the known prices of all models of the channels, except for local servers, which charge nothing."""
    for channel in in_order(channels):
        for served in () if is_free_server(channel) else channel.models:
            if (price := known_price(channel, served, registry, price_list)) is not None:
                yield channel, served, price


def known_price(channel: Channel, served: ServedModel, registry: Registry, price_list: "PriceList") -> Price | None:
    """Returns the price that the upstream publishes for a channel's model, else the list price of the channel's vendor.

    Some upstreams publish zeros for what they do not sell by the token, so a list price takes precedence over zeros. A
    relay on the internet with an unknown vendor is assumed to charge what the model costs at another channel, and the
    source says so. Returns None if no price is known.
    """
    published = _upstream_price(channel, served, registry, price_list.now)
    if published is not None and not published.free:
        return published
    listed = price_list.find(channel, served)
    return listed or published or _price_elsewhere(channel, served, registry, price_list)


def _price_elsewhere(channel: Channel, served: ServedModel, registry: Registry, prices: "PriceList") -> Price | None:
    """Returns the list price at another channel, for a relay on the internet with an unknown vendor."""
    if vendor_of(channel).name or not channel.base_url or is_private(channel.base_url):
        return None
    for other in in_order(registry.channels.values()):
        for model in other.models if other.id != channel.id else ():
            price = prices.find(other, model) if model.upstream_name == served.upstream_name else None
            if price is not None:
                return msgspec.structs.replace(price, source=f"{price.source}, as at channel {other.name}")
    return None


async def with_known_prices(channel: Channel, old: Channel | None, registry: Registry, now: Millis) -> Channel:
    """Returns the channel with known prices, if it uses them, for the models without a price that ``old`` did not have.

    Implausible prices are left out. Without the price list, only prices that the upstream publishes are known.
    """
    new = (served for served in new_models(channel, old) if served.price is None)
    unpriced = [served for served in new if not set_by_owner(channel_price(channel, served, registry.prices))]
    if not unpriced or not channel.known_prices:
        return channel
    try:
        price_list = await asyncio.to_thread(load_price_list, now)
    except Unavailable:
        price_list = PriceList((), "", now)
    part = msgspec.structs.replace(channel, models=tuple(unpriced))
    priced = await asyncio.to_thread(lambda: list(known_prices([part], registry, price_list)))
    return with_price(channel, {served.name: price for _, served, price in priced if not implausibility(None, price)})


def new_models(channel: Channel, old: Channel | None) -> list[ServedModel]:
    """Returns the models that a channel did not have before, or had under another name of the upstream."""
    present = {(served.name, served.upstream_name) for served in old.models} if old is not None else set()
    return [served for served in channel.models if (served.name, served.upstream_name) not in present]


def new_prices(channel: Channel, old: Channel | None) -> list[Price]:
    """Returns the imported prices that a channel has but did not have before, with the public names of its models."""
    old_prices = [served.price for served in old.models] if old is not None else []
    return [
        msgspec.structs.replace(price, model=served.name)
        for served in channel.models
        if (price := served.price) is not None and not set_by_owner(price) and price not in old_prices
    ]


def _upstream_price(channel: Channel, served: ServedModel, registry: Registry, now: Millis) -> Price | None:
    """Returns the price in the upstream's own list of models; None if the list has none."""
    if served.published is None:
        return None
    listed = registry.lists.get(channel.id)
    return Price(
        model=served.upstream_name,
        **{name: getattr(served.published, name) for name in served.published.__struct_fields__},
        source=f"the list of {channel.name}",
        updated=now,
        as_of=listed.time if listed else now,
    )


def _with_rate(price: Any, name: str, nanos: int | None) -> Any:
    """Returns a price, or one of its tiers or rules, with an extra rate, unless that is 0 or None."""
    return msgspec.structs.replace(price, extras={**price.extras, name: Nanos(nanos)}) if nanos else price


_CORRECTIONS: Mapping[str, Callable[[Any], Any]] = {
    "openai": lambda price: _with_rate(price, LONGEST_WRITE, 2 * (price.cache_write or 0)),
    "azure": lambda price: _with_rate(price, "searches", price.extras.get("searches") and 14_000_000),
}
"""Corrections of list prices: OpenAI's cache writes for 12 hours cost twice as much; Azure has its own search fee."""


class PriceList:
    """The price list of ``genai-prices``, with the prices from now on."""

    def __init__(self, providers: "Sequence[Provider]", version: str, now: Millis) -> None:
        self.now = now
        self.as_of = list_date([row for vendor in providers for row in vendor.models], now)
        """When the list was last updated."""
        self._vendors = providers
        self._names = ListNames(providers)
        self._source = f"genai-prices {version}"

    def find(self, channel: Channel, served: ServedModel) -> Price | None:
        """Returns the list price of a channel's model; None if the list has none."""
        name = served.upstream_name
        vendor = self._vendor(channel, name)
        return None if vendor is None else self._price(vendor, name, name, channel.base_url)

    def hint(self, channel: Channel, upstream: str) -> str:
        """Returns why a model has no list price, and the closest names with one; empty if the vendor is unknown."""
        vendor = self._vendor(channel, upstream)
        if vendor is None:
            reason = "the price depends on the vendor that the router chooses"
            closest = self._names.router_names(channel.base_url, upstream)
            if closest is None:
                return ""
        else:
            reason = self._names.row(vendor, upstream, channel.base_url).reason or f"not in the list of {vendor.name}"
            similar = self._names.similar_names(vendor, upstream)
            closest = [name for name in similar if not self._names.row(vendor, name, channel.base_url).reason]
        return f"{reason}; closest: {', '.join(closest)}" if closest else reason

    def prices_by_vendor(self, name: str) -> dict[str, Price]:
        """Returns the list prices of a model by the vendor's id, without regard to a channel.

        A name such as ``vendor/model`` has only that vendor's price, and a name of a known maker only the maker's.
        """
        vendor_name, _, short_name = name.partition("/")
        named_vendors = self._names.vendors_named(vendor_name) if short_name else []
        makers = [v for v in self._vendors if v.model_match is not None and v.model_match.is_match(name.lower())]
        for vendors, model in ((named_vendors, short_name), (makers[:1], name), (self._vendors, name)):
            prices = {vendor.id: self._price(vendor, model, name) for vendor in vendors}
            listed = {vendor_id: price for vendor_id, price in prices.items() if price is not None}
            if listed:
                return listed
        return {}

    def _vendor(self, channel: Channel, model: str) -> "Provider | None":
        """Returns the vendor at the channel's address, else its preset's; None if neither is in the list."""
        for url in (channel.base_url, find_vendor(channel.preset, "").base_url):
            if (vendor := self._names.vendor_at(url, model)) is not None:
                return vendor
        return None

    def _price(self, vendor: "Provider", upstream: str, model: str, base_url: str = "") -> Price | None:
        """Returns a vendor's price of the model that the vendor calls ``upstream``, with the name ``model``."""
        entry = self._names.row(vendor, upstream, base_url)
        if amounts := dict[str, Any](entry.amounts):
            source = f"{vendor.name}'s price {entry.rule}"
            price = Price(model=model, **amounts, source=source, updated=self.now, as_of=self.as_of)
            return multiply(price, entry.factor)
        if entry.row is None:
            return None
        source = f"{self._source}, {entry.maker}'s own price" if entry.maker else self._source
        row_price = list_price(model, entry.row, source, self.now, upstream)
        if row_price is None:
            return None
        row_price = msgspec.structs.replace(row_price, as_of=self.as_of, context=entry.row.context_window)
        price = multiply(row_price, entry.factor)
        return map_parts(price, _CORRECTIONS[vendor.id]) if vendor.id in _CORRECTIONS else price


def load_price_list(now: Millis) -> PriceList:
    """Returns the price list with the prices from now on. Raises Unavailable if its package is not installed."""
    try:
        from genai_prices import __version__  # noqa: PLC0415 - slow
        from genai_prices.data import providers  # noqa: PLC0415 - the same
    except ImportError as exc:
        advice = "install the package genai-prices, or set prices by hand"
        raise Unavailable(f"the price list cannot be loaded here ({exc}): {advice}", code="no_price_list") from exc
    return PriceList(providers, __version__, now)
