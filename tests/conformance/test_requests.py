"""Cases 8 to 15: what of a request reaches the upstream."""

import json
from typing import Any

import pytest

from tests.conformance.shapes import completion_faults
from tests.fakes.client import HELLO, Doc
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, reply, speak, story, stream

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


async def test_08_unknown_keys_pass_at_every_depth(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m=real-m")
    provider.on("real-m", speak())
    tool = {"type": "function", "function": {"name": "f"}, **ODD}
    sent = {"model": "m", **ODD, "messages": [{**HELLO[0], **ODD}], "tools": [tool], "extra_body": ODD}
    assert (await gateway.client.post(sent)).status == 200
    wanted = json.dumps(sent).replace('"model": "m"', '"model": "real-m"')
    assert json.loads(provider.last.body, parse_float=str) == json.loads(wanted, parse_float=str)


@pytest.mark.parametrize("stream", [False, True])
async def test_09_every_known_field_passes_unchanged(gateway: Gateway, provider: Provider, stream: bool) -> None:
    gateway.channel(provider.base_url, preset="openai")
    seen = await asked(gateway, provider, **EVERYTHING, stream=stream)
    ours = {"stream_options": {"include_usage": True}} if stream else {}
    assert seen == {"model": "m", **EVERYTHING, "stream": stream, **ours}


async def test_09_the_clients_own_stream_options_are_kept(gateway: Gateway, provider: Provider) -> None:
    options = {"include_usage": False, "include_obfuscation": False}
    seen = await asked(gateway, provider, stream=True, stream_options=options)
    assert seen["stream_options"] == {"include_usage": True, "include_obfuscation": False}


async def test_09_no_header_of_the_client_is_passed_on(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
    strange = {"cookie": "c", "x-secret": "s", "openai-organization": "o", "x-stainless-lang": "py", "api-key": "k"}
    await gateway.client.post({"model": "m", "messages": HELLO}, strange)
    seen = provider.last.head
    assert {name for name, _ in seen.headers} & set(strange) == set()
    assert seen.get("authorization") == "Bearer sk-upstream-canary"
    assert gateway.client.key not in str(seen.headers)


@pytest.mark.parametrize(
    "text", ["\ud83d", "a\ud83d b\udc00", "\u2028\u2029", "\x00", "\x1b[31m", "🙂 日本 é", "\ue03d"]
)
async def test_10_any_legal_string_arrives_as_it_was(gateway: Gateway, provider: Provider, text: str) -> None:
    seen = await asked(gateway, provider, messages=[{"role": "user", "content": text}])
    assert seen["messages"] == [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"[]", "invalid_type", None),
        (b'"x"', "invalid_type", None),
        (b"{", "invalid_json", None),
        (b"", "invalid_json", None),
        (b'{"model":"","messages":[{"role":"user"}]}', "missing_required_parameter", "model"),
        (b'{"model":"m","messages":[]}', "invalid_value", "messages"),
        (b'{"model":"m","messages":[{"role":"user"}],"stream":"yes"}', "invalid_type", "stream"),
        (b'{"model":"m","messages":[{"role":"user"}],"temperature":NaN}', "invalid_json", None),
    ],
)
async def test_11_what_is_not_a_request_never_reaches_an_upstream(
    gateway: Gateway, provider: Provider, body: bytes, code: str, param: str | None
) -> None:
    answer = await gateway.client.ask(
        "POST", "/v1/chat/completions", body, {"content-type": "application/json", "content-length": str(len(body))}
    )
    assert answer.refusal == (400, code, param)
    assert provider.exchanges == []


async def test_12_stream_options_need_a_stream(gateway: Gateway, provider: Provider) -> None:
    answer = await gateway.client.chat(stream_options={"include_usage": True})
    assert (answer.status, answer.error["param"]) == (400, "stream_options")
    provider.on("m", speak())
    answer = await gateway.client.chat(stream=None, stream_options=None, max_tokens=None, n=None, tools=None)
    assert completion_faults(answer.json) == []


@pytest.mark.parametrize(
    ("preset", "model", "sent", "seen"),
    [
        ("openai", "o3-mini", {"max_tokens": 5}, {"max_completion_tokens": 5}),
        ("openai", "gpt-4o", {"max_tokens": 5}, {"max_tokens": 5}),
        ("ollama", "llama3", {"max_completion_tokens": 5}, {"max_tokens": 5}),
        ("openai", "o3-mini", {"max_tokens": 5, "max_completion_tokens": 6}, {"max_completion_tokens": 6}),
        ("ollama", "llama3", {"max_tokens": 5, "max_completion_tokens": 6}, {"max_tokens": 6}),
    ],
)
async def test_13_the_output_limit_has_the_name_it_has_there(
    gateway: Gateway, provider: Provider, preset: str, model: str, sent: dict[str, int], seen: dict[str, int]
) -> None:
    gateway.channel(provider.base_url, model, preset=preset)
    got = await asked(gateway, provider, model=model, **sent)
    assert {key: value for key, value in got.items() if key.startswith("max_")} == seen


