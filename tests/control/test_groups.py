import asyncio
from typing import Any

import pytest

from gateway.client.control import ControlClient
from gateway.domain.errors import BadRequest, Conflict
from gateway.store import sums
from gateway.store.rollup import Counts
from tests.control.confirming import confirming
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import speak_after


async def test_a_group_tells_what_it_ties_together(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "m", "n", name="aaa", priority=5)
    group = await owner.group("default")
    assert (group.tokens, group.channels, group.sees) == (["laptop"], ["aaa", "up"], ["m", "n"])
    assert (await owner.edit_group("default", {"models": ["n*"]})).sees == ["n"]


async def test_tokens_and_channels_follow_a_new_name_and_its_undo(owner: ControlClient, gateway: Gateway) -> None:
    group = await owner.edit_group("default", {"name": "home", "note": "new"})
    assert (group.name, group.tokens, group.channels, group.note) == ("home", ["laptop"], ["up"], "new")
    assert (await owner.token("laptop")).group == "home"
    assert (await owner.channel("up")).groups == ("home",)
    assert [group.name for group in await owner.groups()] == ["home"]
    assert (await gateway.client.chat()).status == 200
    await confirming(owner).undo()
    assert (await owner.token("laptop")).group == "default"
    assert (await owner.channel("up")).groups == ("default",)
    assert [group.name for group in await owner.groups()] == ["default"]


async def test_a_group_in_use_stays_and_says_by_whom(owner: ControlClient) -> None:
    with pytest.raises(Conflict, match=r"token 'laptop', channel 'up'") as caught:
        await owner.remove_group("default")
    assert caught.value.code == "group_in_use"
    assert [group.name for group in await owner.groups()] == ["default"]


async def test_its_users_can_move_while_it_is_removed(owner: ControlClient) -> None:
    await owner.add_group({"name": "work"})
    await owner.edit_channel("up", {"groups": ["default", "work"]})
    await owner.remove_group("default", "work")
    assert (await owner.token("laptop")).group == "work"
    assert (await owner.channel("up")).groups == ("work",)


@pytest.mark.parametrize("target", ["nobody", "default"])
async def test_they_cannot_move_to_nowhere(owner: ControlClient, target: str) -> None:
    with pytest.raises((BadRequest, Conflict)):
        await owner.remove_group("default", target)


