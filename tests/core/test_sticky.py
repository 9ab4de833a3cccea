"""A conversation stays where it was answered as long as that is well."""

from typing import Any

import pytest

from gateway.core.chooser import KEEP_S, MOST, StickyRoute, StickyRoutes, conversation
from gateway.domain.call import FailureKind
from gateway.domain.group import Group
from gateway.domain.units import ChannelId
from tests.core.clocks import Mono
from tests.core.kit import ask
from tests.core.rig import Rig
from tests.core.test_attempts import good

SYSTEM = {"role": "system", "content": "You are terse."}
HERE = StickyRoute(ChannelId("ch_a"), ChannelId(""))


def says(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def name(*messages: dict[str, str], token: str = "tok_1", model: str = "m") -> bytes:
    return conversation(token, model, ask(messages=list(messages)).fields)


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
def test_others_have_other_names(other: bytes) -> None:
    assert name(SYSTEM, says("user", "Hi")) != other


def test_names_are_kept_for_an_hour() -> None:
    mono = Mono()
    sticky = StickyRoutes(mono)
    sticky.note(b"x", HERE)
    mono.now += KEEP_S
    assert sticky.place(b"x") == HERE
    mono.now += 1
    assert sticky.place(b"x") is None


def test_memory_is_bounded_and_the_oldest_goes() -> None:
    sticky = StickyRoutes(Mono())
    for number in range(MOST):
        sticky.note(str(number).encode(), HERE)
    sticky.note(b"0", HERE)
    sticky.note(b"new", HERE)
    assert (sticky.place(b"0"), sticky.place(b"1"), sticky.place(b"new")) == (HERE, None, HERE)


def house(rig: Rig, *, sticky: bool = True, **fields: Any) -> list[int]:
    """Two channels of equal right; what is drawn is in the test's hands."""
    rig.put("groups", "home", Group(name="home", sticky=sticky))
    for each in ("a", "b"):
        rig.channel(each, **fields)
        rig.upstreams.on(each, good)
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


async def test_it_moves_when_its_channel_rests_and_then_stays_there(rig: Rig) -> None:
    house(rig)
    await talk(rig)
    rig.health.failed(ChannelId("ch_a"), FailureKind.RATE, "429", 10)
    await talk(rig)
    rig.watch.advance(10)
    await talk(rig)
    assert rig.upstreams.order == ["a", "b", "b"]


async def test_it_stays_with_its_key(rig: Rig) -> None:
    tickets = house(rig, key="sk-first-0123456789", keys=("sk-second-0123456789",))
    await talk(rig)
    tickets[0] = 1
    await talk(rig)
    rig.health.failed(ChannelId("ch_a#1"), FailureKind.RATE, "429", 10)
    await talk(rig)
    assert [record.attempts[0].key[0] for record in rig.records] == ["1", "1", "2"]
    assert rig.upstreams.order == ["a", "a", "a"]


async def test_it_says_why(rig: Rig) -> None:
    house(rig)
    await talk(rig)
    answer = await rig.call(messages=[says("user", "Hi")])
    assert answer.headers["x-gateway-route"] == "where the conversation was, priority 0"
