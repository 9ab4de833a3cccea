"""List amounts: converts a row of the price list, with prices by length, day, hour and variant, to a price.

A row has amounts for every moment and variant. They are read for today, for each later day on which others begin to
apply, and for the hours that have amounts of their own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gateway.domain.patterns import is_embedding_model
from gateway.domain.price import DAY_MINUTES, DAYS, VARIANTS, Price, PriceHours, PriceRule, Tier
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

Conditions = Mapping[str, Any]
"""The conditions of a rule, by the fields of ``PriceRule``; all are empty for the price itself."""


def list_price(model: str, row: "ModelInfo", source: str, now: Millis, upstream_model: str) -> Price | None:
    """Returns the price of a row from now on; zero if it says that it is free; None if it lacks an amount."""
    timed_amounts = list(_timed_amounts(row, now, upstream_model))
    is_free = row.id.endswith(":free") or "free of charge" in (row.price_comments or "").lower()
    if is_free and not timed_amounts:
        return Price(model=model, input=Nanos(0), output=Nanos(0), source=source, updated=now)
    if not timed_amounts or any(timed_amounts[0][0].values()):
        return None
    (_, base), *later = timed_amounts
    rules = []
    for conditions, amounts in later:
        own_fee = None if amounts["per_call"] == base["per_call"] else amounts["per_call"]
        rules.append(PriceRule(**conditions, **{**amounts, "per_call": own_fee}))
    return Price(model=model, **base, rules=tuple(rules), source=source, updated=now)


def list_date(rows: "Iterable[ModelInfo]", now: Millis) -> Millis:
    """Returns the last day when a price was checked, by the comments; else the last past start of a price."""
    checked = [day for row in rows for day in _CHECKED.findall(row.price_comments or "")]
    if checked:
        return _midnight(date.fromisoformat(max(checked)))
    starts = (_midnight(day) for row in rows for day in _first_days(row))
    return max((start for start in starts if start <= now), default=Millis(0))


def _timed_amounts(row: "ModelInfo", now: Millis, model: str) -> Iterator[tuple[Conditions, dict[str, Any]]]:
    """Yields the complete amounts of a row, each with its conditions, first those of calls now. The last one counts."""
    today = datetime.fromtimestamp(now / 1000, UTC).date()
    days = [today, *sorted(day for day in _first_days(row) if day > today)]
    hours = _hours(row)
    windows = [((), _usual_minute(hours)), *(((part,), part.start) for part in hours)]
    for variant, context in _variants(row).items():
        for during, minute in windows:
            before = None
            for day in days:
                moment = datetime.combine(day, time(*divmod(minute, 60)), UTC)
                amounts = _price_fields(row.get_prices(moment, context), model)
                if amounts is not None and amounts != before:
                    since = Millis(0) if day == today else _midnight(day)
                    yield {"since": since, "during": during, "variant": variant}, amounts
                before = amounts


def _constraints(row: "ModelInfo") -> list[Any]:
    prices = row.prices if isinstance(row.prices, list) else []
    return [part.constraint for part in (*prices, *(row.price_variants or ()))]


def _first_days(row: "ModelInfo") -> set[date]:
    """Returns the days on which amounts begin to apply."""
    return {constraint.start_date for constraint in _constraints(row) if hasattr(constraint, "start_date")}


def _hours(row: "ModelInfo") -> list[PriceHours]:
    """Returns the hours, in UTC, that have amounts of their own."""
    days = DAYS[:5] if _WORKDAYS.search(row.price_comments or "") else DAYS
    return [
        PriceHours(days=days, start=_utc_minute(part.start_time), end=_utc_minute(part.end_time) or DAY_MINUTES)
        for part in _constraints(row)
        if hasattr(part, "start_time")
    ]


def _usual_minute(hours: list[PriceHours]) -> int:
    """Returns a minute of a working day outside of all these hours; 0 if they are the whole day."""
    for minute in (0, *(part.end % DAY_MINUTES for part in hours)):
        if not any(part.contains(Millis(minute * 60_000)) for part in hours):
            return minute
    return 0


def _variants(row: "ModelInfo") -> dict[str, dict[str, str]]:
    """Returns the variants, each with the parameter that selects it; first the standard price, which needs none."""
    variants: dict[str, dict[str, str]] = {"": {}}
    for listed in row.price_variants or ():
        if len(listed.when) == 1:
            ((parameter, name),) = listed.when.items()
            if parameter in ("processing", "service_tier", "speed") and name in VARIANTS:
                variants[name] = listed.when
    return variants


def _price_fields(listed: "ModelPrice", model: str) -> dict[str, Any] | None:
    """Returns the fields that a price and a rule share; None without an amount for input or output."""
    amounts = {name: rate for name, rate in vars(listed).items() if rate is not None}
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


def _midnight(day: date) -> Millis:
    return Millis(round(datetime.combine(day, time(), UTC).timestamp() * 1000))


def _utc_minute(moment: time) -> int:
    """Returns the minute of the day in UTC of a time, which is in UTC if it names no zone."""
    utc = datetime.combine(date(1970, 1, 1), moment, moment.tzinfo or UTC).astimezone(UTC)
    return utc.hour * 60 + utc.minute


def _nanos(rate: "Rate", input_tokens: int) -> Nanos | None:
    """Returns the rate above this many input tokens, in nano-dollars per million; None if the price has none."""
    if rate is None:
        return None
    dollars = rate if isinstance(rate, Decimal) else rate.base
    for tier in getattr(rate, "tiers", ()):
        if 0 < tier.start <= input_tokens:
            dollars = tier.price
    return Nanos(int((dollars * DOLLAR).to_integral_value()))
