"""Chats that a channel takes only as responses: what the client asked for arrives, and it gets a chat completion."""

import json
from typing import Any

import pytest

from gateway.domain.channel import Overrides, ServedModel
from gateway.domain.units import MILLION
from tests.conformance.sdk import openai
from tests.fakes.gateway import OUTPUT, Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import Doc, choice, fail, reply, speak, stream_bytes, usage, whole
from tests.fakes.responses import either, event, function_call, message, respond, response, spent

TOOLS_THERE = (
    "Function tools with reasoning_effort are not supported for m in /v1/chat/completions. Please use /v1/responses."
)
THOUGHTLESS_TOOLS = (
    "Function tools with reasoning_effort are not supported for m in /v1/chat/completions. To use function tools, "
    "use /v1/responses or set reasoning_effort to 'none'."
)
CHAT = reply(whole("m", choice("as a chat"), spent=usage()))
ONLY_THERE = {
    "openai": fail(404, "This model is only supported in v1/responses and not in v1/chat/completions."),
    "openai, older": fail(404, "This is not a chat model and thus not supported in the v1/chat/completions endpoint."),
    "copilot": reply(
        {
            "error": {
                "message": "model m is not accessible via the /chat/completions endpoint",
                "code": "unsupported_api_for_model",
            }
        },
        status=400,
    ),
    "azure": fail(400, "The chatCompletion operation does not work with the specified model, m."),
    "openai, in other words": fail(400, "Please use the /v1/responses endpoint for this model."),
    "relay of a plan": fail(404, "Invalid URL (POST /v1/chat/completions)"),
    "relay without words": reply(b"404 page not found", status=404),
}
WEATHER: Doc = {
    "type": "function",
    "function": {"name": "weather", "description": "Now", "parameters": {"type": "object", "properties": {"at": {}}}},
}
SEALED: Doc = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"}
CALL: Doc = {"id": "call_9", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
RESULT: Doc = {"role": "tool", "tool_call_id": "call_9", "content": "x"}
TURNS: list[Doc] = [{"role": "assistant", "tool_calls": [CALL]}, RESULT]


def only_there(refusal: Script, *items: Doc, **more: Any) -> Script:
    return either(respond(*items, **more), refusal)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("vendor", ONLY_THERE)
async def test_a_chat_with_a_model_of_responses_is_answered(
    gateway: Gateway, provider: Provider, vendor: str, *, stream: bool
) -> None:
    provider.on("m", only_there(ONLY_THERE[vendor], message("Hello")))
    for _ in range(2):
        answer = await gateway.client.chat(stream=stream)
        assert (answer.status, answer.text) == (200, "Hello")
        record = gateway.records[-1]
        assert (record.input, record.output, record.finish) == (9, 12, "stop")
        assert "as_response" in record.marks
    paths = [exchange.path for exchange in provider.exchanges]
    assert paths == ["/v1/chat/completions", "/v1/responses", "/v1/responses"]
    assert not gateway.engine.health.failing


async def test_only_chats_with_tools_are_responses_if_that_is_what_was_refused(
    gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", either(respond(function_call("weather", '{"at":"Ulm"}')), fail(400, TOOLS_THERE)))
    for _ in range(2):
        answer = await gateway.client.chat(tools=[WEATHER], reasoning_effort="high")
        (call,) = answer.json["choices"][0]["message"]["tool_calls"]
        assert (call["id"], call["function"]) == ("call_1", {"name": "weather", "arguments": '{"at":"Ulm"}'})
        assert answer.json["choices"][0]["finish_reason"] == "tool_calls"
        assert provider.last.json["reasoning"] == {"effort": "high"}
        assert answer.head.get("x-gateway-dropped-params") == ""
    provider.on("m", CHAT)
    assert (await gateway.client.chat(reasoning_effort="high")).text == "as a chat"


async def thoughtless(exchange: Exchange) -> None:
    """A model that takes tools in chat completions only if it does not think."""
    is_refused = exchange.json.get("tools") and exchange.json.get("reasoning_effort") != "none"
    await (fail(400, THOUGHTLESS_TOOLS) if is_refused else CHAT)(exchange)


def developer(text: str) -> Doc:
    return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}


CUSTOM: Doc = {"type": "custom", "custom": {"name": "patch"}}
STORED_FILE: Doc = {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}


@pytest.mark.parametrize(
    "fields",
    [{"n": 2}, {"tools": [WEATHER, CUSTOM]}, {"messages": [STORED_FILE]}],
    ids=["choices", "custom tool", "stored file"],
)
async def test_tools_in_a_chat_that_a_response_cannot_be_are_offered_without_reasoning(
    gateway: Gateway, provider: Provider, fields: Doc
) -> None:
    provider.on("m", either(respond(), thoughtless))
    for _ in range(2):
        assert (await gateway.client.chat(**{"tools": [WEATHER], **fields})).text == "as a chat"
    assert [exchange.path for exchange in provider.exchanges] == 3 * ["/v1/chat/completions"]
    provider.on("m", either(respond(), thoughtless))
    assert (await gateway.client.chat(tools=[WEATHER])).text == "Hello"


@pytest.mark.parametrize(
    "lacking",
    [
        fail(404, "Invalid URL (POST /v1/responses)"),
        fail(400, "Azure OpenAI Responses API is enabled only for api-version 2025-03-01-preview and later"),
        fail(500, "not implemented", code="convert_request_failed"),
        fail(404, "The model m does not exist.", code="model_not_found"),
    ],
    ids=["no path", "an old version", "a relay's", "no model"],
)
async def test_without_responses_tools_are_offered_without_reasoning(
    gateway: Gateway, provider: Provider, lacking: Script
) -> None:
    provider.on("m", either(lacking, thoughtless))
    answer = await gateway.client.chat(tools=[WEATHER], reasoning_effort="high")
    assert (answer.text, answer.head.get("x-gateway-dropped-params")) == ("as a chat", "reasoning_effort")
    assert len(provider.exchanges) == 3


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (THOUGHTLESS_TOOLS, ["chat/completions", "chat/completions"]),
        ("Audio is not supported. Please use /v1/responses.", ["chat/completions", "responses", "chat/completions"]),
        ("audio input is not supported", ["chat/completions", "chat/completions"]),  # llama.cpp
    ],
)
async def test_what_is_refused_of_one_chat_is_not_learned_of_others(
    gateway: Gateway, provider: Provider, words: str, paths: list[str]
) -> None:
    status = 400 if "/v1" in words else 501
    provider.on("m", either(respond(), fail(status, words)), either(respond(), CHAT))
    await gateway.client.chat(seed=1)
    assert (await gateway.client.chat()).text == "as a chat"
    assert [exchange.path.removeprefix("/v1/") for exchange in provider.exchanges] == paths


