"""What we send is what Google's own SDK would send: its models accept every part of it and have no other fields.

The SDK is imported by the tests that use it: that takes a second, which every worker would spend at its start.
"""

import json
from typing import Any

import pytest

from gateway.domain.channel import ServedModel
from gateway.domain.sse import BLANK, parse
from gateway.upstream.gemini.dialect import GeminiDialect
from gateway.upstream.learned_params import NOTHING
from tests.cases.conversations import TOOLS_AND_IMAGE, call, function
from tests.cases.gemini.streams import HELLO, TWO_CALLS
from tests.upstream.makers import channel, translated

MODELS = {
    "contents": "Content",
    "systemInstruction": "Content",
    "tools": "Tool",
    "toolConfig": "ToolConfig",
    "generationConfig": "GenerationConfig",
}
PLAIN = {"messages": [{"role": "user", "content": "Hi"}]}
SCHEMA = {"type": "object", "properties": {"a": {"type": ["integer", "null"]}}, "additionalProperties": False}
SOUND = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}
PHOTO = {"type": "image_url", "image_url": "https://host/a.png"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
WISHES = {"temperature": 1, "top_p": 0.5, "top_k": 3, "presence_penalty": 0.1, "logprobs": True, "top_logprobs": 2}
SEEN = [
    {"role": "user", "content": [SOUND, PDF, PHOTO]},
    {"role": "assistant", "tool_calls": [call("a", "look", "{}")]},
    {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "Here"}, IMAGE]},
]
REQUESTS: list[dict[str, Any]] = [
    TOOLS_AND_IMAGE,
    {"messages": SEEN},
    {**PLAIN, **WISHES, "stop": ["a"], "n": 2, "seed": 1, "max_tokens": 5},
    {**PLAIN, "reasoning_effort": "none"},
    {**PLAIN, "reasoning_effort": "max", "tools": [function("f")], "tool_choice": "required"},
    {**PLAIN, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
]


def _check(body: dict[str, Any]) -> None:
    from google.genai import types

    for name, value in body.items():
        for item in value if isinstance(value, list) else [value]:
            getattr(types, MODELS[name]).model_validate(item)


@pytest.mark.parametrize("model", ["gemini-3.8-flash", "gemini-3.5-flash", "gemini-2.5-flash"])
@pytest.mark.parametrize("body", REQUESTS)
def test_the_sdk_would_send_it(body: dict[str, Any], model: str) -> None:
    served = ServedModel(name="m", upstream=model)
    prepared = GeminiDialect().prepare(translated({"model": "m", **body}), channel(), served, NOTHING)
    _check(json.loads(prepared.body))


@pytest.mark.parametrize("stream", [HELLO, TWO_CALLS])
def test_what_we_read_is_what_the_sdk_reads(stream: bytes) -> None:
    from google.genai import types

    events = [parse(block) for block in stream.replace(b"\r\n", b"\n").split(BLANK)]
    read = [types.GenerateContentResponse.model_validate_json(event.data) for event in events if event]
    assert {response.response_id for response in read} == {"r1"}
