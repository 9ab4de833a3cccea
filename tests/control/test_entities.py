"""Several edits are one change, all or none, and one undo."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Mapping

import pytest

from gateway.client.control import ControlClient
from gateway.domain.errors import BadRequest, Conflict, GatewayError, NotFound
from gateway.domain.units import DOLLAR
from tests.control.confirming import confirming

NAMES = ("a", "b", "c")


@pytest.fixture
async def owner(owner: ControlClient) -> ControlClient:
    for name in NAMES:
        await owner.add_token({"name": name})
    await owner.add_group({"name": "friends"})
    await owner.clear_history()
    return owner


@pytest.mark.parametrize(
    ("patch", "done"),
    [
        ({"enabled": False}, "disabled 3 tokens: 'a', 'b', 'c'"),
        ({"group": "friends"}, "moved 3 tokens to group 'friends': 'a', 'b', 'c'"),
        ({"limits": {"rpm": 5}}, "changed limits of 3 tokens: 'a', 'b', 'c'"),
        ({"budgets": [{"window": "day", "nanos": DOLLAR}]}, "changed budgets of 3 tokens: 'a', 'b', 'c'"),
        (None, "removed 3 tokens: 'a', 'b', 'c'"),
    ],
)
async def test_a_batch_is_one_change_and_one_undo(owner: ControlClient, patch: object, done: str) -> None:
    before = await owner.tokens()
    assert await owner.batch("tokens", dict.fromkeys(NAMES, patch)) == done
    (entry,) = await owner.history()
    assert entry.text == done
    after = await owner.tokens()
    state = "back" if patch is None else "as before"
    assert (await confirming(owner).undo()).text == f"3 tokens are {state}: 'a', 'b', 'c'"
    assert await owner.tokens() == before
    await owner.redo()
    assert await owner.tokens() == after


async def test_the_error_of_one_price_of_many_names_its_model(owner: ControlClient) -> None:
    with pytest.raises(BadRequest, match=r"^price of 'y': input: must not be negative$") as caught:
        await owner.batch("prices", {"x": {"input": 1, "output": 2}, "y": {"input": -1, "output": 2}})
    assert caught.value.param == "input"
    assert "x" not in [price.model for price in await owner.prices()]


async def test_a_batch_that_changes_nothing_is_not_in_the_history(owner: ControlClient) -> None:
    on, off = ({name: {"enabled": enabled} for name in NAMES} for enabled in (True, False))
    assert await owner.batch("tokens", on) == "nothing was changed"
    await owner.batch("tokens", off)
    assert await owner.batch("tokens", on) == "enabled 3 tokens: 'a', 'b', 'c'"
    assert len(await owner.history()) == 2


async def test_a_single_edit_is_named_and_may_rename(owner: ControlClient) -> None:
    assert await owner.batch("tokens", {"a": {"name": "z"}}) == "renamed token 'a' to 'z'"
    assert [token.name for token in await owner.tokens()] == ["b", "c", "laptop", "z"]
    assert (await confirming(owner).undo()).text == "token 'a' is as before"


async def test_groups_channels_and_prices_too(owner: ControlClient) -> None:
    for name in ("x", "y"):
        await owner.add_group({"name": name})
        await owner.add_channel({"name": name, "dialect": "mock", "models": [{"name": f"m-{name}"}]})
    await owner.batch("channels", {"x": {"enabled": False, "groups": ["friends"]}, "y": {"limits": {"rpm": 3}}})
    assert ((await owner.channel("x")).groups, (await owner.channel("y")).limits.rpm) == (("friends",), 3)
    await owner.batch("groups", {"x": {"limits": {"tpm": 9}}, "y": {"limits": {"tpm": 9}}})
    assert (await owner.group("y")).limits.tpm == 9
    assert await owner.batch("groups", {"x": None, "y": None}) == "removed 2 groups: 'x', 'y'"
    free = {"input": 0, "output": 0}
    assert await owner.batch("prices", {"m-x": free, "m-y": free}) == "set 2 prices: 'm-x', 'm-y'"
    assert [price.free for price in await owner.prices() if price.model.startswith("m-")] == [True, True]
    assert await owner.batch("channels", {"x": None, "y": None}) == "removed 2 channels: 'x', 'y'"


@pytest.mark.parametrize(
    ("patches", "error"),
    [
        ({"a": {"enabled": False}, "nobody": {"enabled": False}}, NotFound),
        ({"a": {"group": "friends"}, "b": {"group": "nowhere"}}, BadRequest),
        ({"a": {"limits": {"rpm": 0}}}, BadRequest),
        ({"a": {"name": "z"}, "b": {"enabled": False}}, BadRequest),
        ({"a": {"nonsense": 1}}, BadRequest),
        ({"a": 5}, BadRequest),
        ({}, BadRequest),
    ],
)
async def test_all_or_none(owner: ControlClient, patches: Mapping[str, object], error: type[GatewayError]) -> None:
    before = await owner.tokens()
    with pytest.raises(error):
        await owner.batch("tokens", patches)
    assert (await owner.tokens(), await owner.history()) == (before, [])


async def test_one_entity_by_two_names_is_refused(owner: ControlClient) -> None:
    token = await owner.token("a")
    with pytest.raises(BadRequest, match="twice"):
        await owner.batch("tokens", {"a": {"enabled": False}, token.id: {"enabled": True}})


async def test_a_group_in_use_stops_the_whole_batch(owner: ControlClient) -> None:
    with pytest.raises(Conflict) as caught:
        await owner.batch("groups", {"friends": None, "default": None})
    assert caught.value.code == "group_in_use"
    assert {group.name for group in await owner.groups()} == {"default", "friends"}


async def longest_step(work: Awaitable[object]) -> float:
    """The longest that other calls wait for the work, in seconds of processor time."""
    gc.collect()  # the objects of other tests do not belong to the work
    longest = 0.0

    async def other() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    gc.disable()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(other())
        await work
        task.cancel()
    gc.enable()
    return longest


async def test_calls_go_on_while_many_prices_are_set(owner: ControlClient) -> None:
    prices = {f"m{number}": {"input": 1, "output": 1} for number in range(400)}
    assert await longest_step(owner.batch("prices", prices)) < 0.05
    assert await longest_step(confirming(owner).undo()) < 0.05
    assert await longest_step(owner.redo()) < 0.05
    assert len(await owner.prices()) == 401


async def test_calls_go_on_while_a_channel_with_many_models_is_added(owner: ControlClient) -> None:
    models = [{"name": f"m{number}"} for number in range(1000)]
    channel = {"name": "x", "dialect": "mock", "models": models, "known_prices": False}
    assert await longest_step(owner.add_channel(channel)) < 0.05
