"""Fields inside of contents, calls and tools are left out where they are refused."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.upstream.nested_fields import nested_name, remove_nested


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("body.messages.1.assistant.tool_calls.0.index", "messages[].tool_calls[].index"),
        ("messages[2].tool_calls[0].name", "messages[].tool_calls[].name"),
        ("messages[2].tool_calls[0].function", ""),
        ("messages.0.content.0.text.cache_control", "messages[].content[].cache_control"),
        ("messages.0.user.content.list[union].0.text", ""),
        ("tools.0.function.strict", "tools[].strict"),
        ("tools.3.cache_control", "tools[].cache_control"),
        ("tools.0.function.parameters.additionalProperties", ""),
        ("tools.0", ""),
        ("messages.1.name", ""),
        ("response_format.json_schema.strict", ""),
        ("", ""),
    ],
)
def test_a_path_names_a_rule(path: str, name: str) -> None:
    assert nested_name(path) == name


@pytest.mark.parametrize(
    ("rule", "sent", "kept"),
    [
        (
            "messages[].tool_calls[].index",
            {"messages": [{"tool_calls": [{"id": "c", "index": 0}, {"id": "d"}]}, {"content": "index"}]},
            {"messages": [{"tool_calls": [{"id": "c"}, {"id": "d"}]}, {"content": "index"}]},
        ),
        (
            "messages[].content[].cache_control",
            {"messages": [{"content": [{"text": "a", "cache_control": {}}, "odd"]}, 5]},
            {"messages": [{"content": [{"text": "a"}, "odd"]}, 5]},
        ),
        (
            "tools[].strict",
            {"tools": [{"strict": True, "function": {"name": "f", "strict": None}}]},
            {"tools": [{"function": {"name": "f"}}]},
        ),
        ("tools[].strict", {"tools": [{"function": "odd"}], "messages": []}, None),
        ("tools[].strict", {"messages": []}, None),
    ],
)
def test_the_field_is_left_out(rule: str, sent: dict[str, Any], kept: dict[str, Any] | None) -> None:
    fields = {name: rawjson.raw(value) for name, value in sent.items()}
    assert remove_nested(fields, ("user", rule)) == ([] if kept is None else [rule])
    assert {name: rawjson.value(raw) for name, raw in fields.items()} == (sent if kept is None else kept)
