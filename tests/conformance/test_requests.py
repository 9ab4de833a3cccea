"""What of a request reaches the upstream."""

import json
from typing import Any

import pytest

from tests.conformance.shapes import completion_faults
from tests.fakes.client import HELLO, Doc
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, reply, speak

ODD: dict[str, Any] = {"x": {"y": [1, 1.0, 1e-7, None, "\u2028", {"z": []}]}}

EVERYTHING: Doc = {
    "messages": [
        {"role": "developer", "content": "Be brief.", "name": "boss"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?", "prompt_cache_breakpoint": True},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "AAAA"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "reasoning_content": "hm",
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "42"}]},
        {"role": "function", "name": "old", "content": "7"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
    "parallel_tool_calls": False,
    "functions": [{"name": "old", "parameters": {}}],
    "function_call": "auto",
    "max_completion_tokens": 64,
    "n": 2,
    "temperature": None,
    "top_p": 0.5,
    "stop": ["a", "b"],
    "presence_penalty": -2,
    "frequency_penalty": 1.25,
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "top_logprobs": 3,
    "seed": 7,
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}},
    "reasoning_effort": "xhigh",
    "verbosity": "low",
    "modalities": ["text", "audio"],
    "audio": {"voice": "ash", "format": "mp3"},
    "prediction": {"type": "content", "content": "x"},
    "web_search_options": {},
    "service_tier": "flex",
    "store": True,
    "metadata": {"k": "v"},
    "user": "u",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "prompt_cache_options": {"ttl": 60},
    "moderation": {"model": "omni"},
    "reasoning": {"effort": "low"},
    "thinking": {"type": "enabled"},
    "top_k": 40,
    "min_p": 0.1,
    "provider": {"order": ["a"]},
    "transforms": [],
    "chat_template_kwargs": {"enable_thinking": False},
    "keep_alive": "5m",
    "x_unknown": 1,
}


async def asked(gateway: Gateway, upstream: Provider, /, **fields: Any) -> Doc:
    """What the upstream got when the client sent these fields."""
    upstream.other = speak()
    answer = await gateway.client.post({"model": "m", "messages": HELLO, **fields})
    assert answer.status == 200, answer.body
    return upstream.last.json


