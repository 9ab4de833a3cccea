"""Price gap: the difference between the cost of a call by its price and the cost that its upstream reports.

It shows that the price is wrong or outdated.
"""

import math

from gateway.domain.call import Record
from gateway.domain.units import DOLLAR, MILLION, Nanos

MARK = "upstream_cost="
LEAST = Nanos(1_000)
"""The largest difference that may come from rounding, in nano-dollars."""


def price_gap(record: Record) -> tuple[Nanos, Nanos] | None:
    """Returns the cost of a call by its price, without the multiplier of its group, and the cost its upstream reports.

    Returns None if they differ by less than a tenth, or one of them is unknown.
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
    return (charged, reported) if gap > max(LEAST, 0.1 * max(charged, reported)) else None
