"""Price: what a model costs, by time, input length and variant; ``domain.cost`` turns a usage into a cost.

The amounts are set by the owner or come from ``control.vendor_prices``; ``tui.receipt`` and ``commands.formatting``
show the formula with its numbers. A price has rules, which apply from a day on, in some hours, or for a service tier;
rules and prices have tiers for longer inputs; and all of these have rates for each kind of tokens and for searches.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, Literal, TypeVar, get_args
from zoneinfo import ZoneInfo

import msgspec

from gateway.domain.units import MILLION, Millis, Nanos
from gateway.domain.usage import (
    CACHED_PARTS,
    CITATIONS,
    INPUT_PARTS,
    LONGEST_WRITE,
    MODALITIES,
    OTHER_PARTS,
    OUTPUT_PARTS,
    PARTS,
    PICTURES,
)

REASONING: Final = "reasoning"
RATE_NAMES: Final = (*PARTS, REASONING)
"""The names of rates that have no fields of their own: for parts of a usage, for reasoning if it is billed separately
from other output, and for ``UNITS``, whose rates are nano-dollars per unit."""
RATE_AMOUNTS: Final = ("input", "output", "cached_input", "cache_write", "cache_write_long")
AMOUNTS: Final = (*RATE_AMOUNTS, "per_call")
"""The names of the fields with amounts. Those with rates are also fields of ``Rates``."""
VARIANTS: Final = ("flex", "priority", "fast", "batch")
"""The ways to process a call that vendors have other prices for."""
RATE_WORDS: Final[Mapping[str, str]] = {
    **{f"input_{kind}": f"{kind} input" for kind in MODALITIES},
    **{f"cached_{kind}": f"cached {kind} input" for kind in MODALITIES},
    **{f"output_{kind}": f"{kind} output" for kind in MODALITIES},
    LONGEST_WRITE: "cache write for 12 hours",
    CITATIONS: CITATIONS,
    REASONING: REASONING,
    "other_input": "another model's input",
    "other_cached": "another model's cached input",
    "other_write": "another model's cache write",
    "other_write_long": "another model's long cache write",
    "other_output": "another model's output",
    "searches": "web search",
    "file_searches": "file search",
    PICTURES: "picture",
}
"""The names of these rates for people."""
TEXT_RATES: Final = ("input", "cached_input", "cache_write", "long_write", "output")
"""The attributes of ``Rates`` with the rates of text, in the order of ``OTHER_PARTS``."""
WHOLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(INPUT_PARTS, "input"),
    **dict.fromkeys(CACHED_PARTS, "cached_input"),
    LONGEST_WRITE: "long_write",
    **dict.fromkeys((*OUTPUT_PARTS, CITATIONS), "output"),
    **dict(zip(OTHER_PARTS, TEXT_RATES, strict=True)),
    REASONING: "output",
}
"""The rate of text, one of ``TEXT_RATES``, that each part of a usage has unless the price has another one for it."""
UPSTREAM = "upstream"
"""The source of a context length that an upstream lists. Other sources are names of price lists."""
MANUAL = "manual"
"""The source of a price that the owner set."""
LIKE = "like "
"""The start of the source of a price that the owner copied from another model."""

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
DAY_MINUTES = 24 * 60


class PriceHours(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hours of some days of the week: ``mon-fri 01:00-04:00 UTC``. ``human_values`` parses the text.

    Hours whose end is before their start continue into the next day, and belong to the day when they begin.
    """

    days: tuple[Day, ...] = DAYS
    """The days, in the order of the week."""
    start: int
    """The first minute, in minutes since midnight, below ``DAY_MINUTES``."""
    end: int
    """The first minute after the hours, up to ``DAY_MINUTES``; on the next day if not later than ``start``."""
    zone: str = "UTC"
    """A name of the IANA database, so summer time is respected."""

    def contains(self, moment: Millis) -> bool:
        """Returns whether the moment is in these hours. Raises the same errors as ``zone_of``."""
        local = datetime.fromtimestamp(moment / 1000, zone_of(self.zone))
        minute, day = local.hour * 60 + local.minute, local.weekday()
        if self.start < self.end:
            return self.start <= minute < self.end and DAYS[day] in self.days
        if minute >= self.start:
            return DAYS[day] in self.days
        return minute < self.end and DAYS[day - 1] in self.days  # they began the day before

    def __str__(self) -> str:
        days = "" if self.days == DAYS else _written_days([DAYS.index(day) for day in self.days]) + " "
        return f"{days}{_written_time(self.start)}-{_written_time(self.end)} {self.zone}"


def zone_of(name: str) -> tzinfo:
    """Returns the zone with that name. Raises ValueError, OSError or KeyError for an unknown one."""
    return UTC if name.upper() in ("UTC", "GMT", "Z") else ZoneInfo(name)


