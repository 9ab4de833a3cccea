"""What we send is what Anthropic's own SDK would send, type by type. It has no words any more for sampling.

The SDK is imported by the tests that use it: that takes two seconds, which every worker would spend at its start.
"""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from gateway.domain.channel import ServedModel
from gateway.domain.sse import BLANK, parse
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.learned_params import NOTHING
from tests.cases.anthropic.streams import HELLO, TWO_TOOLS
from tests.cases.conversations import TOOLS_AND_IMAGE, function
from tests.upstream.makers import channel, translated
from tests.upstream.typed import faults

PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}
TEXT = {"type": "file", "file": {"file_data": "data:text/plain;base64,SGk="}}
PHOTO = {"type": "image_url", "image_url": {"url": "https://host/a.png"}, "cache_control": {"type": "ephemeral"}}
THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "S"}
HIDDEN = {"type": "redacted_thinking", "data": "AAA"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
PLAIN = {"messages": [{"role": "user", "content": "Hi"}]}
TALK = [
    {"role": "user", "content": [{"type": "text", "text": "Read"}, PDF, TEXT, PHOTO]},
    {"role": "assistant", "content": "Well.", "thinking_blocks": [THOUGHT, HIDDEN]},
    {"role": "user", "content": "Go on"},
    {"role": "developer", "content": "Be kind."},
]
REQUESTS: list[dict[str, Any]] = [
    TOOLS_AND_IMAGE,
    {"messages": TALK, "stream": True},
    {**PLAIN, "reasoning_effort": "high", "user": "u1", "service_tier": "auto", "stop": ["a"]},
    {**PLAIN, "reasoning_effort": "none", "service_tier": "default"},
    {**PLAIN, "response_format": FORM, "tools": [function("f")], "parallel_tool_calls": False},
    {**PLAIN, "response_format": {"type": "json_object"}, "tools": [function("f")], "tool_choice": "none"},
    {**PLAIN, "thinking": {"type": "adaptive"}, "cache_control": {"type": "ephemeral"}, "metadata": {"user_id": "u"}},
    {"messages": TOOLS_AND_IMAGE["messages"]},
]


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-opus-5", "claude-sonnet-5-5", "claude-sonnet-4-5", "x"])
@pytest.mark.parametrize("body", REQUESTS)
def test_the_sdk_would_send_it(body: dict[str, Any], model: str) -> None:
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming

    asked = translated({"model": "m", **body})
    prepared = AnthropicDialect().prepare(asked, channel(), ServedModel(name="m", upstream=model), NOTHING)
    hint = MessageCreateParamsStreaming if asked.stream else MessageCreateParamsNonStreaming
    assert faults(json.loads(prepared.body), hint) == []


@pytest.mark.parametrize("stream", [HELLO, TWO_TOOLS])
def test_we_read_what_the_sdk_reads(stream: bytes) -> None:
    from anthropic.types import RawMessageStreamEvent

    adapter: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
    events = [parse(block) for block in stream.split(BLANK)]
    read = [adapter.validate_json(event.data).type for event in events if event and event.name != b"ping"]
    assert (read[0], read[-1]) == ("message_start", "message_stop")
