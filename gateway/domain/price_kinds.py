"""Price kinds: the fields of a price, and their kinds: amounts of dollars, tiers, rates and rules."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gateway.domain.field_kinds import NONE_WORDS, Field, Kind
from gateway.domain.human_values import parse_tier, tier_text
from gateway.domain.list_kinds import ListKind
from gateway.domain.money import dollars, parse_price, typed_dollars
from gateway.domain.price import RATE_NAMES, Tier
from gateway.domain.rule_text import parse_rate, parse_rule, rates_text, rule_text
from gateway.domain.units import Millis, Nanos


class Dollars(Kind[Nanos | None]):
    """An amount in dollars. None means that another rate applies, or that there is no fee."""

    metavar = "DOLLARS"

    def __init__(self, *, required: bool = False) -> None:
        self.required = required

    def text(self, value: Nanos | None) -> str:
        return "" if value is None else typed_dollars(value)

    def read(self, text: str, now: Millis) -> Nanos | None:
        if not self.required and text.strip().lower() in NONE_WORDS:
            return None
        return parse_price(text)

    def arguments(self, field: Field, before: Nanos | None, after: Nanos | None) -> Sequence[str]:
        """Returns the option with the amount; nothing for None, because each command sets the whole price."""
        return [] if after is None else [field.flags, self.text(after)]

    def show(self, value: Nanos | None) -> str:
        return "" if value is None else dollars(value)


class RepeatedValues(ListKind[Any]):
    """Any number of values. Each option of a command has one value, the input of a form has all of them."""

    def __init__(
        self,
        metavar: str,
        parse: Callable[[str], Any],
        build: Callable[[Iterable[Any]], Any],
        texts: Callable[[Any], Sequence[str]],
        *,
        separator: str = " ",
    ) -> None:
        """``parse`` returns one value, ``build`` the value of the field with these, and ``texts`` their texts.

        If the separator of the texts is a space, commas may separate them too.
        """
        self.metavar = metavar
        self._parse, self._build, self._texts = parse, build, texts
        self._separator = separator

    def read_option(self, text: str, now: Millis) -> Any:
        return self._parse(text)

    def gather(self, field: Field, values: Sequence[Any], before: Any) -> Any:
        return self._build(values)

    def text(self, value: Any) -> str:
        return self._separator.join(self._texts(value))

    def read(self, text: str, now: Millis) -> Any:
        if text.strip().lower() in NONE_WORDS:
            return self._build([])
        sign = self._separator.strip()
        parts = text.split(sign) if sign else text.replace(",", " ").split()
        return self._build([self._parse(part) for part in parts if part.strip()])

    def arguments(self, field: Field, before: Any, after: Any) -> Sequence[str]:
        return [word for text in self._texts(after) for word in (field.flags, text)]


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
    ),
    Field(
        name="output",
        kind=Dollars(required=True),
        label="Output, $ per M",
        help="Dollars per million output tokens.",
        placeholder="dollars per million tokens",
    ),
    Field(
        name="cached_input",
        kind=Dollars(),
        help="Dollars per million cached input tokens (default: as input).",
        option="--cached",
        placeholder="same as input, or $ per M cached tokens",
    ),
    Field(
        name="cache_write",
        kind=Dollars(),
        help="Dollars per million tokens written to the cache (default: as input).",
        placeholder="same as input, or $ per M written tokens",
        advanced=True,
    ),
    Field(
        name="cache_write_long",
        kind=Dollars(),
        label="Long cache write",
        help="Dollars per million tokens that stay in the cache for an hour or more (default: as --cache-write).",
        placeholder="same as cache write, or $ per M tokens kept for an hour or more",
        advanced=True,
    ),
    Field(
        name="per_call",
        kind=Dollars(),
        help="Extra dollars per call (optional).",
        placeholder="optional: extra dollars per call",
        advanced=True,
    ),
    Field(
        name="tiers",
        kind=TIERS,
        label="Longer inputs",
        help="Prices for longer inputs: 200k=6/22.50[/CACHED[/CACHE WRITE[/LONG CACHE WRITE]]]. May be repeated. "
        "Without CACHED, cached tokens of such inputs cost the INPUT given there.",
        option="--tier",
        placeholder="none, or 200k=6/22.50: above 200k tokens",
        advanced=True,
    ),
    Field(
        name="extras",
        kind=RATES,
        label="Further rates",
        help=f"Dollars per million tokens of a kind, or for each search or picture: {', '.join(RATE_NAMES)}. "
        "May be repeated.",
        option="--rate",
        placeholder="none, or input_audio=32 searches=0.01",
        advanced=True,
    ),
    Field(
        name="rules",
        kind=RULES,
        label="Other prices",
        help="What it costs in some hours, from a day on, or for a service tier: 'mon-fri 01:00-04:00 UTC = 5/20', "
        "'from 2027-01-01 = 3/12 cached=0.30', 'flex = 1.25/5'. May be repeated.",
        option="--rule",
        placeholder="none, or mon-fri 01:00-04:00 UTC = 5/20; flex = 1.25/5",
        advanced=True,
    ),
)
