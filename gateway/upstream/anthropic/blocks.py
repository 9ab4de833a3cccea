"""Blocks: the parts of a message as Anthropic's content blocks."""

import base64
import binascii
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.chat.media import Media
from gateway.upstream.chat.refused import unsupported
from gateway.upstream.chat.turns import Text
from gateway.upstream.rawjson import NULL

Block = dict[str, Any]

IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def blocks_of(parts: tuple[Text | Media, ...]) -> list[Block]:
    """The blocks; blank texts, which the API refuses, are left out. Raises BadRequest for what it does not take."""
    return [
        text_block(part) if isinstance(part, Text) else _media_block(part)
        for part in parts
        if not (isinstance(part, Text) and part.blank)
    ]


def text_block(text: Text) -> Block:
    """A text."""
    return _cached({"type": "text", "text": text.raw}, text.cache)


def result_block(call_id: str, parts: tuple[Text | Media, ...]) -> Block:
    """A tool's result. A cache breakpoint within it is one at its end."""
    inner = blocks_of(parts)
    caches = [block.pop("cache_control") for block in inner if "cache_control" in block]
    block: Block = {"type": "tool_result", "tool_use_id": call_id}
    if inner:
        block["content"] = inner
    return _cached(block, caches[-1] if caches else NULL)


def _media_block(media: Media) -> Block:
    if media.url:
        return _cached({"type": "image", "source": {"type": "url", "url": media.url}}, media.cache)
    if media.type in IMAGES:
        kind, source = "image", {"type": "base64", "media_type": media.type, "data": media.data}
    elif media.type == "application/pdf":
        kind, source = "document", {"type": "base64", "media_type": media.type, "data": media.data}
    elif media.type == "text/plain":
        kind, source = "document", {"type": "text", "media_type": media.type, "data": _plain_text(media)}
    else:
        raise unsupported(media.where, f"{media.type} is neither an image nor a document that Anthropic takes")
    return _cached({"type": kind, "source": source}, media.cache)


def _plain_text(media: Media) -> str:
    try:
        return base64.b64decode(media.data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadRequest(f"{media.where}: is no base64 of UTF-8 text", param=media.where) from error


def _cached(block: Block, cache: msgspec.Raw) -> Block:
    return block if rawjson.is_null(cache) else {**block, "cache_control": cache}
