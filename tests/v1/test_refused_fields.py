"""What Claude Code adds to a Messages request is left out for a channel that refuses it."""

import json
from typing import Any

import pytest

from gateway.domain.channel import Dialect
from gateway.upstream.openai.responses import ENCRYPTED
from tests.fakes.gateway import Gateway
from tests.fakes.messages import message, text_block
from tests.fakes.obedient import obey
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc, dumps, reply

BETAS = "claude-code-20250219,context-management-2025-06-27,prompt-caching-scope-2026-01-05"
TOOL: Doc = {"name": "Read", "input_schema": {"type": "object", "properties": {"scope": {}, "strict": {}}}}
MARK: Doc = {"type": "ephemeral", "scope": "global"}
PLAIN: Doc = {
    "model": "m",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "tools": [TOOL],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Look."}]}],
}
UNKNOWN = "Extra inputs are not permitted"
OPENROUTER = "No endpoints available that support Anthropic's context management (context-management-2025-06-27)"


def refusal(message: str) -> bytes:
    return dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}})


def refusing(gateway: Gateway, provider: Provider, *messages: str, **fields: Any) -> None:
    """The upstream refuses as many requests, and then obeys."""
    gateway.channel(provider.base_url, **{"dialect": Dialect.ANTHROPIC, **fields})
    provider.on("m", *(reply(refusal(message), status=400) for message in messages), obey)


@pytest.mark.parametrize(
    ("message", "added", "dropped"),
    [
        (f"context_management: {UNKNOWN}", {"context_management": {"edits": []}}, "context_management"),
        (OPENROUTER, {"context_management": {"edits": []}}, "context_management"),
        (f"diagnostics: {UNKNOWN}", {"diagnostics": None}, "diagnostics"),  # Vertex
        (f"output_config.effort: {UNKNOWN}", {"output_config": {"effort": "high"}}, "output_config.effort"),
        (f"output_config: {UNKNOWN}", {"output_config": {"effort": "high"}}, "output_config.effort"),
        (
            f"tools.0.custom.eager_input_streaming: {UNKNOWN}",
            {"tools": [{**TOOL, "eager_input_streaming": True}]},
            "tools.eager_input_streaming",
        ),
        (
            f"tools.0.custom.input_examples: {UNKNOWN}",
            {"tools": [{**TOOL, "input_examples": [{"scope": 1}]}]},
            "tools.input_examples",
        ),
        (f"tools.0.custom.strict: {UNKNOWN}", {"tools": [{**TOOL, "strict": True}]}, "tools.strict"),
        (  # LiteLLM adds it to blocks, which Claude Code sends back
            f"messages.0.content.0.text.provider_specific_fields: {UNKNOWN}",
            {"messages": [{"role": "user", "content": [{**text_block("Look."), "provider_specific_fields": None}]}]},
            "messages[].content[].provider_specific_fields",
        ),
        (  # OpenRouter
            f"tools.0.cache_control: {UNKNOWN}",
            {"tools": [{**TOOL, "cache_control": {"type": "ephemeral"}}]},
            "tools[].cache_control",
        ),
        ("Too many strict tools (21).", {"tools": [{**TOOL, "strict": True}]}, "tools.strict"),
        (
            f"system.0.cache_control.ephemeral.scope: {UNKNOWN}",
            {"system": [{"type": "text", "text": "Be brief.", "cache_control": MARK}]},
            "system.cache_control.scope",
        ),
        (
            f"system.0.cache_control.ephemeral.ttl: {UNKNOWN}",
            {"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
            "system.cache_control.ttl",
        ),
        ("`temperature` is deprecated for this model.", {"temperature": 0.5}, "temperature"),
        ("`temperature` may only be set to 1 when thinking is enabled.", {"temperature": 0.5}, "temperature"),
        ("`top_k` must be unset when thinking is enabled.", {"top_k": 5}, "top_k"),
        (
            "metadata.user_id: String should have at most 256 characters",
            {"metadata": {"user_id": "_" * 300}},
            "metadata.user_id",
        ),
        ("Invalid 'user_id': string does not match pattern.", {"metadata": {"user_id": "a b"}}, "metadata.user_id"),
        (
            "Thinking mode does not support this tool_choice",
            {"tool_choice": {"type": "any"}},
            "tool_choice",
        ),  # DeepSeek
    ],
)
async def test_a_refused_field_is_left_out_from_then_on(
    gateway: Gateway, provider: Provider, message: str, added: Doc, dropped: str
) -> None:
    refusing(gateway, provider, message)
    for number in (2, 3):
        answer = await gateway.client.ask("POST", "/v1/messages", dumps({**PLAIN, **added}))
        assert (answer.status, answer.head.get("x-gateway-dropped-params")) == (200, dropped)
        assert (provider.last.json, len(provider.exchanges)) == (PLAIN, number)
        assert provider.last.head.all("anthropic-beta") == []


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (
            "Unexpected value(s) `prompt-caching-scope-2026-01-05` for the `anthropic-beta` header.",
            "claude-code-20250219,context-management-2025-06-27",
        ),
        (
            'vertex-ai error: Unexpected beta header "context-management-2025-06-27", "claude-code-20250219"',
            "prompt-caching-scope-2026-01-05",
        ),
        (OPENROUTER, "claude-code-20250219,prompt-caching-scope-2026-01-05"),
        ("invalid beta flag", ""),
    ],
)
async def test_a_refused_beta_is_then_left_out(gateway: Gateway, provider: Provider, message: str, kept: str) -> None:
    refusing(gateway, provider, message)
    for number in (2, 3):
        answer = await gateway.client.ask("POST", "/v1/messages", dumps(PLAIN), {"anthropic-beta": BETAS})
        assert (answer.status, provider.last.head.all("anthropic-beta")) == (200, [kept] if kept else [])
        assert (provider.last.body, len(provider.exchanges)) == (dumps(PLAIN), number)
    assert (await gateway.client.ask("POST", "/v1/messages", dumps(PLAIN))).head.get("x-gateway-dropped-params") == ""