@pytest.mark.parametrize("status", [400, 401])
async def test_a_response_that_is_refused_for_itself_is_not_tried_as_a_chat_again(
    gateway: Gateway, provider: Provider, status: int
) -> None:
    provider.on("m", either(fail(status, "The image is too blurry."), thoughtless))
    answer = await gateway.client.chat(tools=[WEATHER])
    assert (answer.status, len(provider.exchanges)) == (502 if status == 401 else status, 2)


async def test_the_models_own_limit_holds_for_responses(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, models=(ServedModel(name="m", max_output=100),))
    provider.on("m", only_there(ONLY_THERE["openai"], message("Hello")))
    answer = await gateway.client.chat(max_tokens=5000)
    assert (provider.last.json["max_output_tokens"], answer.head.get("x-gateway-output-limit")) == (100, "100")


async def test_a_limit_below_the_vendors_least_is_raised_and_held_for(gateway: Gateway, provider: Provider) -> None:
    """Programs check a key or a model with an answer of one token."""
    gateway.price()
    held: list[int] = []

    async def script(exchange: Exchange) -> None:
        held.append(sum(hold.held for hold in gateway.engine.store.books.running.values()))
        await only_there(ONLY_THERE["openai"], message("Hello"))(exchange)

    provider.on("m", script)
    answer = await gateway.client.chat(max_tokens=1)
    assert (provider.last.json["max_output_tokens"], answer.head.get("x-gateway-output-limit")) == (16, "16")
    assert min(held) >= 16 * OUTPUT // MILLION


