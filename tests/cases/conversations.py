"""Conversations: chat requests with everything in them, for every dialect to translate."""

from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base64."""


def call(id: object, name: object, arguments: object) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def function(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": parameters}}


TOOLS_AND_IMAGE: dict[str, Any] = {
    "model": "m",
    "max_tokens": 500,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Use the tools."}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Where is this, and how warm?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call("call_1", "locate", '{"hint": "sea"}'), call("call_2", "weather", '{"city": "Oslo"}')],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "Oslo harbour"},
        {"role": "tool", "tool_call_id": "call_2", "content": '{"celsius": 4}'},
        {"role": "user", "content": "And tomorrow?"},
    ],
    "tools": [function("locate", hint={"type": "string"}), function("weather", city={"type": "string"})],
    "tool_choice": "auto",
}
"""Two calls at once, their results, and then the user goes on."""
