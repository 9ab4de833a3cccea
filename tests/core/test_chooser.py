"""The first choice of a call, told with its reasons; what is drawn, remembered and allowed has tests of its own."""

import asyncio
from typing import Any

import pytest

from gateway.core.chooser import conversation_id
from gateway.core.recent_items import RecentItems
from gateway.domain.call import PASSED_MARK, STAYED_MARK, FailureKind, mark_values
from gateway.domain.errors import NoChannel
from gateway.domain.group import Fallback, Group
from gateway.domain.limits import Limits
from gateway.domain.units import ChannelId
from tests.core.clocks import Mono
from tests.core.ends import FakeReply, whole
from tests.core.kit import ask
from tests.core.rig import Rig
from tests.core.test_attempts import good


async def test_without_a_channel_every_reason_is_reported(rig: Rig) -> None:
    for name in ("a", "b"):
        rig.channel(name)
    rig.health.note_failure(ChannelId("ch_a"), FailureKind.AUTH, "refused")
    rig.health.note_missing(ChannelId("ch_b"), "m")
    with pytest.raises(NoChannel, match=r"a: needs attention, .*: refused; b: does not have the model") as caught:
        await rig.call()
    assert (rig.upstreams.order, caught.value.code) == ([], "no_channel_available")
    assert caught.value.marks == ["skipped=a"]


SYSTEM = {"role": "system", "content": "You are terse."}
HERE = ChannelId("ch_a")


