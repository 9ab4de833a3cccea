"""Content blocks of Messages, and the JSON strings in them, for their translation."""

import re

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import MediaPart
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.rawjson import NULL
from gateway.inbound.json_body import read_typed

_BILLING = b'"x-anthropic-billing-header:'
_BILLING_LINE = re.compile(rb'"x-anthropic-billing-header:(?:[^"\\]|\\[^n])*(?:\\n)*')


class BlockSource(msgspec.Struct, gc=False):
    """Where an image or a document is."""

    type: str = ""
    media_type: str = ""
    data: msgspec.Raw = NULL
    url: msgspec.Raw = NULL
    content: msgspec.Raw = NULL


class ContentBlock(msgspec.Struct, gc=False):
    """One block of a message."""

    type: str
    text: msgspec.Raw = NULL
    source: msgspec.Raw = NULL
    """An object, or the address of a search result."""
    title: msgspec.Raw = NULL
    content: msgspec.Raw = NULL
    id: str = ""
    name: str = ""
    input: msgspec.Raw = NULL
    tool_use_id: str = ""
    tool_name: str = ""
    is_error: bool | None = None
    thinking: msgspec.Raw = NULL
    signature: str = ""
    cache_control: msgspec.Raw = NULL


class MessagesTurn(msgspec.Struct, gc=False):
    """One message; ``content`` is a string or an array of blocks."""

    role: str
    content: msgspec.Raw = NULL


_BLOCKS = msgspec.json.Decoder(list[ContentBlock])
_TURNS = msgspec.json.Decoder(list[MessagesTurn])
SOURCE = msgspec.json.Decoder(BlockSource)


def turns_in(messages: msgspec.Raw) -> list[MessagesTurn]:
    """The messages. Raises BadRequest."""
    return read_typed(_TURNS, messages, "messages")


def without_billing(block: ContentBlock, *, first: bool) -> ContentBlock | None:
    """A system block without the line that only Anthropic reads, and strips; None if that is all of it."""
    if first and bytes(block.text).startswith(_BILLING):
        text = b'"' + _BILLING_LINE.sub(b"", bytes(block.text), count=1)
        block = msgspec.structs.replace(block, text=msgspec.Raw(text))
    return block if has_text(block) else None


def has_text(block: ContentBlock) -> bool:
    """Whether it is a text that is not empty."""
    return block.type == "text" and bytes(memoryview(block.text)[:1]) == b'"' and bytes(block.text) != b'""'


def string_or_empty(raw: msgspec.Raw) -> msgspec.Raw:
    """A JSON string, else an empty one."""
    return raw if bytes(memoryview(raw)[:1]) == b'"' else rawjson.raw("")


def blocks_in(content: msgspec.Raw, where: str) -> list[ContentBlock]:
    """The blocks of a content, which may be one text. Raises BadRequest."""
    start = bytes(memoryview(content)[:1])
    if rawjson.is_null(content):
        return []
    if start == b'"':
        return [ContentBlock("text", text=content)]
    return read_typed(_BLOCKS, content, where)


def lenient_blocks(content: msgspec.Raw) -> list[ContentBlock]:
    """The blocks of a result that has whatever form its tool gives it."""
    try:
        return blocks_in(content, "")
    except BadRequest:
        return []


def media_of(block: ContentBlock, where: str, name: str = "") -> MediaPart:
    """An image, or a document with a name. Raises BadRequest for what only the vendor can open."""
    source = read_typed(SOURCE, block.source, f"{where}.source")
    if source.type == "url" and not name:
        return MediaPart(url=_string(source.url, f"{where}.source.url"), cache=block.cache_control, where=where)
    if source.type != "base64":
        raise unsupported_param(f"{where}.source", f"an image of type '{source.type}' has no counterpart there")
    kind, data = source.media_type.lower(), _string(source.data, f"{where}.source.data")
    return MediaPart(type=kind, data=data, name=name, cache=block.cache_control, where=where)


def _string(raw: msgspec.Raw, where: str) -> str:
    if bytes(memoryview(raw)[:1]) != b'"':
        raise BadRequest(f"{where} must be a string", code="invalid_type", param=where)
    return rawjson.text(raw)
