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

import msgspec

from gateway.domain.units import DOLLAR, Nanos

SOURCE = "in the price files of LiteLLM and models.dev, autumn 2026"

_AMOUNTS = ("input", "output", "cached_input", "cache_write", "cache_write_long")


class MorePrices(msgspec.Struct, frozen=True):
    """What the file has about one vendor, by the model's name in lower case."""

    amounts: dict[str, dict[str, Nanos]] = {}
    """Nano-dollars by the field of ``Price``."""
    same_as: dict[str, str] = {}
    """Other models whose prices apply; empty texts for models that have none."""


def more_prices(vendor: str) -> MorePrices:
    """Returns what the file has about a vendor."""
    return _read_file().get(vendor) or MorePrices()


@cache
def _read_file() -> Mapping[str, MorePrices]:
    vendors: dict[str, MorePrices] = {}
    with Path(__file__).with_name("more_prices.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            prices = vendors.setdefault(row["vendor"], MorePrices({}, {}))
            if row["same_as"]:
                prices.same_as[row["model"]] = row["same_as"].removeprefix("-")
            else:
                prices.amounts[row["model"]] = {
                    name: Nanos(int(Decimal(row[name]) * DOLLAR)) for name in _AMOUNTS if row[name]
                }
    return vendors