async def test_a_group_has_a_policy(owner: ControlClient) -> None:
    assert (await owner.group("default")).policy == "priority"
    group = await owner.edit_group("default", {"policy": "cheapest", "sticky": True})
    assert (group.policy, group.sticky) == ("cheapest", True)
    with pytest.raises(BadRequest, match="cheapest"):
        await owner.edit_group("default", {"policy": "best"})


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([{"model": "m", "to": []}], "1 to 10"),
        ([{"model": "m", "to": ["n"]}, {"model": "m", "to": ["o"]}], "twice"),
        ([{"model": "m", "to": [" n"]}], "a space"),
        ([{"model": "m", "to": ["n"], "x": 1}], "unknown field"),
    ],
)
async def test_senseless_fallbacks_are_refused(owner: ControlClient, rules: list[object], text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        await owner.edit_group("default", {"fallbacks": rules})


async def test_budgets_and_sums_follow_a_new_name_and_its_undo(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_group("default", {"budgets": [{"window": "day", "nanos": 10**12}]})
    first = await gateway.call()
    renamed = await owner.edit_group("default", {"name": "home"})
    assert (renamed.calls, renamed.spent_nanos, renamed.budgets[0].spent_nanos) == (1, first.cost, first.cost)
    await gateway.call()
    assert (await owner.undo()).text == "group 'default' is as before"
    assert ((await owner.group("default")).calls, (await owner.group("default")).budgets[0].spent_nanos) == (
        2,
        2 * first.cost,
    )
    await owner.redo()
    assert (await owner.edit_group("home", {"name": "house"})).calls == 2
    assert (await owner.verify()).equal


async def test_a_name_that_another_group_gets_begins_again_for_that_one(owner: ControlClient, gateway: Gateway) -> None:
    record = await gateway.call()
    await owner.edit_group("default", {"name": "home", "budgets": [{"window": "day", "nanos": record.cost}]})
    assert (await owner.add_group({"name": "default"})).calls == 0
    assert (await owner.group("home")).calls == 1
    assert (await gateway.client.chat()).status == 429
    await owner.undo()
    assert (await owner.group("home")).calls == 1


async def test_groups_that_swap_their_names_keep_their_sums(owner: ControlClient, gateway: Gateway) -> None:
    await owner.add_group({"name": "b"})
    await gateway.call()
    for old, new in (("default", "tmp"), ("b", "default"), ("tmp", "b")):
        await owner.edit_group(old, {"name": new})
    assert {group.name: group.calls for group in await owner.groups()} == {"b": 1, "default": 0}
    await gateway.call()
    assert {group.name: group.calls for group in await owner.groups()} == {"b": 2, "default": 0}
    for _ in range(3):
        await confirming(owner).undo()
    assert {group.name: group.calls for group in await owner.groups()} == {"b": 0, "default": 2}


async def test_no_call_counts_for_two_groups_after_an_import_or_an_undo(owner: ControlClient, gateway: Gateway) -> None:
    await gateway.call()
    await owner.edit_group("default", {"name": "home"})
    await owner.import_config("format = 1\n[groups.default]\n", apply=True)
    assert {group.name: group.calls for group in await owner.groups()} == {"home": 1, "default": 0}
    await owner.add_group({"name": "x"})
    await owner.edit_group("x", {"name": "y"})
    await owner.undo()
    assert {group.name: group.calls for group in await owner.groups()} == {"home": 1, "default": 0, "x": 0}


async def test_an_undo_gives_no_two_groups_the_same_id(owner: ControlClient) -> None:
    await owner.add_group({"name": "a"})
    await owner.remove_group("a")
    removal = (await owner.history())[0].id
    await owner.add_group({"name": "a"})
    await owner.edit_group("a", {"name": "c"})
    with pytest.raises(Conflict) as caught:
        await confirming(owner).undo(removal)
    assert caught.value.code == "newer_change"
    assert {group.name for group in await owner.groups()} == {"c", "default"}


async def calls_of(owner: ControlClient) -> dict[str, int]:
    """How many calls count for each group."""
    return {group.name: group.calls for group in await owner.groups()}


async def test_a_removed_group_leaves_its_calls_to_nobody(owner: ControlClient, gateway: Gateway) -> None:
    await gateway.call()
    await owner.edit_group("default", {"name": "home"})
    await owner.add_group({"name": "default"})
    await owner.add_group({"name": "c"})
    await owner.remove_group("home", move="c")
    assert await calls_of(owner) == {"default": 0, "c": 0}
    await owner.edit_group("c", {"name": "home"})
    assert await calls_of(owner) == {"default": 0, "home": 0}
    await gateway.call()
    assert await calls_of(owner) == {"default": 0, "home": 1}


async def test_a_restored_configuration_has_the_calls_of_its_groups(owner: ControlClient, gateway: Gateway) -> None:
    await gateway.call()
    text = (await owner.export_config()).text
    await owner.edit_group("default", {"name": "home"})
    await owner.import_config(text, prune=True, apply=True)
    assert await calls_of(owner) == {"default": 1}


async def test_however_often_a_group_is_renamed_the_log_is_not_read_for_each_call(
    owner: ControlClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[object] = []
    by_value = sums.by_value

    def count(*asked: Any) -> dict[str, Counts]:
        counted.append(asked)
        return by_value(*asked)

    monkeypatch.setattr(sums, "by_value", count)
    windows = [{"window": window, "nanos": 10**12} for window in ("day", "week", "month", "ever")]
    await owner.edit_group("default", {"budgets": windows})
    await owner.add_group({"name": "b", "budgets": windows})
    for _ in range(1, 7):  # the names change hands each time
        for old, new in (("default", "tmp"), ("b", "default"), ("tmp", "b")):
            await owner.edit_group(old, {"name": new})
        await gateway.call()
    await owner.groups()
    before = len(counted)
    await gateway.call()
    assert (before > 0, len(counted)) == (True, before)
    assert await calls_of(owner) == {"default": 7, "b": 0}


async def test_only_a_group_s_calls_hold_its_budget(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    go = asyncio.Event()
    provider.on("m", speak_after(go))
    await owner.edit_group("default", {"name": "home", "budgets": [{"window": "day", "nanos": 10_000}]})
    await owner.add_group({"name": "default"})
    await owner.edit_channel("up", {"groups": ["home", "default"]})
    first = asyncio.create_task(gateway.token("other", group="default").chat(max_tokens=1000))
    await provider.asked(1)
    refused = (await gateway.client.chat(max_tokens=1000)).json["error"]
    assert ("while_held" in refused["gateway"], "running calls" in refused["message"]) == (False, False)
    held = {group.name: group.budgets[0].held_nanos for group in await owner.groups() if group.budgets}
    assert held == {"home": 0}
    go.set()
    assert (await first).status == 200
    await gateway.settled(2)


async def test_calls_and_warnings_follow_a_new_name(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    go = asyncio.Event()
    provider.on("m", speak_after(go))
    await owner.edit_group("default", {"budgets": [{"window": "day", "nanos": 15_000_000}]})
    first = asyncio.create_task(gateway.client.chat(max_tokens=1000))
    await provider.asked(1)
    assert (await owner.edit_group("default", {"name": "home"})).budgets[0].held_nanos > 0
    refused = await gateway.client.chat(max_tokens=1000)
    assert (refused.status, refused.json["error"]["gateway"]["while_held"]) == (429, True)
    go.set()
    assert (await first).status == 200
    await gateway.settled(2)
    await owner.edit_group("home", {"budgets": [{"window": "day", "nanos": 1}]})
    (warned,) = [one for one in await owner.incidents() if one.budget]
    await owner.edit_group("home", {"name": "house"})
    assert [(one.id, one.ended) for one in await owner.incidents() if one.budget] == [(warned.id, None)]
