"""List amounts: converts a row of the price list, with prices by length, day, hour and variant, to a price.

A row has standard prices. Each applies from some day on, or in some hours; if several apply, the last one counts. A row
may also have partial prices for variants such as ``flex``. Their amounts replace the standard price's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.domain.patterns import is_embedding_model
from gateway.domain.price import DAYS, VARIANTS, Price, PriceHours, PriceRule, Tier
from gateway.domain.units import DOLLAR, Millis, Nanos
from gateway.domain.usage import MODALITIES

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

    Rate = Decimal | TieredPrices | None

_BASE_FIELDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_long": "cache_write_1h_mtok",
}
"""The amounts that are fields of our price, with the list's names for them."""
_EXTRAS = {
    **{f"input_{kind}": f"input_{kind}_mtok" for kind in MODALITIES},
    **{f"cached_{kind}": f"cache_{kind}_read_mtok" for kind in MODALITIES},
    **{f"output_{kind}": f"output_{kind}_mtok" for kind in MODALITIES},
    "reasoning": "output_reasoning_mtok",
    "citations": "output_citation_mtok",
}
"""The amounts that are among the extras of our price, with the list's names for them."""
_EXTRA_FEES = {"searches": "web_searches_kcount", "file_searches": "storage_searches_kcount"}
"""The extras that are charged by the unit, with the list's names for the price of a thousand units."""
_CHECKED = re.compile(r"(?:verified|checked)[^.]{0,40}?(20\d\d-\d\d-\d\d)", re.IGNORECASE)
_WORKDAYS = re.compile(r"all day at weekends|weekends\b.{0,60}off-peak all day|monday to friday", re.IGNORECASE)
"""Matches a comment which says that a row's hours apply on working days only. The row has no field for that."""

TimedAmounts = tuple[Millis, tuple[PriceHours, ...], Mapping[str, Any]]
"""When amounts begin to apply, 0 for those that have begun; in which hours, empty for always; and the amounts."""


def list_price(model: str, row: "ModelInfo", source: str, now: Millis, upstream_model: str) -> Price | None:
    """Returns the price of a row from now on; zero if it says that it is free; None if it lacks an amount."""
    comments = row.price_comments or ""
    is_free = row.id.endswith(":free") or "free of charge" in comments.lower()
    if is_free and not isinstance(row.prices, list) and not _amounts_in(row.prices):
        return Price(model=model, input=Nanos(0), output=Nanos(0), source=source, updated=now)
    standards = _standard_prices(row, now, comments)
    fields = _price_fields(standards[0][2], upstream_model)
    if fields is None:
        return None
    price = Price(model=model, **fields, source=source, updated=now)
    rules = [_rule(standard, "", upstream_model) for standard in standards[1:]]
    for variant, changes in _variants(row, now).items():
        for since, during, amounts in standards:
            for start, changed in changes:
                rules.append(_rule((max(start, since), during, {**amounts, **changed}), variant, upstream_model))
    complete_rules = [rule for rule in rules if rule is not None]
    if not price.per_call and not any(rule.per_call for rule in complete_rules):
        complete_rules = [msgspec.structs.replace(rule, per_call=None) for rule in complete_rules]
    return msgspec.structs.replace(price, rules=tuple(complete_rules))


def list_date(rows: "Iterable[ModelInfo]", now: Millis) -> Millis:
    """Returns the last day when a price was checked, by the comments; else the last past start of a price."""
    checked = [day for row in rows for day in _CHECKED.findall(row.price_comments or "")]
    if checked:
        return _midnight(date.fromisoformat(max(checked)))
    starts = (_start(price.constraint) for row in rows if isinstance(row.prices, list) for price in row.prices)
    return max((start for start in starts if start <= now), default=Millis(0))


def _standard_prices(row: "ModelInfo", now: Millis, comments: str) -> list[TimedAmounts]:
    """Returns the standard prices, except for those that have ended. The first one applies where no other does."""
    if not isinstance(row.prices, list):
        return [(Millis(0), (), _amounts_in(row.prices))]
    days = DAYS[:5] if _WORKDAYS.search(comments) else DAYS
    prices: list[TimedAmounts] = []
    for price in row.prices:
        since = _start(price.constraint)
        during = _hours(price.constraint, days)
        if since <= now and not during:
            prices.clear()  # it replaces all earlier ones
        prices.append((Millis(0) if since <= now else since, during, _amounts_in(price.prices)))
    return prices