async def test_a_refused_limit_is_lowered_with_the_budget_for_thinking(gateway: Gateway, provider: Provider) -> None:
    message = "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-x"
    refusing(gateway, provider, message)
    thinking: Doc = {"type": "enabled", "budget_tokens": 10_000}
    answer = await gateway.client.ask(
        "POST", "/v1/messages", dumps({**PLAIN, "max_tokens": 32_000, "thinking": thinking})
    )
    assert (answer.status, provider.last.json["max_tokens"]) == (200, 8192)
    assert provider.last.json["thinking"] == {"type": "enabled", "budget_tokens": 4096}


@pytest.mark.parametrize(
    ("error", "sent", "dropped"),
    [
        (
            {"message": "Unsupported value", "param": "text.verbosity", "code": "unsupported_value"},
            {"text": {"verbosity": "low"}},
            "text.verbosity",
        ),
        (
            {"message": "Your organization", "param": "reasoning.summary", "code": "unsupported_value"},
            {"reasoning": {"summary": "auto"}},
            "reasoning.summary",
        ),
        (
            {"message": "Encrypted content is not supported with this model.", "param": "include", "code": None},
            {"include": ["reasoning.encrypted_content"]},
            "include",
        ),
        ({"message": "Unsupported parameter: 'temperature'"}, {"temperature": 0.2}, "temperature"),
        ({"message": "Max is too large: this supports at most 8 output tokens"}, {"max_output_tokens": 9}, ""),
    ],
)
async def test_a_response_loses_what_its_model_refuses(
    gateway: Gateway, provider: Provider, error: Doc, sent: Doc, dropped: str
) -> None:
    gateway.channel(provider.base_url)
    provider.on("m", reply({"error": error}, status=400), obey)
    plain = {"model": "m", "input": "Hi"}
    answers = [await gateway.client.ask("POST", "/v1/responses", dumps({**plain, **sent})) for _ in range(2)]
    assert ([answer.status for answer in answers], len(provider.exchanges)) == ([200, 200], 3)
    assert provider.last.json == (plain if dropped else {**plain, "max_output_tokens": 8})
    assert answers[1].head.get("x-gateway-dropped-params") == dropped


@pytest.mark.parametrize(
    ("path", "said"), [("chat/completions", {"messages": PLAIN["messages"]}), ("responses", {"input": "Hi"})]
)
@pytest.mark.parametrize(
    ("message", "stream"),
    [("Stream must be set to true", False), ("Your organization must be verified to stream this model.", True)],
)
async def test_an_answer_of_the_only_form_that_a_server_has_becomes_the_requested_one(
    gateway: Gateway, provider: Provider, message: str, stream: bool, path: str, said: Doc
) -> None:
    gateway.channel(provider.base_url)
    provider.on("m", reply({"error": {"message": message}}, status=400), obey)
    answer = await gateway.client.ask("POST", f"/v1/{path}", dumps({"model": "m", "stream": stream, **said}))
    assert (answer.status, provider.last.json["stream"], gateway.record.source) == (200, not stream, "reported")
    assert answer.body.startswith((b"data:", b"event:")) == stream


