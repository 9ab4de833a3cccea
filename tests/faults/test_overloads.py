"""One answer of an overloaded upstream, of the only channel, reaches no client: the call is made again there."""

import pytest

from gateway.domain.channel import Dialect
from tests.fakes.gateway import Gateway
from tests.fakes.messages import event, speak_messages
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import Doc, fail, speak, stream_bytes
from tests.v1.test_messages import post

TURNS = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, Doc] = {
    "/v1/chat/completions": {"model": "m", "messages": TURNS},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": TURNS},
    "/v1/responses": {"model": "m", "input": "Hi"},
    "/api/chat": {"model": "m", "messages": TURNS},
}
OVERLOADED = event("error", error={"type": "overloaded_error", "message": "Overloaded"})


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


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_also_if_the_first_event_of_a_stream_says_it(gateway: Gateway, provider: Provider, path: str) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", stream_bytes(OVERLOADED), speak_messages())
    answer = await post(gateway, {**BODIES[path], "stream": True}, path=path)
    await gateway.settled()
    assert (answer.status, len(provider.exchanges)) == (200, 2)


@pytest.mark.parametrize(("wait", "asked"), [("1", 2), ("60", 1)])
async def test_not_sooner_than_the_upstream_asks(gateway: Gateway, provider: Provider, wait: str, asked: int) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", fail(529, "Overloaded", headers={"retry-after": wait}), speak_messages())
    answer = await post(gateway, BODIES["/v1/messages"])
    await gateway.settled()
    assert (len(provider.exchanges), answer.status) == (asked, 200 if asked == 2 else 529)
