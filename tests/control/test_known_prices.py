"""Known prices: models that a channel newly offers get them, unless the owner set one or wants none."""

import msgspec
import pytest

from gateway.client.control import ControlClient
from gateway.control import model_lists
from gateway.control.edits import ConfigEdits
from gateway.domain.errors import BadRequest, Conflict, NotFound
from gateway.domain.registry import Change
from gateway.domain.units import DOLLAR, Millis
from tests.control.confirming import confirming
from tests.fakes.gateway import INPUT, Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import reply, speak

OPENAI = {"name": "openai", "preset": "openai", "key": "env:NOT_SET"}
LOCAL = {"name": "local", "dialect": "openai", "base_url": "http://127.0.0.1:9/v1"}


def named(*models: str) -> list[dict[str, str]]:
    """Models, each ``public`` or ``public=upstream``."""
    pairs = [model.partition("=") for model in models]
    return [{"name": public, "upstream": upstream} if upstream else {"name": public} for public, _, upstream in pairs]


async def rates(owner: ControlClient) -> dict[str, int | None]:
    """Input prices of the models, inherited ones included."""
    return {m.name: None if m.price is None else m.price.input for m in await owner.models()}


@pytest.mark.parametrize("more", [{}, {"base_url": "http://127.0.0.1:9/v1"}], ids=["its own place", "another place"])
async def test_a_new_channel_s_models_get_its_preset_s_prices(owner: ControlClient, more: dict[str, str]) -> None:
    saved = await owner.add_channel({**OPENAI, **more, "models": named("gpt-4.1", "unheard-of")})
    assert (await owner.history())[0].text == "added channel 'openai' with 1 list price"
    assert [(price.model, price.input) for price in saved.new_prices] == [("gpt-4.1", 2 * DOLLAR)]
    assert saved.new_prices[0].source.startswith("genai-prices")
    assert saved.unpriced == ("unheard-of",)
    assert (await rates(owner))["gpt-4.1"] == 2 * DOLLAR


async def test_a_preset_that_is_given_later_brings_the_prices(owner: ControlClient) -> None:
    body = {
        **OPENAI,
        "preset": "",
        "dialect": "openai",
        "base_url": "http://127.0.0.1:9/v1",
        "models": named("gpt-4.1", "gpt-4.1-mini"),
    }
    assert (await owner.add_channel(body)).new_prices == ()
    await owner.set_price("gpt-4.1", {"input": 1, "output": 1})
    saved = await owner.edit_channel("openai", {"preset": "openai"})
    assert [price.model for price in saved.new_prices] == ["gpt-4.1-mini"]
    assert (await owner.edit_channel("openai", {"priority": 3})).new_prices == ()


async def test_a_list_price_of_a_name_goes_with_what_it_is_mapped_to(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("quick=gpt-4.1-nano", "slow=gpt-4.1", "mine=gpt-4.1")})
    assert (await rates(owner))["quick"] == DOLLAR // 10
    await owner.set_price("mine", {"input": 7, "output": 7})
    own = (await rates(owner))["mine"]
    saved = await owner.edit_channel("openai", {"models": named("quick=gpt-4.1", "slow=unheard-of", "mine=unheard-of")})
    after = await rates(owner)
    assert (after["quick"], after["slow"], after["mine"]) == (2 * DOLLAR, None, own)
    assert ([price.model for price in saved.new_prices], saved.unpriced) == (["quick"], ("slow",))
    await owner.undo()
    assert ((await rates(owner))["quick"], (await rates(owner))["slow"]) == (DOLLAR // 10, 2 * DOLLAR)


async def test_channel_and_prices_are_undone_in_one_step(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("gpt-4.1", "gpt-4.1-mini")})
    assert (await owner.undo()).text == "channel 'openai' is removed"
    assert [price.model for price in await owner.prices()] == ["m"]
    assert [channel.name for channel in await owner.channels()] == ["up"]


