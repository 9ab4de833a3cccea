"""More prices: prices that the price list lacks or has wrong, by vendor. They take precedence over its rows.

They are in ``more_prices.csv``, in dollars for a million tokens; a vendor does not have a price whose cell is empty. A
model with ``same_as`` has the price of that model; with ``-``, it has none, because the price list has only an older
model of that name. At Bedrock, a region before a name says where the price applies; without one it applies in the USA.

The amounts are from the public price files of LiteLLM (November 2026) and models.dev (October 2026); Azure's Retail
Prices API confirms Azure's. A model is left out if these sources differ on its price.
"""

import csv
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path

from gateway.domain.price import RATE_AMOUNTS
from gateway.domain.units import DOLLAR, Nanos

SOURCE = "in the price files of LiteLLM and models.dev, autumn 2026"


def more_amounts(vendor: str, model: str) -> dict[str, Nanos]:
    """Returns the amounts of a vendor's model, by the field of ``Price``; empty if the file has none."""
    row = _rows().get((vendor, model), {})
    return {name: Nanos(int(Decimal(row[name]) * DOLLAR)) for name in RATE_AMOUNTS if row.get(name)}


def same_as(vendor: str, model: str) -> str:
    """Returns the model whose price applies, usually the same one; empty if it has no price. Prefixes are ignored."""
    row = _rows().get((vendor, model.rpartition("/")[2]), {})
    return row["same_as"].removeprefix("-") if row.get("same_as") else model


@cache
def _rows() -> Mapping[tuple[str, str], Mapping[str, str]]:
    """Returns the rows of the file, by vendor and by the model's name in lower case."""
    with Path(__file__).with_name("more_prices.csv").open(encoding="utf-8", newline="") as file:
        return {(row["vendor"], row["model"]): row for row in csv.DictReader(file)}
