"""Price: what a model costs, and the one formula that turns a usage into a cost.

The amounts are set by the owner or come from ``control.vendor_prices``; ``tui.receipt`` and ``commands.formatting``
show the formula with its numbers. What a price says, from outside in: rules (which hold from a day, in some hours, for
a service tier), tiers (for longer inputs), and rates (of each kind of tokens, and of each search).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from gateway.domain.price_hours import PriceHours
from gateway.domain.units import MILLION, Millis, Nanos
from gateway.domain.usage import (
    CACHED_PARTS,
    CITATIONS,
    INPUT_PARTS,
    LONGEST_WRITE,
    MODALITIES,
    OUTPUT_PARTS,
    PARTS,
    SEARCHES,
    Usage,
)

REASONING: Final = "reasoning"
RATE_NAMES: Final = (*PARTS, REASONING)
"""Rates beside those with fields of their own: of parts of a usage, of reasoning where that is billed apart from other
output, and, in nano-dollars each, of searches."""
VARIANTS: Final = ("flex", "priority", "fast", "batch")
"""Ways to process a call for which vendors ask other prices."""
RATE_WORDS: Final[Mapping[str, str]] = {
    **{f"input_{kind}": f"{kind} input" for kind in MODALITIES},
    **{f"cached_{kind}": f"cached {kind} input" for kind in MODALITIES},
    **{f"output_{kind}": f"{kind} output" for kind in MODALITIES},
    LONGEST_WRITE: "cache write for 12 hours",
    CITATIONS: CITATIONS,
    REASONING: REASONING,
    "searches": "web search",
    "file_searches": "file search",
}
"""What people call them."""
_MEDIA: Final = (*INPUT_PARTS, *CACHED_PARTS)
_OUTPUT: Final = (*OUTPUT_PARTS, CITATIONS, REASONING)


class Tier(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prices of calls whose input is longer than ``above`` tokens."""

    above: int
    input: Nanos
    output: Nanos
    cached_input: Nanos | None = None
    cache_write: Nanos | None = None
    cache_write_long: Nanos | None = None
    extras: dict[str, Nanos] = {}
    """As in ``Price``, whose own apply to what is not here."""


class PriceRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Amounts that replace those of a price where all of its conditions hold; see ``in_force``."""

    since: Millis = Millis(0)
    """From this moment on."""
    during: tuple[PriceHours, ...] = ()
    """In one of these hours; empty: always."""
    variant: str = ""
    """If the answer says that it was processed so; one of ``VARIANTS``."""
    input: Nanos
    output: Nanos
    cached_input: Nanos | None = None
    cache_write: Nanos | None = None
    cache_write_long: Nanos | None = None
    per_call: Nanos | None = None
    """None: as without the rule."""
    tiers: tuple[Tier, ...] = ()
    extras: dict[str, Nanos] = {}
    """As in ``Price``, whose own apply to what is not here."""

    def holds(self, moment: Millis) -> bool:
        """Whether its day has come and its hours are now."""
        return self.since <= moment and (not self.during or any(hours.contains(moment) for hours in self.during))


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
    extras: dict[str, Nanos] = {}
    """Further rates, by ``RATE_NAMES``. Of a part without one the rate of the whole applies."""
    tiers: tuple[Tier, ...] = ()
    rules: tuple[PriceRule, ...] = ()
    """Of several that hold the last one counts."""
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
        parts: list[Price | Tier | PriceRule] = [self, *self.tiers, *self.rules]
        parts += [tier for rule in self.rules for tier in rule.tiers]
        return not any(map(_costs, parts))


def _costs(at: "Price | Tier | PriceRule") -> bool:
    amounts = (at.input, at.output, at.cached_input, at.cache_write, at.cache_write_long, getattr(at, "per_call", 0))
    return any(amounts) or any(at.extras.values())


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
    extras: dict[str, int] | None = None
    """As in ``Price``; None: there are none."""

    @property
    def long_write(self) -> int:
        """What long-lived tokens in the cache cost."""
        return self.cache_write if self.cache_write_long is None else self.cache_write_long

    def part(self, name: str) -> int:
        """What a part of a usage costs: its own rate, else that of the whole it belongs to.

        Cached tokens of a kind that has a price cost that without a cached one: a discount is never guessed.
        """
        extras = self.extras or {}
        if (found := extras.get(name)) is not None:
            return found
        if name in INPUT_PARTS:
            return self.input
        if name in CACHED_PARTS:
            return extras.get(name.replace("cached", "input"), self.cached_input)
        if name == LONGEST_WRITE:
            return self.long_write
        return 0 if name in SEARCHES else self.output


class CallExtras(msgspec.Struct, frozen=True, gc=False):
    """What a call may be billed for beside plain text."""

    media: bool = False
    """Its input may hold audio, images or video."""
    searches: int = 0
    """How often the vendor may search for it at most."""
    variants: tuple[str, ...] = ()
    """How it may be processed, beside the standard way."""


PLAIN = CallExtras()


def in_force(price: Price, moment: Millis) -> Price:
    """The price of calls that begin at this moment. Of its rules it has only those for a variant, without conditions.

    Of several rules that hold the last one counts, for each variant and for calls without one.
    """
    if not price.rules:
        return price
    now, variants = price, dict[str, PriceRule]()
    for rule in price.rules:
        if rule.holds(moment):
            if rule.variant:
                variants[rule.variant] = msgspec.structs.replace(rule, since=Millis(0), during=())
            else:
                now = _with(price, rule)
    return msgspec.structs.replace(now, rules=tuple(variants.values()))


def of_variant(price: Price, variant: str) -> Price | None:
    """A price in force as it is for calls that are processed so; None if it has no other for them."""
    rule = next((rule for rule in price.rules if rule.variant == variant), None)
    return None if rule is None else _with(price, rule)


def _with(price: Price, rule: PriceRule) -> Price:
    return msgspec.structs.replace(
        price,
        input=rule.input,
        output=rule.output,
        cached_input=rule.cached_input,
        cache_write=rule.cache_write,
        cache_write_long=rule.cache_write_long,
        per_call=price.per_call if rule.per_call is None else rule.per_call,
        tiers=rule.tiers,
        extras={**price.extras, **rule.extras},
    )


def rates(price: Price, input_tokens: int, multiplier: int, variant: str = "") -> Rates:
    """The rates that apply to a call of this input length and variant: those of the highest tier it exceeds.

    ``price`` is one in force.
    """
    if variant and (other := of_variant(price, variant)) is not None:
        price = other
    best: Price | Tier = price
    floor = -1
    for tier in price.tiers:
        if input_tokens > tier.above > floor:
            best, floor = tier, tier.above
    return _rates_at(price, best, multiplier)


def _rates_at(price: Price, best: Price | Tier, multiplier: int) -> Rates:
    cached = best.input if best.cached_input is None else best.cached_input
    write = best.input if best.cache_write is None else best.cache_write
    extras: dict[str, int] | None = {**price.extras, **best.extras} if price.extras or best.extras else None
    return Rates(best.input, cached, write, best.output, price.per_call, multiplier, best.cache_write_long, extras)


_AMOUNTS = ("input", "output", "cached_input", "cache_write", "cache_write_long", "per_call")


def multiply(price: Price, multiplier: int) -> Price:
    """The price as the tokens of a group with this multiplier pay it, each amount rounded to nano-dollars."""
    if multiplier == MILLION:
        return price
    rules = (
        msgspec.structs.replace(rule, **_times(rule, multiplier), tiers=_tiers_times(rule.tiers, multiplier))
        for rule in price.rules
    )
    tiers = _tiers_times(price.tiers, multiplier)
    return msgspec.structs.replace(price, **_times(price, multiplier), tiers=tiers, rules=tuple(rules))


def _tiers_times(tiers: tuple[Tier, ...], multiplier: int) -> tuple[Tier, ...]:
    return tuple(msgspec.structs.replace(tier, **_times(tier, multiplier)) for tier in tiers)


def _times(at: Price | Tier | PriceRule, multiplier: int) -> dict[str, Any]:
    half = MILLION // 2
    amounts = {name: getattr(at, name, None) for name in _AMOUNTS}
    found: dict[str, Any] = {
        name: Nanos((nanos * multiplier + half) // MILLION) for name, nanos in amounts.items() if nanos is not None
    }
    if at.extras:
        found["extras"] = {name: Nanos((rate * multiplier + half) // MILLION) for name, rate in at.extras.items()}
    return found


def highest_cost(
    price: Price, input_tokens: int, output_tokens: int, multiplier: int, extras: CallExtras = PLAIN
) -> Nanos:
    """The most that a call of at most so many tokens can cost, for a hold. ``price`` is one in force.

    Any part of the input may be read from a cache or written to one, the output may be of any kind, and a shorter
    input may fall into a more expensive tier.
    """
    most = _highest(price, input_tokens, output_tokens, extras)
    for variant in extras.variants:
        if (other := of_variant(price, variant)) is not None:
            most = max(most, _highest(other, input_tokens, output_tokens, extras))
    return _round(most, multiplier)


def _highest(price: Price, input_tokens: int, output_tokens: int, extras: CallExtras) -> int:
    most = 0
    for at, longest in _longest_inputs(price, input_tokens) if price.tiers else ((price, input_tokens),):
        into = max(at.input, at.cached_input or 0, at.cache_write or 0, at.cache_write_long or 0)
        out, fees = int(at.output), int(price.per_call)
        if price.extras or at.extras:
            own = {**price.extras, **at.extras}
            into = max(into, own.get(LONGEST_WRITE, 0), *(own.get(name, 0) for name in _MEDIA if extras.media))
            out = max(out, *(own.get(name, 0) for name in _OUTPUT))
            fees += extras.searches * max(own.get(name, 0) for name in SEARCHES)
        most = max(most, longest * into + output_tokens * out + fees * MILLION)
    return most


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
    if at.extras:
        micro += sum(count * (rate - instead) for _, count, rate, instead in parts_billed(usage, at))
    return _round(micro, at.multiplier)


def parts_billed(usage: Usage, at: Rates) -> Iterator[tuple[str, int, int, int]]:
    """The parts of a usage that have rates of their own: name, count, that rate, and the one of the whole.

    None is counted twice: ``input_audio`` is here without its cached tokens. Searches are counted in millions, as their
    rate is for one of them.
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
        for name in SEARCHES:
            yield name, parts.get(name, 0) * MILLION, at.part(name), 0
    if usage.reasoning and REASONING in extras:
        yield REASONING, min(usage.reasoning, left), extras[REASONING], at.output


_SCALE = MILLION * MILLION


def _round(micro: int, multiplier: int) -> Nanos:
    return Nanos((2 * micro * multiplier + _SCALE) // (2 * _SCALE))