async def test_a_channel_that_wants_no_prices_gets_them_when_it_wants_them(owner: ControlClient) -> None:
    body = {**OPENAI, "models": named("gpt-4.1", "gpt-4.1-mini"), "known_prices": False}
    saved = await owner.add_channel(body)
    assert (saved.new_prices, saved.unpriced, saved.known_prices) == ((), ("gpt-4.1", "gpt-4.1-mini"), False)
    await owner.set_price("gpt-4.1", {"input": 1, "output": 1})
    saved = await owner.edit_channel("openai", {"known_prices": True})
    assert ([price.model for price in saved.new_prices], saved.unpriced) == (["gpt-4.1-mini"], ())
    assert (await rates(owner))["gpt-4.1"] == 1


async def test_models_that_an_edit_adds_are_priced_and_others_are_left_alone(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("gpt-4.1")})
    await owner.remove_price("gpt-4.1")
    saved = await owner.edit_channel("openai", {"models": named("gpt-4.1", "gpt-4.1-mini")})
    assert ([price.model for price in saved.new_prices], saved.unpriced) == (["gpt-4.1-mini"], ())
    assert (await owner.undo()).text == "channel 'openai' is as before"
    assert (await rates(owner)) == {"m": INPUT, "gpt-4.1": None}


@pytest.mark.parametrize(("target", "price"), [("gpt-4.1-nano", DOLLAR // 10), ("my-finetune", None)])
async def test_what_else_is_mapped_to_a_model_keeps_its_price_when_that_name_becomes_another_model(
    owner: ControlClient, target: str, price: int | None
) -> None:
    await owner.add_channel({**OPENAI, "models": named("gpt-4.1", "fast=gpt-4.1")})
    await owner.add_channel({**OPENAI, "name": "b", "models": named("quick=gpt-4.1")})
    saved = await owner.edit_channel("openai", {"models": named(f"gpt-4.1={target}", "fast=gpt-4.1")})
    now = await rates(owner)
    assert [now[name] for name in ("gpt-4.1", "fast", "quick")] == [price, 2 * DOLLAR, 2 * DOLLAR]
    assert saved.unpriced == (() if price else ("gpt-4.1",))
    await owner.undo()
    now = await rates(owner)
    assert [now[name] for name in ("gpt-4.1", "fast", "quick")] == [2 * DOLLAR] * 3


async def test_notes_about_prices_after_an_edit_name_what_it_changed(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("gpt-4.1", "unheard-of")})
    mine = {"name": "b", "dialect": "openai", "base_url": "http://127.0.0.1:9/v1", "models": named("gpt-4.1=mine")}
    await owner.add_channel(mine)
    again = await owner.edit_channel("b", {"priority": 2})
    assert again.unpriced == ()
    models = named("gpt-4.1=another", "new")
    saved = await owner.edit_channel("b", {"models": models})
    assert saved.unpriced == ("gpt-4.1", "new")


async def test_a_list_price_goes_where_none_are_wanted_and_undo_brings_it_back(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("quick=gpt-4.1-nano")})
    await owner.edit_channel("openai", {"known_prices": False})
    saved = await owner.edit_channel("openai", {"models": named("quick=o3")})
    assert (saved.unpriced, (await rates(owner))["quick"]) == (("quick",), None)
    await owner.undo()
    await owner.edit_channel("openai", {"known_prices": True})
    assert (await owner.edit_channel("openai", {"models": named("quick=o3")})).unpriced == ()
    assert (await owner.undo()).text == "channel 'openai' is as before"
    assert (await rates(owner))["quick"] == DOLLAR // 10


async def test_a_price_that_the_owner_set_from_a_source_of_theirs_stays(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("quick=gpt-4.1-nano")})
    await owner.set_price("quick", {"input": 7, "output": 7, "source": "our contract"})
    await owner.edit_channel("openai", {"models": named("quick=my-finetune")})
    assert (await rates(owner))["quick"] == 7


async def test_a_name_that_comes_back_for_another_model_gets_that_ones_price(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("quick=gpt-4.1-nano", "o4-mini")})
    await owner.edit_channel("openai", {"models": named("o4-mini")})
    await owner.edit_channel("openai", {"models": named("o4-mini", "quick=o3")})
    assert (await rates(owner))["quick"] == 2 * DOLLAR


async def test_a_mapping_priced_like_another_target_does_not_follow_a_changed_name(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "priority": 10, "models": named("gpt-4.1-nano", "fast=gpt-4.1-nano")})
    await owner.add_channel({**OPENAI, "name": "two", "models": named("gpt-4.1", "fast=gpt-4.1")})
    await owner.edit_channel("two", {"models": named("gpt-4.1=gpt-4.1-mini", "fast=gpt-4.1")})
    assert (await rates(owner))["fast"] == DOLLAR // 10


