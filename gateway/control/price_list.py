"""Price list: what vendors charge, from the data inside the package ``genai-prices``; nothing is fetched.

A channel's vendor is known by its base URL, a model by the name the vendor calls it. The package is an option of this
program and loads slowly, so it is loaded when somebody asks for it, in a thread.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from gateway.domain.channel import Channel, Served
from gateway.domain.errors import Unavailable
from gateway.domain.price import Price, Tier
from gateway.domain.registry import Registry
from gateway.domain.units import DOLLAR, Millis, Nanos

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices

    Rate = Decimal | TieredPrices | None

Find = Callable[[Channel, Served, Millis], Price | None]
"""The list price of a channel's model at a moment; None if the list does not know it."""


async def load() -> Find:
    """Raises Unavailable if the package is not installed."""
    return await asyncio.to_thread(_load)


def proposed(registry: Registry, find: Find, now: Millis) -> list[tuple[Channel, Price]]:
    """The list price of every model that is served, from the first of its channels whose vendor is known."""
    found: dict[str, tuple[Channel, Price]] = {}
    for channel in sorted(registry.channels.values(), key=lambda c: (-c.priority, c.name)):
        for served in channel.models:
            if served.name not in found and (price := find(channel, served, now)) is not None:
                found[served.name] = (channel, price)
    return [found[name] for name in sorted(found)]


def _load() -> Find:
    try:
        from genai_prices import __version__  # noqa: PLC0415 - optional and slow
        from genai_prices.data import providers  # noqa: PLC0415 - the same
    except ImportError as exc:
        raise Unavailable(
            "the price list is not installed here: install the package genai-prices, or set prices by hand",
            code="no_price_list",
        ) from exc
    source = f"genai-prices {__version__}"

    def find(channel: Channel, served: Served, now: Millis) -> Price | None:
        for vendor in providers:
            if re.match(vendor.api_pattern, channel.base_url):
                model = vendor.find_model(served.upstream_name, all_providers=providers)
                at = datetime.fromtimestamp(now / 1000, UTC)
                return price_of(served.name, model.get_prices(at), source, now) if model is not None else None
        return None

    return find


def price_of(model: str, listed: "ModelPrice", source: str, now: Millis) -> Price | None:
    """The list's dollars per million tokens as our price; None if it has none for input and output."""
    rates = {ours: getattr(listed, theirs, None) for ours, theirs in _FIELDS.items()}
    base = {ours: _nanos(rate, 0) for ours, rate in rates.items()}
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
        tiers=tuple(tiers),
        source=source,
        updated=now,
    )


_FIELDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
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
