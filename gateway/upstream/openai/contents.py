"""The contents of a message in forms of other vendors than OpenAI: parts, reasoning under other names, media."""

from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerPart, Medium, TextPiece
from gateway.domain.rawjson import Fields


def normalize_texts(holder: Fields) -> None:
    """Turns content parts (Mistral, Databricks) into strings, and keeps one of two names of the same reasoning.

    Raises ValueError.
    """
    content = holder.get("content")
    if content is not None and bytes(memoryview(content)[:1]) in (b"[", b"{"):
        _join_parts(holder, content)
    for name in _REASONING & holder.keys():
        _even_reasoning(holder, name)
    if "reasoning" in holder and not rawjson.is_null(holder.get("reasoning_content")):
        del holder["reasoning"]
    details = holder.get("reasoning_details")
    if details is not None and all(rawjson.is_null(holder.get(name)) for name in ("reasoning", "reasoning_content")):
        _join_details(holder, details)


_REASONING = frozenset({"reasoning_content", "reasoning", "reasoning_text", "thinking"})
"""Names of the reasoning. The last two are those of Copilot and of small servers: clients get another one beside it."""
_INNER = ("text", "summary", "thinking", "content", "reasoning")
"""The fields with the text of a part of reasoning."""


def _even_reasoning(holder: Fields, name: str) -> None:
    """Turns reasoning that is an object or a list into its text."""
    raw = holder[name]
    if bytes(memoryview(raw)[:1]) in (b"[", b"{"):
        raw = holder[name] = rawjson.raw(_thought_in(rawjson.value(raw)))
    if name in ("reasoning_text", "thinking") and bytes(memoryview(raw)[:1]) == b'"':
        holder.setdefault("reasoning_content", raw)


def _thought_in(part: object) -> str:
    if isinstance(part, list):
        return "".join(map(_thought_in, part))
    if isinstance(part, dict):
        return _thought_in(next((part[name] for name in _INNER if part.get(name)), ""))
    return part if isinstance(part, str) else ""


def _join_parts(holder: Fields, content: msgspec.Raw) -> None:
    texts: list[str] = []
    thoughts: list[str] = []
    found = rawjson.value(content)
    for part in found if isinstance(found, list) else [found]:
        if isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
            thoughts.append(_thought_in(part))
        else:
            texts.append(_text_of(part))
    holder["content"] = rawjson.raw("".join(texts)) if texts or not thoughts else rawjson.NULL
    if thoughts:
        holder["reasoning_content"] = rawjson.raw("".join(thoughts))


def _join_details(holder: Fields, details: msgspec.Raw) -> None:
    """Uses OpenRouter's details as reasoning if nothing else is."""
    parts = [part for part in items_in(details) if isinstance(part, dict)]
    texts = [part.get("text") or part.get("summary") for part in parts]
    said = "".join(text for text in texts if isinstance(text, str))
    if said:
        holder["reasoning_content"] = rawjson.raw(said)


def _text_of(part: object) -> str:
    if isinstance(part, list):
        return "".join(_text_of(item) for item in part)
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""


def media_in(message: Fields, index: int) -> Iterator[AnswerPart]:
    """Returns images in OpenRouter's form, ``{"type": "image_url", "image_url": {"url": ...}}``, and the transcript of
    speech.

    The speech is OpenAI's, which clients of other APIs have no place for.
    """
    for image in items_in(message.get("images")):
        holder = image.get("image_url") if isinstance(image, dict) else None
        url = holder.get("url") if isinstance(holder, dict) else holder
        if isinstance(url, str) and url:
            yield medium_of(url, index)
    audio = rawjson.maybe(message.get("audio"))
    transcript = audio.get("transcript") if isinstance(audio, dict) else None
    if isinstance(transcript, str) and transcript:
        yield TextPiece(rawjson.encode(transcript), b"", index)


def medium_of(url: str, choice: int = 0) -> Medium:
    """Returns the image at an address, or in a data URL."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return Medium(head.removeprefix("data:").removesuffix(";base64"), data, choice=choice)
    return Medium("image", url=url, choice=choice)


def items_in(raw: msgspec.Raw | None) -> list[Any]:
    """Returns the items of a list; none for anything else."""
    found = rawjson.maybe(raw)
    return found if isinstance(found, list) else []
