"""Streams: what Gemini sends for a stream request, and what it means. Shapes from the vendor's reference."""

from typing import Any

from tests.cases.answers import Answer
from tests.cases.streams import Case
from tests.fakes.replies import dumps


def response(*parts: dict[str, Any], finish: str = "", index: int | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    candidate |= {} if index is None else {"index": index}
    candidate |= {"finishReason": finish} if finish else {}
    return {"candidates": [candidate], "responseId": "r1", "modelVersion": "gemini", **more}


def spent(prompt: int, candidates: int | None = None, **more: int) -> dict[str, Any]:
    counts = {"promptTokenCount": prompt, "totalTokenCount": prompt + (candidates or 0), **more}
    return {"usageMetadata": counts | ({} if candidates is None else {"candidatesTokenCount": candidates})}


def event(doc: object, end: bytes = b"\r\n") -> bytes:
    return b"data: " + dumps(doc) + end * 2


def say(text: str) -> dict[str, Any]:
    """A part of text."""
    return {"text": text}


def think(text: str) -> dict[str, Any]:
    """A part of thought."""
    return {"text": text, "thought": True}


def use(name: str, args: dict[str, Any] | None = None, id: str = "", signature: str = "") -> dict[str, Any]:
    """A part that calls a function."""
    call = {"name": name} | ({} if args is None else {"args": args}) | ({"id": id} if id else {})
    return {"functionCall": call} | ({"thoughtSignature": signature} if signature else {})


HELLO = event(response(say("Hel"), **spent(9))) + event(response(say("lo \U0001f642"), finish="STOP", **spent(9, 7)))
TWO_CALLS = (
    event(response(think("Hm"), **spent(9)))
    + event(response(say("I look."), **spent(9, 3)))
    + event(response(use("look", {"at": "x"}, "fc_1", "U0lH"), **spent(9, 5, thoughtsTokenCount=4, totalTokenCount=18)))
    + event(response(use("wait", id="fc_2"), **spent(9, 6, thoughtsTokenCount=4, totalTokenCount=19)))
    + event(response(finish="STOP", **spent(9, 7, thoughtsTokenCount=4, totalTokenCount=20)))
)
"""A thought, a text, and two calls, of which the first has a signature."""

_BROKEN = {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}
_SAID = Answer(text={0: "Hello \U0001f642"}, finish={0: "stop"})
_HI = Answer(text={0: "Hi"}, finish={0: "stop"})
_CALLED = Answer(
    text={0: "I look."},
    reasoning={0: "Hm"},
    calls={0: [("fc_1", "look", '{"at":"x"}'), ("fc_2", "wait", "{}")]},
    finish={0: "tool_calls"},
)
_TWO = Answer(text={0: "a", 1: "b"}, finish={0: "stop", 1: "length"})
_CUT = Answer(text={0: "Hi"})

STREAMS = [
    Case("text", HELLO, said=_SAID, usage=(9, 7)),
    Case("line ends LF", HELLO.replace(b"\r\n", b"\n"), said=_SAID, usage=(9, 7)),
    Case("a thought, text and two calls", TWO_CALLS, said=_CALLED, usage=(9, 11)),
    Case(
        "a finish reason in every response",
        event(response(say("H"), finish="STOP")) + event(response(say("i"), finish="STOP")),
        said=_HI,
    ),
    Case(
        "two candidates",
        event(response(say("a"), index=0))
        + event(response(say("b"), finish="MAX_TOKENS", index=1))
        + event(response(finish="STOP", index=0)),
        said=_TWO,
    ),
    Case(
        "usage apart",
        event(response(say("Hi"), finish="STOP")) + event({"responseId": "r1", **spent(9, 2)}),
        said=_HI,
        usage=(9, 2),
    ),
    Case(
        "a blocked prompt",
        event({"promptFeedback": {"blockReason": "SAFETY"}, **spent(9)}),
        said=Answer(text={0: ""}, finish={0: "content_filter"}),
        usage=(9, 0),
    ),
    Case("[DONE] all the same", HELLO + b"data: [DONE]\n\n", said=_SAID, usage=(9, 7)),
    Case("no last blank line", HELLO.rstrip(), said=_SAID, usage=(9, 7)),
    Case(
        "cut off", event(response(say("Hi"), **spent(9, 1))), said=_CUT, usage=(9, 1), error="upstream_stream_truncated"
    ),
    Case(
        "an error on the way",
        event(response(say("Hi"))) + event(_BROKEN) + event(response(say("!"))),
        said=_CUT,
        error="upstream_overloaded",
    ),
    Case("an error in an array", event([_BROKEN]), said=Answer(), error="upstream_overloaded"),
    Case(
        "a malformed call",
        event(response(finish="MALFORMED_FUNCTION_CALL")),
        said=Answer(),
        error="upstream_bad_response",
    ),
    Case(
        "a malformed call after text",
        event(response(say("Hi"))) + event(response(finish="MALFORMED_FUNCTION_CALL")),
        said=_HI,
        marks=("failed_at_end",),
    ),
    Case("garbled at once", b"data: {]\r\n\r\n", said=Answer(), error="upstream_bad_response", marks=("bad_chunks=1",)),
    Case(
        "one garbled event",
        event(response(say("Hi"))) + b"data: {]\r\n\r\n" + event(response(finish="STOP")),
        said=_HI,
        marks=("bad_chunks=1",),
    ),
    Case(
        "odd parts",
        event(response(say("Hi"))) + event(response("odd")) + event(response(finish="STOP")),  # type: ignore[arg-type]
        said=_HI,
        marks=("bad_chunks=1",),
    ),
]
