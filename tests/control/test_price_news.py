"""What the owner hears about prices before a bill does."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.client.control import ControlClient
from gateway.control.prices import price_hints, price_news
from gateway.control.vendor_prices import load_price_list
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.price import Price, PriceHours, PriceRule, UpstreamPrices, as_rule
from gateway.domain.price_view import PriceNews, PublishedPrice, news_lines
from gateway.domain.units import DOLLAR, ChannelId, Millis, Nanos
from tests.core.kit import registry
from tests.fakes.gateway import Gateway


def at(text: str) -> Millis:
    return Millis(round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000))


NOW = at("2026-11-27")
GOOGLE = "https://generativelanguage.googleapis.com/v1beta/openai"


def channel(*models: ServedModel, url: str = GOOGLE) -> Channel:
    return Channel(id=ChannelId("c"), name="c", dialect=Dialect.OPENAI, base_url=url, models=models)


def price(model: str, first: float, second: float, **more: object) -> Price:
    known = Price(model=model, input=Nanos(round(first * DOLLAR)), output=Nanos(round(second * DOLLAR)))
    return replace(known, **{"source": "an older list", **more})


async def news(one: Channel, *prices: Price, now: Millis = NOW) -> PriceNews:
    known = replace(registry(), channels={one.id: one}, prices={price.model: price for price in prices})
    return price_news(known, load_price_list(now))


async def test_what_an_import_would_change_is_counted() -> None:
    one = channel(*(ServedModel(name=name) for name in ("gemini-2.5-flash", "gemini-3.5-flash", "gemini-2.5-pro")))
    found = await news(one, price("gemini-2.5-flash", 0.1, 1), price("gemini-3.5-flash", 9, 90))
    assert (found.raised, found.lowered, found.added) == (1, 1, 1)


async def test_a_price_of_the_owner_is_not_counted() -> None:
    found = await news(channel(ServedModel(name="gemini-2.5-flash")), price("gemini-2.5-flash", 9, 9, source="manual"))
    assert (found.raised, found.lowered, found.added) == (0, 0, 0)


async def test_a_rise_is_known_before_its_day() -> None:
    one = channel(ServedModel(name="gemini-4-argon"))
    listed = load_price_list(NOW).find(one, one.models[0])
    assert listed is not None
    (rise,) = (await news(one, listed)).rises
    assert (rise.model, rise.day, rise.input_nanos, rise.next_input_nanos) == (
        "gemini-4-argon",
        "2026-12-01",
        2 * DOLLAR,
        4 * DOLLAR,
    )
    assert (await news(one, listed, now=at("2026-12-01"))).rises == []


async def test_a_rise_that_a_later_rule_has_ended_is_no_news() -> None:
    one = channel(ServedModel(name="m"))
    coming = PriceRule(since=at("2027-01-01"), input=Nanos(9), output=Nanos(9))
    present = PriceRule(since=at("2026-01-01"), input=Nanos(2), output=Nanos(2))
    found = [
        [(rise.day, rise.input_nanos) for rise in (await news(one, replace(price("m", 1, 1), rules=rules))).rises]
        for rules in ((present, coming), (coming, present))
    ]
    assert found == [[("2027-01-01", 2)], []]


@pytest.mark.parametrize(
    ("rates", "conditions", "rises"),
    [
        ((9, 1), {}, 1),
        ((1, 9), {}, 1),
        ((1, 1), {}, 0),
        ((5, 5), {}, 0),  # as now
        ((9, 9), {"variant": "batch"}, 0),
        ((9, 9), {"during": (PriceHours(days=("mon",), start=0, end=60),)}, 0),
    ],
)
async def test_a_coming_price_is_a_rise_if_every_call_may_cost_more(
    rates: tuple[int, int], conditions: dict[str, Any], rises: int
) -> None:
    coming = PriceRule(since=at("2027-01-01"), input=Nanos(rates[0]), output=Nanos(rates[1]), **conditions)
    known = Price(model="m", input=Nanos(5), output=Nanos(5), rules=(coming,))
    assert len((await news(channel(ServedModel(name="m")), known)).rises) == rises


async def test_an_import_is_compared_with_the_price_in_force() -> None:
    one = channel(ServedModel(name="gemini-2.5-flash"))
    listed = load_price_list(NOW).find(one, one.models[0])
    assert listed is not None
    rules = (as_rule(listed, since=at("2026-11-01")), *listed.rules)
    dated = replace(price("gemini-2.5-flash", 9, 9), rules=rules)
    before, after = await news(one, dated, now=at("2026-10-31")), await news(one, dated)
    assert [(found.raised, found.lowered) for found in (before, after)] == [(0, 1), (0, 0)]


async def test_a_published_price_is_compared_with_the_price_in_force() -> None:
    theirs = UpstreamPrices(input=Nanos(DOLLAR), output=Nanos(2 * DOLLAR))
    one = channel(ServedModel(name="m", published=theirs), url="http://127.0.0.1:9/v1")
    rule = PriceRule(since=at("2026-11-01"), input=theirs.input, output=theirs.output)
    dated = replace(price("m", 9, 9), rules=(rule,))
    found = [len((await news(one, dated, now=at(day))).published) for day in ("2026-10-31", "2026-11-27")]
    assert found == [1, 0]


@pytest.mark.parametrize(("published", "reported"), [(1.04, False), (1.06, True), (0.94, True), (1.0, False)])
async def test_a_published_price_a_twentieth_apart_is_news(published: float, reported: bool) -> None:
    theirs = UpstreamPrices(input=Nanos(round(published * DOLLAR)), output=Nanos(2 * DOLLAR))
    one = channel(ServedModel(name="m", published=theirs), url="http://127.0.0.1:9/v1")
    found = (await news(one, price("m", 1, 2))).published
    row = PublishedPrice(
        model="m",
        channel="c",
        input_nanos=Nanos(DOLLAR),
        output_nanos=Nanos(2 * DOLLAR),
        published_input_nanos=theirs.input,
        published_output_nanos=theirs.output,
    )
    assert found == ([row] if reported else [])


async def test_a_name_without_a_price_has_a_hint() -> None:
    one = channel(ServedModel(name="mistral-large-latest"), url="https://api.mistral.ai/v1")
    (hint,) = price_hints(replace(registry(), channels={one.id: one}), load_price_list(NOW))
    assert (hint.model, hint.channel) == ("mistral-large-latest", "c")
    assert "older model of that name" in hint.text


@pytest.mark.parametrize(
    ("dialect", "prices"),
    [(Dialect.MOCK, {}), (Dialect.OPENAI, {"mistral-large-latest": price("mistral-large-latest", 1, 2)})],
)
async def test_a_model_with_a_price_and_one_that_costs_nothing_need_no_hint(
    dialect: Dialect, prices: dict[str, Price]
) -> None:
    one = channel(ServedModel(name="mistral-large-latest"), url="https://api.mistral.ai/v1")
    known = replace(registry(), channels={one.id: replace(one, dialect=dialect)}, prices=prices)
    assert price_hints(known, load_price_list(NOW)) == []


async def test_a_list_grows_old() -> None:
    found = [await news(channel(), now=at(day)) for day in ("2026-11-27", "2027-06-01")]
    assert [one.stale for one in found] == [False, True]
    assert found[0].as_of == found[1].as_of > "2026-09-01"


def test_each_piece_of_news_is_a_line() -> None:
    published = PublishedPrice(
        model="m",
        channel="router",
        input_nanos=Nanos(105_000_000),
        output_nanos=Nanos(210_000_000),
        published_input_nanos=Nanos(300_000_000),
        published_output_nanos=Nanos(1_200_000_000),
    )
    found = PriceNews(as_of="2026-11-03", stale=True, raised=2, added=1, published=[published])
    assert news_lines(found) == [
        "the price list of 2026-11-03 is old; a newer tollkeeper has a newer one",
        "an import would raise 2 prices, add 1 price: 'tollkeeper price import --dry-run' shows them",
        "channel 'router' publishes $0.30 / $1.20 for 'm'; in use is $0.105 / $0.21",
    ]


async def test_the_news_are_those_of_the_configuration(owner: ControlClient, gateway: Gateway) -> None:
    assert (await owner.price_news()).added == 0
    gateway.channel("https://api.openai.com/v1", "gpt-4.1", name="openai")
    assert (await owner.price_news()).added == 1


async def test_hints_are_given_on_request_only(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("https://api.openai.com/v1", "gpt-4.1-minni", name="openai")
    assert [(await owner.price_news(hints=hints)).hints != [] for hints in (False, True, False)] == [False, True, False]
