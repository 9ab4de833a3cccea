"""Options of ``price set`` that say where and when a price holds."""

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.commands.price_set import with_rule
from gateway.domain.price import PriceHours, PriceRule, Tier
from gateway.domain.price_view import PriceView
from gateway.domain.units import DOLLAR, Millis, Nanos
from tests.commands.runner import run
from tests.commands.samples import CHANNEL, DETAIL, MODEL, PRICE

BLANK = {"since": 0, "during": [], "variant": "", "per_call": None, "tiers": [], "extras": {}}
BLANK |= dict.fromkeys(("cached_input", "cache_write", "cache_write_long"))
M = replace(DETAIL, name="m")


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--since", "2026-12-01"), {"since": 1_796_083_200_000}),
        (("--variant", "flex"), {"variant": "flex"}),
        (
            ("--during", "mon-fri 01:00-04:00 UTC"),
            {"during": [{"days": ["mon", "tue", "wed", "thu", "fri"], "start": 60, "end": 240, "zone": "UTC"}]},
        ),
    ],
)
def test_conditions_become_those_of_a_rule(options: tuple[str, ...], rule: dict[str, Any]) -> None:
    price = replace(PRICE, model="m")
    control = {"GET /models/m": M, "GET /prices": [price], "PUT /prices/m": price}
    control |= {"GET /models": [MODEL], "GET /channels": []}
    ran = run("price", "set", "m", "--input", "1", "--output", "2", *options, answers=control)
    (body,) = ran.bodies
    assert body["rules"] == [BLANK | {"input": 10**9, "output": 2 * 10**9} | rule]


