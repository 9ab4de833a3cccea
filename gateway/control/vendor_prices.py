"""Price list: what vendors charge, from the data inside the package ``genai-prices``; nothing is fetched.

A channel's vendor is known by its base URL, a model by the name the vendor calls it. The package loads slowly, so it is
loaded when somebody asks for it, in a thread.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from gateway.domain.channel import Channel, Served, UpstreamModels
from gateway.domain.errors import Unavailable
from gateway.domain.patterns import is_embedding_model
from gateway.domain.price import Price, Tier
from gateway.domain.units import DOLLAR, ChannelId, Millis, Nanos

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, Provider, TieredPrices

    Rate = Decimal | TieredPrices | None

Find = Callable[[Channel, Served, Millis], Price | None]
"""The list price of a channel's model at a moment; None if the list does not know it."""


async def load() -> Find:
    """Raises Unavailable if the package is missing."""
    return await asyncio.to_thread(_load)


def proposed(
    channels: Iterable[Channel], lists: Mapping[ChannelId, UpstreamModels], find: Find, now: Millis
) -> list[tuple[Channel, Price]]:
    """The list price of every model that is served, from the first of its channels whose vendor is known.

    Of a model that is in no list of ours the price is taken that its upstream itself tells.
    """
    found: dict[str, tuple[Channel, Price]] = {}
    for channel in sorted(channels, key=lambda c: (-c.priority, c.name)):
        for served in channel.models:
            if served.name not in found and (price := find(channel, served, now) or told(channel, served, lists, now)):
                found[served.name] = (channel, price)
    return [found[name] for name in sorted(found)]


def told(channel: Channel, served: Served, lists: Mapping[ChannelId, UpstreamModels], now: Millis) -> Price | None:
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
        source=f"the list of {channel.name}",
        updated=now,
        as_of=listed.time if listed else now,
    )


def _load() -> Find:
    try:
        from genai_prices import __version__  # noqa: PLC0415 - slow
        from genai_prices.data import providers  # noqa: PLC0415 - the same
    except ImportError as exc:
        raise Unavailable(
            f"the price list cannot be loaded here ({exc}): install the package genai-prices, or set prices by hand",
            code="no_price_list",
        ) from exc
    source = f"genai-prices {__version__}"
    dates = [Millis(round(datetime.combine(day, time(), UTC).timestamp() * 1000)) for day in _days(providers)]

    def find(channel: Channel, served: Served, now: Millis) -> Price | None:
        for vendor in providers:
            if re.match(vendor.api_pattern, channel.base_url):
                model = vendor.find_model(served.upstream_name, all_providers=providers)
                at = datetime.fromtimestamp(now / 1000, UTC)
                if model is None:
                    return None
                found = price_of(served.name, model.get_prices(at), source, now, served.upstream_name)
                if found is None:
                    return None
                as_of = max((day for day in dates if day <= now), default=Millis(0))
                return msgspec.structs.replace(found, as_of=as_of, context=model.context_window)
        return None

    return find


def _days(providers: "Sequence[Provider]") -> set[date]:
    """The days on which its prices begin. The newest that has come is the list's own date: it has no other."""
    conditions = (p.constraint for v in providers for m in v.models if isinstance(m.prices, list) for p in m.prices)
    return {day for condition in conditions if isinstance(day := getattr(condition, "start_date", None), date)}


def price_of(model: str, listed: "ModelPrice", source: str, now: Millis, upstream_model: str = "") -> Price | None:
    """The list's dollars per million tokens as our price; None if it has none for input and output.

    Embeddings have no output, so their models need no price for it.
    """
    rates = {ours: getattr(listed, theirs, None) for ours, theirs in _FIELDS.items()}
    base = {ours: _nanos(rate, 0) for ours, rate in rates.items()}
    if base["output"] is None and is_embedding_model(upstream_model or model):
        base["output"] = Nanos(0)
    if base["input"] is None or base["output"] is None:
        return None
    tiers = [
        Tier(above=start, **{ours: _nanos(rate, start) for ours, rate in rates.items()})  # type: ignore[arg-type]
        for start in _starts(rates.values())
    ]
    return Price(
        model=model,
        input=base["input"],
        output=base["output"],
        cached_input=base["cached_input"],
        cache_write=base["cache_write"],
        cache_write_long=base["cache_write_long"],
        tiers=tuple(tiers),
        source=source,
        updated=now,
    )


_FIELDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_long": "cache_write_1h_mtok",
}


def _starts(rates: "Iterable[Rate]") -> list[int]:
    return sorted({tier.start for rate in rates for tier in getattr(rate, "tiers", ())})


def _nanos(rate: "Rate", input_tokens: int) -> Nanos | None:
    """What the rate is for calls of more than so many input tokens."""
    if rate is None:
        return None
    dollars = rate if isinstance(rate, Decimal) else rate.base
    for tier in getattr(rate, "tiers", ()):
        if 0 < tier.start <= input_tokens:
            dollars = tier.price
    return Nanos(int((dollars * DOLLAR).to_integral_value()))
