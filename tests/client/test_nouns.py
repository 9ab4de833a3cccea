import inspect

import pytest

from gateway.client.control import ControlClient
from gateway.control.app import ROUTES
from gateway.domain.errors import NotFound


async def test_every_route_has_its_method() -> None:
    """A method a route, and no method without one."""
    methods = [name for name, _ in inspect.getmembers(ControlClient, inspect.isfunction) if not name.startswith("_")]
    general = {"get", "post", "patch", "put", "delete", "send", "ask", "read"}
    assert len(set(methods) - general) == len(ROUTES)


@pytest.mark.parametrize("ref", ["nobody", "a b", "ä/ö", "..%2f", "?"])
async def test_what_is_not_there_is_told_by_its_name(owner: ControlClient, ref: str) -> None:
    for ask in (owner.token, owner.group, owner.channel):
        with pytest.raises(NotFound) as caught:
            await ask(ref)
        assert ref in caught.value.message


async def test_a_token_s_life(owner: ControlClient) -> None:
    made = await owner.add_token({"name": "phone"})
    assert (await owner.edit_token("phone", {"note": "x"})).note == "x"
    assert (await owner.rotate_token("phone")).key != made.key
    assert (await owner.token_pass("phone")).startswith("sk-")
    await owner.remove_token("phone")
    assert [token.name for token in await owner.tokens()] == ["laptop"]


async def test_a_group_s_life(owner: ControlClient) -> None:
    await owner.add_group({"name": "work"})
    await owner.edit_token("laptop", {"group": "work"})
    await owner.remove_group("work", "default")
    assert (await owner.token("laptop")).group == "default"


async def test_a_channel_s_life(owner: ControlClient) -> None:
    await owner.add_channel({"name": "demo", "dialect": "mock"})
    assert [model.name for model in await owner.channel_models("demo")] != []
    assert (await owner.test_channel("demo")).ok
    assert (await owner.clear_channel("demo")).state == "ok"
    assert (await owner.edit_channel("demo", {"weight": 3})).weight == 3
    await owner.remove_channel("demo")
    assert [channel.name for channel in await owner.channels()] == ["up"]


async def test_a_price_s_life(owner: ControlClient) -> None:
    assert (await owner.set_price("x/y", {"input": 1, "output": 2})).output_nanos == 2
    await owner.remove_price("x/y")
    assert [price.model for price in await owner.prices()] == ["m"]


async def test_models_are_asked_for_all_or_for_one_token(owner: ControlClient) -> None:
    assert await owner.models() == await owner.models("laptop")


async def test_account_and_settings(owner: ControlClient) -> None:
    assert (await owner.set_account({"stop_when_empty": True})).stop_when_empty
    assert (await owner.account()).granted_nanos == sum(grant.nanos for grant in await owner.grants())
    assert (await owner.grant(5)).granted_nanos == (await owner.account()).granted_nanos
    assert (await owner.set_settings({"keep_days": 7})).keep_days == (await owner.settings()).keep_days == 7
