"""Meaning: what a request to an upstream says, whatever its dialect: who said what, which tools, which wishes."""

import json
from collections.abc import Callable
from typing import Any

from gateway.domain.channel import Dialect
from tests.fakes.provider import Exchange

Said = tuple[str, ...]


def _openai_meaning(exchange: Exchange) -> list[Said]:
    body, said = exchange.json, []
    for message in body["messages"]:
        content, role = (
            message["content"],
            {"developer": "system", "tool": "result"}.get(message["role"], message["role"]),
        )
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
        place = (role, message["tool_call_id"]) if role == "result" else (role,)
        said += [(*place, *_openai_part(part)) for part in parts]
        said += [("call", c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]
    functions = [tool["function"] for tool in body["tools"]]
    said += [("tool", f["name"], *f["parameters"]["properties"]) for f in functions]
    return [*said, ("choice", body["tool_choice"]), ("limit", str(body["max_tokens"]))]


def _openai_part(part: Any) -> Said:
    if part["type"] == "text":
        return (part["text"],)
    return tuple(part["image_url"]["url"].removeprefix("data:").split(";base64,"))


def _anthropic_meaning(exchange: Exchange) -> list[Said]:
    body = exchange.json
    said: list[Said] = [("system", block["text"]) for block in body["system"]]
    for message in body["messages"]:
        said += [_anthropic_block(message["role"], block) for block in message["content"]]
    said += [("tool", tool["name"], *tool["input_schema"]["properties"]) for tool in body["tools"]]
    return [*said, ("choice", body["tool_choice"]["type"]), ("limit", str(body["max_tokens"]))]


def _anthropic_block(role: str, block: Any) -> Said:
    match block["type"]:
        case "text":
            return role, block["text"]
        case "image":
            return role, block["source"]["media_type"], block["source"]["data"]
        case "tool_use":
            return "call", block["name"], json.dumps(block["input"])
    return "result", block["tool_use_id"], block["content"][0]["text"]


def _gemini_meaning(exchange: Exchange) -> list[Said]:
    body = exchange.json
    said: list[Said] = [("system", part["text"]) for part in body["systemInstruction"]["parts"]]
    said += [_gemini_part(content["role"], part) for content in body["contents"] for part in content["parts"]]
    functions = body["tools"][0]["functionDeclarations"]
    said += [("tool", f["name"], *f["parametersJsonSchema"]["properties"]) for f in functions]
    mode = body["toolConfig"]["functionCallingConfig"]["mode"].lower()
    return [*said, ("choice", mode), ("limit", str(body["generationConfig"]["maxOutputTokens"]))]


def _gemini_part(role: str, part: Any) -> Said:
    match part:
        case {"text": text}:
            return role, text
        case {"inlineData": data}:
            return role, data["mimeType"], data["data"]
        case {"functionCall": call}:
            return "call", call["name"], json.dumps(call["args"])
    response = part["functionResponse"]["response"]
    return "result", part["functionResponse"]["id"], response.get("output") or json.dumps(response)


HEARD: dict[Dialect, Callable[[Exchange], list[Said]]] = {
    Dialect.OPENAI: _openai_meaning,
    Dialect.ANTHROPIC: _anthropic_meaning,
    Dialect.GEMINI: _gemini_meaning,
}
