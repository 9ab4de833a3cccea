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


@pytest.fixture
def vendor(gateway: Gateway) -> None:
    """A channel whose vendor is in the price list."""
    gateway.channel("https://api.openai.com/v1", "gpt-4.1", "gpt-4.1-mini", "unheard-of", name="openai")


@pytest.mark.usefixtures("vendor")
async def test_list_prices_are_shown_before_they_are_taken_over(owner: ControlClient) -> None:
    proposals = await owner.import_prices()
    assert [(p.model, p.channel, p.now, p.differs) for p in proposals] == [
        ("gpt-4.1", "openai", None, True),
        ("gpt-4.1-mini", "openai", None, True),
    ]
    assert [price.model for price in await owner.prices()] == ["m"]


@pytest.mark.usefixtures("vendor")
async def test_list_prices_are_taken_over_in_one_change(owner: ControlClient) -> None:
    await owner.import_prices(apply=True)
    prices = {price.model: price for price in await owner.prices()}
    assert set(prices) == {"m", "gpt-4.1", "gpt-4.1-mini"}
    assert prices["gpt-4.1"].source.startswith("genai-prices")
    assert not any(proposal.differs for proposal in await owner.import_prices())
    assert (await owner.undo()).startswith("took over 2 prices")
    assert [price.model for price in await owner.prices()] == ["m"]


@pytest.mark.usefixtures("vendor")
async def test_prices_set_by_hand_are_kept(owner: ControlClient) -> None:
    await owner.set_price("gpt-4.1", {"input": 1, "output": 2})
    by_hand, other = await owner.import_prices(apply=True)
    assert (by_hand.kept, by_hand.differs, other.kept) == (True, True, False)
    assert {p.model: p.input_nanos for p in await owner.prices()}["gpt-4.1"] == 1


@pytest.mark.usefixtures("vendor")
async def test_only_the_models_named_are_taken_over(owner: ControlClient) -> None:
    await owner.import_prices(["gpt-4.1"], apply=True)
    assert [price.model for price in await owner.prices()] == ["gpt-4.1", "m"]
    assert await owner.import_prices(["nobody"], apply=True) == []
