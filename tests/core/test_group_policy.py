"""A group's policy decides which channel is tried first, and equal ones are in the order of their priority.

Long: the four policies and the fallback models share one table of groups, channels and prices.
"""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.channel_health import ChannelHealth
from gateway.core.group_policy import fallback_models, is_local
from gateway.core.model_entry import ModelEntry
from gateway.core.retry import may_answer
from gateway.core.routing import RouteChoice, choose
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.errors import NoChannel, NotFound
from gateway.domain.group import Fallback, Group, Policy
from gateway.domain.limits import Limits
from gateway.domain.price import Price, UpstreamPrices
from gateway.domain.settings import Settings
from gateway.domain.units import DOLLAR, MILLION, ChannelId, Millis, Nanos
from tests.core.clocks import Mono
from tests.core.ends import FakeReply, event, too_slow, unreachable
from tests.core.kit import catalog, channel, token
from tests.core.rig import Rig
from tests.core.test_attempts import failure, good, good_stream, status
from tests.fakes.failures import failed

NEAR = "http://127.0.0.1:11434/v1"


class House:
    """Channels of one group that all serve the model ``m``."""

    def __init__(self, policy: Policy, *channels: Channel, prices: tuple[Price, ...] = ()) -> None:
        self.busy: dict[str, int] = {}
        self.health = ChannelHealth(Mono(), lambda: None, lambda channel: self.busy.get(channel, 0))
        self.routes = (
            catalog(*channels, groups=(Group(name="home", policy=policy),), prices=prices)
            .group_models("home")["m"]
            .routes
        )

    @property
    def order(self) -> list[str]:
        return [route.channel.name for route in self.routes]

    def choose(self, draw: int = 0) -> RouteChoice:
        return choose(self.routes, frozenset(), self.health, lambda n: min(draw, n - 1))

    @property
    def first(self) -> str:
        route = self.choose().route
        assert route is not None
        return route.channel.name


def up(name: str, *models: str, **fields: Any) -> Channel:
    return channel(name, *models, **{"groups": ("home",), **fields})


def price(model: str, dollars: float) -> Price:
    return Price(model=model, input=Nanos(round(dollars * DOLLAR)), output=Nanos(round(dollars * DOLLAR)))


def test_by_priority_the_highest_is_first() -> None:
    house = House(Policy.PRIORITY, up("a", priority=1), up("b", priority=5), up("c", priority=5))
    assert house.order == ["b", "c", "a"]
    assert house.choose().reason == "priority 5, drawn from 2"


def test_the_cheapest_is_by_the_price_of_the_upstream_s_own_model() -> None:
    house = House(
        Policy.CHEAPEST,
        up("dear", "m=big", priority=9),
        up("cheap", "m=small"),
        up("unknown", "m=odd", priority=9),
        up("near", "m=free", base_url=NEAR),
        prices=(price("big", 5), price("small", 1)),
    )
    assert house.order == ["near", "cheap", "dear", "unknown"]
    assert house.choose().reason == "about $0.00 a million tokens, priority 0"


