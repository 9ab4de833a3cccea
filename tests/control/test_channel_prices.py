"""Prices of single channels: set, shown, imported, and kept when the channel is edited."""

import asyncio
from itertools import permutations

import pytest

from gateway.client.control import ControlClient
from gateway.control import model_lists
from gateway.control.edits import ConfigEdits
from gateway.domain.errors import Conflict, NotFound
from gateway.domain.units import DOLLAR
from tests.fakes.gateway import INPUT, OUTPUT, Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import reply


async def test_a_channel_is_charged_at_its_own_price(owner: ControlClient, gateway: Gateway) -> None:
    found = await owner.set_price("m", {"input": 0, "output": 0, "per_call": 7}, "up")
    assert (found.channel, found.per_call) == ("up", 7)
    record = await gateway.call()
    assert (record.cost, record.channel_name) == (7, "up")


async def test_prices_of_channels_are_listed_after_those_of_models(owner: ControlClient) -> None:
    await owner.set_price("m", {"input": 1, "output": 2}, "up")
    found = [(price.model, price.channel, price.input) for price in await owner.prices()]
    assert found == [("m", "", INPUT), ("m", "up", 1)]


async def test_a_model_shows_what_each_channel_asks(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", name="other")
    await owner.set_price("m", {"input": 1, "output": 2}, "other")
    routes = {route.channel: route.price for route in (await owner.model("m")).routes}
    assert {name: price.output for name, price in routes.items() if price is not None} == {
        "up": OUTPUT,
        "other": 2,
    }
    (view,) = [one for one in await owner.models() if one.name == "m"]
    assert {price.output for price in view.prices} == {OUTPUT, 2}
    await owner.set_price("m", {"input": DOLLAR, "output": 2 * DOLLAR}, "other")
    await owner.set_price("m", {"input": 3 * DOLLAR, "output": 4 * DOLLAR}, "up")
    await owner.edit_channel("up", {"priority": 9})
    assert (await gateway.client.get("/v1/models/m")).json["pricing"] == {
        "input": "3.00",
        "output": "4.00",
        "min_input": "1.00",
        "min_output": "2.00",
        "max_input": "3.00",
        "max_output": "4.00",
    }


async def test_the_price_of_a_channel_goes_without_that_of_the_model(owner: ControlClient) -> None:
    await owner.set_price("m", {"input": 1, "output": 2}, "up")
    await owner.remove_price("m", "up")
    assert [(price.model, price.channel) for price in await owner.prices()] == [("m", "")]
    with pytest.raises(NotFound):
        await owner.remove_price("m", "up")
    with pytest.raises(NotFound):
        await owner.set_price("n", {"input": 1, "output": 2}, "up")


async def test_prices_of_several_models_at_a_channel_are_one_change(owner: ControlClient) -> None:
    await owner.edit_channel("up", {"models": [{"name": "m"}, {"name": "n"}]})
    price = {"input": 1, "output": 2}
    done = await owner.batch("prices", {"m": price, "n": price}, "up")
    assert done == "set 2 prices at channel 'up': 'm', 'n'"
    assert [price.model for price in await owner.prices() if price.channel] == ["m", "n"]
    assert (await owner.undo()).text == "2 prices at channel 'up' are as before: 'm', 'n'"
    assert [price.model for price in await owner.prices() if price.channel] == []


async def test_an_edited_channel_keeps_its_prices(owner: ControlClient) -> None:
    await owner.set_price("m", {"input": 1, "output": 2}, "up")
    await owner.edit_channel("up", {"models": [{"name": "m"}, {"name": "n"}]})
    assert [price.channel for price in await owner.prices()] == ["", "up"]
    await owner.edit_channel("up", {"models": [{"name": "m", "upstream": "another"}]})
    assert [price.channel for price in await owner.prices()] == [""]


MODEL = "openai/gpt-oss-120b"
CHANNELS = {
    "a": ("https://api.groq.com/openai/v1", ""),
    "b": ("https://api.together.xyz/v1", ""),
    "c": ("http://127.0.0.1:11434/v1", "ollama"),
    "d": ("https://api.fireworks.ai/inference/v1", ""),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("order", permutations(CHANNELS))
async def test_a_second_import_changes_nothing(owner: ControlClient, gateway: Gateway, order: tuple[str, ...]) -> None:
    """In any order of the channels, whether they are imported one by one or together."""
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
    found = {name: price.input for name, price in prices.items() if price is not None}
    assert found == {"a": DOLLAR * 15 // 100, "b": DOLLAR * 15 // 100, "c": 0, "d": DOLLAR * 15 // 100}


async def test_an_import_of_prices_undoes_no_edit_of_the_same_time(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel(CHANNELS["a"][0], MODEL, name="a")
    importing = asyncio.create_task(owner.import_prices(apply=True))
    while not importing.done():
        gateway.channel(CHANNELS["a"][0], MODEL, name="a", note=str(gateway.engine.now()))
        await asyncio.sleep(0)
    with pytest.raises(Conflict, match="changed in the meantime"):
        await importing


async def test_a_price_holds_in_its_hours_and_for_its_variant(owner: ControlClient, gateway: Gateway) -> None:
    rules = [{"during": [{"start": 0, "end": 1440}], "input": 0, "output": 0, "per_call": 9}]
    await owner.set_price("m", {"input": DOLLAR, "output": DOLLAR, "rules": rules})
    record = await gateway.call()
    assert record.cost == 9


async def test_an_undone_import_leaves_later_lists(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    priced = {"id": "a", "pricing": {"prompt": "0.000001", "completion": "0.000002"}}
    provider.on("/v1/models", reply({"data": [priced, {"id": "gone"}]}))
    body = {"name": "live", "dialect": "openai", "base_url": provider.base_url, "known_prices": False}
    await owner.add_channel(body)
    await owner.import_prices(channel="live", apply=True)
    provider.on("/v1/models", reply({"data": [priced, {"id": "new"}]}))
    await model_lists.refresh(ConfigEdits(gateway.engine), gateway.engine.catalog.channel("live"))
    await owner.undo()
    channel = gateway.engine.catalog.channel("live")
    assert {served.name: served.price for served in channel.models} == {"a": None, "new": None}


async def test_undoing_an_older_price_of_a_channel_asks_first(owner: ControlClient) -> None:
    await owner.set_price("m", {"input": 1, "output": 2}, "up")
    (first, *_) = await owner.history()
    await owner.set_price("m", {"input": 3, "output": 4}, "up")
    with pytest.raises(Conflict, match="was changed since"):
        await owner.undo(first.id)
    await owner.undo()
    assert [price.input for price in await owner.prices()] == [INPUT, 1]


async def test_the_history_shows_each_price_that_an_import_changes(owner: ControlClient) -> None:
    await owner.add_channel(
        {"name": "g", "preset": "groq", "key": "env:NOT_SET", "models": [{"name": "qwen/qwen3-32b"}]}
    )
    await owner.set_price("qwen/qwen3-32b", {"input": DOLLAR, "output": 2 * DOLLAR}, "g")
    (newest, *_) = await owner.history()
    (difference,) = newest.differences
    assert [(one.field, one.before, one.after) for one in difference.fields] == [
        ("price of qwen/qwen3-32b", "$0.29 / $0.59", "$1.00 / $2.00")
    ]