async def test_a_missing_model_is_missing_as_responses_too(gateway: Gateway, provider: Provider) -> None:
    lacking = fail(404, "The model m does not exist.", code="model_not_found")
    provider.on("m", either(lacking, ONLY_THERE["openai"]))
    answer = await gateway.client.chat()
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")


async def test_tools_of_the_channels_owner_are_offered_once_more(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", either(respond(), thoughtless))
    gateway.channel(provider.base_url, "m", name="own", priority=9, overrides=Overrides(set={"tools": [WEATHER]}))
    assert (await gateway.client.chat()).text == "as a chat"
    assert len(provider.exchanges) == 2


async def test_a_chat_stays_one_if_the_response_fails_in_another_way(gateway: Gateway, provider: Provider) -> None:
    restarting = ONLY_THERE["relay without words"]
    provider.on("m", either(CHAT, restarting), either(fail(400, "not implemented"), restarting), CHAT)
    assert "not implemented" in (await gateway.client.chat()).error["message"]
    assert (await gateway.client.chat()).text == "as a chat"


async def test_a_chat_becomes_a_response(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", only_there(ONLY_THERE["openai"]))
    schema = {"name": "city", "schema": {"type": "object"}, "strict": True}
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"at": "Ulm"}'}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}
    answer = await gateway.client.chat(
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Look"}, image]},
            {"role": "assistant", "content": "I look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            {"role": "system", "content": "Now in German."},
        ],
        tools=[WEATHER],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        parallel_tool_calls=False,
        max_completion_tokens=500,
        reasoning_effort="low",
        verbosity="low",
        response_format={"type": "json_schema", "json_schema": schema},
        temperature=0.5,
        prompt_cache_key="k",
        seed=7,
    )
    assert (answer.status, answer.head.get("x-gateway-dropped-params")) == (200, "seed")
    assert provider.last.json == {
        "model": "m",
        "input": [
            developer("Be brief."),
            developer("Be kind."),
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
                ],
            },
            {"type": "message", "role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"at": "Ulm"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            developer("Now in German."),
        ],
        "tools": [
            {
                "type": "function",
                "name": "weather",
                "description": "Now",
                "parameters": {"type": "object", "properties": {"at": {}}},
                "strict": False,
            }
        ],
        "tool_choice": {"type": "function", "name": "weather"},
        "parallel_tool_calls": False,
        "max_output_tokens": 500,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low"},
        "text": {"format": {**schema, "type": "json_schema"}, "verbosity": "low"},
        "temperature": 0.5,
        "prompt_cache_key": "k",
    }


