"""Open Responses over a WebSocket: what its compliance tests ask, through a channel of every kind."""

from typing import Any

import pytest

from tests.conformance.open_responses import faults
from tests.conformance.test_compaction import PATH, script_of
from tests.conformance.test_open_responses import KINDS, ask, at, user
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc
from tests.fakes.websocket import Talk, talk

GONE = "previous_response_not_found"

pytestmark = pytest.mark.parametrize("kind", KINDS)


async def turn(peer: Talk, **fields: Any) -> Doc:
    """The response to a frame, all of whose events are as specified."""
    await peer.create(**fields)
    events = await peer.events()
    assert [fault for event in events for fault in faults(event, "Event", event["type"])] == []
    assert events[-1]["type"] == "response.completed"
    found: Doc = events[-1]["response"]
    return found


async def code(peer: Talk, **fields: Any) -> str:
    """The code of a frame that fails."""
    await peer.create(**fields)
    last = (await peer.events())[-1]
    return str((last.get("error") or last["response"]["error"])["code"])


async def test_frames_are_answered_one_after_another(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind)
    async with talk(gateway) as peer:
        first = await turn(peer, input=[user("Count from 1 to 3.")])
        second = await turn(peer, store=False, input="Reply with: second")
    assert first["id"] != second["id"] or kind == "native"


async def test_a_connection_goes_on_from_what_is_not_stored(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind)
    async with talk(gateway) as peer:
        first = await turn(peer, store=False, input="The word is cobalt.")
        await turn(peer, store=False, input="What is the word?", previous=first["id"])
    assert "cobalt" in provider.last.body.decode()


async def test_another_connection_has_to_begin_again(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind)
    async with talk(gateway) as peer:
        first = await turn(peer, store=False, input="The word is copper.")
    async with talk(gateway) as peer:
        assert await code(peer, store=False, input="Go on.", previous=first["id"]) == GONE
        await turn(peer, store=False, input=[user("Begin again.")])


async def test_an_unknown_response_is_not_found(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind)
    async with talk(gateway) as peer:
        assert await code(peer, store=False, input="Go on.", previous="resp_missing_1") == GONE


async def test_a_turn_that_fails_takes_its_conversation_with_it(
    gateway: Gateway, provider: Provider, kind: str
) -> None:
    at(gateway, provider, kind)
    lost = {"type": "function_call_output", "call_id": "call_missing", "output": "no such call"}
    async with talk(gateway) as peer:
        first = await turn(peer, store=False, input="The word is ember.")
        assert await code(peer, store=False, input=[lost], previous=first["id"])
        assert await code(peer, store=False, input="Go on.", previous=first["id"]) == GONE


async def test_a_compacted_conversation_begins_a_new_one(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind, script_of(kind))
    compacted = (await ask(gateway, PATH, input=[user("The word is slate.")])).json["output"]
    async with talk(gateway) as peer:
        await turn(peer, store=False, tools=[], input=[*compacted, user("Go on from here.")])
