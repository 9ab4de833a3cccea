"""A group's policy decides which channel is asked first, and what is equal goes by priority."""

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.channel_health import ChannelHealth
from gateway.core.group_policy import is_local
from gateway.core.routing import RouteChoice, choose
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Dialect, Served, UpstreamPrices
from gateway.domain.group import Group, Policy
from gateway.domain.limits import Limits
from gateway.domain.price import Price
from gateway.domain.units import DOLLAR, MILLION, ChannelId, Nanos
from tests.core.clocks import Mono
from tests.core.kit import catalog, channel
from tests.core.rig import Rig
from tests.core.test_attempts import good, good_stream

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
    assert house.choose().why == "priority 5, drawn from 2"


def test_the_cheapest_goes_by_the_price_of_the_upstream_s_own_model() -> None:
    house = House(
        Policy.CHEAPEST,
        up("dear", "m=big", priority=9),
        up("cheap", "m=small"),
        up("unknown", "m=odd", priority=9),
        up("near", "m=free", base_url=NEAR),
        prices=(price("big", 5), price("small", 1)),
    )
    assert house.order == ["near", "cheap", "dear", "unknown"]
    assert house.choose().why == "about $0.00 a million tokens, priority 0"


def test_a_channel_may_ask_less_than_the_price() -> None:
    house = House(
        Policy.CHEAPEST,
        up("full", priority=1),
        up("half", cost_factor=MILLION // 2),
        prices=(price("m", 2),),
    )
    assert house.order == ["half", "full"]


def test_what_an_upstream_tells_of_its_price_goes_first() -> None:
    told = Served(name="m", told=UpstreamPrices(input=Nanos(DOLLAR), output=Nanos(DOLLAR)))
    prices = (price("m", 2),)
    assert House(Policy.CHEAPEST, up("a"), replace(up("b"), models=(told,)), prices=prices).order == ["b", "a"]


def test_equal_prices_go_by_priority_and_weight() -> None:
    house = House(Policy.CHEAPEST, up("a"), up("b", priority=1), up("c", priority=1), prices=(price("m", 2),))
    assert house.order == ["b", "c", "a"]
    assert {house.choose(draw).route.channel.name for draw in (0, 1)} == {"b", "c"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"base_url": NEAR}, True),
        ({"base_url": "http://192.168.1.5:8000/v1"}, True),
        ({"base_url": "http://box.local:8000/v1"}, True),
        ({"base_url": "http://[::1]:8000/v1"}, True),
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
    assert [(one.channel, one.rule) for one in house.choose().passed] == [("near", "busy")]


def test_a_busy_local_server_is_better_than_one_at_rest() -> None:
    house = House(Policy.LOCAL, up("far", priority=9), up("near", base_url=NEAR))
    house.busy = {"ch_near": 3}
    house.health.failed(ChannelId("ch_far"), FailureKind.RATE, "429", 30)
    assert (house.first, house.choose().resting) == ("near", False)


def test_a_limit_of_its_own_says_when_a_local_server_is_busy() -> None:
    house = House(Policy.LOCAL, up("near", base_url=NEAR, limits=Limits(concurrent=4)))
    assert house.routes[0].rank.spill == 0


def test_far_channels_are_never_busy() -> None:
    house = House(Policy.LOCAL, up("far"))
    house.busy = {"ch_far": 99}
    assert house.choose().passed == ()


def test_the_fastest_is_first_and_what_is_not_measured_is_tried() -> None:
    house = House(Policy.FASTEST, up("a", priority=9), up("b"))
    pace = house.health.pace
    pace.note(ChannelId("ch_a"), "m", first_s=1.0, whole_s=3.0, tokens=100)
    assert (house.first, house.choose().why) == ("b", "fastest, not measured of late")
    pace.note(ChannelId("ch_b"), "m", first_s=0.1, whole_s=1.1, tokens=100)
    assert house.first == "b"
    for _ in range(9):
        pace.note(ChannelId("ch_b"), "m", first_s=9.0, whole_s=19.0, tokens=100)
    assert (house.first, house.choose().why) == ("a", "fastest, 200 tokens in 5.0 s")


def test_those_about_as_fast_share() -> None:
    house = House(Policy.FASTEST, up("a"), up("b"))
    for name, seconds in (("a", 1.0), ("b", 1.05)):
        house.health.pace.note(ChannelId(f"ch_{name}"), "m", first_s=None, whole_s=seconds, tokens=100)
    assert {house.choose(draw).route.channel.name for draw in (0, 1)} == {"a", "b"}  # type: ignore[union-attr]


@pytest.mark.parametrize("stream", [False, True])
async def test_answers_are_measured_where_the_fastest_is_wanted(rig: Rig, stream: bool) -> None:
    for policy in (Policy.PRIORITY, Policy.FASTEST):
        rig.put("groups", "home", Group(name="home", policy=policy))
        made = rig.channel("a")
        rig.upstreams.on("a", good_stream if stream else good)
        assert rig.health.pace.expected_s(made.id, "m") is None
        await rig.call(stream=stream)
        assert (rig.health.pace.expected_s(made.id, "m") is None) == (policy is Policy.PRIORITY)
