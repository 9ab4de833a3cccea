"""Prompts that are translated for a channel of dialect anthropic are marked for the cache, wherever the channel is."""

import json

import pytest

from gateway.control.views import channel_view
from gateway.domain.channel import Dialect
from tests.fakes.gateway import Gateway
from tests.fakes.messages import speak_messages
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import Doc, reply
from tests.v1.test_messages import post

LONG = "word " * 1000
SAID = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Go on"},
]
CALLS: dict[str, Doc] = {
    "/v1/chat/completions": {"model": "m", "messages": [{"role": "system", "content": LONG}, *SAID]},
    "/v1/responses": {"model": "m", "instructions": LONG, "input": SAID},
    "/api/chat": {"model": "m", "messages": [{"role": "system", "content": LONG}, *SAID], "stream": False},
}


def marks(body: Doc) -> int:
    return json.dumps(body).count('"cache_control"')


async def refuse_marks(exchange: Exchange) -> None:
    """A relay that rejects marks, and names the first one."""
    in_system = marks({"system": exchange.json.get("system")})
    place = "system.0" if in_system else "messages.0.content.0.text"
    error = {"type": "invalid_request_error", "message": f"{place}.cache_control: Extra inputs are not permitted"}
    refusal = reply({"type": "error", "error": error}, status=400)
    await (refusal if marks(exchange.json) else speak_messages())(exchange)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("path", CALLS)
async def test_a_relay_that_refuses_marks_answers_all_the_same_and_is_shown_so(
    gateway: Gateway, provider: Provider, path: str, *, strict: bool
) -> None:
    channel = gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC, strict=strict)
    provider.on("m", refuse_marks)
    answers = [await post(gateway, CALLS[path], path=path) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    assert [bool(marks(one.json)) for one in provider.exchanges] == [True, False, False]
    assert channel_view(gateway.engine, channel, {"channel": {}}).refused_params == ("cache_control",)


async def test_marks_of_a_client_of_the_same_api_go_as_they_are_refused(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", refuse_marks)
    part = {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}
    body = {"model": "m", "max_tokens": 9, "system": [part], "messages": [{"role": "user", "content": [part]}]}
    answers = [await post(gateway, body, path="/v1/messages") for _ in range(2)]
    named = "system[].cache_control,messages[].content[].cache_control"
    assert [(each.status, each.head.get("x-gateway-dropped-params")) for each in answers] == [(200, named)] * 2
    assert [marks(one.json) for one in provider.exchanges] == [2, 1, 0, 0]


async def test_marks_of_the_client_go_with_the_others_and_are_named(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", refuse_marks)
    part = {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}
    body = {"model": "m", "messages": [{"role": "user", "content": [part]}]}
    answer = await post(gateway, body, path="/v1/chat/completions")
    assert (answer.status, answer.head.get("x-gateway-dropped-params")) == (200, "cache_control")