async def test_14_mistral_sees_only_what_it_allows(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, preset="mistral")
    provider.on("m", speak())
    call = {"id": "call_abc123def", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "x", "name": "n"},
        {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_abc123def", "content": "1"},
    ]
    answer = await gateway.client.chat(user="u", seed=3, store=True, logit_bias={"1": 1}, messages=messages)
    seen = provider.last.json
    assert set(seen) == {"model", "messages", "random_seed"}
    assert [set(message) for message in seen["messages"]] == [
        {"role", "content"},
        {"role", "content", "tool_calls"},
        {"role", "tool_call_id", "content"},
    ]
    short = seen["messages"][1]["tool_calls"][0]["id"]
    assert short == seen["messages"][2]["tool_call_id"]
    assert (len(short), short.isalnum()) == (9, True)
    dropped = set(answer.head.get("x-gateway-dropped-params").split(","))
    assert {"user", "store", "logit_bias"} <= dropped
    assert "seed" not in dropped


async def test_15_a_parameter_the_upstream_refuses_is_left_out_once_and_remembered(
    gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", fail(400, "Unsupported parameter: 'temperature'", code="unsupported_parameter"), speak())
    first = await gateway.client.chat(temperature=0.5)
    assert (first.status, first.head.get("x-gateway-dropped-params")) == (200, "temperature")
    second = await gateway.client.chat(temperature=0.5)
    assert (second.status, second.head.get("x-gateway-dropped-params")) == (200, "temperature")
    assert ["temperature" in exchange.json for exchange in provider.exchanges] == [True, False, False]


TOOLS_WITHOUT_EFFORT = (
    "Function tools with reasoning_effort are not supported for gpt-5.6-luna in /v1/chat/completions. To use function "
    "tools, use /v1/responses or set reasoning_effort to 'none'."
)
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(("given", "dropped"), [({"reasoning_effort": "low"}, "reasoning_effort"), ({}, "")])
async def test_a_model_that_thinks_or_calls_tools_is_told_not_to_think_where_there_are_tools(
    gateway: Gateway, provider: Provider, given: dict[str, Any], dropped: str
) -> None:
    provider.on("m", fail(400, TOOLS_WITHOUT_EFFORT), speak())
    for _ in range(2):
        answer = await gateway.client.chat(tools=[TOOL], **given)
        assert (answer.status, answer.head.get("x-gateway-dropped-params")) == (200, dropped)
    await gateway.client.chat(reasoning_effort="low")
    assert [exchange.json.get("reasoning_effort") for exchange in provider.exchanges] == [
        *(given.get("reasoning_effort"), "none", "none", "low"),
    ]


TOO_LARGE = (
    "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you gave 32000"
)


async def test_an_output_limit_above_the_models_own_is_lowered_once_the_upstream_names_that(
    gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", fail(400, TOO_LARGE, code="invalid_value"), speak())
    for _ in range(2):
        answer = await gateway.client.chat(max_tokens=32_000)
        assert (answer.status, answer.head.get("x-gateway-output-limit")) == (200, "16384")
    assert [exchange.json["max_tokens"] for exchange in provider.exchanges] == [32_000, 16_384, 16_384]
    lower = await gateway.client.chat(max_tokens=100)
    assert (provider.last.json["max_tokens"], lower.head.get("x-gateway-output-limit")) == (100, "")


async def test_15_refusals_in_the_form_of_a_set_are_understood(gateway: Gateway, provider: Provider) -> None:
    refusal = {"detail": "Unexpected fields in the request: {'user', 'stream_options', 'store'}"}  # transformers serve
    provider.on("m", reply(refusal, status=422), stream(*story("Hello")))
    answer = await gateway.client.chat(stream=True, user="u", store=True, seed=1)
    assert (answer.text, answer.head.get("x-gateway-dropped-params")) == ("Hello", "user,store")
    assert set(provider.last.json) == {"model", "messages", "stream", "seed"}


async def test_15_a_strict_channel_drops_nothing(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, strict=True)
    provider.on("m", fail(400, "Unsupported parameter: 'temperature'", code="unsupported_parameter"))
    answer = await gateway.client.chat(temperature=0.5)
    assert (answer.status, answer.error["code"]) == (400, "unsupported_parameter")
    assert len(provider.exchanges) == 1