@pytest.mark.parametrize(
    ("amounts", "said"),
    [
        (("--cached", "0.50", "--tier", "200k=2/4"), ""),
        (("--tier", "200k=2/4"), "note: the new rule does not have: --cached 0.10\n"),
        ((), "note: the new rule does not have: --cached 0.10 --tier 200k=2/4\n"),
    ],
)
def test_rates_that_a_rule_does_not_have_are_said(amounts: tuple[str, ...], said: str) -> None:
    tier = Tier(above=200_000, input=Nanos(2 * DOLLAR), output=Nanos(4 * DOLLAR))
    price = replace(PRICE, model="m", per_call=Nanos(5), cached_input=Nanos(DOLLAR // 10), tiers=(tier,))
    control = {"GET /models/m": M, "GET /prices": [price], "PUT /prices/m": price}
    control |= {"GET /models": [], "GET /channels": []}
    options = ("--since", "2027-01-01", "--input", "3", "--output", "9", *amounts)
    assert run("price", "set", "m", *options, answers=control).err.partition("\n")[2] == said


def test_a_rule_that_is_replaced_is_not_said_to_be_lost() -> None:
    rules = [PriceRule(input=Nanos(n * DOLLAR), output=Nanos(2 * DOLLAR), variant="flex") for n in (3, 1)]
    old, new = (replace(PRICE, model="m", cached_input=None, rules=(rule,)) for rule in rules)
    route = replace(M.routes[0], price=old)
    control = {"GET /models/m": replace(M, routes=[route]), "GET /prices": [old], "PUT /prices/m": new}
    control |= {"GET /models": [], "GET /channels": []}
    ran = run("price", "set", "m", "--variant", "flex", "--input", "1", "--output", "2", answers=control)
    assert ran.err == "Price of 'm': $2.50 / $10.00, 1 rule\n  flex = 1/2\n"


def _price(dollars: int, channel: str = "", source: str = "manual") -> PriceView:
    return replace(PRICE, model="m", input=Nanos(dollars * DOLLAR), channel=channel, source=source)


OWN, THEIRS = _price(7, "a"), _price(1, "a", "the list")


@pytest.mark.parametrize(
    ("charged", "prices", "place", "base"),
    [
        ({"a": 2}, [_price(2), THEIRS], "a", 2),  # the general price comes before an imported one
        ({"a": 7}, [_price(2), OWN], "a", 7),
        ({"a": 7, "b": 3}, [OWN, _price(3, "b", "the list")], "", 3),  # a's own price stays
        ({"a": 7}, [_price(2), OWN], "", 2),
        ({"a": 4}, [], "", 4),  # the price of the model that it stands for
        ({"a": 1, "b": 1}, [THEIRS], "", 1),
        ({"a": 1, "b": None}, [THEIRS], "", 1),
        ({"a": 1, "b": 3}, [THEIRS], "", "the channels a, b have different prices for 'm'; name one with --channel"),
        ({"a": None}, [], "", "'m' has no price yet; set the usual one first, without hours, day or variant"),
        ({"a": None}, [], "a", "'m' has no price yet; set the usual one first, without hours, day or variant"),
        ({"a": 7}, [OWN], "", "'m' has a price at a only; name it with --channel"),
        ({"b": 3}, [], "a", "channel 'a' does not offer the model 'm'"),
    ],
)
def test_a_rule_leaves_the_price_that_calls_have(
    charged: dict[str, int | None], prices: list[PriceView], place: str, base: int | str
) -> None:
    (route,) = M.routes
    routes = [
        replace(route, channel=name, price=None if amount is None else _price(amount))
        for name, amount in charged.items()
    ]
    control = {"GET /models/m": replace(M, routes=routes), "GET /prices": prices, "PUT /prices/m": OWN}
    control |= {"GET /models": [], "GET /channels": [], "GET /channels/a": replace(CHANNEL, name="a")}
    at = ("--channel", place) if place else ()
    ran = run("price", "set", "m", *at, "--since", "2027-01-01", "--input", "9", "--output", "9", answers=control)
    assert [body["input"] // DOLLAR for body in ran.bodies] == ([base] if isinstance(base, int) else [])
    assert isinstance(base, int) or ran.err == f"tollkeeper: {base}\n"


def test_the_prices_are_asked_for_once_whatever_the_number_of_models() -> None:
    names = ("m", "n", "o")
    prices = [replace(_price(2), model=name) for name in names]
    control: dict[str, Any] = {f"GET /models/{name}": replace(DETAIL, name=name, routes=[]) for name in names}
    control |= {"GET /prices": prices, "POST /batch": "3 prices", "GET /models": [], "GET /channels": []}
    ran = run("price", "set", *names, "--since", "2027-01-01", "--input", "9", "--output", "9", answers=control)
    asked = [request for request, _ in ran.asked]
    assert asked[: asked.index("POST /batch")].count("GET /prices") == 1


@pytest.mark.parametrize("options", [("--since", "soon"), ("--during", "noon"), ("--during", "01:00-02:00 Mars/Base")])
def test_what_cannot_be_read_is_a_usage_error(options: tuple[str, ...]) -> None:
    assert run("price", "set", "m", "--input", "1", "--output", "2", *options, answers={}).code == Exit.USAGE


def view(*rules: PriceRule) -> PriceView:
    price = replace(PRICE, model="m", input=Nanos(1), cached_input=None, output=Nanos(2), updated_ms=Millis(0))
    return replace(price, rules=rules)


def test_a_rule_is_added_to_the_price_there_is_and_replaces_its_like() -> None:
    flex, night = PriceRule(variant="flex", input=Nanos(3), output=Nanos(4)), PriceHours(start=0, end=60)
    present = view(flex, PriceRule(during=(night,), input=Nanos(5), output=Nanos(6)))
    body = with_rule(present, {"variant": "flex"}, {"input": 7, "output": 8})
    assert (body["input"], body["output"]) == (1, 2)
    assert [rule["input"] for rule in body["rules"]] == [5, 7]
    again = with_rule(present, {"during": (night,)}, {"input": 9, "output": 9})
    assert [rule["input"] for rule in again["rules"]] == [3, 9]


JANUARY, FEBRUARY, MARCH = 1_798_761_600_000, 1_801_440_000_000, 1_803_859_200_000
"""The beginnings of these months of 2027, in UTC."""


@pytest.mark.parametrize(
    ("present", "added", "order"),
    [
        ([MARCH], {"since": JANUARY}, ["new", MARCH]),
        ([JANUARY, MARCH], {"since": FEBRUARY}, [JANUARY, "new", MARCH]),
        ([JANUARY, MARCH], {"since": JANUARY}, ["new", MARCH]),
        ([JANUARY], {"since": MARCH}, [JANUARY, "new"]),
        ([JANUARY], {"during": (PriceHours(start=0, end=60),)}, [JANUARY, "new"]),
        ([JANUARY], {"variant": "flex"}, [JANUARY, "new"]),
    ],
)
def test_a_price_from_a_day_on_leaves_the_prices_of_later_days_alone(
    present: list[int], added: dict[str, Any], order: list[Any]
) -> None:
    rules = [PriceRule(since=Millis(day), input=Nanos(day), output=Nanos(0)) for day in present]
    body = with_rule(view(*rules), added, {"input": 7, "output": 8})
    assert ["new" if rule["input"] == 7 else rule["since"] for rule in body["rules"]] == order


def test_a_rule_is_shown_with_its_conditions() -> None:
    peak = PriceHours(days=("mon", "tue", "wed", "thu", "fri"), start=60, end=240)
    rule = PriceRule(
        since=Millis(1_796_083_200_000), during=(peak,), input=Nanos(DOLLAR // 2), output=Nanos(2 * DOLLAR)
    )
    shown = run("price", "show", "m", answers={"GET /models/m": replace(DETAIL, price=view(rule))}).out
    assert "\nand               from 2026-12-01, mon-fri 01:00-04:00 UTC = 0.50/2\n" in shown
