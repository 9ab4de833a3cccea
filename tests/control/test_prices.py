import pytest

from gateway.client.control import ControlClient
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.units import DOLLAR
from tests.fakes.gateway import INPUT, Gateway


async def test_prices_are_listed_by_model(owner: ControlClient) -> None:
    await owner.set_price("a/b:c", {"input": DOLLAR, "output": 2 * DOLLAR})
    assert [(price.model, price.input_nanos) for price in await owner.prices()] == [("a/b:c", DOLLAR), ("m", INPUT)]


async def test_a_new_price_holds_for_the_next_call(owner: ControlClient, gateway: Gateway) -> None:
    await owner.set_price("m", {"input": 0, "output": 0, "per_call": 7})
    await gateway.client.chat()
    (record,) = await gateway.settled()
    assert record.cost == 7


async def test_a_price_tells_whether_it_is_free(owner: ControlClient) -> None:
    price = await owner.set_price("m", {"input": 0, "output": 0, "tiers": [{"above": 9, "input": 0, "output": 0}]})
    assert (price.free, price.tiers, price.source) == (True, 1, "manual")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": 1}, "output"),
        ({"input": -1, "output": 1}, "input"),
        ({"input": "1", "output": 1}, "input"),
        ({"input": 0.5, "output": 1}, "input"),
        ({"input": 1, "output": 1, "model": "x"}, "model"),
        ({"input": 10**19, "output": 1}, "input"),
    ],
)
async def test_senseless_prices_are_refused(owner: ControlClient, body: dict[str, object], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        await owner.set_price("m", body)
    assert caught.value.param == param


async def test_a_removed_price_leaves_the_model_unpriced(owner: ControlClient) -> None:
    await owner.remove_price("m")
    assert [model.price for model in await owner.models()] == [None]
    with pytest.raises(NotFound):
        await owner.remove_price("m")
