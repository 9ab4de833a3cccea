"""Content: the texts of a delta or message, brought into the one form clients read, and counted."""

import msgspec

from gateway.upstream import rawjson
from gateway.upstream.rawjson import Fields
from gateway.upstream.tally import Tally

TEXTS = ("content", "reasoning_content", "reasoning", "refusal")
"""Fields that hold text."""


def even(holder: Fields) -> None:
    """Content parts (Mistral) become strings; of two names for the same reasoning one is kept. Raises ValueError."""
    content = holder.get("content")
    if content is not None and bytes(content)[:1] == b"[":
        _join_parts(holder, content)
    if "reasoning" in holder and not rawjson.is_null(holder.get("reasoning_content")):
        del holder["reasoning"]


def _join_parts(holder: Fields, content: msgspec.Raw) -> None:
    texts: list[str] = []
    thoughts: list[str] = []
    for part in rawjson.value(content):
        if isinstance(part, dict) and part.get("type") == "thinking":
            thoughts.append(_text_of(part.get("thinking")))
        else:
            texts.append(_text_of(part))
    holder["content"] = rawjson.raw("".join(texts)) if texts or not thoughts else rawjson.NULL
    if thoughts:
        holder["reasoning_content"] = rawjson.raw("".join(thoughts))


def _text_of(part: object) -> str:
    if isinstance(part, list):
        return "".join(_text_of(item) for item in part)
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""


def count(holder: Fields, tally: Tally) -> list[msgspec.Raw]:
    """Adds the texts to the tally and returns those that are not empty. Raises ValueError when one is no string."""
    found = []
    for name in TEXTS:
        value = holder.get(name)
        if value is None or rawjson.is_null(value):
            continue
        text = rawjson.text(value)
        if text:
            tally.add(text)
            found.append(value)
    return found
