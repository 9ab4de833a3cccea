"""Price gap: an upstream reports another cost of a call than the price gives, so the price is wrong or outdated."""

import math

from gateway.domain.call import Record
from gateway.domain.units import DOLLAR, MILLION, Nanos

MARK = "upstream_cost="
LEAST = Nanos(1_000)
"""The smallest difference that counts, in nano-dollars; smaller ones come from rounding."""


def price_gap(record: Record) -> tuple[Nanos, Nanos] | None:
    """Returns what a call costs by its price, without the multiplier of its group, and what its upstream reports.

    Returns None if the two are about the same, or one of them is unknown.
    """
    text = next((mark.removeprefix(MARK) for mark in record.marks if mark.startswith(MARK)), "")
    if not text or record.rates is None or not record.rates.multiplier:
        return None
    try:
        dollars = float(text)
    except ValueError:
        return None
    if not math.isfinite(dollars) or dollars < 0:
        return None
    charged, reported = Nanos(record.cost * MILLION // record.rates.multiplier), Nanos(round(dollars * DOLLAR))
    gap = abs(charged - reported)
    # less than a tenth is not worth an incident
    return (charged, reported) if gap > max(LEAST, 0.1 * max(charged, reported)) else None
