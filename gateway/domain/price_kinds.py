"""Kinds of the fields of a price: amounts of dollars, and prices for longer inputs."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.field_kinds import NONE_WORDS, Field, Kind, Option
from gateway.domain.human_values import tier_of, tiers_of, written_tier
from gateway.domain.money import dollars, nanos_of
from gateway.domain.price import Tier
from gateway.domain.units import Millis, Nanos


class Dollars(Kind[Nanos | None]):
    """An amount; None: another rate applies, or it costs nothing."""

    metavar = "DOLLARS"

    def __init__(self, *, required: bool = False) -> None:
        self.required = required

    def options(self, field: Field) -> Sequence[Option]:
        """The server refuses a negative amount."""
        (option,) = super().options(field)
        return [msgspec.structs.replace(option, read=lambda text, _: nanos_of(text))]

    def texts(self, value: Nanos | None) -> Sequence[str]:
        return ["" if value is None else dollars(value).replace("$", "").replace(",", "").removesuffix(".00")]

    def read(self, text: str, now: Millis) -> Nanos | None:
        if not self.required and text.strip().lower() in NONE_WORDS:
            return None
        if (nanos := nanos_of(text)) < 0:
            raise BadRequest("a price cannot be negative")
        return nanos

    def arguments(self, field: Field, before: Nanos | None, after: Nanos | None) -> Sequence[str]:
        """A price is set as a whole, so an option is left out for None, never given for it."""
        return [] if after is None or after == before else [field.flags, self.argument(after)]

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

    def texts(self, value: tuple[Tier, ...]) -> Sequence[str]:
        return [" ".join(map(written_tier, value))]

    def read(self, text: str, now: Millis) -> tuple[Tier, ...]:
        return () if text.strip().lower() in NONE_WORDS else tuple(tiers_of(text))

    def arguments(self, field: Field, before: tuple[Tier, ...], after: tuple[Tier, ...]) -> Sequence[str]:
        return [] if before == after else [word for tier in after for word in (field.flags, written_tier(tier))]

    def show(self, value: tuple[Tier, ...]) -> str:
        return self.texts(value)[0]