@pytest.mark.parametrize(
    "form",
    [
        {"type": "json_schema", "schema": {"type": "object"}},
        {"type": "json_object", "schema": {"type": "object"}},
        {"type": "json_object", "value": {"type": "object"}},
    ],
)
async def test_a_schema_next_to_the_type_and_an_empty_message_arrive(
    gateway: Gateway, provider: Provider, form: Doc
) -> None:
    provider.on("m", only_there(ONLY_THERE["openai"]))
    assert (await gateway.client.chat(messages=[{"role": "user", "content": ""}], response_format=form)).status == 200
    sent = {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}
    assert provider.last.json["text"] == {"format": sent}
    assert provider.last.json["input"] == [{"type": "message", "role": "user", "content": "."}]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"response_format": "json"}, "response_format"),
    ],
)
async def test_what_would_change_the_answer_is_refused(
    gateway: Gateway, provider: Provider, fields: Doc, param: str
) -> None:
    provider.on("m", only_there(ONLY_THERE["openai"]))
    answer = await gateway.client.chat(**fields)
    assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.parametrize("api", ["chat", "messages"])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_reasoning_before_a_call_goes_back_with_it(
    gateway: Gateway, provider: Provider, api: str, *, stream: bool
) -> None:
    items = (SEALED, message("I look."), function_call("weather", "{}", call="call_9"))
    provider.on("m", only_there(ONLY_THERE["openai"], *items))
    tools = [WEATHER] if api == "chat" else [{"name": "weather", "input_schema": {"type": "object"}}]
    user = {"role": "user", "content": "hi"}
    if api == "chat":
        await gateway.client.chat(stream=stream, tools=tools)
        turns = [{"role": "assistant", "content": "I look.", "tool_calls": [CALL]}, RESULT]
        await gateway.client.chat(tools=tools, messages=[user, *turns])
    else:
        path, fields = "/v1/messages", {"model": "m", "max_tokens": 50, "tools": tools}
        await gateway.client.ask("POST", path, json.dumps({**fields, "stream": stream, "messages": [user]}).encode())
        use = {"type": "tool_use", "id": "call_9", "name": "weather", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "call_9", "content": "x"}
        turns = [
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use]},
            {"role": "user", "content": [result]},
        ]
        await gateway.client.ask("POST", path, json.dumps({**fields, "messages": [user, *turns]}).encode())
    kinds = [item["type"] for item in provider.last.json["input"]]
    assert kinds == ["message", "reasoning", "message", "function_call", "function_call_output"]
    assert provider.last.json["input"][1] == {name: SEALED[name] for name in ("type", "encrypted_content", "summary")}


@pytest.mark.parametrize("in_stream", [False, True])
async def test_reasoning_that_the_upstream_refuses_is_forgotten(
    gateway: Gateway, provider: Provider, *, in_stream: bool
) -> None:
    message = "The encrypted content c2Vh could not be verified."
    refusal = stream_bytes(event("error", 0, error={"message": message})) if in_stream else fail(400, message)
    refused = ONLY_THERE["openai"]
    thinks = only_there(refused, SEALED, function_call("weather", "{}", call="call_9"))
    provider.on("m", thinks, thinks, either(refusal, refused), only_there(refused))
    await gateway.client.chat(tools=[WEATHER])
    for _ in range(2):
        answer = await gateway.client.chat(tools=[WEATHER], messages=TURNS, stream=in_stream)
        assert (answer.status, answer.text) == (200, "Hello")
    kinds = [{item["type"] for item in exchange.json["input"]} for exchange in provider.exchanges[2:]]
    assert kinds == [{"reasoning", "function_call", "function_call_output"}, *2 * [set(kinds[0] - {"reasoning"})]]


@pytest.mark.parametrize("phase", ["commentary", None])
async def test_a_model_that_knows_phases_gets_them_back(
    gateway: Gateway, provider: Provider, phase: str | None
) -> None:
    """OpenAI: send ``phase`` back with all messages of the assistant; without it, models may stop too early."""
    look = message("I look.") | ({"phase": phase} if phase else {})
    provider.on("m", only_there(ONLY_THERE["openai"], look, function_call("weather", "{}", call="call_9")))
    told = (await gateway.client.chat(tools=[WEATHER])).json["choices"][0]["message"]
    turns = [told, RESULT, {"role": "assistant", "content": "4 degrees"}, {"role": "user", "content": "Thanks"}]
    await gateway.client.chat(tools=[WEATHER], messages=turns)
    sent = provider.last.json["input"]
    assert [item["type"] for item in sent] == ["message", "function_call", "function_call_output", "message", "message"]
    expected = ["commentary", None, None, "final_answer", None] if phase else [None] * 5
    assert [item.get("phase") for item in sent] == expected


async def test_sealed_reasoning_that_the_upstream_does_not_have_is_not_requested(
    gateway: Gateway, provider: Provider
) -> None:
    async def unsealed(exchange: Exchange) -> None:
        refusal = fail(400, "Encrypted content is not supported with this model.")
        await (refusal if "include" in exchange.json else respond())(exchange)

    provider.on("m", either(unsealed, fail(400, TOOLS_THERE)))
    for _ in range(2):
        assert (await gateway.client.chat(tools=[WEATHER])).text == "Hello"
    assert len(provider.exchanges) == 4


