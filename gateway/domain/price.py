"""Price: what a model costs, and the one formula that turns a usage into a cost.

The amounts are set by the owner or come from ``control.vendor_prices``; ``tui.receipt`` and ``commands.formatting``
show the formula with its numbers.
"""

import msgspec

from gateway.domain.units import MILLION, Millis, Nanos
from gateway.domain.usage import Usage


class Tier(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prices of calls whose input is longer than ``above`` tokens."""

    above: int
    input: Nanos
    output: Nanos
    cached_input: Nanos | None = None
    cache_write: Nanos | None = None
    cache_write_long: Nanos | None = None


UPSTREAM = "upstream"
"""The source of a context that an upstream lists; any other is the name of a price list."""


class Price(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nano-dollars per million tokens of one public model name (``per_call``: nano-dollars a call).

    A model with a price of all zeros is free; a model without a Price is unpriced, which is not the same.
    """

    model: str
    input: Nanos
    output: Nanos
    cached_input: Nanos | None = None
    """None: the input price applies; a discount is never guessed."""
    cache_write: Nanos | None = None
    """None: the input price applies."""
    cache_write_long: Nanos | None = None
    """Of what the upstream's cache keeps for an hour or more. None: the price of ``cache_write`` applies."""
    per_call: Nanos = Nanos(0)
    tiers: tuple[Tier, ...] = ()
    source: str = "manual"
    """``manual``, ``demo``, or the name of the price list it was imported from. A manual price is never overwritten."""
    updated: Millis = Millis(0)
    context: int | None = None
    """Context length in tokens by the price list: no answer is longer. None: not known."""
    as_of: Millis = Millis(0)
    """When the list it was imported from was last brought up to date; 0: it is not from a list."""
    context_source: str = ""
    """The price list that told the context, if the price itself is not from it."""

    @property
    def free(self) -> bool:
        """Whether every rate is zero."""
        if self.input or self.output or self.per_call:
            return False
        tiers: tuple[Price | Tier, ...] = (self, *self.tiers)
        return not any(t.input or t.output or t.cached_input or t.cache_write or t.cache_write_long for t in tiers)


class PriceDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner sets of a price, each time all of it; None is not set.

    A new field is also one of ``Price``, and a ``Field`` of ``PRICE`` in ``domain.fields``.
    """

    input: Nanos | None = None
    output: Nanos | None = None
    cached_input: Nanos | None = None
    cache_write: Nanos | None = None
    cache_write_long: Nanos | None = None
    per_call: Nanos | None = None
    tiers: tuple[Tier, ...] = ()


class Rates(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The numbers a call was priced with, as they are kept in its record: price snapshot and multiplier."""

    input: int
    cached_input: int
    cache_write: int
    output: int
    per_call: int
    multiplier: int
    """The group's multiplier in parts per million."""
    cache_write_long: int | None = None
    """None: the rate of ``cache_write``, as in all records from before there was this one."""

    @property
    def long_write(self) -> int:
        """What long-lived tokens in the cache cost."""
        return self.cache_write if self.cache_write_long is None else self.cache_write_long


def rates(price: Price, input_tokens: int, multiplier: int) -> Rates:
    """The rates that apply to a call of this input length: those of the highest tier it exceeds."""
    best: Price | Tier = price
    floor = -1
    for tier in price.tiers:
        if input_tokens > tier.above > floor:
            best, floor = tier, tier.above
    cached = best.input if best.cached_input is None else best.cached_input
    write = best.input if best.cache_write is None else best.cache_write
    return Rates(best.input, cached, write, best.output, price.per_call, multiplier, best.cache_write_long)


_AMOUNTS = ("input", "output", "cached_input", "cache_write", "cache_write_long", "per_call")


def multiply(price: Price, multiplier: int) -> Price:
    """The price as the tokens of a group with this multiplier pay it, each amount rounded to nano-dollars."""
    if multiplier == MILLION:
        return price
    tiers = tuple(msgspec.structs.replace(tier, **_times(tier, multiplier)) for tier in price.tiers)
    return msgspec.structs.replace(price, **_times(price, multiplier), tiers=tiers)


def _times(at: Price | Tier, multiplier: int) -> dict[str, Nanos]:
    amounts = {name: getattr(at, name, None) for name in _AMOUNTS}
    half = MILLION // 2
    return {name: Nanos((nanos * multiplier + half) // MILLION) for name, nanos in amounts.items() if nanos is not None}


def highest_cost(price: Price, input_tokens: int, output_tokens: int, multiplier: int) -> Nanos:
    """The most that a call of at most so many tokens can cost, for a hold.

    Any part of the input may be read from a cache or written to one, and a shorter input may fall into a more
    expensive tier.
    """
    most = 0
    for at, longest in _longest_inputs(price, input_tokens) if price.tiers else ((price, input_tokens),):
        highest = max(at.input, at.cached_input or 0, at.cache_write or 0, at.cache_write_long or 0)
        most = max(most, longest * highest + output_tokens * at.output)
    return _round(most + price.per_call * MILLION, multiplier)


def _longest_inputs(price: Price, input_tokens: int) -> list[tuple[Price | Tier, int]]:
    """The rates that may apply to at most so many input tokens, each with the most of these it applies to."""
    starts = sorted({tier.above for tier in price.tiers if tier.above < input_tokens})
    ends = dict(zip(starts, [*starts[1:], input_tokens], strict=True)) if starts else {}
    tiers = [(tier, ends[tier.above]) for tier in price.tiers if tier.above in ends]
    return [(price, starts[0] if starts else input_tokens), *tiers]


def cost(usage: Usage, at: Rates) -> Nanos:
    """Nano-dollars of one usage: integers throughout and one half-up rounding at the end."""
    fresh = max(0, usage.input - usage.cached - usage.cache_write)
    micro = (
        fresh * at.input
        + usage.cached * at.cached_input
        + (usage.cache_write - usage.cache_write_long) * at.cache_write
        + (usage.cache_write_long * at.long_write if usage.cache_write_long else 0)
        + usage.output * at.output
        + at.per_call * MILLION
    )
    return _round(micro, at.multiplier)


_SCALE = MILLION * MILLION


def _round(micro: int, multiplier: int) -> Nanos:
    return Nanos((2 * micro * multiplier + _SCALE) // (2 * _SCALE))