async def test_a_new_channel_that_maps_a_name_elsewhere_removes_its_old_list_price(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("gpt-4.1", "gpt-4.1-mini")})
    await owner.edit_channel("openai", {"models": named("gpt-4.1-mini")})
    assert (await owner.add_channel({**LOCAL, "models": named("gpt-4.1=llama")})).unpriced == ("gpt-4.1",)


async def test_several_channels_that_map_a_name_elsewhere_at_once_give_it_the_new_price(owner: ControlClient) -> None:
    for name in ("a", "b"):
        await owner.add_channel({**OPENAI, "name": name, "models": named("gpt-4.1")})
    await owner.batch("channels", {name: {"models": named("gpt-4.1=gpt-4.1-mini")} for name in "ab"})
    assert (await rates(owner))["gpt-4.1"] == DOLLAR * 2 // 5
    await owner.batch("channels", dict.fromkeys("ab"))
    assert "gpt-4.1" not in {price.model for price in await owner.prices()}


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_a_name_that_gets_one_model_everywhere_is_priced_in_any_order(owner: ControlClient, order: str) -> None:
    await owner.add_channel({**LOCAL, "name": "b", "models": named("quick=unheard-of")})
    await owner.add_channel({**OPENAI, "name": "a", "models": named("gpt-4.1-mini")})
    await owner.batch("channels", {name: {"models": named("quick=gpt-4.1")} for name in order})
    assert (await rates(owner))["quick"] == 2 * DOLLAR


@pytest.mark.parametrize("together", [True, False])
async def test_a_name_of_a_model_without_a_price_loses_its_list_price(owner: ControlClient, *, together: bool) -> None:
    models = {"models": named("quick=my-llama")}
    for name in "ab":
        await owner.add_channel({**OPENAI, "name": name, "models": named("quick=gpt-4.1")})
    if together:
        await owner.batch("channels", dict.fromkeys("ab", models))
    else:
        await owner.edit_channel("a", models)
        assert (await rates(owner))["quick"] == 2 * DOLLAR
        assert (await owner.edit_channel("b", models)).unpriced == ("quick",)
    assert (await rates(owner))["quick"] is None
    await owner.undo()
    assert (await rates(owner))["quick"] == 2 * DOLLAR


async def test_a_price_that_the_owner_set_stays_when_a_name_gets_another_model_everywhere(owner: ControlClient) -> None:
    for name in "ab":
        await owner.add_channel({**OPENAI, "name": name, "models": named("quick=gpt-4.1")})
    await owner.set_price("quick", {"like": "gpt-4.1"})
    await owner.batch("channels", {name: {"models": named("quick=my-llama")} for name in "ab"})
    assert (await rates(owner))["quick"] == 2 * DOLLAR


async def test_a_mapping_follows_its_target(owner: ControlClient) -> None:
    saved = await owner.add_channel({**OPENAI, "models": named("gpt-4.1", "fast=gpt-4.1", "mini=gpt-4.1-mini")})
    assert sorted(price.model for price in saved.new_prices) == ["fast", "gpt-4.1", "mini"]
    await owner.set_price("gpt-4.1", {"input": 7, "output": 7})
    found = {model.name: model.price for model in await owner.models()}
    assert found["fast"] is not None
    assert (found["fast"].model, found["fast"].inherited_from, found["fast"].input) == ("fast", "gpt-4.1", 7)
    assert [(p.model, p.kept) for p in await owner.import_prices()] == [
        ("gpt-4.1", True),
        ("fast", True),
        ("mini", False),
    ]
    await owner.remove_price("fast")
    with pytest.raises(NotFound, match=r"an alias of 'gpt-4.1' and has its price"):
        await owner.remove_price("fast")


