"""Price kinds: the fields of a price, their kinds, and rules and other rates as one types them.

A rule is written ``flex, mon-fri 01:00-04:00 UTC = 0.30/1.20``. Before ``=`` are the conditions. After it are the
amounts for input and output, then further amounts by their names, such as ``cached=0.03``, and tiers such as
``200k=6/22.50``. Several rules are separated by ``;``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gateway.domain.errors import BadRequest
from gateway.domain.field_kinds import NONE_WORDS, Field, Kind
from gateway.domain.human_values import parse_price_hours, parse_tier, tier_text
from gateway.domain.list_kinds import ListKind
from gateway.domain.money import dollars, parse_dollars, typed_dollars
from gateway.domain.price import RATE_NAMES, VARIANTS, PriceHours, PriceRule, Tier
from gateway.domain.units import Millis, Nanos


def parse_rate(text: str) -> tuple[str, Nanos]:
    """Returns the name and the amount of a rate such as ``input_audio=32``. Raises BadRequest."""
    name, equals, amount = text.partition("=")
    if not equals or name.strip() not in RATE_NAMES:
        raise BadRequest(f"{text!r} is not a rate such as {RATE_NAMES[0]}=1.50; the names are: {', '.join(RATE_NAMES)}")
    return name.strip(), parse_dollars(amount)


def rates_text(rates: Mapping[str, Nanos]) -> str:
    """Returns rates as they are typed."""
    return " ".join(f"{name}={typed_dollars(nanos)}" for name, nanos in rates.items())


def parse_rule(text: str) -> PriceRule:
    """Returns the rule in a text. Raises BadRequest."""
    conditions, equals, amounts_text = text.partition("=")
    input_output, *words = amounts_text.split() or [""]
    input_amount, slash, output_amount = input_output.partition("/")
    if not equals or not slash:
        msg = f"{text.strip()!r} is not a rule such as 'mon-fri 01:00-04:00 UTC = 5/20', which is input/output"
        raise BadRequest(msg)
    amounts: dict[str, Any] = {"input": parse_dollars(input_amount), "output": parse_dollars(output_amount)}
    tiers: list[Tier] = []
    extras: dict[str, Nanos] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in _AMOUNTS:
            amounts[_AMOUNTS[name]] = parse_dollars(value)
        elif "/" in value:
            tiers.append(parse_tier(word))
        else:
            rate, nanos = parse_rate(word)
            extras[rate] = nanos
    return PriceRule(**amounts, tiers=_by_length(tiers), extras=extras, **_parse_conditions(conditions))


def rule_text(rule: PriceRule) -> str:
    """Returns the text that one types for a rule."""
    conditions = [rule.variant] if rule.variant else []
    conditions += [f"from {_written_moment(rule.since)}"] if rule.since else []
    conditions += map(str, rule.during)
    amounts = {name: getattr(rule, field) for name, field in _AMOUNTS.items()}
    words = [f"{typed_dollars(rule.input)}/{typed_dollars(rule.output)}"]
    words += [f"{name}={typed_dollars(nanos)}" for name, nanos in amounts.items() if nanos is not None]
    words += [rates_text(rule.extras)] if rule.extras else []
    return f"{', '.join(conditions)} = {' '.join([*words, *map(tier_text, rule.tiers)])}"


def parse_moment(text: str) -> Millis:
    """Returns the minute of ``2026-12-01`` or ``2026-12-01T08:30+01:00``, by default in UTC. Raises BadRequest."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadRequest(f"{text.strip()!r} is not a day such as 2026-12-01") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Millis(round(moment.timestamp() * 1000) // 60_000 * 60_000)


def _written_moment(moment: Millis) -> str:
    utc = datetime.fromtimestamp(moment / 1000, UTC)
    return f"{utc:%Y-%m-%d}" if moment % 86_400_000 == 0 else f"{utc:%Y-%m-%dT%H:%M}"


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
    return {**conditions, "during": tuple(hours)}


class Dollars(Kind[Nanos | None]):
    """An amount in dollars. None means that another rate applies, or that there is no fee."""

    metavar: str = "DOLLARS"

    def text(self, value: Nanos | None) -> str:
        return "" if value is None else typed_dollars(value)

    def read(self, text: str, now: Millis) -> Nanos | None:
        if not self.required and text.strip().lower() in NONE_WORDS:
            return None
        return parse_dollars(text)

    def arguments(self, field: Field, before: Nanos | None, after: Nanos | None) -> Sequence[str]:
        """Returns the option with the amount; nothing without one, because each command sets the whole price."""
        return [field.flags, self.text(after)] if self.text(after) else []

    def show(self, value: Nanos | None) -> str:
        return "" if value is None else dollars(value)


