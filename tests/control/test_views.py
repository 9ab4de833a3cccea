import pytest

from gateway.client.control import ControlClient
from gateway.control.usage import tallies
from gateway.control.views import channel_view, entity_views, group_view, price_view, token_view
from gateway.domain.budget import Budget, Window
from gateway.domain.call import Running
from gateway.domain.order import LearnedRefusals
from gateway.domain.price import Price, PriceRule, Tier
from gateway.domain.units import DAY_MS, CallId, Millis, Nanos
from gateway.domain.views import running_view
from tests.fakes.gateway import Gateway


def test_lists_are_in_the_order_of_names(gateway: Gateway) -> None:
    for name in ("b", "c", "a"):
        gateway.group(name)
        gateway.token(name)
    assert [view.name for view in entity_views(gateway.engine, "groups", {})] == ["a", "b", "c", "default"]
    assert [view.name for view in entity_views(gateway.engine, "tokens", {})] == ["a", "b", "c", "laptop"]


def test_a_token_s_budgets_say_when_they_start_over(gateway: Gateway) -> None:
    gateway.token("x", budgets=(Budget(window=Window.EVER, nanos=Nanos(5)), Budget(window=Window.MONTH, tokens=7)))
    ever, month = token_view(gateway.engine, gateway.engine.catalog.token("x")).budgets
    assert (ever.nanos, ever.tokens, ever.resets_at_ms) == (5, None, None)
    assert (month.nanos, month.tokens) == (None, 7)
    assert month.resets_at_ms is not None
    assert month.resets_at_ms > gateway.engine.now()


def test_a_group_lists_its_channels_in_routing_order(gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", name="zzz", priority=1)
    assert group_view(gateway.engine, gateway.engine.catalog.group("default")).channels == ["zzz", "up"]


async def test_one_channel_is_seen_as_in_the_list(gateway: Gateway) -> None:
    engine, sums = gateway.engine, await tallies(gateway.engine)
    assert [channel_view(engine, engine.catalog.channel("up"), sums)] == entity_views(engine, "channels", sums)


async def test_a_channel_lists_the_fields_that_its_upstream_refused_until_they_are_forgotten(gateway: Gateway) -> None:
    engine = gateway.engine
    channel = gateway.channel("http://127.0.0.1:9/v1", "m", "n", name="strict")
    until = Millis(engine.now() + 60_000)
    for model, dropped in (("m", ("user", "stream_options")), ("n", ("user", "stream=true"))):
        engine.learned.refusals[channel.id, model] = (LearnedRefusals(dropped=dropped), until)
    assert channel_view(engine, channel, await tallies(engine)).refused_params == ("stream_options", "user")
    for model in ("m", "n"):
        engine.learned.refusals[channel.id, model] = (LearnedRefusals(dropped=("user",)), Millis(0))
    assert channel_view(engine, channel, await tallies(engine)).refused_params == ()


async def test_the_context_of_the_price_list_is_the_same_in_every_view(owner: ControlClient, gateway: Gateway) -> None:
    gateway.price("m", context=128_000)
    listed, shown = (await owner.models())[0], await owner.model("m")
    assert (listed.context, shown.context, [route.context for route in shown.routes]) == (128_000, 128_000, [128_000])
    (price,) = await owner.prices()
    sources = {listed.context_source, shown.context_source, *(route.context_source for route in shown.routes)}
    assert (price.context, sources) == (128_000, {price.source})
    assert (await gateway.client.get("/v1/models")).json["data"][0]["context_length"] == 128_000


@pytest.mark.parametrize(
    ("as_of", "day", "stale"), [(0, 900, False), (40, 130, False), (40, 131, True)], ids=["own", "90 days", "91 days"]
)
def test_a_price_of_an_old_list_is_stale(as_of: int, day: int, stale: bool) -> None:
    price = Price(model="m", input=Nanos(1), output=Nanos(2), as_of=Millis(as_of * DAY_MS))
    assert price_view(price, Millis(day * DAY_MS)).stale is stale


def test_a_price_from_a_day_on_is_shown_as_the_price_once_it_has_come() -> None:
    january, february = Millis(31 * DAY_MS), Millis(59 * DAY_MS)
    rise = PriceRule(
        since=january, input=Nanos(3), output=Nanos(4), tiers=(Tier(above=9, input=Nanos(5), output=Nanos(6)),)
    )
    price = Price(model="m", input=Nanos(1), output=Nanos(2), rules=(rise,))
    before, after = price_view(price, Millis(january - 1)), price_view(price, february)
    assert (before.input, before.output, before.tier_count, before.rules) == (1, 2, 0, (rise,))
    assert (after.input, after.output, after.tier_count, after.rules) == (3, 4, 1, ())


def test_a_price_without_a_cache_price_says_none() -> None:
    view = price_view(Price(model="m", input=Nanos(1), output=Nanos(2)), Millis(0))
    assert (view.cached_input, view.cache_write, view.free) == (None, None, False)


def test_a_running_call_speaks_the_words_of_a_settled_one() -> None:
    call = Running(id=CallId("req_1"), ts=Millis(1000), token_name="laptop", model="m", output=5, cost=Nanos(7))
    view = running_view(call, Millis(1250))
    assert (view.state, view.duration_ms, view.output_tokens, view.cost_nanos) == ("running", 250, 5, 7)
    assert view.time == "1970-01-01T00:00:01.000Z"


def test_a_clock_set_back_makes_no_negative_duration() -> None:
    assert running_view(Running(id=CallId("req_1"), ts=Millis(1000)), Millis(900)).duration_ms == 0
