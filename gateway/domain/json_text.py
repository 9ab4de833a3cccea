"""JSON text that is searched and counted as it is written, and opened step by step: requests may be large."""

import json
import re
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.long_strings import STEP, holds

_BACKSLASH = ord("\\")
_ASCII_ESCAPE = re.compile(rb"\\u00([2-7][0-9a-fA-F])")
_CUT_ESCAPE = re.compile(rb"\\(?:u(?:0(?:0.?)?)?)?\Z", re.DOTALL)
OPENED_AT_ONCE = 256 << 10
"""Bytes of JSON that are decoded by one call."""


def plain_escapes(data: bytes | msgspec.Raw) -> bytes:
    """JSON text for searching: letters, digits and marks that were written as escapes stand for themselves."""
    text = bytes(data)
    if not holds(text, b"\\u00"):
        return text
    parts, start = [], 0
    while start < len(text):
        end = start + STEP
        while end < len(text) and _CUT_ESCAPE.search(text, end - 5, end):
            end += 1
        parts.append(_ASCII_ESCAPE.sub(_unescape, text[start:end]))
        start = end
    return b"".join(parts)


def _unescape(found: "re.Match[bytes]") -> bytes:
    char = bytes((int(found[1], 16),))
    return found[0] if char in b'"\\' else char


def refuse_repeated(keys: int, *texts: bytes | msgspec.Raw) -> None:
    """Raises BadRequest unless these JSON texts have as many keys as were read in all their objects."""
    if keys != sum(map(_written_keys, texts)):
        msg = "an object of the body has a key twice; send each field once"
        raise BadRequest(msg, code="duplicate_key")


def _written_keys(data: bytes | msgspec.Raw) -> int:
    """Step by step: of a large text it takes a while."""
    text = bytes(data)
    if b"{" not in text:
        return 0
    keys = inside = start = 0
    while start < len(text):
        end = start + STEP
        while end < len(text) and text[end - 1] == _BACKSLASH:  # no escape is cut
            end += 1
        part = text[start:end]
        if b"\\" in part:
            part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = part.split(b'"')
        keys += b"".join(pieces[inside::2]).count(b":")
        inside ^= len(pieces) + 1 & 1
        start = end
    return keys


_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def opened_json(raw: msgspec.Raw) -> Any:
    """The value; a large one level by level: the decoder runs to its end, and whoever else wants to run waits."""
    if len(memoryview(raw)) <= OPENED_AT_ONCE:
        return _decode(raw)
    try:
        match bytes(memoryview(raw)[:1]):
            case b"[":
                return [opened_json(item) for item in _ITEMS.decode(raw)]
            case b"{":
                return {name: opened_json(value) for name, value in _FIELDS.decode(raw).items()}
    except (msgspec.DecodeError, RecursionError):
        pass
    return _decode(raw)


def _decode(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):  # a lone surrogate: only the standard library reads it
        pass
    try:
        return json.loads(bytes(raw))
    except (ValueError, RecursionError):
        return None
