"""Listed prices: reads the prices in an upstream's list of models, in any form that vendors and relays use.

An entry names its unit itself, or its field names imply one. Amounts in an unknown unit or currency are ignored. Fees
for a call, a search and a picture are in dollars each; a search fee of a dollar or more is for a thousand searches.

Vercel lists other service tiers, with rates of their own or a multiplier, and a multiplier for peak hours. If the hours
cannot be read, the multiplier applies all day, so that no call costs more than what is charged for it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.human_values import parse_price_hours
from gateway.domain.price import WHOLES, PriceHours, PriceRule, Tier, UpstreamPrices, as_rule, multiply
from gateway.domain.rawjson import at, list_at, text_at
from gateway.domain.units import DOLLAR, MILLION, Nanos
from gateway.domain.usage import PICTURES
from gateway.upstream.usage_extras import named_variant

Unit = int | Decimal | None
"""The factor that makes amounts dollars per million tokens; None if it is unknown."""
INFERRED: Unit = None
"""The unit of amounts whose size shows what it is."""

Names = Mapping[str, str]
"""An entry's names of rates, by ours."""
_NEEDED = {"input", "output"}
"""The rates without which an entry has no price."""

_PLACES = (("pricing",), ("metadata", "pricing"), ("model_spec", "pricing"), ("price",), ("model_info",), ())
"""Where an entry has its prices at most vendors, DeepInfra, Venice, Chutes, LiteLLM, and Requesty."""
_FORMS = (
    ("prompt", "completion", MILLION),
    ("input", "output", INFERRED),
    ("input_tokens", "output_tokens", INFERRED),
    ("input_price", "output_price", INFERRED),
    ("input_cost_per_token", "output_cost_per_token", MILLION),
    ("input_token_price_per_m", "output_token_price_per_m", Decimal("0.0001")),
)
"""The names of input and output, and their unit if the entry does not name one: at OpenRouter and most relays, Vercel
and Together, DeepInfra, Requesty, LiteLLM, and Novita."""
_CACHED = (
    *("input_cache_read", "cached_input", "cache_input", "cache_read_tokens", "cached_price"),
    "cache_read_input_token_cost",
)
_WRITES = (
    *("input_cache_write", "cache_write", "cache_write_tokens", "caching_price"),
    "cache_creation_input_token_cost",
)
_EXTRAS = {
    "input_audio": "audio",
    "cached_audio": "input_audio_cache",
    "output_audio": "audio_output",
    "input_image": "image_token",
    "output_image": "image_output",
    "reasoning": "internal_reasoning",
}
"""OpenRouter's names of other rates per token, by ours."""
_UNITS = {
    **dict.fromkeys(("", "1"), MILLION),
    **dict.fromkeys(("k", "1k", "1000", "thousand"), 1000),
    **dict.fromkeys(("m", "1m", "1000000", "million", "1million"), 1),
}
"""Units by their names, without ``per``, tokens, currency, spaces and signs."""
_MAX_PER_TOKEN = Decimal("0.002")
"""Dollars. A model's highest rate is never this low for a million tokens, and never this high for one."""
_MAX_PER_MILLION = Decimal(100_000)
"""Dollars per million tokens. No vendor charges more."""
_MIN_TOKENS = "min_prompt_tokens"


def listed_prices(entry: Mapping[str, Any]) -> UpstreamPrices | None:
    """Returns the price in an entry of the list; None if its input or output is not plausible.

    A price of providers counts if all of them charge the same.
    """
    prices = [listed_prices(provider) for provider in live_providers(entry)]
    if prices and all(price == prices[0] for price in prices):
        return prices[0]
    for place in _PLACES:
        holder = at(entry, *place)
        if isinstance(holder, dict) and (price := _price_in(holder)) is not None:
            return price
    return None


