"""How many input tokens a request has, for APIs other than chat completions: a bound for the hold, and an estimate.

Every string is text, except in the objects that an API has for media and for sealed reasoning, recognized by their
``type``. Media count as in ``estimate``. Sealed reasoning (a signature, encrypted content) counts an eighth of a token
for each byte: vendors bill the reasoning that they find in it. What a tool was called with is text whatever it is.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gateway.domain import estimate
from gateway.domain.estimate import (
    BOUND_BYTES_PER_TOKEN,
    BOUND_FETCHED_TOKENS,
    BOUND_LEAST,
    BOUND_MEDIA_BYTES_PER_TOKEN,
    BOUND_MEDIA_TOKENS,
    BOUND_TOOLS_TOKENS,
    CALL_TOKENS,
    IMAGE_TOKENS,
    MEDIA_BYTES_PER_TOKEN,
    MESSAGE_TOKENS,
)
from gateway.domain.long_strings import NOTHING_LONG, STEP, LongStrings, holds

SEAL_BYTES_PER_TOKEN = 8

_SIGNS = (
    b'"base64"',
    b'"thinking"',
    b'"redacted_thinking"',
    b'"reasoning"',
    b'"input_',
    b'"url"',
    b'"file_id"',
    b"\\u00",
)
"""A text without any of these has neither media nor seals."""
_SEALS = {
    "thinking": "signature",
    "redacted_thinking": "data",
    "reasoning": "encrypted_content",
    "compaction": "encrypted_content",
}
"""Types of objects with a seal, and where it is."""
_MEDIA = {"base64": "data", "input_image": "image_url", "input_file": "file_data", "input_audio": "data", "url": "url"}
"""Types of objects with a medium, and where it is."""
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_LABELS = frozenset({"role", "type", "id", "tool_use_id", "call_id", "media_type", "status"})
"""What no model reads as text."""


class PromptParts(msgspec.Struct):
    """What the values of a request hold."""

    long: LongStrings
    texts: list[str] = []
    images: int = 0
    media: int = 0
    media_bytes: int = 0
    """Of the base64 text of documents and sounds."""
    fetched: int = 0
    """Documents that are not in the request."""
    sealed_bytes: int = 0
    left_out: int = 0
    """Bytes of JSON that are not text: media, images and seals."""
    keys: int = 0
    """Of all objects."""


def bound_of(
    values: Sequence[msgspec.Raw], schemas: Sequence[msgspec.Raw] = (), long: LongStrings = NOTHING_LONG
) -> int:
    """Tokens to hold for the input: a third of its bytes, at least 16; media and seals by themselves.

    ``schemas``: tools and forms of the answer, which vendors explain in words of their own. Raises BadRequest if there
    are media or seals and a key comes twice in an object.
    """
    size = sum(len(memoryview(value)) + long.hidden(value) for value in (*values, *schemas))
    tokens = BOUND_TOOLS_TOKENS if schemas else 0
    special = [value for value in values if _has_sign(bytes(value))]
    if special:
        parts = read_prompt(special, long)
        if parts.left_out:
            estimate.refuse_repeated(parts.keys, *special)
        size -= parts.left_out
        tokens += BOUND_FETCHED_TOKENS * parts.fetched
        tokens += BOUND_MEDIA_TOKENS * parts.images - (-parts.sealed_bytes // SEAL_BYTES_PER_TOKEN)
        tokens += max(BOUND_MEDIA_TOKENS * parts.media, parts.media_bytes // BOUND_MEDIA_BYTES_PER_TOKEN)
    return max(BOUND_LEAST, -(-size // BOUND_BYTES_PER_TOKEN) + tokens)


def _has_sign(text: bytes) -> bool:
    if len(text) <= STEP:
        return any(sign in text for sign in _SIGNS)
    return any(holds(text, sign) for sign in _SIGNS)


def tokens_of(
    values: Iterable[msgspec.Raw], schemas: Iterable[msgspec.Raw], messages: int, long: LongStrings = NOTHING_LONG
) -> int:
    """About how many tokens the input has. ``schemas`` are read as they are written: tools, the form of the answer."""
    parts = read_prompt(values, long)
    parts.texts += [bytes(schema).decode("utf-8", "replace") for schema in schemas]
    return (
        estimate.estimate_all(parts.texts, long)
        + IMAGE_TOKENS * parts.images
        + parts.media_bytes // MEDIA_BYTES_PER_TOKEN
        + parts.sealed_bytes // SEAL_BYTES_PER_TOKEN
        + MESSAGE_TOKENS * messages
        + CALL_TOKENS
    )


def read_prompt(values: Iterable[msgspec.Raw], long: LongStrings = NOTHING_LONG) -> PromptParts:
    """The texts in these values, and what else there is. Iterative: requests may be nested deeply."""
    parts = PromptParts(long, texts=[])
    stack: list[tuple[Any, bool]] = [(estimate.opened_json(value), False) for value in values][::-1]
    while stack:
        item, called = stack.pop()
        if isinstance(item, str):
            parts.texts.append(item)
        elif isinstance(item, list):
            stack.extend((element, called) for element in reversed(item))
        elif isinstance(item, dict):
            parts.keys += len(item)
            left_out = "" if called else _special(item, parts)
            parts.fetched += not called and _is_fetched(item)
            input_of = not called and str(item.get("type")) in _CALLS
            stack.extend(
                (item[name], called or (input_of and name == "input"))
                for name in reversed(item)
                if name != left_out and (called or name not in _LABELS)
            )
    return parts


def _is_fetched(item: dict[str, Any]) -> bool:
    """Whether an object stands for a document that the vendor has or fetches."""
    if item.get("type") == "input_file":
        return isinstance(item.get("file_url") or item.get("file_id"), str)
    source = item.get("source")
    return item.get("type") == "document" and isinstance(source, dict) and source.get("type") in ("url", "file")


def _special(item: dict[str, Any], parts: PromptParts) -> str:
    """The field of an object that is a medium or a seal, counted; empty if there is none."""
    kind = item.get("type")
    if not isinstance(kind, str):
        return ""
    if isinstance(text := item.get(name := _SEALS.get(kind, "")), str):
        size = len(text) + parts.long.hidden(text)
        parts.sealed_bytes += size
        parts.left_out += size
        return name
    if not isinstance(text := item.get(name := _MEDIA.get(kind, "")), str):
        return ""
    return name if _is_medium(text, str(item.get("media_type", "")), parts) else ""


def _is_medium(text: str, media_type: str, parts: PromptParts) -> bool:
    if text.startswith(("http://", "https://")):
        parts.images += 1
        return False
    if text.startswith("data:"):
        media_type = text[5:].partition(";")[0]
    if media_type.startswith("text/"):
        return False
    size = len(text) + parts.long.hidden(text)
    parts.left_out += size
    if media_type.startswith("image/"):
        parts.images += 1
    else:
        parts.media += 1
        parts.media_bytes += size
    return True
