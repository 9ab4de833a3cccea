"""Cost: what a usage costs at the rates of a price, and the most that a call can cost, which is held for it.

Both are exact integers that are rounded once. No usage within the limits of a call costs more than is held for it. If
the upstream reports another cost, the price is wrong or outdated.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from gateway.domain.call import Record, mark_values
from gateway.domain.price import REASONING, WHOLES, Price, Rates, part_for_length, variant_price
from gateway.domain.units import DOLLAR, MILLION, Nanos
from gateway.domain.usage import (
    CACHED_PARTS,
    CITATIONS,
    INPUT_PARTS,
    LONGEST_WRITE,
    OUTPUT_PARTS,
    PICTURES,
    SEARCHES,
    UNITS,
    Usage,
)

_MEDIA: Final = (*INPUT_PARTS, *CACHED_PARTS)
_OUTPUT: Final = (*OUTPUT_PARTS, CITATIONS, REASONING)


class CallExtras(msgspec.Struct, frozen=True, gc=False):
    """What a call may be billed for in addition to plain text."""

    media: bool = False
    """Whether its input may contain audio, images or video."""
    cached_12h: bool = False
    """Whether its input may be written to a cache for 12 hours."""
    searches: int = 0
    """The maximum number of searches that the vendor may make for it."""
    pictures: int = 0
    variants: tuple[str, ...] = ()
    """The ways it may be processed, except the standard one."""
    advisor_cost: Nanos = Nanos(0)
    """The most that models which advise on the answer may cost."""


PLAIN = CallExtras()


def highest_cost(
    price: Price, input_tokens: int, output_tokens: int, multiplier: int, extras: CallExtras = PLAIN
) -> Nanos:
    """Returns the most that a call with at most these tokens can cost. ``price`` is one in force.

    Any part of the input may be read from a cache or written to one, the output may be of any kind, and a shorter input
    may be in a more expensive tier.
    """
    if not (price.tiers or price.extras or extras.variants or extras.advisor_cost):  # as for most calls
        input_rate = max(price.input, price.cached_input or 0, price.cache_write or 0, price.cache_write_long or 0)
        millionths = input_tokens * input_rate + output_tokens * price.output + price.per_call * MILLION
        return _round_half_up(millionths, multiplier)
    highest = _highest_millionths(price, input_tokens, output_tokens, extras)
    for variant in extras.variants:
        if (varied := variant_price(price, variant)) is not None:
            highest = max(highest, _highest_millionths(varied, input_tokens, output_tokens, extras))
    return _round_half_up(highest + extras.advisor_cost * MILLION, multiplier)


def _highest_millionths(price: Price, input_tokens: int, output_tokens: int, extras: CallExtras) -> int:
    """Returns the most that a call can cost at one price, in millionths of nano-dollars, without a multiplier."""
    highest = 0
    for longest in (input_tokens, *(tier.above for tier in price.tiers if tier.above < input_tokens)):
        tier = part_for_length(price, longest)
        input_rate = max(tier.input, tier.cached_input or 0, tier.cache_write or 0, tier.cache_write_long or 0)
        output_rate, fees = int(tier.output), int(price.per_call)
        if price.extras or tier.extras:
            extra_rates = {**price.extras, **tier.extras}
            longest_write = extra_rates.get(LONGEST_WRITE, 0) if extras.cached_12h else 0
            input_rate = max(input_rate, longest_write, *(extra_rates.get(name, 0) for name in _MEDIA if extras.media))
            output_rate = max(output_rate, *(extra_rates.get(name, 0) for name in _OUTPUT))
            fees += extras.searches * max(extra_rates.get(name, 0) for name in SEARCHES)
            fees += extras.pictures * extra_rates.get(PICTURES, 0)
        highest = max(highest, longest * input_rate + output_tokens * output_rate + fees * MILLION)
    return highest


def cost(usage: Usage, call_rates: Rates) -> Nanos:
    """Returns what a usage costs, in integers that are rounded half up at the end."""
    fresh = max(0, usage.input - usage.cached - usage.cache_write)
    millionths = (
        fresh * call_rates.input
        + usage.cached * call_rates.cached_input
        + (usage.cache_write - usage.cache_write_long) * call_rates.cache_write
        + (usage.cache_write_long * call_rates.long_write if usage.cache_write_long else 0)
        + usage.output * call_rates.output
        + call_rates.per_call * MILLION
    )
    if call_rates.extras and (usage.parts or usage.reasoning):
        millionths += sum(count * (rate - text_rate) for _, count, rate, text_rate in parts_billed(usage, call_rates))
    return _round_half_up(millionths, call_rates.multiplier)


def parts_billed(usage: Usage, call_rates: Rates) -> Iterator[tuple[str, int, int, int]]:
    """Yields the parts of a usage that may have rates of their own: name, count, that rate, and the rate of text.

    No token is in two parts: ``input_audio`` is without its cached tokens. The counts of ``UNITS`` are multiplied by a
    million, because their rates are for one unit.
    """
    parts, output_left = usage.parts, usage.output
    for name, whole in WHOLES.items():
        count = min(usage.reasoning, output_left) if name == REASONING else parts.get(name, 0)
        if name in INPUT_PARTS:
            count -= parts.get(name.replace("input", "cached"), 0)
        if whole == "output":
            output_left -= count
        yield name, count, call_rates.part(name), getattr(call_rates, whole)
    for name in UNITS:
        yield name, parts.get(name, 0) * MILLION, call_rates.part(name), 0


def counts_billed(usage: Usage, call_rates: Rates) -> list[tuple[int, str, int]]:
    """Returns the rows of a receipt: count, name and rate, without overlaps and zeros.

    The names are those of ``TEXT_RATES`` and of parts. Rates are for a million tokens, or for one of ``UNITS``.
    """
    counts = {
        "input": usage.input - usage.cached - usage.cache_write,
        "cached_input": usage.cached,
        "cache_write": usage.cache_write - usage.cache_write_long,
        "long_write": usage.cache_write_long,
        "output": usage.output,
    }
    part_rows: list[tuple[int, str, int]] = []
    for name, count, rate, text_rate in parts_billed(usage, call_rates) if call_rates.extras else ():
        if name in UNITS:
            part_rows.append((count // MILLION, name, rate))
        elif rate != text_rate:
            counts[WHOLES[name]] -= count
            part_rows.append((count, name, rate))
    rows = [*((count, name, getattr(call_rates, name)) for name, count in counts.items()), *part_rows]
    return [row for row in rows if row[0]]


_SCALE = MILLION * MILLION


def _round_half_up(millionths: int, multiplier: int) -> Nanos:
    return Nanos((2 * millionths * multiplier + _SCALE) // (2 * _SCALE))


COST_MARK = "upstream_cost="
"""Prefix of a mark with the cost in dollars that the upstream reports."""


def price_gap(record: Record) -> tuple[Nanos, Nanos] | None:
    """Returns a call's cost by its price, unmultiplied, and by its upstream; None if unknown or within a tenth."""
    costs = mark_values(record.marks, COST_MARK)
    if not costs or record.rates is None or not record.rates.multiplier:
        return None
    charged, reported = Nanos(record.cost * MILLION // record.rates.multiplier), Nanos(round(float(costs[0]) * DOLLAR))
    gap = abs(charged - reported)
    tolerance = max(1_000, 0.1 * max(charged, reported))  # rounding may make a difference of a thousand nano-dollars
    return (charged, reported) if gap > tolerance else None
