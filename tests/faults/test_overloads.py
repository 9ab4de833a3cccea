"""One answer of an overloaded upstream, of the only channel, reaches no client: the call is made again there."""

import pytest

from gateway.domain.channel import Dialect
from tests.fakes.gateway import Gateway
from tests.fakes.messages import speak_messages
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import Doc, fail, speak
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
