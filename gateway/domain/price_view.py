"""PriceView: a price as people and scripts see it."""

from typing import Any

import msgspec

from gateway.domain.cost import cost
from gateway.domain.price import AMOUNTS, Price, PriceDraft, PriceRule, Tier, rates
from gateway.domain.units import MILLION, Millis, Nanos
from gateway.domain.usage import Usage

EXAMPLE = Usage(input=10_000, output=1_000)
"""The usage of the call whose cost is shown as an example."""


class PriceView(msgspec.Struct, frozen=True, kw_only=True):
    """A price in nano-dollars per million tokens; ``per_call_nanos`` is the fee of a call."""

    model: str
    input_nanos: Nanos
    cached_input_nanos: Nanos | None
    cache_write_nanos: Nanos | None
    output_nanos: Nanos
    per_call_nanos: Nanos
    free: bool
    source: str
    updated_ms: Millis
    tiers: int
    cache_write_long_nanos: Nanos | None = None
    tier_prices: list[Tier] = []
    """The prices of longer inputs, which replace the rates above, shortest first."""
    as_of_ms: Millis | None = None
    """When the list that the price was imported from was last updated; None if it is not from a list."""
    stale: bool = False
    """Whether that list is old."""
    inherited_from: str = ""
    """The model whose price this is, if ``model`` is another name of it and has no price of its own."""
    context: int | None = None
    """The context length in tokens by the price list, which counts if no upstream lists one."""
    extras: dict[str, Nanos] = {}
    rules: list[PriceRule] = []
    """The prices that replace all of these from a day on, in some hours, or for a service tier."""
    channel: str = ""
    """The channel that has this price; empty for the price of all channels without one of their own."""


def draft_of(view: PriceView | None) -> PriceDraft:
    """Returns the part of a price that the owner can set; an empty draft for no price."""
    if view is None:
        return PriceDraft()
    amounts: dict[str, Any] = {name: getattr(view, f"{name}_nanos") for name in AMOUNTS}
    return PriceDraft(
        **amounts | {"per_call": view.per_call_nanos or None},
        tiers=tuple(view.tier_prices),
        extras=dict(view.extras),
        rules=tuple(view.rules),
    )


def example_cost(draft: PriceDraft, multiplier: int = MILLION) -> Nanos:
    """Returns what a call of ``EXAMPLE`` costs."""
    zero = Nanos(0)
    price = Price(
        model="",
        input=draft.input or zero,
        output=draft.output or zero,
        per_call=draft.per_call or zero,
        tiers=draft.tiers,
    )
    return cost(EXAMPLE, rates(price, EXAMPLE.input, multiplier))
