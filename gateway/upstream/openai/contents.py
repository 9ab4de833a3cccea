"""Contents: brings a message in another vendor's form into OpenAI's: parts, reasoning under other names, media."""

from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerPart, Medium, TextPiece
from gateway.domain.rawjson import Fields


def normalize_texts(holder: Fields) -> None:
    """Join the content parts of a message or delta to strings, and keep one of equal reasonings. Raises ValueError."""
    content = holder.get("content")
    if content is not None and bytes(memoryview(content)[:1]) in (b"[", b"{"):
        _join_parts(holder, content)
    for name in _REASONING & holder.keys():
        _normalize_reasoning(holder, name)
    if not _is_empty(holder.get("reasoning_content")):
        holder.pop("reasoning", None)
    elif _is_empty(holder.get("reasoning")) and "reasoning_details" in holder:
        _use_details(holder)


_REASONING = frozenset({"reasoning_content", "reasoning", "reasoning_text", "thinking"})
"""Fields with the reasoning. The last two are those of Copilot and of small servers, and are copied to the first."""
_CALL_TYPES = ("tool_use", "tool_call", "function_call", "function")
"""Types of parts that are tool calls."""
_REASONING_TEXTS = ("text", "summary", "thinking", "content", "reasoning")
"""Fields with the text of a part of reasoning."""


def _normalize_reasoning(holder: Fields, name: str) -> None:
    """Replace reasoning that is an object or a list by its text."""
    raw = holder[name]
    if bytes(memoryview(raw)[:1]) in (b"[", b"{"):
        raw = holder[name] = rawjson.raw(_reasoning_text(rawjson.value(raw)))
    if name in ("reasoning_text", "thinking") and _is_empty(holder.get("reasoning_content")):
        holder["reasoning_content"] = raw


def _reasoning_text(part: object) -> str:
    if isinstance(part, list):
        return "".join(map(_reasoning_text, part))
    if isinstance(part, dict):
        return _reasoning_text(next((part[name] for name in _REASONING_TEXTS if part.get(name)), ""))
    return part if isinstance(part, str) else ""


def _join_parts(holder: Fields, content: msgspec.Raw) -> None:
    """Replace the parts of a content by one text, and put reasoning, tool calls and images into their own fields."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    images = rawjson.list_at(holder.get("images"))
    parts = rawjson.value(content)
    for part in parts if isinstance(parts, list) else [parts]:
        if isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
            thoughts.append(_reasoning_text(part))
        elif isinstance(part, dict) and part.get("type") in _CALL_TYPES:
            calls.append(_tool_call(part))
        elif isinstance(part, dict) and not part.get("text") and _image_url(part):
            images.append(part)
        else:
            texts.append(_part_text(part))
    holder["content"] = rawjson.raw("".join(texts)) if texts or not (thoughts or calls) else rawjson.NULL
    if calls and rawjson.is_null(holder.get("tool_calls")):
        holder["tool_calls"] = rawjson.raw(calls)
    if thoughts:
        holder["reasoning_content"] = rawjson.raw("".join(thoughts))
    if images:
        holder["images"] = rawjson.raw(images)


def _tool_call(part: dict[str, Any]) -> dict[str, Any]:
    """Returns the tool call in a part that has the fields of Anthropic, Responses or chat completions."""
    nested = part.get("function")
    inner = nested if isinstance(nested, dict) else part
    function = {"name": inner.get("name"), "arguments": inner.get("arguments", inner.get("input", {}))}
    return {"id": part.get("call_id") or part.get("id"), "type": "function", "function": function}


def _use_details(holder: Fields) -> None:
    """Use the text of OpenRouter's ``reasoning_details`` as the reasoning."""
    if text := _reasoning_text(rawjson.list_at(holder.get("reasoning_details"))):
        holder["reasoning_content"] = rawjson.raw(text)


def _part_text(part: object) -> str:
    if isinstance(part, list):
        return "".join(_part_text(item) for item in part)
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""


def _image_url(image: object) -> str:
    """Returns the address of an image, or a data URL; empty if it is not an image."""
    holder = image if isinstance(image, dict) else {"url": image}
    inner = holder.get("image_url", holder.get("url"))
    url = inner.get("url") if isinstance(inner, dict) else inner
    if not url and isinstance(data := holder.get("b64_json"), str):
        return f"data:image/png;base64,{data}"
    return url if isinstance(url, str) else ""


def _is_empty(raw: msgspec.Raw | None) -> bool:
    return raw is None or rawjson.is_null(raw) or bytes(memoryview(raw)[:2]) == b'""'


def media_in(message: Fields, choice: int) -> Iterator[AnswerPart]:
    """Yields the images of a message in OpenRouter's form, ``{"type": "image_url", "image_url": {"url": ...}}``, and
    the transcript of OpenAI's speech, because other APIs have no place for the speech itself.
    """
    for image in rawjson.list_at(message.get("images")):
        if url := _image_url(image):
            yield image_at(url, choice)
    if transcript := rawjson.text_at(message.get("audio"), "transcript"):
        yield TextPiece(rawjson.encode(transcript), b"", choice)


def image_at(url: str, choice: int = 0) -> Medium:
    """Returns the image at an address, or in a data URL."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return Medium(head.removeprefix("data:").removesuffix(";base64"), data, choice=choice)
    return Medium("image", url=url, choice=choice)
