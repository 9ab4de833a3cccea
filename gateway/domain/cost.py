"""Cost: what a usage costs at the rates of a price, and the most that a call can cost, for its hold.

Both are exact integers with one rounding. No usage within a call's limits costs more than its bound.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from gateway.domain.price import (
    RATE_WORDS,
    REASONING,
    Price,
    Rates,
    Tier,
    as_rule,
    rates,
    variant_price,
)
from gateway.domain.units import MILLION, Nanos
from gateway.domain.usage import (
    CACHED_PARTS,
    CITATIONS,
    INPUT_PARTS,
    LONGEST_WRITE,
    MODALITIES,
    OTHER_PARTS,
    OUTPUT_PARTS,
    PICTURES,
    SEARCHES,
    UNITS,
    Usage,
)

_MEDIA: Final = (*INPUT_PARTS, *CACHED_PARTS)
_OUTPUT: Final = (*OUTPUT_PARTS, CITATIONS, REASONING)


class CallExtras(msgspec.Struct, frozen=True, gc=False):
    """What a call may be billed for beside plain text."""

    media: bool = False
    """Whether its input may contain audio, images or video."""
    cached_12h: bool = False
    """Whether its input may be written to a cache for 12 hours."""
    searches: int = 0
    """The most searches that the vendor may make for it."""
    pictures: int = 0
    variants: tuple[str, ...] = ()
    """How it may be processed, beside the standard way."""
    advice: Nanos = Nanos(0)
    """What other models may cost that work on the answer."""


PLAIN = CallExtras()


def highest_price(prices: Sequence[Price]) -> Price:
    """Returns a price with the highest amounts of several prices in force.

    No call is more expensive at any of them.
    """
    if len(prices) == 1:
        return prices[0]
    starts = sorted({tier.above for price in prices for tier in price.tiers})
    names = dict.fromkeys(rule.variant for price in prices for rule in price.rules)
    rules = []
    for name in names:
        ways = [msgspec.structs.replace(variant_price(price, name) or price, rules=()) for price in prices]
        rules.append(as_rule(highest_price(ways), variant=name))
    return msgspec.structs.replace(
        prices[0],
        **_most(prices, 0),
        per_call=max(price.per_call for price in prices),
        tiers=tuple(Tier(above=above, **_most(prices, above + 1)) for above in starts),
        rules=tuple(rules),
    )


def _most(prices: Sequence[Price], tokens: int) -> dict[str, Any]:
    all_rates = [rates(price, tokens, MILLION) for price in prices]
    names = dict.fromkeys(name for at in all_rates for name in at.extras or ())
    return {
        "input": Nanos(max(at.input for at in all_rates)),
        "output": Nanos(max(at.output for at in all_rates)),
        "cached_input": Nanos(max(at.cached_input for at in all_rates)),
        "cache_write": Nanos(max(at.cache_write for at in all_rates)),
        "cache_write_long": Nanos(max(at.long_write for at in all_rates)),
        "extras": {name: Nanos(max(at.part(name) for at in all_rates)) for name in names},
    }


def highest_cost(
    price: Price, input_tokens: int, output_tokens: int, multiplier: int, extras: CallExtras = PLAIN
) -> Nanos:
    """Returns the most that a call of at most so many tokens can cost, for a hold. ``price`` is one in force.

    Any part of the input may be read from a cache or written to one, the output may be of any kind, and a shorter input
    may fall into a more expensive tier.
    """
    if not (price.tiers or price.extras or extras.variants or extras.advice):  # as most are
        into = max(price.input, price.cached_input or 0, price.cache_write or 0, price.cache_write_long or 0)
        return _round(input_tokens * into + output_tokens * price.output + price.per_call * MILLION, multiplier)
    most = _highest(price, input_tokens, output_tokens, extras)
    for variant in extras.variants:
        if (other := variant_price(price, variant)) is not None:
            most = max(most, _highest(other, input_tokens, output_tokens, extras))
    return _round(most + extras.advice * MILLION, multiplier)


def _highest(price: Price, input_tokens: int, output_tokens: int, extras: CallExtras) -> int:
    most = 0
    for at, longest in _longest_inputs(price, input_tokens) if price.tiers else ((price, input_tokens),):
        into = max(at.input, at.cached_input or 0, at.cache_write or 0, at.cache_write_long or 0)
        out, fees = int(at.output), int(price.per_call)
        if price.extras or at.extras:
            own = {**price.extras, **at.extras}
            written = own.get(LONGEST_WRITE, 0) if extras.cached_12h else 0
            into = max(into, written, *(own.get(name, 0) for name in _MEDIA if extras.media))
            out = max(out, *(own.get(name, 0) for name in _OUTPUT))
            fees += extras.searches * max(own.get(name, 0) for name in SEARCHES)
            fees += extras.pictures * own.get(PICTURES, 0)
        most = max(most, longest * into + output_tokens * out + fees * MILLION)
    return most


def _longest_inputs(price: Price, input_tokens: int) -> list[tuple[Price | Tier, int]]:
    """Yields the rates that may apply to at most so many input tokens, each with the most tokens it applies to."""
    starts = sorted({tier.above for tier in price.tiers if tier.above < input_tokens})
    ends = dict(zip(starts, [*starts[1:], input_tokens], strict=True)) if starts else {}
    tiers = [(tier, ends[tier.above]) for tier in price.tiers if tier.above in ends]
    return [(price, starts[0] if starts else input_tokens), *tiers]


def cost(usage: Usage, at: Rates) -> Nanos:
    """Returns the nano-dollars of one usage: integers throughout and one half-up rounding at the end."""
    fresh = max(0, usage.input - usage.cached - usage.cache_write)
    micro = (
        fresh * at.input
        + usage.cached * at.cached_input
        + (usage.cache_write - usage.cache_write_long) * at.cache_write
        + (usage.cache_write_long * at.long_write if usage.cache_write_long else 0)
        + usage.output * at.output
        + at.per_call * MILLION
    )
    if at.extras:
        micro += sum(count * (rate - text_rate) for _, count, rate, text_rate in parts_billed(usage, at))
    return _round(micro, at.multiplier)


def parts_billed(usage: Usage, at: Rates) -> Iterator[tuple[str, int, int, int]]:
    """Yields the parts of a usage with rates of their own: name, count, that rate, and the rate of the whole.

    No part counts twice: ``input_audio`` is here without its cached tokens. ``UNITS`` are counted in millions, because
    their rates are for one of them.
    """
    parts, extras = usage.parts, at.extras or {}
    left = usage.output
    if parts:
        for kind in MODALITIES:
            cached = parts.get(f"cached_{kind}", 0)
            fresh = parts.get(f"input_{kind}", 0) - cached
            yield f"input_{kind}", fresh, at.part(f"input_{kind}"), at.input
            yield f"cached_{kind}", cached, at.part(f"cached_{kind}"), at.cached_input
        yield LONGEST_WRITE, parts.get(LONGEST_WRITE, 0), at.part(LONGEST_WRITE), at.long_write
        for name in (*OUTPUT_PARTS, CITATIONS):
            count = parts.get(name, 0)
            left -= count
            yield name, count, at.part(name), at.output
        for name, text_rate in zip(OTHER_PARTS, at.text, strict=True):
            yield name, parts.get(name, 0), at.part(name), text_rate
        left -= parts.get("other_output", 0)
        for name in UNITS:
            yield name, parts.get(name, 0) * MILLION, at.part(name), 0
    if usage.reasoning and REASONING in extras:
        yield REASONING, min(usage.reasoning, left), extras[REASONING], at.output


def counts_billed(usage: Usage, at: Rates) -> list[tuple[int, str, int]]:
    """Yields what a usage costs, as a receipt shows it: counts with names and rates, nothing twice, no zeros.

    Rates are for a million tokens, and for one search or picture.
    """
    counts = {
        "input": usage.input - usage.cached - usage.cache_write,
        "cached input": usage.cached,
        "cache write": usage.cache_write - usage.cache_write_long,
        "long cache write": usage.cache_write_long,
        "output": usage.output,
    }
    more: list[tuple[int, str, int]] = []
    for name, count, rate, text_rate in parts_billed(usage, at) if at.extras else ():
        if name in UNITS:
            more.append((count // MILLION, RATE_WORDS[name], rate))
        elif rate != text_rate:
            counts[_WHOLES.get(name, "output")] -= count
            more.append((count, RATE_WORDS[name], rate))
    rows = [*((count, name, rate) for (name, count), rate in zip(counts.items(), at.text, strict=True)), *more]
    return [row for row in rows if row[0]]


_WHOLES = {
    **dict.fromkeys(INPUT_PARTS, "input"),
    **dict.fromkeys(CACHED_PARTS, "cached input"),
    LONGEST_WRITE: "long cache write",
    "other_input": "input",
    "other_cached": "cached input",
    "other_write": "cache write",
    "other_write_long": "long cache write",
}
UNIT_WORDS: Final = {
    RATE_WORDS[name]: f"{RATE_WORDS[name]}{'es' if name.endswith('searches') else 's'}" for name in UNITS
}
"""What is charged by the piece, and its plural."""
_SCALE = MILLION * MILLION


def _round(micro: int, multiplier: int) -> Nanos:
    return Nanos((2 * micro * multiplier + _SCALE) // (2 * _SCALE))