def says(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def name(*messages: dict[str, str], token: str = "tok_1", model: str = "m") -> bytes:
    return conversation_id(token, model, ask(messages=list(messages)).fields)


def test_a_conversation_keeps_its_name_as_it_grows() -> None:
    begun = (SYSTEM, says("user", "Hi"))
    assert name(*begun) == name(*begun, says("assistant", "Hello"), says("user", "More"))


@pytest.mark.parametrize(
    "other",
    [
        name(SYSTEM, says("user", "Ho")),
        name(says("user", "Hi")),
        name(SYSTEM, says("user", "Hi"), token="tok_2"),
        name(SYSTEM, says("user", "Hi"), model="n"),
    ],
)
def test_other_beginnings_tokens_and_models_are_other_conversations(other: bytes) -> None:
    assert name(SYSTEM, says("user", "Hi")) != other


def test_memory_is_bounded_and_the_oldest_goes() -> None:
    sticky = RecentItems[ChannelId](Mono(), keep_s=3600, limit=10_000)
    for number in range(10_000):
        sticky.note(str(number).encode(), HERE)
    sticky.note(b"0", HERE)
    sticky.note(b"new", HERE)
    assert (sticky.find(b"0"), sticky.find(b"1"), sticky.find(b"new")) == (HERE, None, HERE)


def house(rig: Rig, *, sticky: bool = True, **fields: Any) -> list[int]:
    """Two channels of equal right; what is drawn is in the test's hands."""
    rig.put("groups", "home", Group(name="home", sticky=sticky))
    for each in ("a", "b"):
        rig.channel(each, **fields, answer=good)
    tickets = [0]
    rig.draw = lambda n: tickets[0] % n
    return tickets


async def talk(rig: Rig, text: str = "Hi") -> None:
    await rig.call(messages=[says("user", text)])


@pytest.mark.parametrize("sticky", [False, True])
async def test_a_conversation_stays_at_its_channel(rig: Rig, sticky: bool) -> None:
    tickets = house(rig, sticky=sticky)
    await talk(rig)
    tickets[0] = 1
    await talk(rig)
    await talk(rig, "another")
    assert rig.upstreams.order == (["a", "a", "b"] if sticky else ["a", "b", "b"])


@pytest.mark.parametrize(("later_s", "second"), [(3600, "a"), (3601, "b")])
async def test_it_stays_there_for_an_hour(rig: Rig, later_s: int, second: str) -> None:
    tickets = house(rig)
    await talk(rig)
    tickets[0] = 1
    rig.watch.advance(later_s)
    await talk(rig)
    assert rig.upstreams.order == ["a", second]


async def test_it_moves_when_its_channel_is_paused_and_is_marked_when_it_stays_there(rig: Rig) -> None:
    house(rig)
    rig.channel("a", priority=1, answer=good)
    await talk(rig)
    rig.health.note_failure(ChannelId("ch_a"), FailureKind.RATE, "429", 10)
    await talk(rig)
    rig.watch.advance(10)
    await talk(rig)
    assert rig.upstreams.order == ["a", "b", "b"]
    assert [STAYED_MARK in record.marks for record in rig.records] == [False, False, True]


async def test_a_conversation_that_moves_during_a_wait_has_not_stayed(rig: Rig) -> None:
    house(rig)
    rig.change_token(limits=Limits(concurrent=1))
    rig.channel("a", priority=1, answer=good)
    rig.channel("c", "other", answer=good)
    rig.health.note_failure(ChannelId("ch_a"), FailureKind.RATE, "429", 10)
    await talk(rig)  # at b
    rig.watch.advance(10)
    hold = asyncio.Event()
    rig.upstreams.on("c", lambda: FakeReply(hold, whole()))
    first = await rig.start_until(lambda: rig.upstreams.order == ["b", "c"], "other")
    second = asyncio.get_running_loop().create_task(talk(rig))
    await rig.pass_time(0)
    rig.health.note_failure(ChannelId("ch_b"), FailureKind.RATE, "429", 10)
    hold.set()
    await asyncio.gather(first, second)
    assert rig.upstreams.order == ["b", "c", "a"]
    assert [STAYED_MARK in record.marks for record in rig.records] == [False, False, False]


async def test_a_call_says_why_it_did_not_go_to_a_channel_that_comes_first(rig: Rig) -> None:
    for name, priority in (("a", 2), ("b", 1), ("c", 1), ("d", 0)):
        rig.channel(name, priority=priority, answer=good)
    rig.health.note_failure(ChannelId("ch_a"), FailureKind.RATE, "429", 10)
    rig.health.note_failure(ChannelId("ch_d"), FailureKind.RATE, "429", 10)
    await rig.call()
    assert mark_values(rig.records[0].marks, PASSED_MARK) == ["a: paused for 10 s: 429"]


async def test_a_channel_that_a_call_waited_for_was_not_passed_over(rig: Rig) -> None:
    rig.channel("b", priority=2, limits=Limits(concurrent=1))
    rig.channel("a", priority=1)
    hold = asyncio.Event()
    rig.upstreams.on("b", lambda: FakeReply(hold, whole()))
    rig.health.note_failure(ChannelId("ch_a"), FailureKind.RATE, "429", 1)
    calls = [rig.start() for _ in range(2)]
    await rig.pass_time(0)
    await rig.pass_time(5)
    hold.set()
    await asyncio.gather(*calls)
    assert rig.upstreams.order == ["b", "b"]
    assert [mark_values(record.marks, PASSED_MARK) for record in rig.records] == [[], []]


async def test_a_fallback_says_why_the_model_itself_had_no_channel(rig: Rig) -> None:
    rig.put("groups", "home", Group(name="home", fallbacks=(Fallback(model="m", to=("other",)),)))
    rig.channel("a")
    rig.channel("b", "other", answer=good)
    rig.health.note_failure(ChannelId("ch_a"), FailureKind.AUTH, "refused")
    await rig.call()
    assert mark_values(rig.records[0].marks, PASSED_MARK) == ["a: needs attention, tried again in 60 s: refused"]


async def test_it_stays_with_its_key(rig: Rig) -> None:
    tickets = house(rig, key="sk-first-0123456789", keys=("sk-second-0123456789",))
    await talk(rig)
    tickets[0] = 1
    await talk(rig)
    rig.health.note_failure(ChannelId("ch_a#1"), FailureKind.RATE, "429", 10)
    await talk(rig)
    assert [record.attempts[0].key[0] for record in rig.records] == ["1", "1", "2"]
    assert rig.upstreams.order == ["a", "a", "a"]


async def test_the_route_header_says_that_a_conversation_stayed(rig: Rig) -> None:
    house(rig)
    await talk(rig)
    answer = await rig.call(messages=[says("user", "Hi")])
    assert answer.headers["x-gateway-route"] == "where the conversation was, priority 0"
