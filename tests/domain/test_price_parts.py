"""Each token is charged once, at the rate of what it is; no call costs more than was held for it."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from gateway.domain.cost import CallExtras, cost, counts_billed, highest_cost
from gateway.domain.price import Price, PriceRule, Tier, in_force, rates
from gateway.domain.units import DOLLAR, MILLION, Millis, Nanos
from gateway.domain.usage import Usage, canonical

TOKEN_PARTS = (
    *("input_audio", "input_image", "input_video", "cached_audio", "cached_image", "cached_video"),
    *("cache_write_12h", "output_audio", "output_image", "output_video", "citations"),
)
OTHERS = ("other_input", "other_cached", "other_write", "other_write_long", "other_output")
PARTS = (*TOKEN_PARTS, "searches", "file_searches")
COUNTS = st.integers(0, 80)
USAGES = st.builds(
    Usage,
    input=COUNTS,
    cached=COUNTS,
    cache_write=COUNTS,
    cache_write_long=COUNTS,
    output=COUNTS,
    reasoning=COUNTS,
    parts=st.dictionaries(st.sampled_from([*PARTS, *OTHERS]), COUNTS),
    variant=st.sampled_from(["", "flex", "priority"]),
).map(canonical)
SUMS = st.integers(0, 10**13).map(Nanos)
OPTIONAL = st.none() | SUMS
EXTRAS = st.dictionaries(st.sampled_from([*PARTS, "reasoning"]), SUMS, max_size=6)
TIERS = st.lists(
    st.builds(Tier, above=st.integers(0, 60), input=SUMS, output=SUMS, cached_input=OPTIONAL, extras=EXTRAS), max_size=3
).map(tuple)
RULES = st.lists(
    st.builds(
        PriceRule,
        since=st.integers(0, 100).map(Millis),
        variant=st.sampled_from(["", "flex", "priority"]),
        input=SUMS,
        output=SUMS,
        per_call=OPTIONAL,
        cache_write_long=OPTIONAL,
        tiers=TIERS,
        extras=EXTRAS,
    ),
    max_size=4,
).map(tuple)
PRICES = st.builds(
    Price,
    model=st.just("m"),
    input=SUMS,
    output=SUMS,
    cached_input=OPTIONAL,
    cache_write=OPTIONAL,
    cache_write_long=OPTIONAL,
    per_call=SUMS,
    extras=EXTRAS,
    tiers=TIERS,
    rules=RULES,
)


@given(PRICES, USAGES, st.integers(0, 100), COUNTS, COUNTS)
def test_no_call_costs_more_than_its_bound(price: Price, usage: Usage, now: int, more: int, longer: int) -> None:
    price = in_force(price, Millis(now))
    searches = usage.parts.get("searches", 0) + usage.parts.get("file_searches", 0)
    pictures = usage.parts.get("images", 0)
    extras = CallExtras(True, True, searches, pictures, ("flex", "priority"))
    most = highest_cost(price, usage.input + more, usage.output + longer, 1_500_001, extras)
    assert cost(usage, rates(price, usage.input, 1_500_001, usage.variant)) <= most


@given(USAGES, st.sets(st.sampled_from([*TOKEN_PARTS, *OTHERS, "reasoning"])))
def test_where_every_token_costs_the_same_all_tokens_cost_that_once(usage: Usage, own: set[str]) -> None:
    price = Price(
        model="m",
        input=Nanos(7 * MILLION),
        output=Nanos(7 * MILLION),
        extras={name: Nanos(7 * MILLION) for name in own},
    )
    assert cost(usage, rates(price, usage.input, MILLION)) == 7 * (usage.input + usage.output)


@given(USAGES, st.sampled_from([*TOKEN_PARTS, *OTHERS]))
def test_a_part_with_a_rate_of_its_own_costs_that_instead_of_the_usual_one(usage: Usage, name: str) -> None:
    usual = Price(model="m", input=Nanos(MILLION), output=Nanos(MILLION))
    price = Price(model="m", input=Nanos(MILLION), output=Nanos(MILLION), extras={name: Nanos(5 * MILLION)})
    count = usage.parts.get(name, 0)
    more = cost(usage, rates(price, usage.input, MILLION)) - cost(usage, rates(usual, usage.input, MILLION))
    assert more == 4 * count


def dollars(amount: str) -> Nanos:
    whole, _, rest = amount.partition(".")
    return Nanos(int(whole) * DOLLAR + int(rest.ljust(9, "0") or 0))


def priced(first: str, second: str, more: dict[str, str] | None = None, **extras: str) -> Price:
    """Amounts in dollars; ``more``: those that have fields of their own."""
    fields: dict[str, Any] = {name: dollars(amount) for name, amount in (more or {}).items()}
    parts = {name: dollars(amount) for name, amount in extras.items()}
    return Price(model="m", input=dollars(first), output=dollars(second), extras=parts, **fields)


@pytest.mark.parametrize(
    ("price", "usage", "nanos"),
    [
        (  # an image of Gemini's: 100 x 0.30 + 1,290 x 30
            priced("0.3", "2.5", output_image="30"),
            Usage(input=100, output=1290, parts={"output_image": 1290}),
            38_730_000,
        ),
        (  # OpenAI's gpt-audio: 1,000 x 2.50 + 9,000 x 32 + 100 x 10 + 400 x 64
            priced("2.5", "10", input_audio="32", output_audio="64"),
            Usage(input=10_000, output=500, parts={"input_audio": 9_000, "output_audio": 400}),
            317_100_000,
        ),
        (  # sound from Gemini's cache: 200 x 0.30 + 300 x 1 + 400 x 0.03 + 100 x 0.10
            priced("0.3", "2.5", {"cached_input": "0.03"}, input_audio="1", cached_audio="0.1"),
            Usage(input=1000, cached=500, parts={"input_audio": 400, "cached_audio": 100}),
            382_000,
        ),
        (  # Perplexity's deep research: 40 x 2 + 900 x 8 + 500 x 3 + 300 x 2 millionths, 7 searches at 0.005
            priced("2", "8", reasoning="3", citations="2", searches="0.005"),
            Usage(input=40, output=1700, reasoning=500, parts={"citations": 300, "searches": 7}),
            44_380_000,
        ),
        (  # cache writes kept for 5 minutes, an hour and 12 hours: 10 x 1.25 + 20 x 2 + 30 x 4
            priced("1", "1", {"cache_write": "1.25", "cache_write_long": "2"}, cache_write_12h="4"),
            Usage(input=60, cache_write=60, cache_write_long=50, parts={"cache_write_12h": 30}),
            172_500,
        ),
    ],
)
def test_vendors_worked_examples_cost_what_they_say(price: Price, usage: Usage, nanos: int) -> None:
    assert cost(canonical(usage), rates(price, usage.input, MILLION)) == nanos


def test_a_cached_part_without_a_rate_costs_that_of_its_kind() -> None:
    """A discount is never guessed."""
    price = Price(
        model="m",
        input=Nanos(MILLION),
        output=Nanos(0),
        cached_input=Nanos(0),
        extras={"input_audio": Nanos(9 * MILLION)},
    )
    usage = Usage(input=10, cached=10, parts={"input_audio": 10, "cached_audio": 10})
    assert cost(usage, rates(price, 10, MILLION)) == 90


def test_text_is_not_held_for_as_if_it_were_sound() -> None:
    price = Price(model="m", input=Nanos(MILLION), output=Nanos(0), extras={"input_audio": Nanos(9 * MILLION)})
    assert highest_cost(price, 10, 0, MILLION) == 10
    assert highest_cost(price, 10, 0, MILLION, CallExtras(media=True)) == 90


@given(PRICES, USAGES)
def test_a_receipt_adds_up_to_the_cost(price: Price, usage: Usage) -> None:
    at = rates(price, usage.input, MILLION)
    searches = ("searches", "file_searches")
    micro = sum(count * rate * (MILLION if name in searches else 1) for count, name, rate in counts_billed(usage, at))
    assert cost(usage, at) == (micro + at.per_call * MILLION + MILLION // 2) // MILLION
    assert all(count > 0 for count, _, _ in counts_billed(usage, at))
