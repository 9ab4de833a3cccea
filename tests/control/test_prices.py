import pytest
from msgspec import to_builtins

from gateway.client.control import ControlClient
from gateway.domain.channel import ServedModel
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.group import Fallback
from gateway.domain.history import ChangeSource
from gateway.domain.limits import Limits
from gateway.domain.price import UpstreamPrices
from gateway.domain.units import DOLLAR, Millis, Nanos
from tests.control.conftest import Surface
from tests.fakes.gateway import INPUT, Gateway
from tests.fakes.provider import Provider


async def test_prices_are_listed_by_model(owner: ControlClient) -> None:
    await owner.set_price("a/b:c", {"input": DOLLAR, "output": 2 * DOLLAR})
    assert [(price.model, price.input) for price in await owner.prices()] == [("a/b:c", DOLLAR), ("m", INPUT)]


async def test_a_price_tells_whether_it_is_free(owner: ControlClient) -> None:
    price = await owner.set_price("m", {"input": 0, "output": 0, "tiers": [{"above": 9, "input": 0, "output": 0}]})
    assert (price.free, price.tier_count, price.source) == (True, 1, "manual")


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
async def test_list_prices_are_shown_before_they_are_imported(owner: ControlClient) -> None:
    proposals = await owner.import_prices()
    assert [(p.model, p.channel, p.now, p.differs) for p in proposals] == [
        ("gpt-4.1", "openai", None, True),
        ("gpt-4.1-mini", "openai", None, True),
    ]
    assert [price.model for price in await owner.prices()] == ["m"]


@pytest.mark.usefixtures("vendor")
async def test_list_prices_are_imported_in_one_change(owner: ControlClient) -> None:
    await owner.import_prices(apply=True)
    prices = {price.model: price for price in await owner.prices()}
    assert set(prices) == {"m", "gpt-4.1", "gpt-4.1-mini"}
    assert prices["gpt-4.1"].source.startswith("genai-prices")
    assert not any(proposal.differs for proposal in await owner.import_prices())
    assert (await owner.undo()).text == "the import of 2 prices is reverted"
    assert [price.model for price in await owner.prices()] == ["m"]


@pytest.mark.usefixtures("vendor")
async def test_prices_set_by_hand_are_kept(owner: ControlClient) -> None:
    await owner.set_price("gpt-4.1", {"input": 1, "output": 2})
    by_hand, other = await owner.import_prices(apply=True)
    assert (by_hand.kept, by_hand.differs, other.kept) == (True, True, False)
    assert {p.model: p.input for p in await owner.prices()}["gpt-4.1"] == 1


@pytest.mark.usefixtures("vendor")
async def test_only_the_named_models_are_imported(owner: ControlClient) -> None:
    await owner.import_prices(["gpt-4.1"], apply=True)
    assert [price.model for price in await owner.prices()] == ["gpt-4.1", "m"]
    assert await owner.import_prices(["nobody"], apply=True) == []


async def _old(owner: ControlClient, **rates: int) -> None:
    """A price that was imported some time ago."""
    await owner.set_price("gpt-4.1", {"source": "an older list", **rates})


@pytest.mark.usefixtures("vendor")
async def test_a_proposal_tells_what_changes_and_of_which_day_it_is(owner: ControlClient) -> None:
    await _old(owner, input=3 * DOLLAR, output=9 * DOLLAR, cached_input=DOLLAR)
    change, new = await owner.import_prices()
    assert (change.change, change.guard, new.change, change.applied) == ("down", "", "new", False)
    assert change.listed.as_of_ms is not None
    assert not change.listed.stale


@pytest.mark.usefixtures("vendor")
async def test_an_import_is_compared_with_the_price_in_force(owner: ControlClient) -> None:
    known, _ = await owner.import_prices()
    rates = {name: getattr(known.listed, name) for name in ("input", "output", "cached_input", "extras")}
    rules = [{**rates, "since": 1_600_000_020_000}, *map(to_builtins, known.listed.rules)]
    await owner.set_price("gpt-4.1", {"source": "an older list", "input": 1, "output": 1, "rules": rules})
    found, _ = await owner.import_prices(apply=True)
    assert (found.change, found.differs, found.guard, found.applied) == ("same", False, "", False)


