"""Costs of random usages equal those of the calculator that comes with the price list, to the nano-dollar.

The calculator has no days of the week, and no reasoning in output of a kind; so all usages are without these.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.control.list_amounts import list_price
from gateway.domain.cost import cost
from gateway.domain.price import Price, in_force, rates
from gateway.domain.units import DOLLAR, MILLION, Millis, Nanos
from gateway.domain.usage import Usage, canonical
from tests.house import amount

VENDORS = (
    *("anthropic", "openai", "google", "x-ai", "mistral", "deepseek", "groq", "perplexity", "aws", "moonshotai"),
    *("openrouter", "azure", "fireworks", "together", "cohere"),
)
EACH = 12
"""Models of a vendor."""
MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
CONTEXTS: dict[str, tuple[dict[str, str], ...]] = {
    "": ({},),
    "flex": ({"service_tier": "flex"}, {"processing": "flex"}),
    "priority": ({"service_tier": "priority"}, {"processing": "priority"}),
    "fast": ({"speed": "fast"}, {"service_tier": "fast"}),
    "batch": ({"processing": "batch"}, {"service_tier": "batch"}),
}
THEIRS = {
    "searches": "web_searches",
    "file_searches": "storage_searches",
    "citations": "output_citation_tokens",
    **{f"input_{kind}": f"input_{kind}_tokens" for kind in ("audio", "image", "video")},
    **{f"cached_{kind}": f"cache_{kind}_read_tokens" for kind in ("audio", "image", "video")},
    **{f"output_{kind}": f"output_{kind}_tokens" for kind in ("audio", "image", "video")},
}


def a_usage(dice: random.Random, variant: str) -> Usage:
    tokens = dice.choice([10, 900, 15_000, 199_999, 200_000, 200_001, 272_001, dice.randrange(1, 1_000_000)])
    cached = dice.choice([0, dice.randrange(tokens + 1)])
    written = dice.choice([0, dice.randrange(tokens - cached + 1)])
    output = dice.choice([0, 5, dice.randrange(1, 60_000)])
    reasoning = dice.choice([0, dice.randrange(output + 1)])
    kind, parts = dice.choice(["", "audio", "image", "video"]), dict[str, int]()
    if kind and dice.random() < 0.5:
        parts[f"output_{kind}"] = dice.randrange(output - reasoning + 1)
    elif kind:
        parts[f"cached_{kind}"] = dice.randrange(cached + 1)
        parts[f"input_{kind}"] = parts[f"cached_{kind}"] + dice.randrange(tokens - cached - written + 1)
    for name in ("searches", "file_searches"):
        parts[name] = dice.choice([0, 0, dice.randrange(9)])
    found = Usage(input=tokens, cached=cached, cache_write=written, output=output, reasoning=reasoning, parts=parts)
    return canonical(Usage(**{name: getattr(found, name) for name in found.__struct_fields__} | {"variant": variant}))


def their_usage(usage: Usage) -> dict[str, int]:
    counts = {
        "input_tokens": usage.input,
        "cache_read_tokens": usage.cached,
        "cache_write_tokens": usage.cache_write,
        "output_tokens": usage.output,
        "output_reasoning_tokens": usage.reasoning,
    }
    return counts | {THEIRS[name]: count for name, count in usage.parts.items()}


def their_costs(row: Any, usage: Usage, then: datetime) -> set[int]:
    """What the calculator says, in nano-dollars: for one of the selectors that a variant may have there."""
    from genai_prices.types import Usage as TheirUsage  # noqa: PLC0415 - slow, and not for every worker

    found = []
    for context in ({}, *CONTEXTS[usage.variant]):
        total = row.get_prices(then, context or None).calc_price(TheirUsage(**their_usage(usage)))["total_price"]
        found.append(int((total * DOLLAR).to_integral_value("ROUND_HALF_UP")))
    others = {one for one in found[1:] if one != found[0]}
    return others or {found[0]}


def models(dice: random.Random) -> Iterator[tuple[str, Any, Price]]:
    from genai_prices.data import providers  # noqa: PLC0415 - the same

    now = Millis(round(MONDAY.timestamp() * 1000))
    for vendor in providers:
        if vendor.id in VENDORS:
            priced = [(row, price) for row in vendor.models if (price := list_price(row.id, row, "list", now, row.id))]
            for row, price in dice.sample(priced, min(EACH, len(priced))):
                yield f"{vendor.id}/{row.id}", row, price


@pytest.mark.parametrize("seed", range(amount(1, 3)))
@pytest.mark.filterwarnings("ignore")
def test_costs_equal_those_of_the_lists_own_calculator(seed: int) -> None:
    dice = random.Random(seed)
    compared, vendors = 0, set[str]()
    for name, row, price in models(dice):
        for _ in range(4):
            variant = dice.choice(["", "", *CONTEXTS])
            usage = a_usage(dice, variant)
            then = MONDAY + timedelta(minutes=dice.randrange(5 * 24 * 60))
            at = rates(in_force(price, Millis(round(then.timestamp() * 1000))), usage.input, MILLION, variant)
            try:
                expected = their_costs(row, usage, then)
            except ValueError:
                continue  # it refuses some counts that overlap
            assert cost(usage, at) in {Nanos(one) for one in expected}, (name, usage, then)
            compared += 1
            vendors.add(name.partition("/")[0])
    assert compared > 500
    assert len(vendors) == len(VENDORS)