async def test_unknown_keys_pass_at_every_depth(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m=real-m")
    provider.on("real-m", speak())
    tool = {"type": "function", "function": {"name": "f"}, **ODD}
    sent = {"model": "m", **ODD, "messages": [{**HELLO[0], **ODD}], "tools": [tool], "extra_body": ODD}
    assert (await gateway.client.post(sent)).status == 200
    wanted = json.dumps(sent).replace('"model": "m"', '"model": "real-m"')
    assert json.loads(provider.last.body, parse_float=str) == json.loads(wanted, parse_float=str)


async def test_every_known_field_passes_unchanged(gateway: Gateway, provider: Provider, stream: bool) -> None:
    gateway.channel(provider.base_url, preset="openai")
    seen = await asked(gateway, provider, **EVERYTHING, stream=stream)
    ours = {"stream_options": {"include_usage": True}} if stream else {}
    assert seen == {"model": "m", **EVERYTHING, "stream": stream, **ours}


async def test_no_header_of_the_client_is_passed_on(gateway: Gateway, provider: Provider) -> None:
    strange = {"cookie": "c", "x-secret": "s", "openai-organization": "o", "x-stainless-lang": "py", "api-key": "k"}
    await gateway.client.post({"model": "m", "messages": HELLO}, strange)
    seen = provider.last.head
    assert {name for name, _ in seen.headers} & set(strange) == set()
    assert seen.get("authorization") == "Bearer sk-upstream-canary"
    assert gateway.client.key not in str(seen.headers)


@pytest.mark.parametrize(
    "text", ["\ud83d", "a\ud83d b\udc00", "\u2028\u2029", "\x00", "\x1b[31m", "🙂 日本 é", "\ue03d"]
)
async def test_any_legal_string_arrives_as_it_was(gateway: Gateway, provider: Provider, text: str) -> None:
    seen = await asked(gateway, provider, messages=[{"role": "user", "content": text}])
    assert seen["messages"] == [{"role": "user", "content": text}]


async def test_stream_options_need_a_stream(gateway: Gateway, provider: Provider) -> None:
    answer = await gateway.client.chat(stream_options={"include_usage": True})
    assert (answer.status, answer.error["param"]) == (400, "stream_options")
    answer = await gateway.client.chat(stream=None, stream_options=None, max_tokens=None, n=None, tools=None)
    assert completion_faults(answer.json) == []


TOOLS_WITHOUT_EFFORT = (
    "Function tools with reasoning_effort are not supported for gpt-5.6-luna in /v1/chat/completions. To use function "
    "tools, use /v1/responses or set reasoning_effort to 'none'."
)
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(("given", "dropped"), [({"reasoning_effort": "low"}, "reasoning_effort"), ({}, "")])
async def test_a_model_that_thinks_or_calls_tools_is_told_not_to_think_where_it_has_no_responses(
    gateway: Gateway, provider: Provider, given: dict[str, Any], dropped: str
) -> None:
    refusal = fail(400, TOOLS_WITHOUT_EFFORT)
    provider.on("m", refusal, fail(404, "Invalid URL (POST /v1/responses)"), speak())
    for _ in range(2):
        answer = await gateway.client.chat(tools=[TOOL], **given)
        assert (answer.status, answer.head.get("x-gateway-dropped-params")) == (200, dropped)
    await gateway.client.chat(reasoning_effort="low")
    chats = [exchange for exchange in provider.exchanges if exchange.path == "/v1/chat/completions"]
    assert [exchange.json.get("reasoning_effort") for exchange in chats] == [
        given.get("reasoning_effort"),
        *("none", "none", "low"),
    ]
    assert len(provider.exchanges) == len(chats) + 1


@pytest.mark.parametrize("has_call", [True, False])
@pytest.mark.parametrize(
    "refused",
    [
        {"message": "The `reasoning_content` in the thinking mode must be passed back to the API."},  # DeepSeek
        {"message": "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1"},
        {"message": "Param Incorrect", "param": "The reasoning_content in the thinking mode must be passed back."},
    ],
    ids=["DeepSeek", "Moonshot", "Xiaomi"],
)
async def test_an_upstream_that_wants_reasoning_back_gets_an_empty_one(
    gateway: Gateway, provider: Provider, refused: dict[str, str], *, has_call: bool
) -> None:
    """OpenCode Zen refuses also texts without it, in conversations without calls."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello.", "reasoning_content": "Hm."},
        {"role": "user", "content": "Look"},
        {"role": "assistant", **({"content": None, "tool_calls": [call]} if has_call else {"content": "I did."})},
        {"role": "tool", "tool_call_id": "c1", "content": "x"} if has_call else {"role": "user", "content": "x"},
    ]
    provider.on("m", reply({"error": refused}, status=400), speak())
    for count in (2, 3):
        assert (await gateway.client.chat(messages=turns)).status == 200
        assert len(provider.exchanges) == count
        assert provider.last.json["messages"] == [*turns[:3], {**turns[3], "reasoning_content": ""}, turns[4]]
    assert (await gateway.client.chat(messages=turns[:3])).status == 200
    assert provider.last.json["messages"] == turns[:3]


async def test_a_schema_that_is_refused_goes_into_the_prompt(gateway: Gateway, provider: Provider) -> None:
    """DeepSeek makes answers JSON, but takes no schema; some servers do neither in requests with tools."""
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    provider.on("m", fail(400, "This response_format type is unavailable now"), speak())
    for count in (2, 3):
        answer = await gateway.client.chat(response_format=form)
        await gateway.settled(count - 1)
        assert ("resent=1" in gateway.records[-1].marks) is (count == 2)
        assert (answer.status, answer.head.get("x-gateway-dropped-params")) == (200, "response_format")
        assert len(provider.exchanges) == count
        assert provider.last.json["response_format"] == {"type": "json_object"}
    provider.on("m", fail(400, "response_format cannot be used with tools"), speak())
    assert (await gateway.client.chat(response_format=form)).status == 200
    assert "response_format" not in provider.last.json
    assert provider.last.json["messages"][0]["content"].endswith('It must match this JSON schema:\n{"type": "object"}')


CALLED: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT, USER = {"role": "tool", "tool_call_id": "c1", "content": "x"}, {"role": "user", "content": "Hi"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SEEN = {"type": "text", "text": "[An image was here. This model reads text only.]"}


@pytest.mark.parametrize(
    ("status", "message", "turns", "added"),
    [
        (
            400,
            "Unexpected role 'user' after role 'tool'",  # Mistral and Devstral
            [USER, CALLED, RESULT, USER],
            [USER, CALLED, RESULT, {"role": "assistant", "content": "."}, USER],
        ),
        (
            500,
            "Only user, assistant and tool roles are supported, got system.",  # Ministral in llama.cpp, for opencode
            [{"role": "system", "content": "A"}, {"role": "system", "content": "B"}, USER],
            [{"role": "system", "content": "A\n\nB"}, USER],
        ),
        (
            500,
            "System message must be at the beginning.",  # Qwen, for Claude Code
            [{"role": "system", "content": "A"}, USER, {"role": "developer", "content": "B"}, USER],
            [{"role": "system", "content": "A\n\nB"}, USER, USER],
        ),
        (
            404,
            "No endpoints found that support image input",
            [{"role": "user", "content": [IMAGE]}],
            [{"role": "user", "content": [SEEN]}],
        ),
    ],
)
async def test_messages_keep_the_rules_that_an_upstream_has_named(
    gateway: Gateway,
    provider: Provider,
    status: int,
    message: str,
    turns: list[dict[str, Any]],
    added: list[dict[str, Any]],
) -> None:
    provider.on("m", fail(status, message), speak())
    for count in (2, 3):
        answer = await gateway.client.chat(messages=turns)
        assert (answer.status, len(provider.exchanges)) == (200, count)
        assert provider.last.json["messages"] == added
        dropped = "messages[].image" if "image" in message else ""
        assert answer.head.get("x-gateway-dropped-params") == dropped


async def test_a_rule_is_forgotten_if_the_upstream_repeated_words_of_the_client(
    gateway: Gateway, provider: Provider
) -> None:
    refused = fail(400, "Invalid 'metadata.note': 'which is not a multimodal model'")
    provider.on("m", refused, refused, speak())
    turns = [{"role": "user", "content": [IMAGE]}]
    assert (await gateway.client.chat(messages=turns, metadata={"note": "..."})).status == 400
    answer = await gateway.client.chat(messages=turns)
    assert (answer.status, answer.head.get("x-gateway-dropped-params")) == (200, "")
    assert (provider.last.json["messages"], len(provider.exchanges)) == (turns, 3)


TOO_LARGE = (
    "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you gave 32000"
)


async def test_an_output_limit_is_lowered_once_the_upstream_names_its_own(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(400, TOO_LARGE, code="invalid_value"), speak())
    for _ in range(2):
        answer = await gateway.client.chat(max_tokens=32_000)
        assert (answer.status, answer.head.get("x-gateway-output-limit")) == (200, "16384")
    assert [exchange.json["max_tokens"] for exchange in provider.exchanges] == [32_000, 16_384, 16_384]
    lower = await gateway.client.chat(max_tokens=100)
    assert (provider.last.json["max_tokens"], lower.head.get("x-gateway-output-limit")) == (100, "")