@pytest.mark.usefixtures("vendor")
async def test_a_leap_is_imported_only_if_it_is_accepted(owner: ControlClient) -> None:
    await _old(owner, input=DOLLAR // 10_000, output=8 * DOLLAR)
    leap, new = await owner.import_prices(apply=True)
    assert (leap.change, leap.applied, new.applied) == ("up", False, True)
    assert "looks like another unit: from $0.0001 to $2.00" in leap.guard
    assert [p.source for p in await owner.prices() if p.model == "gpt-4.1"] == ["an older list"]
    leap, _ = await owner.import_prices(apply=True, accept=True)
    assert leap.applied
    assert {p.model: p.input for p in await owner.prices()}["gpt-4.1"] == 2 * DOLLAR


async def test_what_one_channel_or_vendor_has_is_asked_by_its_name(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("https://api.openai.com/v1", "gpt-4.1", name="work")
    gateway.channel("https://api.mistral.ai/v1", "mistral-medium-latest", name="fr")
    assert {p.channel for p in await owner.import_prices()} == {"work", "fr"}
    assert {p.channel for p in await owner.import_prices(channel="work")} == {"work"}
    assert {p.channel for p in await owner.import_prices(channel="mistral")} == {"fr"}
    with pytest.raises(NotFound):
        await owner.import_prices(channel="nobody")


async def test_what_is_in_no_list_costs_what_its_upstream_tells(owner: ControlClient, gateway: Gateway) -> None:
    published = UpstreamPrices(input=Nanos(DOLLAR), output=Nanos(2 * DOLLAR), cached_input=Nanos(DOLLAR // 10))
    gateway.channel("http://127.0.0.1:9/v1", name="router", models=(ServedModel(name="rare", published=published),))
    (proposal,) = await owner.import_prices(apply=True)
    assert (proposal.model, proposal.listed.source, proposal.applied) == ("rare", "the list of router", True)
    (model,) = (m for m in await owner.models() if m.name == "rare")
    assert model.price is not None
    assert (model.price.input, model.price.cached_input) == (DOLLAR, DOLLAR // 10)


async def test_a_model_name_of_two_lines_is_refused_as_a_name(owner: ControlClient) -> None:
    with pytest.raises(BadRequest, match="invisible characters"):
        await owner.set_price("a\nb", {"input": 1, "output": 1})


async def test_models_are_listed_by_name(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", *"zgbtoack", name="other")
    assert "".join(model.name for model in await owner.models()) == "abcgkmotz"


async def test_a_model_tells_who_serves_it_who_sees_it_and_what_it_cost(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "m", "n", name="off", enabled=False, priority=9)
    record = await gateway.call()
    m, n = await owner.models()
    assert (m.name, m.channels, m.groups, m.calls, m.spent_nanos) == ("m", ["off", "up"], ["default"], 1, record.cost)
    assert m.price is not None
    assert m.price.input == INPUT
    assert (n.name, n.channels, n.groups, n.price) == ("n", ["off"], [], None)


async def test_a_token_s_models_are_those_it_sees(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "n1", "n2", name="more")
    await owner.add_token({"name": "narrow", "models": ["n*"]})
    assert [model.name for model in await owner.models("narrow")] == ["n1", "n2"]
    assert [model.name for model in await owner.models()] == ["m", "n1", "n2"]


async def test_a_wrong_channel_or_vendor_names_the_right_ones(owner: ControlClient) -> None:
    with pytest.raises(NotFound, match="no channel or vendor 'nope'; known are: up"):
        await owner.import_prices(channel="nope")


async def test_a_channel_whose_prices_are_imported_is_named_by_its_id_too(owner: ControlClient) -> None:
    saved = await owner.add_channel(
        {"name": "openai", "preset": "openai", "models": [{"name": "gpt-4.1"}], "known_prices": False}
    )
    for ref in (saved.id, "openai"):
        assert [proposal.model for proposal in await owner.import_prices(channel=ref)] == ["gpt-4.1"]


async def test_one_model_is_shown_with_its_channels_in_order(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "m=inner", name="first", priority=9)
    gateway.channel("http://127.0.0.1:9/v1", "m", name="twin", limits=Limits(rpm=3))
    gateway.channel("http://127.0.0.1:9/v1", "m", name="off", enabled=False)
    found = await owner.model("m")
    routes = [(route.group, route.order, route.channel, route.upstream_model) for route in found.routes]
    assert routes == [
        ("default", 1, "first", "inner"),
        ("default", 2, "twin", "m"),
        ("default", 2, "up", "m"),
        ("", 0, "off", "m"),
    ]
    assert (found.routes[0].place, found.routes[1].limits.rpm, found.routes[3].state) == ("priority 9", 3, "off")
    assert (found.groups, found.tokens) == (["default"], ["laptop"])
    assert found.price is not None
    assert found.price.input == INPUT


async def test_tokens_of_ended_programs_see_no_model(surface: Surface, owner: ControlClient, gateway: Gateway) -> None:
    program = ControlClient(surface.unix, source=ChangeSource(via="command", command="run"))
    for name, expires in (("ended", gateway.engine.now() - 1), ("runs", gateway.engine.now() + 60_000)):
        await program.add_token({"name": name, "expires": expires})
    assert (await owner.model("m")).tokens == ["laptop", "runs"]


async def test_a_price_of_ones_own_keeps_the_context_that_the_list_told(owner: ControlClient, gateway: Gateway) -> None:
    gateway.price(source="genai-prices 1", context=128_000, as_of=Millis(5))
    for input_nanos in (1, 2):
        await owner.set_price("m", {"input": input_nanos, "output": 2})
        found = await owner.model("m")
        assert (found.context, found.context_source) == (128_000, "genai-prices 1")
        assert found.price is not None
        assert (found.price.source, found.price.input) == ("manual", input_nanos)


async def test_an_alias_that_once_was_a_model_costs_what_answers_now(owner: ControlClient, gateway: Gateway) -> None:
    gateway.price("gone", input=Nanos(3 * DOLLAR), output=Nanos(15 * DOLLAR))
    gateway.group("default", fallbacks=(Fallback(model="gone", to=("m",)),))
    listed = next(model for model in await owner.models() if model.name == "gone")
    (seen,) = [model for model in await owner.models("laptop") if model.name == "gone"]
    for price in ((await owner.model("gone")).price, listed.price, seen.price):
        assert price is not None
        assert (price.input, price.inherited_from) == (INPUT, "m")
    assert (await gateway.client.get("/v1/models/gone")).json["pricing"]["input"] == "2.50"


async def test_an_alias_of_a_group_is_listed_for_owner_and_token(owner: ControlClient, gateway: Gateway) -> None:
    gateway.group("default", fallbacks=(Fallback(model="smart", to=("m",)),))
    for models in (await owner.models(), await owner.models("laptop")):
        alias = next(model for model in models if model.name == "smart")
        assert (alias.channels, alias.stands_for, alias.groups) == ([], "m", ["default"])
        assert alias.price is not None
        assert (alias.price.input, alias.price.inherited_from) == (INPUT, "m")
        assert [model.stands_for for model in models if model.name == "m"] == [""]
    gateway.channel(gateway.base_url, "smart", name="late")
    assert next(model for model in await owner.models() if model.name == "smart").channels == ["late"]


async def test_an_alias_of_a_group_is_as_long_as_what_it_stands_for(owner: ControlClient, gateway: Gateway) -> None:
    served = (ServedModel(name="m", context=200_000, max_output=64_000),)
    gateway.channel(gateway.base_url, models=served)
    gateway.group("default", fallbacks=(Fallback(model="smart", to=("m",)),))
    found, listed = await owner.model("smart"), (await gateway.client.get("/v1/models/smart")).json
    assert (found.context, found.context_source, found.max_output) == (200_000, "upstream", 64_000)
    assert (found.routes, found.fallbacks) == ([], {"default": ["m"]})
    assert (listed["context_length"], listed["max_tokens"]) == (200_000, 64_000)


async def test_a_token_is_shown_what_it_pays_and_its_own_calls(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    gateway.group("friends", multiplier=1_500_000)
    gateway.channel(provider.base_url, groups=("default", "friends"))
    bob = gateway.token("bob", group="friends")
    await bob.chat("m")
    for _ in range(2):
        await gateway.client.chat("m")
    await gateway.settled(3)
    (seen,), (whole,) = await owner.models("bob"), await owner.models()
    assert seen.price is not None
    assert (seen.price.input, seen.price.output) == (3_750_000_000, 15_000_000_000)
    assert (seen.calls, whole.calls, seen.spent_nanos) == (1, 3, gateway.records[0].cost)
    assert (await bob.get("/v1/models/m")).json["pricing"] == {"input": "3.75", "output": "15.00"}
    assert (await gateway.client.get("/v1/models/m")).json["pricing"] == {"input": "2.50", "output": "10.00"}


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [((1, 3), (3, 3), []), ((3, 1), (3, 3), [1, 3]), ((1, 2), (2, 3), [2, 3])],
    ids=["became equal", "became different", "were different"],
)
@pytest.mark.parametrize("time", [{"since": 1_600_000_020_000}, {"during": [{"start": 0, "end": 1440}]}])
async def test_prices_of_channels_are_those_in_force(
    owner: ControlClient,
    gateway: Gateway,
    first: tuple[int, int],
    second: tuple[int, int],
    shown: list[int],
    time: dict[str, object],
) -> None:
    for name, (before, now) in {"one": first, "two": second}.items():
        gateway.channel("http://127.0.0.1:9/v1", "dated", name=name)
        rule = {**time, "input": now, "output": 9}
        await owner.set_price("dated", {"input": before, "output": 9, "rules": [rule]}, name)
    (view,) = [model for model in await owner.models() if model.name == "dated"]
    assert sorted(price.input for price in view.prices) == shown


async def test_refused_calls_do_not_count_for_a_model_or_token(owner: ControlClient, gateway: Gateway) -> None:
    await gateway.client.chat("m")
    await owner.edit_token("laptop", {"budgets": [{"window": "day", "nanos": 1}]})
    assert (await gateway.client.chat("m")).status == 429
    await gateway.settled(2)
    (listed,), (seen,), shown = await owner.models(), await owner.models("laptop"), await owner.model("m")
    (token,) = await owner.tokens()
    assert [one.calls for one in (listed, seen, shown, token)] == [1, 1, 1, 1]


async def test_an_unknown_model_names_near_ones(owner: ControlClient) -> None:
    with pytest.raises(NotFound, match=r"no model 'mm'; did you mean 'm'\?"):
        await owner.model("mm")
    with pytest.raises(NotFound, match="tollkeeper model list"):
        await owner.model("quite/different")


async def test_a_model_that_no_channel_offers_is_shown_with_its_price(owner: ControlClient, gateway: Gateway) -> None:
    gateway.price("later", Nanos(3), Nanos(4))
    shown = await owner.model("later")
    assert shown.price is not None
    assert (shown.price.input, shown.routes, shown.groups) == (3, [], [])
