"""Hostile requests: whatever JSON is anywhere in a request, every API refuses it or sends it to every dialect."""

import json

import msgspec
import pytest

from gateway.core.channel_effects import effects_of
from gateway.core.quota import need_of
from gateway.domain.channel import Channel, Dialect, Overrides, ServedModel
from gateway.domain.errors import GatewayError
from gateway.domain.failure import AttemptFailed
from gateway.domain.order import LearnedRefusals
from gateway.domain.units import CallId, ChannelId, Millis
from gateway.inbound.api import HttpRequest, InboundApi
from gateway.inbound.chat.api import CHAT
from gateway.inbound.messages.api import MESSAGES
from gateway.inbound.ollama.api import OLLAMA_CHAT
from gateway.inbound.responses.api import RESPONSES
from gateway.inbound.responses.chat_endpoint import CHAT_ENDPOINT
from gateway.upstream.dialects import new_adapter
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.message_rules import RULES
from gateway.upstream.refused_params import ROLE
from tests.inbound.mutations import STEP, Doc, mutated

OWN = Overrides(system="Be brief.")
LEARNED = LearnedRefusals(dropped=(*RULES, ROLE))
"""All that may be learned about messages."""
UPSTREAMS = [
    ("https://api.openai.com/v1", Dialect.OPENAI, "gpt-4o"),
    ("https://api.deepseek.com", Dialect.OPENAI, "m"),
    ("https://api.mistral.ai/v1", Dialect.OPENAI, "m"),
    ("http://127.0.0.1:11434/v1", Dialect.OPENAI, "m"),
    ("https://api.anthropic.com", Dialect.ANTHROPIC, "claude-sonnet-4-5"),
    ("https://generativelanguage.googleapis.com", Dialect.GEMINI, "gemini-3.8-flash"),
    ("", Dialect.MOCK, "m"),
]
IMAGE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
MESSAGES_BODY: Doc = {
    "model": "m",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Be.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "source": IMAGE},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "b"}, "title": "t"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": "tk1.g.eyJ0MSI6IlMifQ=="},
                {"type": "redacted_thinking", "data": "zz"},
                {"type": "text", "text": "b"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "x"}, {"type": "image", "source": IMAGE}],
                },
                {"type": "text", "text": "c"},
            ],
        },
    ],
    "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 50},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    "metadata": {"user_id": "user_x_session_00000000-0000"},
    "stop_sequences": ["a"],
    "temperature": 1,
    "mcp_servers": [],
}
RESPONSES_BODY: Doc = {
    "model": "m",
    "instructions": "Be.",
    "max_output_tokens": 100,
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm"}],
            "encrypted_content": "tk1.a.W3sidHlwZSI6InRoaW5raW5nIn1d",
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"x":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "text"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "r"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "b"}, {"type": "refusal", "refusal": "no"}]},
        {"role": "user", "content": "c"},
    ],
    "tools": [
        {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": True},
        {"type": "custom", "name": "g", "format": {"type": "text"}},
    ],
    "tool_choice": {"type": "function", "name": "f"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": "low"},
    "include": ["reasoning.encrypted_content"],
    "store": False,
}
CHAT_BODY: Doc = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            "thinking_blocks": [{"type": "thinking", "thinking": "x", "signature": "s"}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Error executing tool f: x", "is_error": True, "status": "x"},
        {"role": "user", "content": "c"},
    ],
    "tools": [{"type": "function", "function": {"name": "f"}, "cache_control": {"type": "ephemeral"}}],
    "tool_choice": "auto",
    "max_tokens": 5,
    "reasoning_effort": "low",
    "stop": ["a"],
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "output_config": {"effort": "low"},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
    "metadata": {"user_id": "u"},
    "service_tier": "auto",
    "parallel_tool_calls": False,
    "temperature": 1,
    "logprobs": False,
    "user": "u",
}

BLOCKS_BODY: Doc = {
    "model": "m",
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "video_url", "video_url": {"url": "https://h/a.mp4"}},
                {"type": "image", "source": {"type": "url", "url": "https://h/a"}},
                {
                    "type": "document",
                    "title": "t",
                    "source": {"type": "base64", "media_type": "text/plain", "data": "AAAA"},
                },
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}}],
            "images": [{"type": "image_url", "image_url": {"url": "https://h/a"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "r", "is_error": True}]},
    ],
    "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
    "tool_choice": {"type": "tool", "name": "f"},
    "response_format": {"type": "grammar", "grammar": "x"},
}
"""A chat in the form of Anthropic's API."""
OLLAMA_BODY: Doc = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s", "images": ["AAAA"]},
        {"role": "user", "content": "a", "images": ["AAAA"]},
        {"role": "system", "content": "t"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": 1, "function": {"name": "f", "arguments": {}}}]},
        {"role": "tool", "tool_call_id": 1, "tool_name": "f", "content": "r"},
    ],
    "options": {"num_predict": 5.0, "stop": "x", "seed": 1},
    "format": {"type": "object"},
    "think": True,
    "tools": [{"type": "function", "function": {"name": "f"}}],
}


def _try(api: InboundApi, body: bytes) -> None:
    """All that is done with a request before it is sent, as valid JSON. Raises GatewayError, and nothing else."""
    found = api.parse(HttpRequest(body=body, target="/", headers={}))
    assert found.prompt_tokens >= 0
    for url, dialect, model in UPSTREAMS:
        channel = Channel(id=ChannelId("c"), name="up", dialect=dialect, base_url=url, key="k", overrides=OWN)
        served = ServedModel(name="m", upstream=model, max_output=4096)
        need_of(found, effects_of([(channel, served)]), [])
        order = api.order(found, CallId("req_0123456789abcdef01234567"), Millis(5))
        for lacks_api, learned in ((False, NOTHING), (True, NOTHING), (False, LEARNED)):
            try:
                plan = api.plan(order, channel, new_adapter(dialect), lacks_api=lacks_api)
                prepared = plan.adapter.prepare(plan.order, channel, served, learned)
            except (GatewayError, AttemptFailed):
                continue
            msgspec.json.decode(prepared.body)


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (MESSAGES, MESSAGES_BODY),
        (RESPONSES, RESPONSES_BODY),
        (CHAT, CHAT_BODY),
        (CHAT_ENDPOINT, BLOCKS_BODY),
        (CHAT_ENDPOINT, RESPONSES_BODY),
        (OLLAMA_CHAT, OLLAMA_BODY),
    ],
    ids=["messages", "responses", "chat", "blocks", "responses as chats", "ollama"],
)
def test_it_is_refused_or_sent(api: InboundApi, body: Doc) -> None:
    _try(api, json.dumps(body).encode())
    for number, doc in enumerate(mutated(body)):
        if number % STEP == 0:
            data = json.dumps(doc).encode()
            try:
                _try(api, data)
            except GatewayError:
                continue
            except Exception as fault:
                raise AssertionError(data.decode()) from fault