async def test_several_refused_fields_are_left_out_one_after_another(gateway: Gateway, provider: Provider) -> None:
    refusing(gateway, provider, f"context_management: {UNKNOWN}", f"output_config: {UNKNOWN}")
    body = {**PLAIN, "context_management": {}, "output_config": {"effort": "low"}}
    assert (await gateway.client.ask("POST", "/v1/messages", dumps(body))).status == 200
    assert provider.last.json == PLAIN


@pytest.mark.parametrize(
    ("path", "dialect", "body", "sent"),
    [
        ("/v1/chat/completions", Dialect.OPENAI, {"reasoning_effort": "max"}, {"reasoning_effort": "high"}),
        ("/v1/responses", Dialect.OPENAI, {"reasoning": {"effort": "xhigh"}}, {"reasoning": {"effort": "high"}}),
        (
            "/v1/messages",
            Dialect.ANTHROPIC,
            {"output_config": {"effort": "max"}},
            {"output_config": {"effort": "high"}},
        ),
    ],
)
async def test_a_refused_effort_becomes_the_nearest_one_and_others_stay(
    gateway: Gateway, provider: Provider, path: str, dialect: Dialect, body: Doc, sent: Doc
) -> None:
    message = "Invalid effort. Supported values are: 'low', 'medium', and 'high'."
    refusing(gateway, provider, message, dialect=dialect)
    said = {"model": "m", "max_tokens": 9, "messages": PLAIN["messages"], "input": "a"}
    answers = [await gateway.client.ask("POST", path, dumps({**said, **body})) for _ in range(2)]
    assert ([answer.status for answer in answers], len(provider.exchanges)) == ([200, 200], 3)
    assert provider.last.json == {**said, **sent}
    assert answers[1].head.get("x-gateway-dropped-params").endswith("effort")
    low = json.loads(json.dumps(body).replace("xhigh", "low").replace("max", "low"))
    answer = await gateway.client.ask("POST", path, dumps({**said, **low}))
    assert (provider.last.json, answer.head.get("x-gateway-dropped-params")) == ({**said, **low}, "")


async def test_strict_tools_of_a_chat_are_not_strict_where_claude_refuses_them(
    gateway: Gateway, provider: Provider
) -> None:
    message = "The compiled grammar is too large, which would cause performance issues."
    gateway.channel(provider.base_url, "m=claude-sonnet-4-5", dialect=Dialect.ANTHROPIC)
    provider.on("claude-sonnet-4-5", reply(refusal(message), status=400), obey)
    schema: Doc = {"type": "object", "properties": {}, "additionalProperties": False}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}
    asked = dumps({"model": "m", "tools": [tool], "messages": PLAIN["messages"]})
    answers = [await gateway.client.ask("POST", "/v1/chat/completions", asked) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    sent = [exchange.json["tools"] for exchange in provider.exchanges]
    ordinary = {"name": "f", "input_schema": schema}
    assert sent == [[{**ordinary, "strict": True}], [ordinary], [ordinary]]
    assert answers[1].head.get("x-gateway-dropped-params") == "tools[].strict"


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_refused_schemas_are_repaired(gateway: Gateway, provider: Provider, path: str, *, strict: bool) -> None:
    message = "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"
    refusing(gateway, provider, message, strict=strict)
    old: Doc = {"type": "object", "properties": {"n": {"enum": []}}}
    new: Doc = {"type": "object", "properties": {"n": {}}}
    tool: Doc = {"name": "f", "input_schema": old}
    if path != "/v1/messages":
        tool = {"type": "function", "function": {"name": "f", "parameters": old}}
    asked = dumps({"model": "m", "max_tokens": 9, "tools": [tool], "messages": PLAIN["messages"]})
    answers = [await gateway.client.ask("POST", path, asked) for _ in range(2)]
    assert [answer.status for answer in answers] == [400 if strict else 200, 200]
    assert len(provider.exchanges) == (2 if strict else 3)
    assert provider.last.json["tools"][0]["input_schema"] == (old if strict else new)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("path", "dialect", "plain"),
    [
        ("/v1/messages", Dialect.ANTHROPIC, {**PLAIN, "tools": [TOOL]}),
        ("/v1/chat/completions", Dialect.OPENAI, {"model": "m", "messages": PLAIN["messages"]}),
        ("/v1/responses", Dialect.OPENAI, {"model": "m", "input": PLAIN["messages"]}),
    ],
)
async def test_nulls_and_empty_lists_are_left_out_where_they_are_refused(
    gateway: Gateway, provider: Provider, path: str, dialect: Dialect, plain: Doc, *, strict: bool
) -> None:
    message = "Invalid 'stop_sequences': empty array. Expected an array with minimum length 1"
    refusing(gateway, provider, message, dialect=dialect, strict=strict)
    sent = {**plain, "stop_sequences": [], "metadata": None}
    answers = [await gateway.client.ask("POST", path, dumps(sent)) for _ in range(2)]
    assert [answer.status for answer in answers] == [400 if strict else 200, 200]
    assert len(provider.exchanges) == (2 if strict else 3)
    assert provider.last.json == (sent if strict else plain)
    assert answers[1].head.get("x-gateway-dropped-params") == ""


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("name", "added"),
    [("thinking", {"thinking": {"type": "adaptive"}}), ("output_config", {"output_config": {"format": {}}})],
)
async def test_what_changes_the_answer_is_not_left_out(
    gateway: Gateway, provider: Provider, name: str, added: Doc, *, strict: bool
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC, strict=strict)
    added = {"context_management": {}} if strict else added
    name = "context_management" if strict else name
    provider.on("m", reply(refusal(f"{name}: {UNKNOWN}"), status=400))
    answer = await gateway.client.ask("POST", "/v1/messages", dumps({**PLAIN, **added}))
    assert (answer.status, answer.body, len(provider.exchanges)) == (400, refusal(f"{name}: {UNKNOWN}"), 1)


