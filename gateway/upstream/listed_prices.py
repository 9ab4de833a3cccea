"""Prices in an upstream's list of models, in any of the forms that vendors and relays use.

An entry names its unit itself, or uses names that imply a unit. Amounts in an unknown unit or currency are ignored.
Fees for a call, a search and a picture are in dollars each; a search fee of a dollar or more is for a thousand.

Other service tiers have rates of their own or a multiplier, as Vercel lists them, and peak hours have a multiplier; if
the hours cannot be read, it applies all day, so that no call costs more than it is charged.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import msgspec

from gateway.domain.channel import UpstreamPrices
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import parse_price_hours
from gateway.domain.price import Price, PriceRule, Tier, as_rule, multiply
from gateway.domain.price_hours import PriceHours
from gateway.domain.rawjson import at, text_at
from gateway.domain.units import DOLLAR, MILLION, Nanos
from gateway.domain.usage import PICTURES
from gateway.upstream.usage_counts import named_variant

Unit = int | Decimal | None
UNSURE = None
"""A unit that must be inferred from the size of the amounts."""


_PLACES = (("pricing",), ("metadata", "pricing"), ("model_spec", "pricing"), ("price",), ("model_info",), ())
"""Where an entry has its prices: most vendors; DeepInfra; Venice; Chutes; LiteLLM; Requesty."""
_FORMS = (
    ("prompt", "completion", MILLION),
    ("input", "output", UNSURE),
    ("input_tokens", "output_tokens", UNSURE),
    ("input_price", "output_price", UNSURE),
    ("input_cost_per_token", "output_cost_per_token", MILLION),
    ("input_token_price_per_m", "output_token_price_per_m", Decimal("0.0001")),
)
"""The names of input and output at OpenRouter and most relays, Vercel and Together, DeepInfra, Requesty, LiteLLM and
Novita, and the factor that makes their amounts dollars per million tokens if an entry does not name its unit."""
_CACHED = (
    *("input_cache_read", "cached_input", "cache_input", "cache_read_tokens", "cached_price"),
    "cache_read_input_token_cost",
)
_WRITES = (
    *("input_cache_write", "cache_write", "cache_write_tokens", "caching_price"),
    "cache_creation_input_token_cost",
)
_EXTRAS = {
    "audio": "input_audio",
    "input_audio_cache": "cached_audio",
    "audio_output": "output_audio",
    "image_token": "input_image",
    "image_output": "output_image",
    "internal_reasoning": "reasoning",
}
"""OpenRouter's names of further rates per token, and ours."""
_UNIT_FIELDS = ("unit", "units", "price_unit", "pricing_unit", "per", "price_per")
_UNITS = {
    **dict.fromkeys(("", "1"), MILLION),
    **dict.fromkeys(("k", "1k", "1000", "thousand"), 1000),
    **dict.fromkeys(("m", "1m", "1000000", "million", "1million"), 1),
}
"""Factors to dollars per million tokens, by unit without ``per``, tokens, currency, spaces and signs."""
_PER_TOKEN = Decimal("0.002")
"""The limit in dollars by which units are told apart: a model's highest rate is never that low for a million tokens,
and never that high for one."""
_MOST = Decimal(100_000)
"""An upper limit in dollars per million tokens: no vendor charges more."""
_CONDITION = "min_prompt_tokens"


def listed_prices(entry: Mapping[str, Any]) -> UpstreamPrices | None:
    """Returns the price in an entry of the list; None without a plausible one for input and output.

    Hugging Face's router lists the price of each vendor that may answer: it is known if all of them charge the same.
    """
    offers = entry.get("providers")
    vendors = [offer for offer in offers if isinstance(offer, dict)] if isinstance(offers, list) else []
    prices = [listed_prices(vendor) for vendor in vendors if vendor.get("status") == "live"]
    if prices and all(price == prices[0] for price in prices):
        return prices[0]
    for place in _PLACES:
        holder = at(entry, *place)
        if isinstance(holder, dict) and (price := _price_in(holder)) is not None:
            return price
    return None


def _price_in(pricing: Mapping[str, Any]) -> UpstreamPrices | None:
    for first, second, factor in _FORMS:
        names = (first, second, *(_there(pricing, some) for some in (_CACHED, _WRITES)))
        dollars = [_dollars(pricing.get(name)) for name in names]
        if dollars[0] is None or dollars[1] is None:
            continue
        unit = _unit_of(pricing, factor, dollars)
        rates = [_nanos(amount, unit) for amount in dollars]
        if rates[0] is None or rates[1] is None:
            return None
        extras = {ours: _rate(pricing, theirs, unit) for theirs, ours in _EXTRAS.items()}
        extras |= {"searches": _search_fee(pricing)}
        extras |= {PICTURES: _picture_fee(pricing, rates[0])} if first == "prompt" else {}
        price = Price(
            model="",
            input=rates[0],
            output=rates[1],
            cached_input=rates[2],
            cache_write=rates[3],
            cache_write_long=_rate(pricing, "input_cache_write_1h", unit),
            per_call=_nanos(_dollars(pricing.get("request")), 1) or Nanos(0),
            extras={name: nanos for name, nanos in extras.items() if nanos},
            tiers=tuple(_tiers(pricing, names, rates, unit)),
        )
        price = _with_rules(price, pricing, partial(_rates, names=names, unit=unit))
        return UpstreamPrices(**{name: getattr(price, name) for name in UpstreamPrices.__struct_fields__})
    return None


def _rates(holder: Mapping[str, Any], names: Sequence[str], unit: Unit) -> list[Nanos | None]:
    return [_rate(holder, name, unit) for name in names]


