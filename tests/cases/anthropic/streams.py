"""Streams: what Anthropic sends for a stream request, and what it means. Shapes from the vendor's reference."""

from dataclasses import replace
from typing import Any

from tests.cases.answers import Answer
from tests.cases.streams import Case
from tests.fakes.messages import event


def start(usage: dict[str, Any] | None = None, **more: Any) -> bytes:
    spent = {"input_tokens": 10, "output_tokens": 1} if usage is None else usage
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": []}
    return event("message_start", message={**message, "stop_reason": None, "usage": spent, **more})


def block(kind: str, *deltas: dict[str, Any], index: int = 0, **fields: Any) -> bytes:
    """A whole content block."""
    begin = event("content_block_start", index=index, content_block={"type": kind, **fields})
    middle = b"".join(event("content_block_delta", index=index, delta=delta) for delta in deltas)
    return begin + middle + event("content_block_stop", index=index)


def text(*pieces: str, index: int = 0) -> bytes:
    return block("text", *({"type": "text_delta", "text": piece} for piece in pieces), index=index, text="")


def tool(id: str, name: str, *pieces: str, index: int = 1) -> bytes:
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    return block("tool_use", *deltas, index=index, id=id, name=name, input={})


def thinking(thought: str, signature: str, *, index: int = 0) -> bytes:
    deltas = [{"type": "thinking_delta", "thinking": thought}, {"type": "signature_delta", "signature": signature}]
    return block("thinking", *deltas, index=index, thinking="", signature="")


def end(reason: str = "end_turn", **usage: Any) -> bytes:
    spent = {"output_tokens": 7, **usage}
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=spent) + STOP


PING = event("ping")
STOP = event("message_stop")
HELLO = start() + text("Hel", "lo \U0001f642\u2028") + end()
OVERLOADED = event("error", error={"type": "overloaded_error", "message": "Overloaded"})

CACHED = {"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 20, "output_tokens": 1}
TWO_TOOLS = (
    start(CACHED)
    + thinking("Hm", "SIG==")
    + PING
    + text("I look.", index=1)
    + tool("toolu_1", "look", "", '{"at":', ' "x"}', index=2)
    + tool("toolu_2", "wait", index=3)
    + end("tool_use", output_tokens=55)
)
"""A thought, a text and two calls."""

_SAID = Answer(text={0: "Hello \U0001f642\u2028"}, finish={0: "stop"})
_CALLED = Answer(
    text={0: "I look."},
    reasoning={0: "Hm"},
    calls={0: [("toolu_1", "look", '{"at": "x"}'), ("toolu_2", "wait", "{}")]},
    finish={0: "tool_calls"},
)

_CUT = Answer(text={0: "Hi"})
_HI = replace(_CUT, finish={0: "stop"})

STREAMS = [
    Case("text", HELLO, said=_SAID, usage=(10, 7)),
    Case("line ends CRLF", HELLO.replace(b"\n", b"\r\n"), said=_SAID, usage=(10, 7)),
    Case("line ends CR", HELLO.replace(b"\n", b"\r"), said=_SAID, usage=(10, 7)),
    Case("thinking, text and two tools", TWO_TOOLS, said=_CALLED, usage=(33, 55)),
    Case(
        "unknown events and blocks",
        start() + event("news", x=1) + block("oddity", {"type": "odd_delta"}) + end(),
        said=Answer(text={0: ""}, finish={0: "stop"}),
        usage=(10, 7),
        marks=("block_dropped",),
    ),
    Case(
        "a text that begins at once",
        start() + block("text", text="Hi") + end("max_tokens"),
        said=replace(_HI, finish={0: "length"}),
        usage=(10, 7),
    ),
    Case(
        "hidden thinking",
        start() + block("redacted_thinking", data="AAA") + text("Hi") + end("refusal"),
        said=replace(_HI, finish={0: "content_filter"}),
        usage=(10, 7),
    ),
    Case("no message_stop", HELLO.removesuffix(STOP), said=_SAID, usage=(10, 7), marks=("no_done",)),
    Case(
        "an error on the way",
        start() + text("Hi") + OVERLOADED + text("!"),
        said=_CUT,
        usage=(10, 1),
        error="upstream_overloaded",
    ),
    Case("an error at once", OVERLOADED, said=Answer(), error="upstream_overloaded"),
    Case("cut off", start(CACHED) + text("Hi"), said=_CUT, usage=(33, 1), error="upstream_stream_truncated"),
    Case("nothing", b"", said=Answer(), error="upstream_stream_truncated"),
    Case(
        "garbled at once",
        b"event: message_start\ndata: {]\n\n",
        said=Answer(),
        error="upstream_bad_response",
        marks=("bad_chunks=1",),
    ),
    Case(
        "one garbled event",
        start() + text("Hi") + b"data: {]\n\n" + end(),
        said=_HI,
        usage=(10, 7),
        marks=("bad_chunks=1",),
    ),
    Case(
        "an odd delta",
        start() + text("Hi") + block("text", {"type": "text_delta"}, text="") + end(),
        said=_HI,
        usage=(10, 7),
        marks=("bad_chunks=1",),
    ),
]
