import asyncio
import inspect
import subprocess
import sys

import pytest

from gateway.client.control import ControlClient
from gateway.control.app import ROUTES
from gateway.domain.errors import Conflict, InternalError, NotFound, Unavailable
from gateway.domain.events import Snapshot
from gateway.runfile import Endpoint
from tests.client.scripted import saying
from tests.control.conftest import Surface
from tests.fakes.gateway import Gateway


async def test_every_route_has_its_method() -> None:
    """A method a route, and no method without one, except for those that send several requests."""
    methods = [name for name, _ in inspect.getmembers(ControlClient, inspect.isfunction) if not name.startswith("_")]
    general = {"get", "change", "send", "send_once", "build_request", "decode"}
    combined = {"add_offers"}
    assert len(set(methods) - general - combined) == len(ROUTES)


@pytest.mark.parametrize("ref", ["nobody", "a b", "ä/ö", "..%2f", "?"])
async def test_what_is_not_there_is_reported_by_its_name(owner: ControlClient, ref: str) -> None:
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
    assert (await owner.test_channel("demo")).ok
    assert (await owner.clear_channel("demo")).state == "ok"
    assert (await owner.edit_channel("demo", {"weight": 3})).weight == 3
    await owner.remove_channel("demo")
    assert [channel.name for channel in await owner.channels()] == ["up"]


async def test_a_price_s_life(owner: ControlClient) -> None:
    assert (await owner.set_price("x/y", {"input": 1, "output": 2})).output_nanos == 2
    await owner.remove_price("x/y")
    assert [price.model for price in await owner.prices()] == ["m"]


async def test_models_are_requested_for_all_or_for_one_token(owner: ControlClient) -> None:
    assert await owner.models() == await owner.models("laptop")


async def test_account_and_settings(owner: ControlClient) -> None:
    assert (await owner.set_account({"stop_when_empty": True})).stop_when_empty
    assert (await owner.account()).granted_nanos == sum(grant.nanos for grant in await owner.grants())
    assert (await owner.grant(5)).granted_nanos == (await owner.account()).granted_nanos
    assert (await owner.set_settings({"keep_days": 7})).keep_days == (await owner.settings()).keep_days == 7


@pytest.mark.parametrize("door", ["unix", "tcp"])
async def test_both_doors_lead_to_the_same(surface: Surface, door: str) -> None:
    client = ControlClient(getattr(surface, door))
    assert (await client.status()).instance == surface.unix.instance


async def test_events_begin_with_a_snapshot(owner: ControlClient) -> None:
    async with asyncio.timeout(10):
        async for event in owner.events(5):
            assert isinstance(event, Snapshot)
            return


async def test_calls_and_sums(owner: ControlClient, gateway: Gateway) -> None:
    await gateway.client.chat()
    await gateway.settled()
    (call,) = (await owner.calls(token="laptop", failed=False, limit=5)).calls
    assert await owner.call(call.id) == call
    assert (await owner.summary(by="token")).total.cost_nanos == call.cost_nanos
    assert (await owner.verify()).equal
    with pytest.raises(NotFound):
        await owner.cancel(call.id)


async def test_undo_says_what_it_undid(owner: ControlClient) -> None:
    await owner.add_group({"name": "work"})
    assert (await owner.undo()).text == "group 'work' is removed"
    with pytest.raises(Conflict):
        await owner.undo()


async def test_stopping_says_how(owner: ControlClient, gateway: Gateway) -> None:
    asked: list[bool] = []
    gateway.engine.on_stop = asked.append
    await owner.stop()
    await owner.stop(now=True)
    assert asked == [False, True]


async def test_a_wrong_secret_is_reported(surface: Surface) -> None:
    stale = Endpoint(instance="x", secret="wrong", socket=surface.unix.socket)
    with pytest.raises(Exception, match="secret"):
        await ControlClient(stale).status()
    with pytest.raises(Exception, match="secret"):
        await anext(ControlClient(stale).events())


async def test_nobody_there_is_reported() -> None:
    with pytest.raises(Unavailable) as caught:
        await ControlClient(Endpoint(instance="x", secret="s", socket="/nonexistent/control.sock")).status()
    assert caught.value.code == "server_gone"


async def test_events_of_another_version_are_reported_as_such() -> None:
    async with saying(b'HTTP/1.1 200 OK\r\n\r\n{"type":"novelty"}\n') as place:
        with pytest.raises(InternalError) as caught:
            await anext(ControlClient(Endpoint(instance="x", secret="s", port=place.port)).events())
    assert caught.value.code == "version_mismatch"


def test_it_starts_fast() -> None:
    """What is slow to import has no place in a front end's client."""
    heavy = "{'aiohttp', 'textual', 'tinydb', 'click'}"
    program = f"import sys, gateway.client.control; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
