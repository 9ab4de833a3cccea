"""Replay: a whole answer as the chunks of a stream, for an upstream that sent none when a stream was requested.

Long texts go out in pieces, one after the other, so that of an answer of any size only a piece is ever copied.
"""

import re
from collections.abc import Iterator

import msgspec

from gateway.upstream import rawjson
from gateway.upstream.openai.chunks import TEXTS
from gateway.upstream.rawjson import Fields

PIECE = 32 * 1024
"""Bytes of a text in one chunk."""

_ORDER = ("reasoning_content", "reasoning", "content", "refusal")
"""The order of long texts: models think before they answer."""
_ESCAPE = 6
"""Bytes of the longest escape of JSON: backslash, u, four digits."""
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")


def chunks_of(body: bytes) -> Iterator[Fields]:
    """The chunks, still to be normalised: of each choice its texts, its tool calls, its end; usage on the last one.

    The body is a chat completion that was read before.
    """
    answer = rawjson.fields(body)
    choices = rawjson.objects(answer.pop("choices"))
    usage = answer.pop("usage", None)
    for number, choice in enumerate(choices, 1):
        index, reason = {"index": choice["index"]}, choice.pop("finish_reason")
        for step in _steps(choice):
            yield {**answer, "choices": rawjson.raw([step])}
        end: Fields = {**index, "delta": msgspec.Raw(b"{}"), "finish_reason": reason}
        last = {"usage": usage} if usage is not None and number == len(choices) else {}
        yield {**answer, "choices": rawjson.raw([end]), **last}


def _steps(choice: Fields) -> Iterator[Fields]:
    """What one choice contains, except for its end."""
    delta = rawjson.fields(choice.pop("message"))
    calls = delta.pop("tool_calls", None)
    index = {"index": choice["index"]}
    texts: Fields = {}
    if any(_is_long(delta.get(name)) for name in TEXTS):
        texts = {name: delta.pop(name) for name in _ORDER if name in delta}
    yield {**choice, "delta": rawjson.raw(delta)}
    for name, text in texts.items():
        for piece in pieces(text) if _is_long(text) else (text,):
            yield {**index, "delta": rawjson.raw({name: piece})}
    if calls is not None:
        numbered = [{"index": rawjson.raw(i), **call} for i, call in enumerate(rawjson.objects(calls))]
        yield {**index, "delta": rawjson.raw({"tool_calls": numbered})}


def _is_long(value: msgspec.Raw | None) -> bool:
    """Whether it is a text of more than a piece."""
    view = memoryview(b"" if value is None else value)
    return len(view) > PIECE + 2 and view[0] == ord('"')


def pieces(text: msgspec.Raw) -> Iterator[msgspec.Raw]:
    """A JSON string as several that are the same together: no character, escape or pair of escapes is torn."""
    view = memoryview(text)[1:-1]
    start = 0
    while start < len(view):
        piece = bytes(view[start : start + PIECE])
        if start + len(piece) < len(view):
            piece = piece[: _last_whole(piece)]
        yield msgspec.Raw(b'"%b"' % piece)
        start += len(piece)


def _last_whole(piece: bytes) -> int:
    """How many bytes of it are whole characters, when others follow it."""
    end = len(piece)
    while end and piece[end - 1] & 0xC0 == 0x80:  # of a character of several bytes the last ones
        end -= 1
    if end and piece[end - 1] >= 0xC0:
        return end - 1
    end = len(piece)
    for begin in range(max(0, end - _ESCAPE + 1), end):
        if _is_escape(piece, begin) and begin + (_ESCAPE if piece[begin + 1 : begin + 2] == b"u" else 2) > end:
            end = begin
            break
    high = end - _ESCAPE
    return high if high >= 0 and _HIGH_SURROGATE.match(piece, high) and _is_escape(piece, high) else end


def _is_escape(piece: bytes, at: int) -> bool:
    """Whether an escape begins here: a backslash behind an even number of others."""
    if piece[at] != ord("\\"):
        return False
    before = piece[:at]
    return (at - len(before.rstrip(b"\\"))) % 2 == 0
