"""PriceView: a price as people and scripts see it, and the news about prices.

The news tells how old the price list is, what an import would change, which prices will rise, and which upstreams
publish prices that differ from those in use.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from gateway.domain.cost import cost
from gateway.domain.human_values import count_text, first_of
from gateway.domain.money import dollars
from gateway.domain.price import Price, PriceDraft, Tier, rates
from gateway.domain.text import plain
from gateway.domain.units import MILLION, Millis, Nanos
from gateway.domain.usage import Usage


class PriceView(PriceDraft, frozen=True, kw_only=True):
    """A price in nano-dollars per million tokens; ``per_call`` is the fee of a call."""

    model: str
    input: Nanos = msgspec.field(name="input_nanos")
    cached_input: Nanos | None = msgspec.field(default=None, name="cached_input_nanos")
    cache_write: Nanos | None = msgspec.field(default=None, name="cache_write_nanos")
    cache_write_long: Nanos | None = msgspec.field(default=None, name="cache_write_long_nanos")
    output: Nanos = msgspec.field(name="output_nanos")
    per_call: Nanos = msgspec.field(name="per_call_nanos")
    free: bool
    source: str
    updated_ms: Millis
    tier_count: int = msgspec.field(name="tiers")
    tiers: tuple[Tier, ...] = msgspec.field(default=(), name="tier_prices")
    """The prices of longer inputs, which replace the rates above, shortest first."""
    as_of_ms: Millis | None = None
    """When the list that the price was imported from was last updated; None if it is not from a list."""
    stale: bool = False
    """Whether that list is old."""
    inherited_from: str = ""
    """The model whose price this is, if ``model`` is another name of it and has no price of its own."""
    context: int | None = None
    """The context length in tokens by the price list, which counts if no upstream lists one."""
    channel: str = ""
    """The channel that has this price; empty for the price of all channels without one of their own."""


def example_cost(draft: PriceDraft, multiplier: int = MILLION) -> Nanos:
    """Returns what a call with 10,000 input and 1,000 output tokens costs, as an example."""
    usage = Usage(input=10_000, output=1_000)
    amounts: dict[str, Any] = {name: getattr(draft, name) for name in PriceDraft.__struct_fields__}
    return cost(usage, rates(Price(model="", **amounts), usage.input, multiplier))


def price_range(views: Sequence[PriceView], text: Callable[[int], str] = dollars) -> str:
    """Returns the lowest and highest rates of several prices: ``$0.00 - $2.50 / $10.00``. ``text`` writes an amount."""
    sides = ([view.input for view in views], [view.output for view in views])
    return " / ".join(text(min(side)) + (f" - {text(max(side))}" if min(side) < max(side) else "") for side in sides)


class PriceRise(msgspec.Struct, frozen=True, kw_only=True):
    """A price that rises on a known day, in nano-dollars per million tokens."""

    model: str
    since_ms: Millis
    day: str
    """The day in UTC: ``2026-12-01``."""
    input_nanos: Nanos
    output_nanos: Nanos
    next_input_nanos: Nanos
    next_output_nanos: Nanos


class PublishedPrice(msgspec.Struct, frozen=True, kw_only=True):
    """A price that an upstream publishes and that differs from the one in use."""

    model: str
    channel: str
    input_nanos: Nanos
    output_nanos: Nanos
    published_input_nanos: Nanos
    published_output_nanos: Nanos


class PriceHint(msgspec.Struct, frozen=True, kw_only=True):
    """Why a channel's model has no list price."""

    model: str
    channel: str
    text: str
    """The reason, and the closest names that have a price."""


class PriceNews(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner should know about the prices."""

    as_of_ms: Millis | None = None
    """When the price list was last updated; None if it is missing."""
    as_of: str = ""
    """The day of ``as_of_ms`` in UTC."""
    stale: bool = False
    raised: int = 0
    """The number of prices that an import would raise."""
    lowered: int = 0
    added: int = 0
    rises: list[PriceRise] = []
    published: list[PublishedPrice] = []
    hints: list[PriceHint] = []


def news_lines(news: PriceNews) -> list[str]:
    """Returns the news as lines, at most three of a kind, without the hints. The others are counted."""
    lines = []
    if news.stale:
        lines.append(f"the price list of {news.as_of} is old; a newer tollkeeper has a newer one")
    counts = (("raise", news.raised), ("lower", news.lowered), ("add", news.added))
    if changes := [f"{verb} {count_text(count, 'price')}" for verb, count in counts if count]:
        line = f"an import would {first_of(changes, len(changes))}: 'tollkeeper price import --dry-run' shows them"
        lines.append(line)
    lines += [
        f"'{plain(row.model)}' costs more from {row.day} on: {_amounts(row.next_input_nanos, row.next_output_nanos)} "
        f"instead of {_amounts(row.input_nanos, row.output_nanos)}"
        for row in news.rises[:3]
    ]
    lines += [
        f"channel '{plain(row.channel)}' publishes {_amounts(row.published_input_nanos, row.published_output_nanos)} "
        f"for '{plain(row.model)}'; in use is {_amounts(row.input_nanos, row.output_nanos)}"
        for row in news.published[:3]
    ]
    for kind, rows in (("rises", news.rises), ("published prices that differ", news.published)):
        if len(rows) > 3:
            lines.append(f"{len(rows) - 3:,} more {kind}: 'tollkeeper price news'")
    return lines


def _amounts(input_nanos: Nanos, output_nanos: Nanos) -> str:
    return f"{dollars(input_nanos)} / {dollars(output_nanos)}"
