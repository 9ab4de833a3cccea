"""Rule text: rules and further rates of a price as one types them: ``flex, mon-fri 01:00-04:00 UTC = 0.30/1.20``.

Before ``=`` are the conditions. After it are the amounts for input and output, then further amounts by their names,
such as ``cached=0.03``, and tiers such as ``200k=6/22.50``. Several rules are separated by ``;``.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from gateway.domain.errors import BadRequest
from gateway.domain.human_values import parse_price_hours, parse_tier, tier_text
from gateway.domain.money import parse_price, typed_dollars
from gateway.domain.price import RATE_NAMES, VARIANTS, PriceRule, Tier
from gateway.domain.price_hours import PriceHours
from gateway.domain.units import Millis, Nanos

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS

_AMOUNTS: Final = {
    "cached": "cached_input",
    "cache-write": "cache_write",
    "cache-write-long": "cache_write_long",
    "per-call": "per_call",
}
"""Maps the typed names of amounts to their fields."""


def parse_rate(text: str) -> tuple[str, Nanos]:
    """Returns the name and the amount of a rate such as ``input_audio=32``. Raises BadRequest."""
    name, equals, amount = text.partition("=")
    if not equals or name.strip() not in RATE_NAMES:
        raise BadRequest(f"{text!r} is not one of {', '.join(RATE_NAMES)} with its dollars, as NAME=1.50")
    return name.strip(), parse_price(amount)


def rates_text(rates: Mapping[str, Nanos]) -> str:
    """Returns rates as they are typed."""
    return " ".join(f"{name}={typed_dollars(nanos)}" for name, nanos in rates.items())


def parse_rule(text: str) -> PriceRule:
    """Returns the rule in a text. Raises BadRequest."""
    conditions, equals, amounts_text = text.partition("=")
    input_output, *words = amounts_text.split() or [""]
    input_amount, slash, output_amount = input_output.partition("/")
    if not equals or not slash:
        raise BadRequest(
            f"{text.strip()!r} is not a rule such as 'mon-fri 01:00-04:00 UTC = 5/20', which is input/output"
        )
    amounts: dict[str, Any] = {"input": parse_price(input_amount), "output": parse_price(output_amount)}
    tiers: list[Tier] = []
    extras: dict[str, Nanos] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in _AMOUNTS:
            amounts[_AMOUNTS[name]] = parse_price(value)
        elif "/" in value:
            tiers.append(parse_tier(word))
        else:
            rate, nanos = parse_rate(word)
            extras[rate] = nanos
    tiers.sort(key=lambda tier: tier.above)
    return PriceRule(**amounts, tiers=tuple(tiers), extras=extras, **_parse_conditions(conditions))


def rule_text(rule: PriceRule) -> str:
    """Returns a rule as it is typed."""
    conditions = [rule.variant] if rule.variant else []
    conditions += [f"from {_written_moment(rule.since)}"] if rule.since else []
    conditions += map(str, rule.during)
    amounts = {name: getattr(rule, field) for name, field in _AMOUNTS.items()}
    words = [f"{typed_dollars(rule.input)}/{typed_dollars(rule.output)}"]
    words += [f"{name}={typed_dollars(nanos)}" for name, nanos in amounts.items() if nanos is not None]
    words += [rates_text(rule.extras)] if rule.extras else []
    return f"{', '.join(conditions)} = {' '.join([*words, *map(tier_text, rule.tiers)])}"


def parse_moment(text: str) -> Millis:
    """Returns the start of the minute in a text such as ``2026-12-01`` or ``2026-12-01T08:30+01:00``; default: UTC.

    Raises BadRequest.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadRequest(f"{text.strip()!r} is not a day such as 2026-12-01") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Millis(round(moment.timestamp() * 1000) // MINUTE_MS * MINUTE_MS)


def _written_moment(moment: Millis) -> str:
    utc = datetime.fromtimestamp(moment / 1000, UTC)
    return f"{utc:%Y-%m-%d}" if moment % DAY_MS == 0 else f"{utc:%Y-%m-%dT%H:%M}"


def _parse_conditions(text: str) -> dict[str, Any]:
    """Returns the conditions of a rule by the names of its fields. Raises BadRequest."""
    conditions: dict[str, Any] = {}
    hours: list[PriceHours] = []
    for part in filter(None, map(str.strip, text.split(", "))):
        variant = part.lower().removesuffix(" processing")
        if variant in VARIANTS:
            conditions["variant"] = variant
        elif part.lower().startswith("from "):
            conditions["since"] = parse_moment(part[len("from ") :].removesuffix(" UTC"))
        else:
            hours.append(parse_price_hours(part))
    if not conditions and not hours:
        raise BadRequest(
            "a rule needs hours such as 'mon-fri 01:00-04:00 UTC', a day such as 'from 2026-12-01', or "
            f"one of {', '.join(VARIANTS)}, before its '='"
        )
    return {**conditions, "during": tuple(hours)}
