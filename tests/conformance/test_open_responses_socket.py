"""Open Responses over a WebSocket: what its compliance tests ask, through a channel of every kind."""

from typing import Any

import pytest

from tests.conformance.open_responses import faults
from tests.conformance.test_compaction import script_of
from tests.conformance.test_open_responses import KINDS, WEATHER, ask, at
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.websocket import Talk, talk

pytestmark = pytest.mark.parametrize("kind", KINDS)


async def completed(peer: Talk, input: Any = "Say hello.", **fields: Any) -> str:
    """The id of the response to a request, all of whose events are as specified."""
    await peer.create(input, **fields)
    events = await peer.events()
    assert [fault for event in events for fault in faults(event, "Event", event["type"])] == []
    assert events[-1]["type"] == "response.completed"
    assert faults(events[-1]["response"], "Response") == []
    return str(events[-1]["response"]["id"])


async def test_requests_follow_each_other(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind)
    async with talk(gateway) as peer:
        await completed(peer)
        await completed(peer, tools=[WEATHER])
    assert len(await gateway.settled(2)) == 2


async def test_a_response_is_continued(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind)
    async with talk(gateway) as peer:
        first = await completed(peer, "Remember: ember.")
        await completed(peer, "Which word?", previous=first)
    assert b"Remember: ember." in provider.last.body
    assert provider.last.body.index(b"ember") < provider.last.body.index(b"Which word?")


async def test_another_connection_does_not_know_the_response(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind)
    async with talk(gateway) as peer:
        first = await completed(peer)
    async with talk(gateway) as peer:
        assert await peer.error("Go on.", previous=first) == (400, "previous_response_not_found")
        await completed(peer, "Say hello, and go on.")


async def test_a_response_that_never_was_is_not_found(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind)
    async with talk(gateway) as peer:
        assert await peer.error("Go on.", previous="resp_missing_1") == (400, "previous_response_not_found")


async def test_a_continuation_that_fails_removes_the_response(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind)
    async with talk(gateway) as peer:
        first = await completed(peer)
        orphan = {"type": "function_call_output", "call_id": "call_orphan", "output": "x"}
        assert (await peer.error([orphan], previous=first))[0] == 400
        assert await peer.error("Go on.", previous=first) == (400, "previous_response_not_found")


async def test_a_compacted_conversation_begins_a_chain(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind, script_of(kind))
    compacted = await ask(gateway, "/v1/responses/compact", input="We launch on Tuesday.")
    async with talk(gateway) as peer:
        first = await completed(peer, [*compacted.json["output"], {"role": "user", "content": "When?"}])
        await completed(peer, "And then?", previous=first)
