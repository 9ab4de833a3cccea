"""Upstreams that refuse what they do not know: the client gets its answer, and few calls are spent on learning."""

from collections.abc import Callable

import pytest

from gateway.domain.channel import Dialect
from tests.fakes.gateway import Gateway
from tests.fakes.obedient import obey
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import Doc, dumps, fail, reply, speak
from tests.v1.test_messages import post

REFUSED = ("store", "metadata", "service_tier", "prompt_cache_key", "safety_identifier", "verbosity")
HI = [{"role": "user", "content": "Hi"}]
SENT: Doc = {"model": "m", "messages": HI, **dict.fromkeys(REFUSED, "x"), "metadata": {}, "store": False}
CHAT = "/v1/chat/completions"


def _cerebras(names: list[str]) -> Doc:
    text = "\n".join(f"body.{name}: property 'body.{name}' is unsupported" for name in names)
    return {"message": text, "type": "invalid_request_error", "param": "validation_error", "code": "wrong_api_format"}


def _groq(names: list[str]) -> Doc:
    return {"error": {"message": f"property '{names[0]}' is unsupported", "type": "invalid_request_error"}}


def _mistral(names: list[str]) -> Doc:
    detail = [
        {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"} for name in names
    ]
    return {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error"}


def _strict(say: Callable[[list[str]], Doc], *, each: bool = False, status: int = 400) -> Script:
    """Refuses all that is in ``REFUSED``, or the first of it."""

    async def script(exchange: Exchange) -> None:
        names = [name for name in REFUSED if name in exchange.json]
        answer = reply(say(names[:1] if each else names), status=status) if names else speak("Hello")
        await answer(exchange)

    return script


@pytest.mark.parametrize(
    ("preset", "script", "requests"),
    [
        ("", _strict(_cerebras), 2),
        ("", _strict(_mistral, status=422), 2),
        ("", _strict(_cerebras, each=True), 2),
        ("", _strict(_groq, each=True), 2),
        ("plain", _strict(_groq, each=True), 7),
        ("cerebras", _strict(_cerebras, each=True), 2),
        ("groq", _strict(_groq, each=True), 3),  # Groq has service tiers of its own
    ],
)
async def test_a_client_sees_no_refusal_and_the_next_call_costs_none(
    gateway: Gateway, provider: Provider, preset: str, script: Script, requests: int, stream: bool
) -> None:
    gateway.channel(provider.base_url, preset=preset)
    provider.on("m", script)
    answer = await post(gateway, {**SENT, "stream": stream}, path=CHAT)
    assert (answer.status, len(provider.exchanges)) == (200, requests)
    assert set(answer.head.get("x-gateway-dropped-params").split(",")) == set(REFUSED)
    assert (await post(gateway, SENT, path=CHAT)).status == 200
    assert len(provider.exchanges) == requests + 1
    assert [attempt.status for record in gateway.records for attempt in record.attempts] == [200, 200]


async def test_an_upstream_that_is_never_content_is_left_alone(gateway: Gateway, provider: Provider) -> None:
    names = [f"field_{letter}" for letter in "abcdefghijklmnop"]

    async def refuse(exchange: Exchange) -> None:
        name = next(one for one in names if one in exchange.json)
        await fail(400, f"Unknown parameter: '{name}'.")(exchange)

    provider.on("m", refuse)
    answer = await post(gateway, {"model": "m", "messages": HI, **dict.fromkeys(names, 1)}, path=CHAT)
    assert (answer.status, len(provider.exchanges)) == (400, 9)


UNKNOWN_ROLE = (
    "Failed to deserialize the JSON body: messages[0].role: unknown variant `developer`, expected one of `system`"
)


def _no_developer(status: int, message: str) -> Script:
    async def script(exchange: Exchange) -> None:
        refused = b'"developer"' in exchange.body
        await (fail(status, message) if refused else speak("Hello"))(exchange)

    return script


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, UNKNOWN_ROLE),
        (422, UNKNOWN_ROLE),
        (400, "Unexpected message role."),
        (500, "Unexpected message role."),
        (400, "'developer' is not one of ['system', 'assistant', 'user'] - 'messages.0.role'"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
async def test_the_role_developer_is_renamed_once_it_was_refused(
    gateway: Gateway, provider: Provider, status: int, message: str, strict: bool
) -> None:
    gateway.channel(provider.base_url, strict=strict)
    provider.on("m", _no_developer(status, message))
    body = {
        "model": "m",
        "messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    }
    answers = [await post(gateway, body, path=CHAT) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    roles = [[message["role"] for message in exchange.json["messages"]] for exchange in provider.exchanges]
    assert roles == [["developer", "user"], ["system", "user"], ["system", "user"]]
    assert answers[0].head.get("x-gateway-dropped-params") == ""


TOOL: Doc = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
MESSAGES_TOOL: Doc = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
FORCED: dict[str, Doc] = {
    CHAT: {"tools": [TOOL], "tool_choice": "required"},
    "/v1/messages": {"tools": [MESSAGES_TOOL], "tool_choice": {"type": "any"}, "max_tokens": 5000},
}
THINKING: dict[str, Doc] = {
    CHAT: {"reasoning_effort": "high"},
    "/v1/messages": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
}


async def _unforced_thinking(exchange: Exchange) -> None:
    """A model that cannot be made to call a tool while it thinks, as Claude's are before Opus 4.8."""
    request = exchange.json
    thinks, choice = "reasoning_effort" in request or "thinking" in request, request.get("tool_choice")
    is_refused = thinks and choice in ("required", {"type": "any"})
    message = "Thinking may not be enabled when tool_choice forces tool use."
    await (reply({"error": {"message": message}}, status=400) if is_refused else obey)(exchange)


@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.ANTHROPIC])
@pytest.mark.parametrize("path", FORCED)
async def test_calls_without_thinking_still_demand_a_tool_after_one_with_it_was_refused(
    gateway: Gateway, provider: Provider, path: str, dialect: Dialect
) -> None:
    gateway.channel(provider.base_url, "m=claude-opus-4-7", dialect=dialect)
    provider.other = _unforced_thinking
    request = {"model": "m", "messages": HI, **FORCED[path]}
    for _ in range(2):
        assert (await gateway.client.ask("POST", path, dumps({**request, **THINKING[path]}))).status == 200
    calls = len(provider.exchanges)
    assert calls <= 3
    answer = await gateway.client.ask("POST", path, dumps(request))
    assert (answer.status, answer.head.get("x-gateway-dropped-params"), len(provider.exchanges)) == (200, "", calls + 1)
    assert provider.last.json["tool_choice"] in ("required", {"type": "any"})
