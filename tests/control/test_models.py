import pytest

from gateway.client.control import ControlClient
from gateway.domain.errors import NotFound
from tests.fakes.gateway import INPUT, Gateway


async def test_a_model_tells_who_serves_it_who_sees_it_and_what_it_cost(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "m", "n", name="off", enabled=False, priority=9)
    await gateway.client.chat()
    (record,) = await gateway.settled()
    m, n = await owner.models()
    assert (m.name, m.channels, m.groups, m.calls, m.spent_nanos) == ("m", ["off", "up"], ["default"], 1, record.cost)
    assert m.price is not None
    assert m.price.input_nanos == INPUT
    assert (n.name, n.channels, n.groups, n.price) == ("n", ["off"], [], None)


async def test_a_token_s_models_are_those_it_sees(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "n1", "n2", name="more")
    await owner.add_token({"name": "narrow", "models": ["n*"]})
    assert [model.name for model in await owner.models("narrow")] == ["n1", "n2"]
    assert [model.name for model in await owner.models()] == ["m", "n1", "n2"]


async def test_an_unknown_token_is_told(owner: ControlClient) -> None:
    with pytest.raises(NotFound):
        await owner.models("nobody")