def test_a_channel_may_ask_less_than_the_price() -> None:
    house = House(
        Policy.CHEAPEST, up("full", priority=1), up("half", cost_factor=MILLION // 2), prices=(price("m", 2),)
    )
    assert house.order == ["half", "full"]


def test_an_upstream_s_report_of_its_price_goes_first() -> None:
    published = ServedModel(name="m", published=UpstreamPrices(input=Nanos(DOLLAR), output=Nanos(DOLLAR)))
    prices = (price("m", 2),)
    assert House(Policy.CHEAPEST, up("a"), replace(up("b"), models=(published,)), prices=prices).order == ["b", "a"]


@pytest.mark.parametrize(
    ("source", "order"), [("manual", ["own", "b"]), ("like gpt", ["own", "b"]), ("list", ["b", "own"])]
)
def test_a_price_that_the_owner_set_for_a_channel_goes_before_what_its_upstream_publishes(
    source: str, order: list[str]
) -> None:
    free = Price(model="m", input=Nanos(0), output=Nanos(0), source=source)
    published = UpstreamPrices(input=Nanos(3 * DOLLAR), output=Nanos(3 * DOLLAR))
    own = up("own", models=(ServedModel(name="m", price=free, published=published),))
    assert House(Policy.CHEAPEST, own, up("b"), prices=(price("m", 2),)).order == order


def test_equal_prices_go_by_priority_and_weight() -> None:
    house = House(Policy.CHEAPEST, up("a"), up("b", priority=1), up("c", priority=1), prices=(price("m", 2),))
    assert house.order == ["b", "c", "a"]
    assert {house.choose(draw).route.channel.name for draw in (0, 1)} == {"b", "c"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"base_url": NEAR}, True),
        ({"base_url": "https://api.openai.com/v1"}, False),
        ({"base_url": "", "dialect": Dialect.MOCK}, True),
    ],
)
def test_local_is_this_machine_and_this_network(fields: dict[str, Any], expected: bool) -> None:
    assert is_local(up("x", **fields)) == expected


def test_local_servers_are_first_while_they_are_not_busy() -> None:
    house = House(Policy.LOCAL, up("far", priority=9), up("near", base_url=NEAR))
    assert (house.order, house.first) == (["near", "far"], "near")
    house.busy = {"ch_near": 1}
    assert house.first == "far"
    assert [(one.channel, one.rule) for one in house.choose().skipped] == [("near", "busy")]


def test_a_busy_local_server_is_better_than_a_paused_one() -> None:
    house = House(Policy.LOCAL, up("far", priority=9), up("near", base_url=NEAR))
    house.busy = {"ch_near": 3}
    house.health.note_failure(ChannelId("ch_far"), FailureKind.RATE, "429", 30)
    assert (house.first, house.choose().paused) == ("near", False)


def test_a_limit_of_its_own_says_when_a_local_server_is_busy() -> None:
    house = House(Policy.LOCAL, up("near", base_url=NEAR, limits=Limits(concurrent=4)))
    assert house.routes[0].rank.busy_from == 0


def test_far_channels_are_never_busy() -> None:
    house = House(Policy.LOCAL, up("far"))
    house.busy = {"ch_far": 99}
    assert house.choose().skipped == ()


def test_the_fastest_is_first_and_what_is_not_measured_is_tried() -> None:
    house = House(Policy.FASTEST, up("a", priority=9), up("b"))
    pace = house.health.latency
    pace.note(ChannelId("ch_a"), "m", first_s=1.0, whole_s=3.0, tokens=100)
    assert (house.first, house.choose().reason) == ("b", "fastest, not measured recently")
    pace.note(ChannelId("ch_b"), "m", first_s=0.1, whole_s=1.1, tokens=100)
    assert house.first == "b"
    for _ in range(9):
        pace.note(ChannelId("ch_b"), "m", first_s=9.0, whole_s=19.0, tokens=100)
    assert (house.first, house.choose().reason) == ("a", "fastest, 200 tokens in 5.0 s")


def test_channels_of_about_the_same_speed_share_the_calls() -> None:
    house = House(Policy.FASTEST, up("a"), up("b"))
    for name, seconds in (("a", 1.0), ("b", 1.05)):
        house.health.latency.note(ChannelId(f"ch_{name}"), "m", first_s=None, whole_s=seconds, tokens=100)
    assert {house.choose(draw).route.channel.name for draw in (0, 1)} == {"a", "b"}  # type: ignore[union-attr]


async def test_answers_are_measured_where_the_fastest_is_wanted(rig: Rig, stream: bool) -> None:
    for policy in (Policy.PRIORITY, Policy.FASTEST):
        rig.put("groups", "home", Group(name="home", policy=policy))
        made = rig.channel("a")
        rig.upstreams.on("a", good_stream if stream else good)
        assert rig.health.latency.expected_s(made.id, "m") is None
        await rig.call(stream=stream)
        assert (rig.health.latency.expected_s(made.id, "m") is None) == (policy is Policy.PRIORITY)


