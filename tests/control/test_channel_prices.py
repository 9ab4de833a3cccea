"""Prices of single channels: set, shown, imported, and kept when the channel is edited."""

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


async def test_an_import_gives_each_channel_its_vendors_price(owner: ControlClient, gateway: Gateway) -> None:
    """The first one's is that of the model; a second import, also of one channel alone, changes nothing."""
    gateway.channel("https://api.groq.com/openai/v1", "openai/gpt-oss-120b", name="a")
    gateway.channel("https://api.together.xyz/v1", "openai/gpt-oss-120b", name="b", priority=-1)
    gateway.channel("http://127.0.0.1:11434/v1", "openai/gpt-oss-120b", name="c", preset="ollama", priority=-2)
    first = [one for one in await owner.import_prices(apply=True) if one.model == "openai/gpt-oss-120b"]
    assert [(one.channel, one.own) for one in first][:1] == [("a", False)]
    for channel in ("", "b", "a", "c"):
        again = await owner.import_prices(channel=channel, apply=True)
        assert [one.model for one in again if one.differs and one.model == "openai/gpt-oss-120b"] == []
    prices = {route.channel: route.price for route in (await owner.model("openai/gpt-oss-120b")).routes}
    assert prices["c"] is not None
    assert prices["c"].free
    assert prices["a"] is not None
    assert prices["a"].input_nanos == DOLLAR * 15 // 100


async def test_a_price_holds_in_its_hours_and_for_its_variant(owner: ControlClient, gateway: Gateway) -> None:
    rules = [{"during": [{"start": 0, "end": 1440}], "input": 0, "output": 0, "per_call": 9}]
    await owner.set_price("m", {"input": DOLLAR, "output": DOLLAR, "rules": rules})
    await gateway.client.chat()
    (record,) = await gateway.settled()
    assert record.cost == 9