def _variants(row: "ModelInfo", now: Millis) -> dict[str, list[tuple[Millis, dict[str, Any]]]]:
    """Returns the amounts that each variant replaces, by start, oldest first; the start is 0 if it is past."""
    by_variant: dict[str, list[tuple[Millis, dict[str, Any]]]] = {}
    for variant in row.price_variants or ():
        if len(variant.when) != 1:
            continue  # our prices have no variants that two parameters select together
        ((parameter, name),) = variant.when.items()
        if parameter in ("processing", "service_tier", "speed") and name in VARIANTS:
            by_variant.setdefault(name, []).append((_start(variant.constraint), _amounts_in(variant.prices)))
    timelines = {}
    for name, changes in by_variant.items():
        starts = {Millis(0) if since <= now else since for since, _ in changes}
        timelines[name] = [(start, _amounts_at(changes, max(start, now))) for start in sorted(starts)]
    return timelines


def _amounts_at(changes: "Sequence[tuple[Millis, dict[str, Any]]]", moment: Millis) -> dict[str, Any]:
    """Returns the amounts of a variant at a time. Of several changes of an amount, the first one counts."""
    current = [amounts for since, amounts in changes if since <= moment]
    return {name: rate for amounts in reversed(current) for name, rate in amounts.items()}


def _rule(timed: TimedAmounts, variant: str, model: str) -> PriceRule | None:
    """Returns the rule of a price that applies later, in some hours, or for a variant; None if it is incomplete."""
    since, during, amounts = timed
    fields = _price_fields(amounts, model)
    return None if fields is None else PriceRule(since=since, during=during, variant=variant, **fields)


def _price_fields(amounts: Mapping[str, Any], model: str) -> dict[str, Any] | None:
    """Returns the fields that a price and a rule share; None without an amount for input or output."""
    base = _base_amounts(amounts, model, 0)
    if base["input"] is None or base["output"] is None:
        return None
    rates: dict[str, Rate] = {extra: amounts[listed] for extra, listed in _EXTRAS.items() if listed in amounts}
    extras = {extra: _nanos(rate, 0) for extra, rate in rates.items()}
    extras |= {extra: _fee(amounts[listed]) for extra, listed in _EXTRA_FEES.items() if listed in amounts}
    all_rates = (*map(amounts.get, _BASE_FIELDS.values()), *rates.values())
    tiered: dict[str, Rate] = {extra: rate for extra, rate in rates.items() if getattr(rate, "tiers", ())}
    tiers = []
    for start in sorted({tier.start for rate in all_rates for tier in getattr(rate, "tiers", ())}):
        tier_extras: dict[str, Any] = {extra: _nanos(rate, start) for extra, rate in tiered.items()}
        tiers.append(Tier(above=start, **_base_amounts(amounts, model, start), extras=tier_extras))
    return {**base, "extras": extras, "per_call": _fee(amounts.get("requests_kcount")), "tiers": tuple(tiers)}


def _base_amounts(amounts: Mapping[str, Any], model: str, input_tokens: int) -> dict[str, Any]:
    """Returns the amounts that are fields of our price, for this many input tokens. Embeddings have no output."""
    base = {field: _nanos(amounts.get(listed), input_tokens) for field, listed in _BASE_FIELDS.items()}
    if base["output"] is None and is_embedding_model(model):
        base["output"] = Nanos(0)
    return base


def _fee(rate: "Rate") -> Nanos:
    """Returns the price of one unit; 0 without a price of a thousand."""
    return Nanos((_nanos(rate, 0) or 0) // 1000)


def _amounts_in(listed: "ModelPrice") -> dict[str, Any]:
    """Returns the amounts of one of the list's prices by the list's own names, without those that are None."""
    return {name: rate for name, rate in vars(listed).items() if rate is not None}


def _start(constraint: object) -> Millis:
    """Returns when a constraint begins to apply; 0 if it has no first day."""
    day = getattr(constraint, "start_date", None)
    return Millis(0) if day is None else _midnight(day)


def _midnight(day: date) -> Millis:
    return Millis(round(datetime.combine(day, time(), UTC).timestamp() * 1000))


def _hours(constraint: object, days: Any) -> tuple[PriceHours, ...]:
    """Returns the hours of a constraint in UTC; empty if it has none."""
    start, end = (getattr(constraint, name, None) for name in ("start_time", "end_time"))
    if not isinstance(start, time) or not isinstance(end, time):
        return ()
    first, last = (_utc_minute(start), _utc_minute(end))
    return (PriceHours(days=days, start=first, end=last or 1440),)


def _utc_minute(moment: time) -> int:
    offset = datetime.combine(date(1970, 1, 1), moment).utcoffset()
    offset_minutes = 0 if offset is None else round(offset.total_seconds() / 60)
    return (moment.hour * 60 + moment.minute - offset_minutes) % 1440


def _nanos(rate: "Rate", input_tokens: int) -> Nanos | None:
    """Returns the rate above this many input tokens, in nano-dollars per million; None if the price has none."""
    if rate is None:
        return None
    dollars = rate if isinstance(rate, Decimal) else rate.base
    for tier in getattr(rate, "tiers", ()):
        if 0 < tier.start <= input_tokens:
            dollars = tier.price
    return Nanos(int((dollars * DOLLAR).to_integral_value()))