class Fee(Dollars):
    """An amount in dollars. 0 means that nothing is charged."""

    def text(self, value: Nanos | None) -> str:
        return super().text(value) if value else ""

    def read(self, text: str, now: Millis) -> Nanos:
        return super().read(text, now) or Nanos(0)


class RepeatedValues(ListKind[Any]):
    """Any number of values. Each option of a command has one value, the input of a form has all of them."""

    metavar: str
    parse: Callable[[str], Any]
    build: Callable[[Iterable[Any]], Any]
    """Returns the value of the field with these values."""
    texts: Callable[[Any], Sequence[str]]
    separator: str = " "
    """What is between the texts. If it is a space, commas may separate them too."""

    def read_option(self, text: str, now: Millis) -> Any:
        return self.parse(text)

    def gather(self, field: Field, values: Sequence[Any], before: Any) -> Any:
        return self.build(values)

    def text(self, value: Any) -> str:
        return self.separator.join(self.texts(value))

    def read(self, text: str, now: Millis) -> Any:
        sign = self.separator.strip()
        parts = text.split(sign) if sign else text.replace(",", " ").split()
        return self.build([self.parse(part) for part in parts if part.strip()])

    def arguments(self, field: Field, before: Any, after: Any) -> Sequence[str]:
        return [word for text in self.texts(after) for word in (field.flags, text)]


def _by_length(tiers: Iterable[Tier]) -> tuple[Tier, ...]:
    return tuple(sorted(tiers, key=lambda tier: tier.above))


TIERS = RepeatedValues("ABOVE=INPUT/OUTPUT", parse_tier, _by_length, lambda tiers: [*map(tier_text, tiers)])
RATES = RepeatedValues("NAME=DOLLARS", parse_rate, dict, lambda rates: rates_text(rates).split())
RULES = RepeatedValues("WHEN=INPUT/OUTPUT", parse_rule, tuple, lambda rules: [*map(rule_text, rules)], separator="; ")

PRICE: Sequence[Field] = (
    Field(
        name="input",
        kind=Dollars(required=True),
        label="Input, $ per M",
        help="Dollars per million input tokens.",
        placeholder="dollars per million tokens",
        basic=True,
    ),
    Field(
        name="output",
        kind=Dollars(required=True),
        label="Output, $ per M",
        help="Dollars per million output tokens.",
        placeholder="dollars per million tokens",
        basic=True,
    ),
    Field(
        name="cached_input",
        kind=Dollars(),
        help="Dollars per million cached input tokens (default: as input).",
        option="--cached",
        placeholder="same as input, or $ per M cached tokens",
        basic=True,
    ),
    Field(
        name="cache_write",
        kind=Dollars(),
        help="Dollars per million tokens written to the cache (default: as input).",
        placeholder="same as input, or $ per M written tokens",
    ),
    Field(
        name="cache_write_long",
        kind=Dollars(),
        label="Long cache write",
        help="Dollars per million tokens that stay in the cache for an hour or more (default: as --cache-write).",
        placeholder="same as cache write, or $ per M tokens kept for an hour or more",
    ),
    Field(
        name="per_call",
        kind=Fee(),
        help="Extra dollars per call (optional).",
        placeholder="optional: extra dollars per call",
    ),
    Field(
        name="tiers",
        kind=TIERS,
        label="Longer inputs",
        help="Prices for longer inputs: 200k=6/22.50[/CACHED[/CACHE WRITE[/LONG CACHE WRITE]]]. May be repeated. "
        "Without CACHED, cached tokens of such inputs cost the INPUT given there.",
        option="--tier",
        placeholder="none, or 200k=6/22.50: above 200k tokens",
    ),
    Field(
        name="extras",
        kind=RATES,
        label="Further rates",
        help=f"Dollars per million tokens of a kind, or for each search or picture: {', '.join(RATE_NAMES)}. "
        "May be repeated.",
        option="--rate",
        placeholder="none, or input_audio=32 searches=0.01",
    ),
    Field(
        name="rules",
        kind=RULES,
        label="Other prices",
        help="Other prices for some hours, from a day on, or for a service tier: 'mon-fri 01:00-04:00 UTC = 5/20', "
        "'from 2027-01-01 = 3/12 cached=0.30', 'flex = 1.25/5'. May be repeated.",
        option="--rule",
        placeholder="none, or mon-fri 01:00-04:00 UTC = 5/20; flex = 1.25/5",
    ),
)

_OPTIONAL_RATES = [field for field in PRICE if isinstance(field.kind, Dollars) and not field.kind.required]
_AMOUNTS = {field.flags.removeprefix("--"): field.name for field in _OPTIONAL_RATES}
"""The fields of amounts that a rule need not have, by their names in it, which are those of their options."""
