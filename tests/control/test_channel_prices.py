"""Prices of single channels: set, shown, imported, and kept when the channel is edited."""

from itertools import permutations

import pytest

from gateway.client.control import ControlClient
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.units import DOLLAR
from tests.fakes.gateway import INPUT, OUTPUT, Gateway
from tests.fakes.provider import Provider


async def test_a_channel_is_charged_at_its_own_price(owner: ControlClient, gateway: Gateway) -> None:
    found = await owner.set_price("m", {"input": 0, "output": 0, "per_call": 7}, "up")
    assert (found.channel, found.per_call_nanos) == ("up", 7)
    await gateway.client.chat()
    (record,) = await gateway.settled()
    assert (record.cost, record.channel_name) == (7, "up")


async def test_prices_of_channels_are_listed_after_those_of_models(owner: ControlClient) -> None:
    await owner.set_price("m", {"input": 1, "output": 2}, "up")
    found = [(price.model, price.channel, price.input_nanos) for price in await owner.prices()]
    assert found == [("m", "", INPUT), ("m", "up", 1)]


async def test_a_model_shows_what_each_channel_asks(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", name="other")
    await owner.set_price("m", {"input": 1, "output": 2}, "other")
    routes = {route.channel: route.price for route in (await owner.model("m")).routes}
    assert {name: price.output_nanos for name, price in routes.items() if price is not None} == {
        "up": OUTPUT,
        "other": 2,
    }
    (view,) = [one for one in await owner.models() if one.name == "m"]
    assert {price.output_nanos for price in view.prices} == {OUTPUT, 2}


async def test_the_price_of_a_channel_goes_without_that_of_the_model(owner: ControlClient) -> None:
    await owner.set_price("m", {"input": 1, "output": 2}, "up")
    await owner.remove_price("m", "up")
    assert [(price.model, price.channel) for price in await owner.prices()] == [("m", "")]
    with pytest.raises(NotFound):
        await owner.remove_price("m", "up")
    with pytest.raises(NotFound):
        await owner.set_price("n", {"input": 1, "output": 2}, "up")


async def test_an_edited_channel_keeps_its_prices(owner: ControlClient, gateway: Gateway) -> None:
    await owner.set_price("m", {"input": 1, "output": 2}, "up")
    await owner.edit_channel("up", {"models": [{"name": "m"}, {"name": "n"}]})
    assert [price.channel for price in await owner.prices()] == ["", "up"]
    await owner.edit_channel("up", {"models": [{"name": "m", "upstream": "another"}]})
    assert [price.channel for price in await owner.prices()] == [""]


async def test_a_senseless_price_in_a_channel_is_refused(owner: ControlClient) -> None:
    with pytest.raises(BadRequest):
        await owner.edit_channel("up", {"models": [{"name": "m", "price": {"model": "m", "input": -1, "output": 1}}]})


MODEL = "openai/gpt-oss-120b"
CHANNELS = {
    "a": ("https://api.groq.com/openai/v1", ""),
    "b": ("https://api.together.xyz/v1", ""),
    "c": ("http://127.0.0.1:11434/v1", "ollama"),
    "d": ("https://api.fireworks.ai/inference/v1", ""),
}


@pytest.mark.parametrize("order", permutations(CHANNELS))
async def test_a_second_import_changes_nothing_in_any_order(
    owner: ControlClient, gateway: Gateway, order: tuple[str, ...]
) -> None:
    """Neither of channels, whether they are imported one by one or together."""
    for number, name in enumerate(order):
        url, preset = CHANNELS[name]
        gateway.channel(url, MODEL, f"short={MODEL}", name=name, preset=preset, priority=number % 2)
    for channel in order[: len(order) // 2]:
        await owner.import_prices(channel=channel, apply=True)
    await owner.import_prices(apply=True)
    before = await owner.prices()
    for channel in ("", *reversed(order)):
        again = await owner.import_prices(channel=channel, apply=True)
        assert [one.model for one in again if one.differs or one.applied] == []
    assert await owner.prices() == before
    prices = {route.channel: route.price for route in (await owner.model(MODEL)).routes}
    found = {name: price.input_nanos for name, price in prices.items() if price is not None}
    assert found == {"a": DOLLAR * 15 // 100, "b": DOLLAR * 15 // 100, "c": 0, "d": DOLLAR * 15 // 100}


async def test_a_price_holds_in_its_hours_and_for_its_variant(owner: ControlClient, gateway: Gateway) -> None:
    rules = [{"during": [{"start": 0, "end": 1440}], "input": 0, "output": 0, "per_call": 9}]
    await owner.set_price("m", {"input": DOLLAR, "output": DOLLAR, "rules": rules})
    await gateway.client.chat()
    (record,) = await gateway.settled()
    assert record.cost == 9
