"""Brief: a long body without the long texts of its messages. What is checked of a body's form is checked of that.

The parser has said already that those texts are texts: to look at their bytes once more would cost several times what
parsing costs, most of all when they are code, full of escapes. What is left out are whole JSON strings and nothing
else, so the form is the same. There is no brief where that cannot be told with certainty, nor for many short messages,
which would take longer.
"""

import re

import msgspec

LONG = 16 << 10
"""Bytes of a body for which it is worth while, and how many of its first ones tell whether its messages are long."""
LEAST = 1 << 10
"""Bytes of a message that is long, as far as it can be guessed."""
MOST = 2000
"""Messages, parts and their fields that are taken one by one: the event loop waits for it."""
LONG_TEXT = 256
"""Bytes of a text that is left out. Names that are read are no longer than that, or are looked at with care."""
EACH, SLACK = 16, 4096
"""Bytes around each field, and besides, that may be blanks; where there are more, keys may have stood twice."""

_KEY = re.compile(rb'[ \t\r\n]*"([^"\\]*)"[ \t\r\n]*:[ \t\r\n]*')
_NEXT = re.compile(rb"[ \t\r\n]*([,}])")
_EMPTY = msgspec.Raw(b'""')

_Object = dict[str, msgspec.Raw]

_decode = msgspec.json.Decoder(list[_Object]).decode
_encode = msgspec.json.Encoder().encode


class Brief(msgspec.Struct, frozen=True, gc=False):
    """What is left of a body."""

    body: bytes
    messages: bytes
    """As they are in it."""


def brief_of(body: bytes, fields: _Object) -> Brief | None:
    """Of a body with these top-level fields; None if it is of another make, or a key stands twice at its top."""
    raw = fields.get("messages")
    if raw is None or len(fields) > MOST or body.count(b'"role"', 0, LONG) > LONG // LEAST:
        return None
    if not _each_once(body, fields):
        return None
    messages = _objects(raw)
    if messages is None or sum(map(len, messages)) > MOST:
        return None
    left = MOST
    for message in messages:
        for name, value in message.items():
            if len(memoryview(value)) > LONG_TEXT:
                message[name], taken = _shortened(value)
                left -= taken
                if left < 0:
                    return None
    short = _encode(messages)
    return Brief(_encode({**fields, "messages": msgspec.Raw(short)}), short)


def _each_once(body: bytes, fields: _Object) -> bool:
    """Whether the object is made of just these fields: each is found where the one before it ends."""
    at = body.find(b"{") + 1
    for count in range(1, len(fields) + 1):
        if (key := _KEY.match(body, at)) is None:
            return False
        value = fields.get(key[1].decode("utf-8", "replace"))
        if value is None or not body.startswith(bytes(value), key.end()):
            return False
        behind = _NEXT.match(body, key.end() + len(memoryview(value)))
        if behind is None or (behind[1] == b"}") != (count == len(fields)):
            return False
        at = behind.end()
    return True


def _shortened(value: msgspec.Raw) -> tuple[msgspec.Raw, int]:
    """Without its text, or the long texts of its parts; and how many fields these have."""
    begin = bytes(memoryview(value)[:1])
    if begin == b'"':
        return _EMPTY, 0
    parts = _objects(value) if begin == b"[" else None
    if parts is None:
        return value, 0
    taken = sum(map(len, parts))
    if taken <= MOST:
        for part in parts:
            for name, inner in part.items():
                if len(memoryview(inner)) > LONG_TEXT and bytes(memoryview(inner)[:1]) == b'"':
                    part[name] = _EMPTY
    return msgspec.Raw(_encode(parts)), taken


def _objects(raw: msgspec.Raw) -> list[_Object] | None:
    """The objects of an array; None if it holds anything else, or more than they show: a key may have stood twice."""
    try:
        objects = _decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    count = sum(map(len, objects))
    if count > MOST:
        return objects
    found = sum(len(name) + len(memoryview(value)) for one in objects for name, value in one.items())
    known = len(memoryview(raw)) - found <= EACH * (count + len(objects)) + SLACK
    return objects if known else None
