"""The fields of a price, and their kinds: amounts of dollars, prices for longer inputs, rates, and rules."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.field_kinds import NONE_WORDS, Field, Kind, Option
from gateway.domain.human_values import tier_of, tiers_of, written_tier
from gateway.domain.money import dollars, nanos_of
from gateway.domain.price import RATE_NAMES, PriceRule, Tier
from gateway.domain.rule_text import rate_of, rates_of, rule_of, rules_of, written_rates, written_rule
from gateway.domain.units import Millis, Nanos


class Dollars(Kind[Nanos | None]):
    """An amount; None: another rate applies, or it costs nothing."""

    metavar = "DOLLARS"

    def __init__(self, *, required: bool = False) -> None:
        self.required = required

    def text(self, value: Nanos | None) -> str:
        return "" if value is None else dollars(value).replace("$", "").replace(",", "").removesuffix(".00")

    def read(self, text: str, now: Millis) -> Nanos | None:
        if not self.required and text.strip().lower() in NONE_WORDS:
            return None
        if (nanos := nanos_of(text)) < 0:
            raise BadRequest("a price cannot be negative")
        return nanos

    def arguments(self, field: Field, before: Nanos | None, after: Nanos | None) -> Sequence[str]:
        """A price is set as a whole, so an option is left out for None, never given for it."""
        return [] if after is None or after == before else [field.flags, self.text(after)]

    def show(self, value: Nanos | None) -> str:
        return "" if value is None else dollars(value)


class PriceTiers(Kind[tuple[Tier, ...]]):
    """Prices for longer inputs, shortest first; a command takes one an option."""

    metavar = "ABOVE=INPUT/OUTPUT"

    def options(self, field: Field) -> Sequence[Option]:
        (option,) = super().options(field)
        return [msgspec.structs.replace(option, read=lambda text, _: tier_of(text), multiple=True)]

    def change(self, field: Field, given: Mapping[str, Any], before: tuple[Tier, ...]) -> Any:
        tiers = sorted(given.get(field.name) or (), key=lambda tier: tier.above)
        return tuple(tiers) or msgspec.UNSET

    def text(self, value: tuple[Tier, ...]) -> str:
        return " ".join(map(written_tier, value))

    def read(self, text: str, now: Millis) -> tuple[Tier, ...]:
        return () if text.strip().lower() in NONE_WORDS else tuple(tiers_of(text))

    def arguments(self, field: Field, before: tuple[Tier, ...], after: tuple[Tier, ...]) -> Sequence[str]:
        return [] if before == after else [word for tier in after for word in (field.flags, written_tier(tier))]

    def show(self, value: tuple[Tier, ...]) -> str:
        return self.text(value)


class PriceRates(Kind[Mapping[str, Nanos]]):
    """Rates by their names; a command takes one an option."""

    metavar = "NAME=DOLLARS"

    def options(self, field: Field) -> Sequence[Option]:
        (option,) = super().options(field)
        return [msgspec.structs.replace(option, read=lambda text, _: rate_of(text), multiple=True)]

    def change(self, field: Field, given: Mapping[str, Any], before: Mapping[str, Nanos]) -> Any:
        rates = given.get(field.name)
        return dict(rates) if rates else msgspec.UNSET

    def text(self, value: Mapping[str, Nanos]) -> str:
        return written_rates(value)

    def read(self, text: str, now: Millis) -> dict[str, Nanos]:
        return {} if text.strip().lower() in NONE_WORDS else rates_of(text)

    def arguments(self, field: Field, before: Mapping[str, Nanos], after: Mapping[str, Nanos]) -> Sequence[str]:
        return [] if before == after else [word for one in self.text(after).split() for word in (field.flags, one)]

    def show(self, value: Mapping[str, Nanos]) -> str:
        return self.text(value)


class PriceRules(Kind[tuple[PriceRule, ...]]):
    """Rules, in the order in which they are looked at; a command takes one an option."""

    metavar = "WHEN=INPUT/OUTPUT"

    def options(self, field: Field) -> Sequence[Option]:
        (option,) = super().options(field)
        return [msgspec.structs.replace(option, read=lambda text, _: rule_of(text), multiple=True)]

    def change(self, field: Field, given: Mapping[str, Any], before: tuple[PriceRule, ...]) -> Any:
        return tuple(given.get(field.name) or ()) or msgspec.UNSET

    def text(self, value: tuple[PriceRule, ...]) -> str:
        return "; ".join(map(written_rule, value))

    def read(self, text: str, now: Millis) -> tuple[PriceRule, ...]:
        return () if text.strip().lower() in NONE_WORDS else rules_of(text)

    def arguments(self, field: Field, before: tuple[PriceRule, ...], after: tuple[PriceRule, ...]) -> Sequence[str]:
        return [] if before == after else [word for rule in after for word in (field.flags, written_rule(rule))]

    def show(self, value: tuple[PriceRule, ...]) -> str:
        return self.text(value)


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
        label="Cached input",
        help="Dollars per million cached input tokens (default: as input).",
        option="--cached",
        placeholder="same as input, or $ per M cached tokens",
    ),
    Field(
        name="cache_write",
        kind=Dollars(),
        label="Cache write",
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
        label="Per call",
        help="Extra dollars per call (optional).",
        placeholder="optional: extra dollars per call",
        advanced=True,
    ),
    Field(
        name="tiers",
        kind=PriceTiers(),
        label="Longer inputs",
        help="Prices for longer inputs: 200k=6/22.50[/CACHED[/CACHE WRITE[/LONG CACHE WRITE]]]. May be repeated. "
        "Without CACHED, cached tokens of such inputs cost the INPUT given there.",
        option="--tier",
        placeholder="none, or 200k=6/22.50: above 200k tokens",
        advanced=True,
    ),
    Field(
        name="extras",
        kind=PriceRates(),
        label="Further rates",
        help=f"Dollars per million tokens of a kind, or for each search or picture: {', '.join(RATE_NAMES)}. "
        "May be repeated.",
        option="--rate",
        placeholder="none, or input_audio=32 searches=0.01",
        advanced=True,
    ),
    Field(
        name="rules",
        kind=PriceRules(),
        label="Other prices",
        help="What it costs in some hours, from a day on, or for a service tier: 'mon-fri 01:00-04:00 UTC = 5/20', "
        "'from 2027-01-01 = 3/12 cached=0.30', 'flex = 1.25/5'. May be repeated.",
        option="--rule",
        placeholder="none, or mon-fri 01:00-04:00 UTC = 5/20; flex = 1.25/5",
        advanced=True,
    ),
)
