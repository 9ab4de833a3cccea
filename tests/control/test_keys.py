"""Keys of a channel come and go one by one, and nobody is told one."""

import pytest

from gateway.client.control import ControlClient
from gateway.domain.call import FailureKind
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.units import ChannelId
from gateway.domain.views import ChannelView
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, reply, speak, whole

FIRST, SECOND, THIRD = (f"sk-{word}-canary-0123456789" for word in ("first", "second", "third"))


def told(channel: ChannelView) -> list[tuple[int, str, str]]:
    return [(one.number, one.key, one.state) for one in channel.keys]


async def test_keys_are_added_replaced_and_removed(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_channel("up", {"key": FIRST})
    assert told(await owner.add_key("up", "env:SECOND")) == [(1, "…6789", "ok"), (2, "env:SECOND", "ok")]
    assert told(await owner.replace_key("up", 1, "env:FIRST")) == [(1, "env:FIRST", "ok"), (2, "env:SECOND", "ok")]
    assert told(await owner.remove_key("up", 1)) == [(1, "env:SECOND", "ok")]
    assert told(await owner.remove_key("up", 1)) == []
    channel = gateway.engine.catalog.channel("up")
    assert (channel.key, channel.keys) == ("", ())


async def test_a_channel_is_given_several_at_once(owner: ControlClient) -> None:
    view = await owner.edit_channel("up", {"key": FIRST, "keys": [SECOND, THIRD]})
    assert [one.number for one in view.keys] == [1, 2, 3]
    assert (view.key, view.state) == ("…6789", "ok")
    await owner.undo()
    assert len((await owner.channel("up")).keys) == 1


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"key": FIRST, "keys": [FIRST]}, "twice"),
        ({"key": "", "keys": [FIRST]}, "empty"),
        ({"key": FIRST, "keys": [""]}, "empty"),
        ({"key": FIRST, "keys": ["env:9 9"]}, "variable"),
        ({"key": FIRST, "keys": [f"k{n}" for n in range(50)]}, "50"),
    ],
)
async def test_senseless_keys_are_refused(owner: ControlClient, patch: dict[str, object], text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        await owner.edit_channel("up", patch)


async def test_an_empty_key_is_none(owner: ControlClient) -> None:
    with pytest.raises(BadRequest, match="remove it"):
        await owner.add_key("up", "")


@pytest.mark.parametrize("number", [0, 2, 10**30])
async def test_a_number_that_is_not_there_is_told(owner: ControlClient, number: int) -> None:
    with pytest.raises(NotFound, match="numbered 1 to 1"):
        await owner.remove_key("up", number)


async def test_what_is_held_against_a_key_stays_when_others_change(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_channel("up", {"key": FIRST, "keys": [SECOND]})
    gateway.engine.health.failed(ChannelId("ch_up#1"), FailureKind.RATE, "429", 60)
    gateway.engine.health.failed(ChannelId("ch_up#2"), FailureKind.AUTH, "refused")
    view = await owner.channel("up")
    assert ([one.state for one in view.keys], view.state) == (["cooling", "attention"], "cooling")
    assert abs((view.keys[0].until_ms or 0) - (view.until_ms or 0)) < 50
    view = await owner.replace_key("up", 2, THIRD)
    assert ([one.state for one in view.keys], view.state) == (["cooling", "ok"], "ok")
    assert [one.state for one in (await owner.clear_key("up", 1)).keys] == ["ok", "ok"]


async def test_the_only_key_is_as_well_as_its_channel(owner: ControlClient, gateway: Gateway) -> None:
    gateway.engine.health.failed(ChannelId("ch_up"), FailureKind.AUTH, "refused")
    assert [one.state for one in (await owner.channel("up")).keys] == ["attention"]
    assert [one.state for one in (await owner.clear_key("up", 1)).keys] == ["ok"]


async def test_no_answer_of_any_kind_tells_a_key(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    """Each request goes out with the one key it should; no view, record or error holds more than its mask."""
    await owner.edit_channel("up", {"key": FIRST, "keys": [SECOND, THIRD]})
    provider.on("m", fail(401, f"bad key {FIRST}"), fail(429), speak())
    assert (await gateway.client.chat()).status == 200
    used = [exchange.head.get("authorization") for exchange in provider.exchanges if exchange.body]
    assert sorted(used) == sorted(f"Bearer {key}" for key in (FIRST, SECOND, THIRD))
    provider.on("m", fail(401, f"bad key {THIRD}"))
    answer = await gateway.client.chat()
    heard = [(await owner.send("GET", path)).body for path in ("/channels", "/channels/up", "/calls", "/status")]
    for text in [answer.body, *heard]:
        assert b"canary" not in text


async def test_a_test_tries_every_key_and_uses_the_good_ones_again(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    await owner.edit_channel("up", {"key": FIRST, "keys": [SECOND, THIRD]})
    for number in (1, 2, 3):
        gateway.engine.health.failed(ChannelId(f"ch_up#{number}"), FailureKind.RATE, "429", 60)
    provider.on("/v1/models", reply({"object": "list", "data": [{"id": "m"}]}), fail(401), fail(401))
    provider.on("m", reply(whole("m")))
    check = await owner.test_channel("up", "m")
    assert check.ok
    assert "1 of 3 keys are accepted; it lists 1 models; key 2: no list of models" in check.text
    assert [one.state for one in (await owner.channel("up")).keys] == ["ok", "cooling", "cooling"]
    assert provider.last.head.get("authorization") == f"Bearer {FIRST}"


async def test_without_a_good_key_the_test_fails(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    await owner.edit_channel("up", {"key": FIRST, "keys": [SECOND]})
    provider.on("/v1/models", fail(401))
    gateway.engine.health.failed(ChannelId("ch_up"), FailureKind.RATE, "429", 60)
    check = await owner.test_channel("up")
    assert (check.ok, "0 of 2 keys are accepted" in check.text) == (False, True)
    assert (await owner.channel("up")).state == "cooling"