def _picture_fee(pricing: Mapping[str, Any], into: Nanos) -> Nanos | None:
    """Returns the fee of a picture in the request, in addition to its tokens; None without one.

    OpenRouter's ``image`` is usually the price of the tokens.
    """
    fee = _nanos(_dollars(pricing.get("image")), 1)
    return fee if fee is not None and fee * MILLION > 50_000 * into else None  # no picture counts as so many tokens


def _search_fee(pricing: Mapping[str, Any]) -> Nanos | None:
    fee = _nanos(_dollars(pricing.get("web_search")), 1)
    return Nanos(fee // 1000) if fee is not None and fee >= DOLLAR else fee


def _there(pricing: Mapping[str, Any], names: Sequence[str]) -> str:
    """Returns the first of these names that is in use; if none is, the first one."""
    return next((name for name in names if pricing.get(name) is not None), names[0])


def _unit_of(pricing: Mapping[str, Any], factor: Unit, dollars: Sequence[Decimal | None]) -> Unit:
    """Returns the factor to dollars per million tokens; None if it is unknown."""
    currency = pricing.get("currency")
    if currency is not None and str(currency).strip().upper() not in ("USD", "US$", "$", "DOLLAR", "DOLLARS"):
        return None
    said = pricing.get(_there(pricing, _UNIT_FIELDS))
    if said is not None:
        words = re.sub(r"usd|us\$|dollars?|[\s_$/,.-]|per|tok(?:ens?)?", "", str(said).lower())
        return _UNITS.get(words)
    if factor is not UNSURE:
        return factor
    return MILLION if max(amount for amount in dollars if amount is not None) < _PER_TOKEN else 1


def _tiers(pricing: Mapping[str, Any], names: Sequence[str], base: Sequence[Nanos | None], unit: Unit) -> list[Tier]:
    """Returns the prices of longer inputs: OpenRouter's ``overrides``, or Vercel's list of steps for each rate."""
    steps: dict[int, list[Nanos | None]] = {}
    overrides = pricing.get("overrides")
    for override in overrides if isinstance(overrides, list) else ():
        start = _start(override, _CONDITION)
        if start and override.keys() <= _CONDITIONED:  # one with another condition may not apply
            steps[start] = [_rate(override, name, unit) for name in names]
    for index, name in enumerate(names):
        listed = pricing.get(f"{name}_tiers")
        for step in listed if isinstance(listed, list) else ():
            if start := _start(step, "min"):
                steps.setdefault(start, [None] * len(base))[index] = _rate(step, "cost", unit)
    tiers, before = [], list(base)
    for start in sorted(steps):
        before = [new if new is not None else old for new, old in zip(steps[start], before, strict=True)]
        first, second, cached, write = before
        if first is not None and second is not None:
            tiers.append(Tier(above=start - 1, input=first, output=second, cached_input=cached, cache_write=write))
    return tiers


_CONDITIONED = frozenset(
    {*("prompt", "completion", "input_cache_read", "input_cache_write", "input_cache_write_1h", "image"), *_EXTRAS}
    | {_CONDITION}
)


def _start(step: object, name: str) -> int:
    """Returns the first length to which a step applies; 0 for none, and for the base."""
    start = at(step, name)
    return start if type(start) is int and 1 < start < 1_000_000_000 else 0


def _rate(holder: Mapping[str, Any], name: str, unit: Unit) -> Nanos | None:
    return None if unit is None else _nanos(_dollars(holder.get(name)), unit)


def _dollars(value: object) -> Decimal | None:
    """Returns an amount as it is written, else None; Venice and Chutes write it once for each currency."""
    if isinstance(value, dict):
        value = value.get("usd")
    if type(value) not in (int, float, str):
        return None
    try:
        return Decimal(str(value).removeprefix("$"))
    except InvalidOperation:
        return None


def _nanos(dollars: Decimal | None, unit: Unit) -> Nanos | None:
    """Returns a plausible amount in nano-dollars, else None. OpenRouter's -1 means that the amount depends on the
    route.
    """
    if dollars is None or unit is None or not dollars.is_finite() or not 0 <= dollars * unit <= _MOST:
        return None
    return Nanos(int((dollars * unit * DOLLAR).to_integral_value()))


Read = Callable[[Mapping[str, Any]], Sequence[Nanos | None]]
"""Reads input, output, cached input and cache writes from an object with rates."""


def _with_rules(price: Price, pricing: Mapping[str, Any], read: Read) -> Price:
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
    for name, holder in tiers.items() if isinstance(tiers, dict) else ():
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

    def tier(listed: Tier) -> Tier:
        into, out = (price.input, first), (price.output, second)
        amounts = {"input": scaled(listed.input, *into), "output": scaled(listed.output, *out)}
        for name in ("cached_input", "cache_write", "cache_write_long"):
            if (amount := getattr(listed, name)) is not None:
                amounts[name] = scaled(amount, *into)
        return msgspec.structs.replace(listed, **amounts)

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
    windows = peak.get("windows")
    try:
        return tuple(
            parse_price_hours(_hours_text(window)) for window in (windows if isinstance(windows, list) else ())
        )
    except BadRequest:
        return ()


def _hours_text(window: Any) -> str:
    """Returns a window as people write it: ``mon,tue 01:00-04:00 UTC``."""
    start, end, zone = (text_at(window, name) for name in ("start", "end", "timezone"))
    days = at(window, "days")
    named = ",".join(str(day).lower()[:3] for day in days) if isinstance(days, list) else ""
    return f"{named} {start}-{end} {zone}"