async def test_a_price_set_for_one_channel_is_named_where_there_is_none_for_the_model(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("my-llama")})
    await owner.set_price("my-llama", {"input": 7, "output": 7}, "openai")
    command = "'tollkeeper price remove my-llama --channel openai' removes that"
    with pytest.raises(NotFound, match=f"no price for 'my-llama' except at channel 'openai': {command}"):
        await owner.remove_price("my-llama")
    await owner.remove_price("my-llama", "openai")
    with pytest.raises(NotFound, match=r"no price for 'my-llama'$"):
        await owner.remove_price("my-llama")


async def test_a_mapping_is_charged_like_its_target(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("inner", speak())
    gateway.channel(provider.base_url, "alias=inner", name="mapped")
    await owner.set_price("inner", {"input": 0, "output": 0, "per_call": 7})
    record = await gateway.call(model="alias")
    assert (record.model, record.cost) == ("alias", 7)


async def test_later_models_get_prices_unless_set(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("/v1/models", reply({"data": [{"id": "gpt-4.1"}]}))
    await owner.add_channel({**OPENAI, "key": "sk-x", "base_url": provider.base_url})
    await owner.remove_price("gpt-4.1")
    await owner.set_price("gpt-4.1-mini", {"input": 1, "output": 1})
    listed = [{"id": name} for name in ("gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano")]
    provider.on("/v1/models", reply({"data": listed}))
    await model_lists.refresh(ConfigEdits(gateway.engine), gateway.engine.catalog.channel("openai"))
    found = await rates(owner)
    assert (found["gpt-4.1"], found["gpt-4.1-mini"], found["gpt-4.1-nano"]) == (None, 1, DOLLAR // 10)


async def test_later_list_prices_are_in_the_history(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("/v1/models", reply({"data": [{"id": "gpt-4.1"}]}))
    await owner.add_channel({**OPENAI, "key": "sk-x", "base_url": provider.base_url})
    provider.on("/v1/models", reply({"data": [{"id": "gpt-4.1"}, {"id": "gpt-4.1-nano"}]}))
    registry = gateway.engine.catalog.registry
    channel = gateway.engine.catalog.channel("openai").id
    old = msgspec.structs.replace(registry.lists[channel], time=Millis(1))
    gateway.engine.change([Change("lists", channel, old)])
    await model_lists.refresh_due(gateway.engine)
    newest, *_ = await owner.history()
    assert newest.text == "set the known prices of 1 new model of channel 'openai'"
    assert newest.source.text() == "the gateway itself"
    (difference,) = newest.differences
    assert (difference.action, difference.noun, difference.name) == ("changed", "channel", "openai")
    (field,) = difference.fields
    assert (field.field, field.before, field.after[:13]) == ("price of gpt-4.1-nano", "none", "$0.10 / $0.40")
    with pytest.raises(Conflict, match="It was made by the gateway itself"):
        await owner.undo()
    await confirming(owner).undo(newest.id)
    assert (await rates(owner))["gpt-4.1-nano"] is None


async def asked(owner: ControlClient, model: str) -> dict[str, int | None]:
    """What the channels of a model ask for its input."""
    routes = (await owner.model(model)).routes
    return {route.channel: None if route.price is None else route.price.input for route in routes}


@pytest.mark.parametrize("order", [("groq", "together"), ("together", "groq")])
async def test_each_channel_brings_the_price_of_its_vendor(owner: ControlClient, order: tuple[str, str]) -> None:
    models = {"groq": "qwen/qwen3-32b", "together": "Qwen/Qwen3.5-9B"}
    for name in order:
        await owner.add_channel(
            {"name": name, "preset": name, "key": "env:NOT_SET", "models": named(f"q={models[name]}")}
        )
    assert await asked(owner, "q") == {"groq": DOLLAR * 29 // 100, "together": DOLLAR * 17 // 100}
    assert [one.model for one in await owner.import_prices(apply=True) if one.differs] == []


async def test_what_the_upstream_publishes_comes_before_the_list(owner: ControlClient, provider: Provider) -> None:
    prices = {"prompt": "0.0000003", "completion": "0.0000012"}
    provider.on("/v1/models", reply({"data": [{"id": "gpt-4.1", "pricing": prices}]}))
    saved = await owner.add_channel({**OPENAI, "key": "sk-x", "base_url": provider.base_url})
    assert [(price.input, price.source) for price in saved.new_prices] == [(DOLLAR * 3 // 10, "the list of openai")]


async def test_published_zeros_do_not_make_free_what_the_list_prices(owner: ControlClient, provider: Provider) -> None:
    listed = {"id": "gpt-4.1", "pricing": {"input": 0, "output": 0}}
    provider.on("/v1/models", reply({"data": [listed, {**listed, "id": "gratis"}]}))
    saved = await owner.add_channel({**OPENAI, "key": "sk-x", "base_url": provider.base_url})
    assert {price.model: price.input for price in saved.new_prices} == {"gpt-4.1": 2 * DOLLAR, "gratis": 0}


async def test_a_server_nearby_is_not_charged_at_a_vendors_price_and_a_relay_far_away_is(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("gpt-4.1")})
    assert (await owner.add_channel({**LOCAL, "models": named("gpt-4.1")})).unpriced == ("gpt-4.1",)
    relay = {**LOCAL, "name": "relay", "base_url": "https://relay.example.com/v1"}
    (price,) = (await owner.add_channel({**relay, "models": named("mine=gpt-4.1", "other")})).new_prices
    assert (price.model, price.input) == ("mine", 2 * DOLLAR)
    assert price.source.endswith(", as at channel openai")
    assert [one.model for one in await owner.import_prices(apply=True) if one.differs] == []


async def test_a_channel_that_moves_to_another_vendor_gets_that_ones_prices(owner: ControlClient) -> None:
    model = "openai/gpt-oss-120b"
    body = {"name": "a", "preset": "groq", "key": "env:NOT_SET", "models": named(model, "mine")}
    await owner.add_channel(body)
    await owner.set_price("mine", {"input": 5, "output": 5}, "a")
    await owner.edit_channel("a", {"preset": "", "base_url": "http://10.0.0.1:9/v1"})
    assert (await asked(owner, model), await asked(owner, "mine")) == ({"a": None}, {"a": 5})


async def test_a_removed_channel_takes_its_prices_along(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("gpt-4.1", "gpt-4.1-mini")})
    await owner.add_channel({**OPENAI, "name": "second", "models": named("gpt-4.1")})
    await owner.set_price("mine", {"input": 1, "output": 1})
    await owner.remove_channel("openai")
    assert [price.model for price in await owner.prices()] == ["gpt-4.1", "m", "mine"]
    await owner.undo()
    assert [price.model for price in await owner.prices()] == ["gpt-4.1", "gpt-4.1", "gpt-4.1-mini", "m", "mine"]


@pytest.mark.parametrize(
    ("like", "dollars"), [("m", INPUT), ("gpt-4.1", 2 * DOLLAR), ("openai/gpt-4.1-mini", 2 * DOLLAR // 5)]
)
async def test_a_model_is_priced_like_one_of_ours_or_of_the_list(owner: ControlClient, like: str, dollars: int) -> None:
    price = await owner.set_price("local", {"like": like})
    assert (price.model, price.input, price.as_of_ms) == ("local", dollars, None)
    listed, _, version = price.source.partition(" in ")
    assert (listed, version.startswith("genai-prices ")) == (f"like {like}", like != "m")


async def test_a_model_is_priced_like_an_inherited_price(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "fast=m", name="mapped")
    assert (await owner.set_price("local", {"like": "fast"})).input == INPUT


async def test_likeness_to_nothing_or_to_several_is_refused(owner: ControlClient) -> None:
    with pytest.raises(NotFound, match="no price is known for 'nothing-like-it'") as missing:
        await owner.set_price("local", {"like": "nothing-like-it"})
    with pytest.raises(BadRequest, match=r"name one of them: huggingface_.*/meta-llama") as several:
        await owner.set_price("local", {"like": "meta-llama/llama-3.3-70b-instruct"})
    with pytest.raises(BadRequest):
        await owner.set_price("local", {"like": "m", "input": 1})
    assert (missing.value.param, several.value.param) == ("like", "like")


async def test_prices_like_another_are_not_replaced_by_a_list(owner: ControlClient) -> None:
    await owner.add_channel({**OPENAI, "models": named("gpt-4.1")})
    await owner.set_price("gpt-4.1", {"like": "m"})
    (proposal,) = await owner.import_prices(apply=True)
    assert (proposal.kept, (await rates(owner))["gpt-4.1"]) == (True, INPUT)
