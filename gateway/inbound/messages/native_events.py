"""Events of a native message that came whole, although a stream was requested.

Clients read texts, thoughts and the inputs of tools from deltas. Everything else of a block is in its start, as the
vendor writes it, so blocks that the gateway does not know pass too.
"""

from collections.abc import Iterator

import msgspec

from gateway.domain import rawjson
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import write_event
from gateway.upstream.anthropic.reader import blocks_in
from gateway.upstream.framing import pieces
from gateway.upstream.openai.tool_calls import arguments_text

_TEXTS = {"text": ("text",), "thinking": ("thinking", "signature")}
"""The fields of a block that come as deltas, by its type. Each delta is called like its field, with ``_delta``."""
_ENDING: Fields = {"stop_reason": rawjson.raw("end_turn"), "stop_sequence": NULL}
"""The ending of a message that reports none."""
_DELTA_FIELDS = (*_ENDING, "stop_details", "container")
"""The fields of a message that its ``message_delta`` has in ``delta``."""


def message_event(kind: str, **fields: object) -> bytes:
    """Returns an event with the type that is its name."""
    return write_event(kind.encode(), rawjson.encode({"type": kind, **fields}))


def message_events(message: Fields) -> Iterator[bytes]:
    """Yields the events of a whole message, without the terminal one. Raises ValueError if a block is not one.

    A message without blocks gets an empty one, because clients would call again.
    """
    usage = {**rawjson.maybe_fields(message["usage"]), "output_tokens": 0}  # some clients add up those of both reports
    blank: dict[str, object] = {"content": [], "usage": usage, **dict.fromkeys(_ENDING)}
    yield message_event("message_start", message={**message, **blank})
    for index, block in enumerate(blocks_in(message["content"]) or [{"type": rawjson.raw("text")}]):
        kind = rawjson.text(block["type"])
        yield message_event("content_block_start", index=index, content_block=block | empty_fields(kind, block))
        for delta in deltas_of(kind, block):
            yield message_event("content_block_delta", index=index, delta=delta)
        yield message_event("content_block_stop", index=index)
    ended = {**_ENDING, **{name: message[name] for name in _DELTA_FIELDS if not rawjson.is_null(message.get(name))}}
    reports = {name: message[name] for name in ("usage", "context_management") if name in message}
    yield message_event("message_delta", delta=ended, **reports)


def empty_fields(kind: str, block: Fields) -> Fields:
    """Returns the fields that the start of a block has instead of its content, without which SDKs fail."""
    empty = dict.fromkeys(_TEXTS.get(kind, ()), rawjson.EMPTY_TEXT)
    if kind.endswith("tool_use"):
        empty["input"] = rawjson.raw({})
    return empty if rawjson.is_null(block.get("citations")) else {**empty, "citations": rawjson.EMPTY_LIST}


def deltas_of(kind: str, block: Fields) -> Iterator[Fields]:
    """Yields the content of a block as deltas, with long texts in pieces. Without an input, a call needs none."""
    if kind.endswith("tool_use") and (text := arguments_text(block.get("input"))) != b'"{}"':
        for piece in pieces(text):
            yield {"type": rawjson.raw("input_json_delta"), "partial_json": msgspec.Raw(piece)}
    for name in _TEXTS.get(kind, ()):
        for piece in pieces(block[name]) if rawjson.is_text(block.get(name, NULL)) else ():
            yield {"type": rawjson.raw(f"{name}_delta"), name: msgspec.Raw(piece)}
    for citation in rawjson.maybe_items(block.get("citations")):
        yield {"type": rawjson.raw("citations_delta"), "citation": citation}