def live_providers(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the providers that may answer, each with its price and context, which Hugging Face's router lists."""
    return [provider for provider in list_at(entry, "providers") if at(provider, "status") == "live"]


def _price_in(pricing: Mapping[str, Any]) -> UpstreamPrices | None:
    """Returns the price in an object with rates; None if its input or output is not plausible."""
    for input_name, output_name, default_unit in _FORMS:
        names = {
            "input": input_name,
            "output": output_name,
            "cached_input": _used_name(pricing, _CACHED),
            "cache_write": _used_name(pricing, _WRITES),
            "cache_write_long": "input_cache_write_1h",
        }
        dollars = {name: _amount(pricing.get(theirs)) for name, theirs in names.items()}
        if dollars["input"] is not None and dollars["output"] is not None:
            return _price_with(pricing, names, _unit_of(pricing, default_unit, dollars.values()))
    return None


def _price_with(pricing: Mapping[str, Any], names: Names, unit: Unit) -> UpstreamPrices | None:
    """Returns the price in an object whose rates have these names and this unit; None if one is missing."""
    rates = _rates(pricing, names, unit)
    if not rates.keys() >= _NEEDED:
        return None
    extras = _rates(pricing, _EXTRAS, unit)
    search_fee = _rate(pricing, "web_search", 1)
    if search_fee is not None and search_fee >= DOLLAR:  # the price of a thousand
        search_fee = Nanos(search_fee // 1000)
    extras["searches"] = search_fee
    extras |= {PICTURES: _picture_fee(pricing, rates["input"])} if names["input"] == "prompt" else {}
    price = UpstreamPrices(
        **rates,
        per_call=_rate(pricing, "request", 1) or Nanos(0),
        # one that is equal to the rate of the whole, as OpenRouter's of reasoning is, follows it in tiers and rules
        extras={name: nanos for name, nanos in extras.items() if nanos and nanos != rates.get(WHOLES.get(name, ""))},
        tiers=tuple(_tiers(pricing, names, rates, unit)),
    )
    return _with_rules(price, pricing, names, unit)


def _rates(holder: Mapping[str, Any], names: Names, unit: Unit) -> dict[str, Any]:
    """Returns the plausible rates in an object, by our names."""
    rates = {name: _rate(holder, theirs, unit) for name, theirs in names.items()}
    return {name: rate for name, rate in rates.items() if rate is not None}


def _picture_fee(pricing: Mapping[str, Any], input_rate: Nanos) -> Nanos | None:
    """Returns the fee of a picture in the request, in addition to its tokens, or None.

    OpenRouter's ``image`` is usually the price of the picture's tokens, which are fewer than 50,000.
    """
    fee = _rate(pricing, "image", 1)
    return fee if fee is not None and fee * MILLION > 50_000 * input_rate else None


def _used_name(pricing: Mapping[str, Any], names: Sequence[str]) -> str:
    """Returns the first of these names that is in use; if none is, the first one."""
    return next((name for name in names if pricing.get(name) is not None), names[0])


def _unit_of(pricing: Mapping[str, Any], default: Unit, dollars: Iterable[Decimal | None]) -> Unit:
    currency = pricing.get("currency")
    if currency is not None and str(currency).strip().upper() not in ("USD", "US$", "$", "DOLLAR", "DOLLARS"):
        return None
    unit = pricing.get(_used_name(pricing, ("unit", "units", "price_unit", "pricing_unit", "per", "price_per")))
    if unit is not None:
        return _UNITS.get(re.sub(r"usd|us\$|dollars?|[\s_$/,.-]|per|tok(?:ens?)?", "", str(unit).lower()))
    if default is not INFERRED:
        return default
    return MILLION if max(amount for amount in dollars if amount is not None) < _MAX_PER_TOKEN else 1


def _tiers(pricing: Mapping[str, Any], names: Names, rates: dict[str, Any], unit: Unit) -> Iterator[Tier]:
    """Yields the prices of longer inputs, by OpenRouter or Vercel. A missing rate is the previous step's."""
    steps: dict[int, dict[str, Any]] = {}
    for override in list_at(pricing, "overrides"):
        start = _start(override, _MIN_TOKENS)
        if start and override.keys() <= _OVERRIDE_FIELDS:  # one with another condition may not apply
            steps[start] = _rates(override, names, unit)
            if extras := {name: rate for name, rate in _rates(override, _EXTRAS, unit).items() if rate}:
                steps[start]["extras"] = extras
    for name, theirs in names.items():
        for step in list_at(pricing, f"{theirs}_tiers"):
            if start := _start(step, "min"):
                steps[start] = steps.get(start, {}) | _rates(step, {name: "cost"}, unit)
    for start in sorted(steps):
        rates = rates | steps[start]
        yield Tier(above=start - 1, **rates)


_OVERRIDE_FIELDS = {
    *("prompt", "completion", "input_cache_read", "input_cache_write", "input_cache_write_1h", "image", _MIN_TOKENS),
    *_EXTRAS.values(),
}


def _start(step: object, name: str) -> int:
    """Returns the smallest number of input tokens that a step applies to; 0 if it has none, or is the base."""
    start = at(step, name)
    return start if type(start) is int and 1 < start < 1_000_000_000 else 0


def _rate(holder: Mapping[str, Any], name: str, unit: Unit) -> Nanos | None:
    """Returns a plausible amount in nano-dollars, else None. OpenRouter's -1 means that it depends on the route."""
    dollars = _amount(holder.get(name))
    if dollars is None or unit is None or not 0 <= dollars * unit <= _MAX_PER_MILLION:
        return None
    return Nanos(int((dollars * unit * DOLLAR).to_integral_value()))


def _amount(value: object) -> Decimal | None:
    """Returns an amount as it is written, or None. Venice and Chutes have one for each currency."""
    if isinstance(value, dict):
        value = value.get("usd")
    if type(value) not in (int, float, str):
        return None
    try:
        amount = Decimal(str(value).removeprefix("$"))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and amount.adjusted() < 100 else None  # larger ones may not be multiplied


def _with_rules(price: UpstreamPrices, pricing: Mapping[str, Any], names: Names, unit: Unit) -> UpstreamPrices:
    price = msgspec.structs.replace(price, rules=tuple(_tier_rules(price, pricing.get("service_tiers"), names, unit)))
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


def _tier_rules(price: UpstreamPrices, tiers: object, names: Names, unit: Unit) -> Iterator[PriceRule]:
    """Yields a rule for each service tier with a multiplier, or with rates of its own."""
    for name, holder in tiers.items() if isinstance(tiers, dict) else ():
        variant = named_variant(name)
        if not variant or not isinstance(holder, dict):
            continue
        if (factor := _factor(holder)) is not None:
            yield as_rule(multiply(price, factor), variant=variant)
        elif (rates := _rates(holder, names, unit)).keys() >= _NEEDED:
            yield as_rule(_with_rates(price, rates), variant=variant)


def _with_rates(price: UpstreamPrices, rates: dict[str, Any]) -> UpstreamPrices:
    """Returns the price with these rates, and rates of longer inputs in proportion."""

    def scale_tier(tier: Tier) -> Tier:
        amounts = {"output": _scale_amount(tier.output, price.output, rates["output"])}
        for name in ("input", "cached_input", "cache_write", "cache_write_long"):
            if (amount := getattr(tier, name)) is not None:
                amounts[name] = _scale_amount(amount, price.input, rates["input"])
        return msgspec.structs.replace(tier, **amounts)

    return msgspec.structs.replace(price, **rates, tiers=tuple(map(scale_tier, price.tiers)))


def _scale_amount(amount: int, before: int, after: int) -> Nanos:
    """Returns an amount changed by the same factor as ``before`` to ``after``, rounded."""
    return Nanos((2 * amount * after + before) // (2 * before)) if before else Nanos(amount)


def _factor(holder: Mapping[str, Any]) -> int | None:
    """Returns the multiplier in parts per million; None if it is not plausible."""
    factor = _amount(holder.get("multiplier"))
    return int(factor * MILLION) if factor is not None and 1 <= factor * MILLION <= 100 * MILLION else None


def _hours(peak: Mapping[str, Any]) -> tuple[PriceHours, ...]:
    """Returns the peak hours; none if one of them cannot be read."""
    hours: list[PriceHours] = []
    for window in list_at(peak, "windows"):
        start, end, zone = (text_at(window, name) for name in ("start", "end", "timezone"))
        days = ",".join(str(day).lower()[:3] for day in list_at(window, "days"))
        try:
            hours.append(parse_price_hours(f"{days} {start}-{end} {zone}"))
        except BadRequest:
            return ()
    return tuple(hours)