def _written_days(days: list[int]) -> str:
    """Returns days as ``mon-fri`` or ``sat,sun``, from their numbers in order."""
    spans: list[list[int]] = []
    for day in days:
        if spans and spans[-1][-1] == day - 1:
            spans[-1].append(day)
        else:
            spans.append([day])
    return ",".join(DAYS[s[0]] if len(s) == 1 else f"{DAYS[s[0]]}-{DAYS[s[-1]]}" for s in spans)


def _written_time(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


class PriceAmounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rates of a price or of a part of one, in nano-dollars per million tokens."""

    input: Nanos
    output: Nanos
    cached_input: Nanos | None = None
    """The rate of cached input; None means the input rate: a discount is never guessed."""
    cache_write: Nanos | None = None
    """The rate of cache writes; None means the input rate."""
    cache_write_long: Nanos | None = None
    """The rate of what the upstream's cache keeps for an hour or more; None means the rate of ``cache_write``."""
    extras: dict[str, Nanos] = {}
    """Other rates, by ``RATE_NAMES``. By default a part costs what the whole does, and a rule's rate is its price's."""


class Tier(PriceAmounts, frozen=True, kw_only=True, omit_defaults=True):
    """The rates of calls whose input is longer than ``above`` tokens."""

    above: int


class PriceRule(PriceAmounts, frozen=True, kw_only=True, omit_defaults=True):
    """The amounts that replace a price's if all conditions hold; see ``in_force``."""

    since: Millis = Millis(0)
    during: tuple[PriceHours, ...] = ()
    """The hours when the rule applies; empty means always."""
    variant: str = ""
    """The variant that the answer must name; one of ``VARIANTS``."""
    per_call: Nanos | None = None
    """The fee per call; None means the fee without the rule."""
    tiers: tuple[Tier, ...] = ()

    def holds(self, moment: Millis) -> bool:
        return self.since <= moment and (not self.during or any(hours.contains(moment) for hours in self.during))


def is_set_by_owner(source: str) -> bool:
    """Returns whether the owner set the price with this source, so that no list replaces it."""
    return source == MANUAL or source.startswith(LIKE)


class UpstreamPrices(PriceAmounts, frozen=True, kw_only=True, omit_defaults=True):
    """The price of a model that its upstream publishes. Calls are charged at our Price instead."""

    per_call: Nanos = Nanos(0)
    tiers: tuple[Tier, ...] = ()
    rules: tuple[PriceRule, ...] = ()
    """The rules. If several hold, the last one counts."""


class Price(UpstreamPrices, frozen=True, kw_only=True, omit_defaults=True):
    """The price of one public model name, in nano-dollars per million tokens (``per_call``: nano-dollars per call).

    A model whose price is all zeros is free. A model without a Price is unpriced, which is not the same.
    """

    model: str
    source: str = MANUAL
    """``manual``, ``demo``, or the name of the price list it was imported from. A manual price is never overwritten."""
    updated: Millis = Millis(0)
    context: int | None = None
    """The context length in tokens by the price list, which no answer exceeds; None if it is unknown."""
    as_of: Millis = Millis(0)
    """When the list that the price is from was last updated; 0 if it is not from a list."""
    context_source: str = ""
    """The price list that the context length is from, if the price is not from it too."""

    @property
    def free(self) -> bool:
        if self.input or self.output or self.per_call:
            return False
        rule_tiers = [tier for rule in self.rules for tier in rule.tiers]
        parts: list[PriceAmounts] = [self, *self.tiers, *self.rules, *rule_tiers]
        has_amount = any(getattr(part, name, 0) for part in parts for name in AMOUNTS)
        return not has_amount and not any(rate for part in parts for rate in part.extras.values())


Part = TypeVar("Part", bound=PriceAmounts)
Whole = TypeVar("Whole", bound=UpstreamPrices)


class PriceDraft(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a price that the owner sets, always as a whole. None means not set, and so does a fee of 0.

    A new field must also be one of ``Price``, and a ``Field`` of ``PRICE`` in ``domain.fields``.
    """

    input: Nanos | None = None
    output: Nanos | None = None
    cached_input: Nanos | None = None
    cache_write: Nanos | None = None
    cache_write_long: Nanos | None = None
    per_call: Nanos = Nanos(0)
    tiers: tuple[Tier, ...] = ()
    extras: dict[str, Nanos] = {}
    rules: tuple[PriceRule, ...] = ()


class Rates(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The rates of a call, as its record keeps them, and the multiplier."""

    input: int
    cached_input: int
    cache_write: int
    output: int
    per_call: int
    multiplier: int
    """The group's multiplier in parts per million."""
    cache_write_long: int | None = None
    """The rate of long cache writes; None, as in old records, means the rate of ``cache_write``."""
    extras: dict[str, int] | None = None
    """See ``Price.extras``; None if the price has no extras."""

    @property
    def long_write(self) -> int:
        return self.cache_write if self.cache_write_long is None else self.cache_write_long

    def part(self, name: str) -> int:
        """Returns the rate of a part of a usage: its own, else the rate of the whole.

        Cached tokens of a kind with a rate but without a cached one cost the full rate: a discount is never guessed.
        """
        extras = self.extras or {}
        kind = name.replace("cached", "input") if name in CACHED_PARTS else name
        rate = extras.get(name, extras.get(kind))
        if rate is None:
            return getattr(self, WHOLES[name]) if name in WHOLES else 0
        return rate


def in_force(price: Whole, moment: Millis) -> Whole:
    """Returns the price of calls that begin at this moment. It keeps only the rules for variants.

    If several rules hold, the last one counts, for each variant and for calls without one.
    """
    if not price.rules:
        return price
    current, variants = price, dict[str, PriceRule]()
    for rule in price.rules:
        if rule.holds(moment):
            if rule.variant:
                variants[rule.variant] = msgspec.structs.replace(rule, since=Millis(0), during=())
            else:
                current = _with_rule(price, rule)
    return msgspec.structs.replace(current, rules=tuple(variants.values()))


def without_past(price: Price, moment: Millis) -> Price:
    """Returns the price without past amounts: the last rule that has begun for good replaces all but variants."""
    for at, rule in reversed([*enumerate(price.rules)]):
        if rule.since and rule.holds(moment) and not (rule.during or rule.variant):
            kept = [earlier for earlier in price.rules[:at] if earlier.variant]
            return msgspec.structs.replace(_with_rule(price, rule), rules=(*kept, *price.rules[at + 1 :]))
    return price


def variant_price(price: Price, variant: str) -> Price | None:
    """Returns the price of calls with this variant, according to a price in force; None if it is the same."""
    rule = next((rule for rule in price.rules if rule.variant == variant), None)
    return None if rule is None else _with_rule(price, rule)


def _with_rule(price: Whole, rule: PriceRule) -> Whole:
    amounts = {name: getattr(rule, name) for name in RATE_AMOUNTS}
    per_call = price.per_call if rule.per_call is None else rule.per_call
    extras = {**price.extras, **rule.extras}
    return msgspec.structs.replace(price, **amounts, per_call=per_call, tiers=rule.tiers, extras=extras)


def as_rule(price: UpstreamPrices, **conditions: Any) -> PriceRule:
    """Returns the rule that charges what this price does, under these conditions."""
    amounts = {name: getattr(price, name) for name in (*AMOUNTS, "tiers", "extras")}
    return PriceRule(**amounts, **conditions)


def rates(price: Price, input_tokens: int, multiplier: int, variant: str = "") -> Rates:
    """Returns the rates of a call at a price in force, from the highest tier that its input exceeds."""
    if variant:
        price = variant_price(price, variant) or price
    amounts = part_for_length(price, input_tokens) if price.tiers else price
    return Rates(
        input=amounts.input,
        cached_input=amounts.input if amounts.cached_input is None else amounts.cached_input,
        cache_write=amounts.input if amounts.cache_write is None else amounts.cache_write,
        output=amounts.output,
        per_call=price.per_call,
        multiplier=multiplier,
        cache_write_long=amounts.cache_write_long,
        extras={**price.extras, **amounts.extras} if price.extras or amounts.extras else None,
    )


def part_for_length(price: Price, input_tokens: int) -> Price | Tier:
    """Returns the highest tier that an input exceeds; the price itself if it exceeds none."""
    exceeded = [tier for tier in price.tiers if input_tokens > tier.above]
    return max(exceeded, key=lambda tier: tier.above) if exceeded else price


def map_parts(part: Part, change: Callable[[Any], Any]) -> Part:
    """Returns a price, tier or rule after ``change`` was applied to it and to all tiers and rules in it."""
    changed_parts: Any = {
        name: tuple(map_parts(inner_part, change) for inner_part in getattr(part, name))
        for name in ("tiers", "rules")
        if getattr(part, name, ())
    }
    changed: Part = change(msgspec.structs.replace(part, **changed_parts))
    return changed


def multiply(price: Part, multiplier: int) -> Part:
    """Returns the price for a group with this multiplier, each amount rounded to nano-dollars."""

    def scale(nanos: int) -> Nanos:
        return Nanos((nanos * multiplier + MILLION // 2) // MILLION)

    def change(part: Any) -> Any:
        amounts = {name: getattr(part, name, None) for name in AMOUNTS}
        own = {name: scale(nanos) for name, nanos in amounts.items() if nanos is not None}
        return msgspec.structs.replace(part, **own, extras={name: scale(rate) for name, rate in part.extras.items()})

    return price if multiplier == MILLION else map_parts(price, change)