RULES = (Fallback(model="m", to=("n", "o")), Fallback(model="gpt-*", to=("m",)), Fallback(model="*", to=("m", "n")))


def with_context(context: int | None) -> ModelEntry:
    return ModelEntry(name="m", created=Millis(0), owner="a", context=context, routes=())


def fallback_price(model: str, input: int, output: int) -> Price:
    return Price(model=model, input=Nanos(input * DOLLAR), output=Nanos(output * DOLLAR))


def home(rig: Rig, *fallbacks: Fallback) -> None:
    rig.put("groups", "home", Group(name="home", fallbacks=fallbacks))


def pair(rig: Rig, *first: Any) -> None:
    """Channel a serves m and behaves so, channel b serves n well; n may answer for m at twice the price."""
    home(rig, Fallback(model="m", to=("n",)))
    rig.channel("a", "m")
    rig.upstreams.on("a", *first)
    rig.channel("b", "n=upstream-n", answer=good)
    rig.put("prices", "n", fallback_price("n", 5, 20))


@pytest.mark.parametrize(
    ("model", "expected"), [("m", ("n", "o")), ("gpt-4", ("m",)), ("x", ("m", "n")), ("n", ("m",))]
)
def test_the_first_rule_that_fits_counts_and_no_model_replaces_itself(model: str, expected: tuple[str, ...]) -> None:
    assert fallback_models(model, RULES) == expected
    assert fallback_models(model, ()) == ()


@pytest.mark.parametrize(
    ("code", "contexts", "expected"),
    [
        ("context_length_exceeded", (8, 128), True),
        ("context_length_exceeded", (None, 128), True),
        ("context_length_exceeded", (8, 8), False),
        ("context_length_exceeded", (8, None), False),
        ("content_filter", (8, 128), False),
        ("bad_value", (8, 128), False),
    ],
)
def test_a_request_at_fault_goes_nowhere_else_unless_it_is_too_long(
    code: str, contexts: tuple[int | None, int | None], expected: bool
) -> None:
    found = failed(400, code, "no")
    found.kind = FailureKind.CLIENT
    assert may_answer(found, *map(with_context, contexts)) == expected


def names_of(entry: ModelEntry) -> list[str]:
    return [other.name for other in entry.fallbacks]


def test_only_visible_and_priced_models_are_fallbacks() -> None:
    group = Group(name="home", fallbacks=(Fallback(model="m", to=("n", "nobody", "o")),))
    made = channel("a", "m", "n", "o", groups=("home",))
    found = catalog(made, groups=(group,))
    assert names_of(found.group_models("home")["m"]) == ["n", "o"]
    assert names_of(found.group_models("home")["n"]) == []
    assert names_of(found.visible(token(models=("m", "o")))["m"]) == ["o"]
    strict = catalog(
        made,
        groups=(group,),
        prices=(fallback_price("m", 1, 1), fallback_price("o", 1, 1)),
        settings=Settings(refuse_unpriced=True),
    )
    assert names_of(strict.group_models("home")["m"]) == ["o"]


async def test_another_model_answers_and_says_so(rig: Rig) -> None:
    pair(rig, status(401))
    answer = await rig.call()
    assert rig.upstreams.order == ["a", "b"]
    assert json.loads(answer.body)["model"] == "n"
    assert json.loads(rig.upstreams.asked[1][1].body)["model"] == "upstream-n"
    assert answer.headers["x-gateway-model"] == "upstream-n"
    assert answer.headers["x-gateway-route"] == "fallback for m, priority 0"
    record = rig.record
    assert (record.model, record.upstream_model, record.marks) == ("m", "upstream-n", ("fallback=n",))
    assert [attempt.model for attempt in record.attempts] == ["", "n"]


async def test_it_is_charged_at_its_own_price_and_was_held_for(rig: Rig) -> None:
    pair(rig, status(401))
    await rig.call(max_tokens=100)
    record = rig.record
    assert record.cost == 9 * 5_000 + 12 * 20_000
    assert record.held >= 100 * 20_000


