"""One answer of an overloaded upstream, of the only channel, reaches no client: the call is made again there."""

import pytest

from gateway.domain.channel import Dialect
from tests.fakes.gateway import Gateway
from tests.fakes.messages import event, message, message_events, speak_messages
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import Doc, fail, in_steps, speak
from tests.v1.test_messages import post

TURNS = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, Doc] = {
    "/v1/chat/completions": {"model": "m", "messages": TURNS},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": TURNS},
    "/v1/responses": {"model": "m", "input": "Hi"},
    "/api/chat": {"model": "m", "messages": TURNS},
}


def good(dialect: Dialect) -> Script:
    return speak_messages() if dialect is Dialect.ANTHROPIC else speak()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    ("dialect", "status"), [("anthropic", 529), ("anthropic", 503), ("openai", 498), ("openai", 503), ("openai", 529)]
)
async def test_the_call_is_made_again(
    gateway: Gateway, provider: Provider, dialect: str, status: int, path: str, *, stream: bool
) -> None:
    gateway.channel(
        provider.base_url, dialect=Dialect(dialect), preset="plain" if dialect == "anthropic" else "mistral"
    )
    provider.on("m", fail(status, "Overloaded"), good(Dialect(dialect)))
    answer = await post(gateway, {**BODIES[path], "stream": stream}, path=path)
    (record,) = await gateway.settled()
    assert (answer.status, len(provider.exchanges), len(record.attempts)) == (200, 2, 2)


OPENING = message_events(message())[:2]
OVERLOADED = event("error", error={"type": "overloaded_error", "message": "Overloaded"})


@pytest.mark.parametrize("opening", [OPENING[:1], OPENING, [*OPENING, OPENING[1]]], ids=["start", "ping", "two pings"])
@pytest.mark.parametrize("path", BODIES)
async def test_a_stream_that_is_overloaded_before_its_first_block_is_made_again(
    gateway: Gateway, provider: Provider, path: str, opening: list[bytes]
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", in_steps(*opening, OVERLOADED), speak_messages())
    answer = await post(gateway, {**BODIES[path], "stream": True}, path=path)
    (record,) = await gateway.settled()
    assert (answer.status, record.status, len(record.attempts)) == (200, 200, 2)
    assert b"Overloaded" not in answer.body


async def test_a_native_client_sees_pings_that_go_on(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", in_steps(*OPENING, OPENING[1], OPENING[1], 0.05, OVERLOADED))
    answer = await post(gateway, {**BODIES["/v1/messages"], "stream": True})
    assert (answer.body.count(b"event: ping"), answer.body.count(b"Overloaded")) == (3, 1)


async def test_a_request_that_is_refused_in_its_stream_before_the_first_block_has_a_status(
    gateway: Gateway, provider: Provider
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    refusal = {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}
    provider.on("m", in_steps(*OPENING, event("error", error=refusal)))
    answer = await post(gateway, {**BODIES["/v1/messages"], "stream": True})
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")