async def test_a_summary_that_the_upstream_refuses_is_left_out(gateway: Gateway, provider: Provider) -> None:
    error = {"message": "You must be verified.", "param": "reasoning.summary", "code": "unsupported_value"}
    refused = either(reply({"error": error}, status=400), ONLY_THERE["openai"])
    provider.on("m", refused, refused, only_there(ONLY_THERE["openai"]))
    answer = await gateway.client.chat(reasoning={"effort": "low", "summary": "auto"})
    assert (answer.status, answer.head.get("x-gateway-dropped-params")) == (200, "reasoning.summary")
    assert provider.last.json["reasoning"] == {"effort": "low"}


async def test_another_account_does_not_get_the_reasoning(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", only_there(ONLY_THERE["openai"], SEALED, function_call("weather", "{}", call="call_9")))
    await gateway.client.chat(tools=[WEATHER])
    (channel,) = gateway.engine.catalog.registry.channels.values()
    gateway.channel(provider.base_url, "m", name="other", key="sk-other", priority=9)
    await gateway.client.chat(tools=[WEATHER], messages=[{"role": "user", "content": "hi"}, *TURNS])
    assert provider.last.head.get("authorization") == "Bearer sk-other" != f"Bearer {channel.key}"
    kinds = [item["type"] for item in provider.last.json["input"]]
    assert kinds == ["message", "function_call", "function_call_output"]


@pytest.mark.parametrize("words", ["Invalid URL (POST /v1/responses)", "model is not supported via Responses API."])
async def test_an_upstream_without_responses_keeps_its_first_refusal(
    gateway: Gateway, provider: Provider, words: str
) -> None:
    provider.on("m", either(fail(404, words), ONLY_THERE["openai"]))
    for _ in range(2):
        answer = await gateway.client.chat()
        assert "only supported in v1/responses" in answer.error["message"]
    paths = [exchange.path for exchange in provider.exchanges]
    assert paths == ["/v1/chat/completions", "/v1/responses", "/v1/chat/completions"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_sdk_reads_text_reasoning_and_calls(gateway: Gateway, provider: Provider, *, stream: bool) -> None:
    summary = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    calls = function_call("a", "{}", "call_a"), function_call("b", '{"x":1}', "call_b", "fc_2")
    spent_tokens = spent(20, 30, cached=4, reasoning=5)
    provider.on("m", only_there(ONLY_THERE["openai"], summary, message("Look"), *calls, usage=spent_tokens))
    fields: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with openai(gateway) as sdk:
        if stream:
            options: Any = {"include_usage": True}
            async with sdk.chat.completions.stream(**fields, stream_options=options) as events:
                answer: Any = await events.get_final_completion()
        else:
            answer = await sdk.chat.completions.create(**fields)
    told = answer.choices[0].message
    assert (told.content, told.reasoning_content) == ("Look", "Hm.")
    functions = [(call.id, call.function.name, call.function.arguments) for call in told.tool_calls]
    assert functions == [("call_a", "a", "{}"), ("call_b", "b", '{"x":1}')]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (20, 30)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_that_fails_goes_to_the_next_channel(
    gateway: Gateway, provider: Provider, *, stream: bool
) -> None:
    error = {"code": "server_error", "message": "it broke"}
    failed = response(status="failed", error=error)
    events = [event("response.created", 0, response=failed | {"status": "in_progress", "error": None})]
    events.append(event("response.failed", 1, response=failed))
    gateway.channel(provider.base_url, "m=bad", name="first", priority=9)
    provider.on("bad", either(stream_bytes(b"".join(events)) if stream else reply(failed), ONLY_THERE["openai"]))
    provider.on("m", speak("as a ", "chat") if stream else CHAT)
    assert (await gateway.client.chat(stream=stream)).text == "as a chat"
