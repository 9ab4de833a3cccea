"""Rules in a listed price: the prices of other service tiers, and of peak hours, as Vercel lists both.

A tier has rates of its own or a multiplier. Peak hours have a multiplier; if the hours cannot be read, it applies all
day, so that no call costs more than it is charged.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from gateway.domain.price import Price, PriceRule, Tier, as_rule, multiply
from gateway.domain.price_hours import DAY_MINUTES, DAYS, Day, PriceHours, zone_of
from gateway.domain.units import MILLION, Nanos
from gateway.upstream.usage_counts import named_variant

Read = Callable[[Mapping[str, Any]], Sequence[Nanos | None]]
"""Reads input, output, cached input and cache writes from an object with rates."""

_WINDOWS = ("windows", "hours", "periods", "schedule", "times")
_STARTS = ("start", "start_time", "from", "start_hour")
_ENDS = ("end", "end_time", "to", "until", "end_hour")
_DAYS = ("days", "weekdays", "days_of_week")
_ZONES = ("timezone", "time_zone", "zone", "tz")
_TIME = re.compile(r"(\d{1,2})(?::(\d\d))?(?::\d\d)?Z?")


def with_listed_rules(price: Price, pricing: Mapping[str, Any], read: Read) -> Price:
    """Returns the price with the service tiers and peak hours of its entry."""
    price = msgspec.structs.replace(price, rules=tuple(_tier_rules(price, pricing.get("service_tiers"), read)))
    peak = pricing.get("peak_pricing")
    if not isinstance(peak, dict) or (factor := _factor(peak)) is None:
        return price
    peak_price, during = multiply(price, factor), _hours(peak)
    if not during:
        return peak_price
    peak_rules = (
        as_rule(peak_price, during=during),
        *(msgspec.structs.replace(rule, during=during) for rule in peak_price.rules),
    )
    return msgspec.structs.replace(price, rules=(*price.rules, *peak_rules))


def _tier_rules(price: Price, tiers: object, read: Read) -> Iterator[PriceRule]:
    named: list[tuple[object, object]] = []
    if isinstance(tiers, dict):
        named = [*tiers.items()]
    elif isinstance(tiers, list):
        named = [(one.get("name") or one.get("tier") or one.get("id"), one) for one in tiers if isinstance(one, dict)]
    for name, holder in named:
        variant = named_variant(name)
        if not variant or not isinstance(holder, dict):
            continue
        if (factor := _factor(holder)) is not None:
            yield as_rule(multiply(price, factor), variant=variant)
        elif (own := _own_rates(price, read(holder))) is not None:
            yield as_rule(own, variant=variant)


def _own_rates(price: Price, rates: Sequence[Nanos | None]) -> Price | None:
    """Returns the price with these rates, and with longer inputs more expensive by the same factor; None without input
    or output.
    """
    first, second, cached, write = rates
    if first is None or second is None:
        return None

    def scaled(amount: int, before: int, after: int) -> Nanos:
        return Nanos((2 * amount * after + before) // (2 * before)) if before else Nanos(amount)

    def tier(one: Tier) -> Tier:
        into, out = (price.input, first), (price.output, second)
        amounts = {"input": scaled(one.input, *into), "output": scaled(one.output, *out)}
        for name in ("cached_input", "cache_write", "cache_write_long"):
            if (amount := getattr(one, name)) is not None:
                amounts[name] = scaled(amount, *into)
        return msgspec.structs.replace(one, **amounts)

    return msgspec.structs.replace(
        price,
        input=first,
        output=second,
        cached_input=cached if cached is not None else price.cached_input,
        cache_write=write if write is not None else price.cache_write,
        tiers=tuple(map(tier, price.tiers)),
    )


def _factor(holder: Mapping[str, Any]) -> int | None:
    """Returns the multiplier in parts per million; None without a plausible one."""
    try:
        factor = Decimal(str(holder.get("multiplier")))
    except InvalidOperation:
        return None
    return int(factor * MILLION) if factor.is_finite() and 1 <= factor * MILLION <= 100 * MILLION else None


def _hours(peak: Mapping[str, Any]) -> tuple[PriceHours, ...]:
    """Returns the peak hours; none if one of them cannot be read."""
    windows = _first(peak, _WINDOWS)
    spans = [_span(one, peak) for one in (windows if isinstance(windows, list) else [peak])]
    known = tuple(span for span in spans if span is not None)
    return known if len(known) == len(spans) else ()


def _span(window: object, peak: Mapping[str, Any]) -> PriceHours | None:
    if isinstance(window, str):
        start, _, end = window.partition("-")
        window = {"start": start, "end": end}
    if not isinstance(window, dict):
        return None
    first, last = (_minutes(_first(window, names)) for names in (_STARTS, _ENDS))
    days = _days(_first(window, _DAYS) or _first(peak, _DAYS))
    zone = str(_first(window, _ZONES) or _first(peak, _ZONES) or "UTC")
    try:
        zone_of(zone)
    except (ValueError, OSError, KeyError):
        return None
    if first is None or last is None or days is None or first >= DAY_MINUTES:
        return None
    return PriceHours(days=days, start=first, end=last, zone=zone)


def _minutes(value: object) -> int | None:
    """Returns the minutes since midnight, from ``01:00`` or an hour; None if they cannot be read."""
    match = _TIME.fullmatch(str(value).strip()) if isinstance(value, str | int) else None
    minutes = int(match[1]) * 60 + int(match[2] or 0) if match else None
    return minutes if minutes is not None and minutes <= DAY_MINUTES else None


def _days(value: object) -> tuple[Day, ...] | None:
    """Returns the days in a list of names, or of ISO's numbers (Monday is 1); None if they cannot be read."""
    if value is None:
        return DAYS
    given = value if isinstance(value, list) else [value]
    numbers = [one for one in given if type(one) is int and 1 <= one <= len(DAYS)]
    if numbers and len(numbers) == len(given):
        return tuple(day for number, day in enumerate(DAYS, start=1) if number in numbers)
    names = [str(one).strip().lower()[:3] for one in given]
    return tuple(day for day in DAYS if day in names) if names and set(names) <= set(DAYS) else None


def _first(holder: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((holder[name] for name in names if holder.get(name) is not None), None)