async def test_if_the_requested_model_answers_it_is_charged_at_its_price(rig: Rig) -> None:
    pair(rig, good)
    answer = await rig.call(max_tokens=100)
    assert rig.record.cost == 9 * 2_500 + 12 * 10_000
    assert (json.loads(answer.body)["model"], rig.record.marks) == ("m", ())


async def test_a_stream_carries_the_name_of_the_model_that_answers(rig: Rig) -> None:
    pair(rig, status(401))
    rig.upstreams.on("b", good_stream)
    await rig.call(stream=True)
    models = {
        json.loads(line[6:])["model"] for line in rig.client.body.decode().split("\n") if line.startswith("data: {")
    }
    assert models == {"n"}


async def test_the_only_channel_is_tried_twice_before_another_model(rig: Rig) -> None:
    pair(rig, status(500))
    await rig.call()
    assert (rig.upstreams.order, rig.watch.slept) == (["a", "a", "b"], [0.5])


async def test_what_kept_silent_is_not_asked_twice(rig: Rig) -> None:
    pair(rig, status(500))
    made = rig.channel("a", "m")
    rig.upstreams.on("a", lambda: too_slow(made))
    await rig.call()
    assert rig.upstreams.order == ["a", "b"]


async def test_a_model_whose_channels_rest_is_not_asked_while_another_can_answer(rig: Rig) -> None:
    pair(rig, good)
    rig.health.note_failure(ChannelId("ch_a"), FailureKind.RATE, "429", 60)
    answer = await rig.call()
    assert (rig.upstreams.order, rig.record.cost) == (["b"], 9 * 5_000 + 12 * 20_000)
    assert answer.headers["x-gateway-route"] == "fallback for m, priority 0"


async def test_if_all_are_paused_the_requested_model_is_the_last_resort(rig: Rig) -> None:
    pair(rig, good)
    for name, seconds in (("ch_a", 60), ("ch_b", 5)):
        rig.health.note_failure(ChannelId(name), FailureKind.RATE, "429", seconds)
    assert json.loads((await rig.call()).body)["model"] == "m"


async def test_another_model_comes_before_a_paused_channel_and_that_before_nothing(rig: Rig) -> None:
    pair(rig, status(401))
    rig.channel("rests", "m", priority=-1, answer=good)
    rig.health.note_failure(ChannelId("ch_rests"), FailureKind.RATE, "429", 60)
    await rig.call()
    assert rig.upstreams.order == ["a", "b"]
    rig.health.clear(ChannelId("ch_a"))
    rig.upstreams.on("b", status(401))
    assert json.loads((await rig.call()).body)["model"] == "m"
    assert rig.upstreams.order[2:] == ["a", "b", "rests"]


async def test_if_all_others_rest_the_search_has_an_end(rig: Rig) -> None:
    home(rig, Fallback(model="m", to=("n", "o")))
    for name, model in (("a", "m"), ("b", "m"), ("c", "n"), ("d", "o")):
        rig.channel(name, model, priority=ord(name) == ord("a"), answer=status(401))
        if name != "a":
            rig.health.note_failure(ChannelId(f"ch_{name}"), FailureKind.RATE, "429", 60)
    await failure(rig)
    assert sorted(rig.upstreams.order) == ["a", "b", "c", "d"]


async def test_a_fallback_that_fails_leads_back_to_the_requested_model(rig: Rig) -> None:
    pair(rig, good)
    rig.health.note_failure(ChannelId("ch_a"), FailureKind.RATE, "429", 60)
    rig.upstreams.on("b", status(401))
    assert json.loads((await rig.call()).body)["model"] == "m"
    assert (rig.upstreams.order, rig.record.cost) == (["b", "a"], 9 * 2_500 + 12 * 10_000)


async def test_a_channel_that_failed_may_serve_another_model(rig: Rig) -> None:
    home(rig, Fallback(model="m", to=("n",)))
    rig.channel("a", "m", "n")
    rig.upstreams.on("a", status(404, code="model_not_found"), good)
    await rig.call()
    assert rig.upstreams.order == ["a", "a"]