_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
_CALL = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
_THOUGHT = {"type": "thinking", "thinking": "", "signature": "none"}
_HELLO = {"type": "text", "text": "Hello."}
_SEEN = {"type": "text", "text": "[An image was here. This model reads text only.]"}


def _user(*parts: Doc) -> Doc:
    return {"role": "user", "content": [*parts]}


def _assistant(*parts: Doc) -> Doc:
    return {"role": "assistant", "content": [*parts]}


def _result(*parts: Doc) -> Doc:
    return _user({"type": "tool_result", "tool_use_id": "t1", "content": [*parts]})


@pytest.mark.parametrize(
    ("message", "sent", "kept"),
    [
        (
            "messages[1].content: unknown variant `image`, expected one of `text`, `tool_use`, `tool_result`",
            [_result(_IMAGE), _user(_IMAGE)],
            [_result(_SEEN), _user(_SEEN)],
        ),
        (
            "The `content[].thinking` in the thinking mode must be passed back to the API.",
            [_assistant(_CALL), _result(_SEEN)],
            [_assistant(_THOUGHT, _CALL), _result(_SEEN)],
        ),
        (
            "The `content[].thinking` in the thinking mode must be passed back to the API.",
            [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Go on"}],
            [_assistant(_THOUGHT, _HELLO), {"role": "user", "content": "Go on"}],
        ),
        (
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1",
            [_assistant(_CALL), _user(_HELLO)],
            [_assistant(_CALL), _user({"type": "tool_result", "content": "[no output]", "tool_use_id": "t1"}, _HELLO)],
        ),
    ],
)
async def test_messages_keep_the_rules_that_an_upstream_has_named(
    gateway: Gateway, provider: Provider, message: str, sent: list[Doc], kept: list[Doc]
) -> None:
    refusing(gateway, provider, message)
    for number in (2, 3):
        body = {**PLAIN, "messages": [*PLAIN["messages"], *sent]}
        answer = await gateway.client.ask("POST", "/v1/messages", dumps(body))
        assert (answer.status, len(provider.exchanges)) == (200, number)
        assert provider.last.json == {**PLAIN, "messages": [*PLAIN["messages"], *kept]}
        assert answer.head.get("x-gateway-dropped-params") == ("messages[].image" if "image`" in message else "")


@pytest.mark.parametrize(
    "message",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "The model returned the following errors: messages.1.content.0: Invalid `data` in `redacted_thinking` block",
        "messages.1.content.0.thinking.signature: Field required",
        "messages.3.content.0.thinking: each thinking block must contain thinking",
        "Expected `thinking`, but found `text`. [...] a final `assistant` message must start with a thinking block",
        "messages.1: The final block in an assistant message cannot be `thinking`.",
    ],
)
async def test_thoughts_that_another_vendor_signed_are_left_out(
    gateway: Gateway, provider: Provider, message: str
) -> None:
    refusing(gateway, provider, message)
    thought, hidden = {"type": "thinking", "thinking": "Hm.", "signature": "kimi"}, {"type": "redacted_thinking"}
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"type": "thinking"}}
    result, asked = _user({"type": "tool_result", "tool_use_id": "t1", "content": "x"}), PLAIN["messages"]
    history = [*asked, _assistant(thought, hidden, call), result]
    body = {**PLAIN, "messages": history, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    answer = await gateway.client.ask("POST", "/v1/messages", dumps(body))
    assert (answer.status, answer.head.get("x-gateway-dropped-params")) == (200, "messages[].thinking,thinking")
    assert provider.last.json == {**PLAIN, "messages": [*asked, _assistant(call), result]}


THOUGHT: Doc = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
TOOL_USE: Doc = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
BOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
"""What Claude says since Fable 5.1 if something before a thought has changed, such as the time in a system prompt."""


@pytest.mark.parametrize("strict", [False, True])
async def test_thoughts_that_a_chat_did_not_send_are_forgotten(
    gateway: Gateway, provider: Provider, *, strict: bool
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC, strict=strict)
    provider.on("m", reply(message(THOUGHT, TOOL_USE, stop="tool_use")), reply(refusal(BOUND), status=400), obey)
    asked: Doc = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    first = await gateway.client.ask("POST", "/v1/chat/completions", dumps(asked))
    said = {"role": "assistant", "tool_calls": json.loads(first.body)["choices"][0]["message"]["tool_calls"]}
    asked["messages"] += [said, {"role": "tool", "tool_call_id": "t1", "content": "x"}]
    for number in (3, 4):
        answer = await gateway.client.ask("POST", "/v1/chat/completions", dumps(asked))
        assert (answer.status, len(provider.exchanges)) == (200, number)
        assert provider.last.json["messages"][1]["content"] == [TOOL_USE]


@pytest.mark.parametrize("strict", [False, True])
async def test_thoughts_that_a_response_sent_back_are_left_out(
    gateway: Gateway, provider: Provider, *, strict: bool
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC, strict=strict)
    provider.on("m", reply(message(THOUGHT, text_block())), reply(refusal(BOUND), status=400), obey)
    asked: Doc = {"model": "m", "input": [{"role": "user", "content": "Hi"}], "store": False}
    first = await gateway.client.ask("POST", "/v1/responses", dumps(asked | {"include": [ENCRYPTED]}))
    asked["input"] += [*json.loads(first.body)["output"], {"role": "user", "content": "Go on."}]
    answer = await gateway.client.ask("POST", "/v1/responses", dumps(asked))
    assert (answer.status, len(provider.exchanges)) == ((400, 2) if strict else (200, 3))
    sent = provider.last.json["messages"][1]["content"]
    assert sent == [*([THOUGHT] if strict else []), {"type": "text", "text": "Hello"}]
    assert answer.head.get("x-gateway-dropped-params") == ("" if strict else "input[].reasoning")


@pytest.mark.parametrize(
    ("path", "turns", "message"),
    [
        ("/v1/messages", [{"type": "thinking", "thinking": "Hm.", "signature": "kimi"}], "Invalid `signature` in `x`"),
        ("/v1/messages", [{"type": "tool_reference", "tool_name": "f"}], "tool_reference is not supported"),
        ("/v1/responses", [{"type": "function_call", "name": "f", "arguments": "{"}], "Unterminated string (char 1)"),
    ],
)
async def test_a_strict_channel_repairs_nothing(
    gateway: Gateway, provider: Provider, path: str, turns: list[Doc], message: str
) -> None:
    is_native = path.endswith("messages")
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC if is_native else Dialect.OPENAI, strict=True)
    provider.on("m", reply(refusal(message), status=400))
    said = {"messages": [*PLAIN["messages"], _assistant(*turns)]} if is_native else {"input": turns}
    answer = await gateway.client.ask("POST", path, dumps({**PLAIN, **said}))
    assert (answer.status, len(provider.exchanges)) == (400, 1)


async def test_without_thoughts_nothing_is_sent_again_whatever_its_spaces(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    message = "messages.1.content.0: Invalid `signature` in `thinking` block"
    provider.on("m", reply(refusal(message), status=400))
    body = json.dumps({**PLAIN, "messages": [*PLAIN["messages"], *PLAIN["messages"]]}).encode()
    answer = await gateway.client.ask("POST", "/v1/messages", body)
    assert (answer.status, len(provider.exchanges), provider.last.body) == (400, 1, body)


@pytest.mark.parametrize("messages", [[{"role": "user"}], [{"role": "user", "content": [5]}]])
async def test_a_refused_odd_message_is_passed_on(gateway: Gateway, provider: Provider, messages: list[Doc]) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    body = refusal("messages.1.content.0.thinking.signature: Field required")
    provider.on("m", reply(body, status=400))
    answer = await gateway.client.ask("POST", "/v1/messages", dumps({**PLAIN, "messages": messages}))
    assert (answer.status, answer.body, len(provider.exchanges)) == (400, body, 1)