async def test_a_channel_that_cannot_be_reached_is_not_tried_for_another_model(rig: Rig) -> None:
    home(rig, Fallback(model="m", to=("n",)))
    made = rig.channel("a", "m", "n")
    rig.upstreams.on("a", lambda: unreachable(made))
    error = await failure(rig)
    assert (error.code, rig.upstreams.order) == ("upstream_unreachable", ["a", "a"])


async def test_a_filtered_prompt_is_put_to_no_other_model(rig: Rig) -> None:
    pair(rig, status(400, "flagged", code="content_filter"))
    assert ((await failure(rig)).code, rig.upstreams.order) == ("content_filter", ["a"])


async def test_a_prompt_that_is_too_long_goes_to_a_model_with_a_longer_context(rig: Rig) -> None:
    pair(rig, status(400, "too long", code="context_length_exceeded"))
    made = rig.channel("b", "n")
    rig.put("channels", made.id, replace(made, models=(ServedModel(name="n", context=200_000),)))
    await rig.call()
    assert rig.upstreams.order == ["a", "b"]


async def test_a_started_stream_is_never_put_to_another_model(rig: Rig) -> None:
    pair(rig, lambda: FakeReply(event(choices=[{"index": 0, "delta": {"content": "x"}, "finish_reason": None}])))
    await rig.call(stream=True)
    assert (rig.upstreams.order, rig.client.error is not None) == (["a"], True)


async def test_if_nothing_can_answer_all_reasons_are_reported(rig: Rig) -> None:
    pair(rig, good)
    for name in ("ch_a", "ch_b"):
        rig.health.note_failure(ChannelId(name), FailureKind.AUTH, "refused")
    with pytest.raises(NoChannel, match=r"a: needs attention, .*: refused; b for n: needs attention, .*: refused"):
        await rig.call()


async def test_a_model_that_no_channel_serves_has_a_fallback(rig: Rig) -> None:
    home(rig, Fallback(model="gone", to=("nobody", "n")), Fallback(model="x-*", to=("n",)))
    rig.channel("b", "n", answer=good)
    rig.put("prices", "n", fallback_price("n", 5, 20))
    rig.put("settings", "", Settings(refuse_unpriced=True))
    answer = await rig.call("gone")
    assert json.loads(answer.body)["model"] == "n"
    assert answer.headers["x-gateway-route"] == "fallback for gone, priority 0"
    assert (rig.record.model, rig.record.cost) == ("gone", 9 * 5_000 + 12 * 20_000)
    with pytest.raises(NotFound):
        await rig.call("x-1")


async def test_a_channel_that_is_switched_off_has_a_fallback(rig: Rig) -> None:
    pair(rig, good)
    rig.channel("a", "m", enabled=False)
    for stream in (False, True):
        rig.upstreams.on("b", good_stream if stream else good)
        await rig.call(stream=stream)
    assert rig.upstreams.order == ["b", "b"]


def test_a_fallback_is_only_a_model_that_the_token_sees() -> None:
    group = Group(name="home", models=("m", "n", "gone"), fallbacks=(Fallback(model="gone", to=("n",)),))
    found = catalog(channel("a", "m", "n", groups=("home",)), groups=(group,))
    assert list(found.visible(token())) == ["gone", "m", "n"]
    assert list(found.visible(token(models=("gone", "m")))) == ["m"]
    hidden = catalog(channel("a", "m", "n", groups=("home",)), groups=(replace(group, models=("n",)),))
    assert list(hidden.visible(token())) == ["n"]


async def test_if_no_channel_can_serve_it_the_reasons_are_reported(rig: Rig) -> None:
    home(rig, Fallback(model="gone", to=("n",)))
    rig.channel("b", "n")
    rig.health.note_failure(ChannelId("ch_b"), FailureKind.AUTH, "refused")
    with pytest.raises(NoChannel, match="b for n: needs attention"):
        await rig.call("gone")
