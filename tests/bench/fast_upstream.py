"""Fast upstream: the cheapest server that answers chat completions, so that what is measured is what stands before it.

Run as a module; prints its port. It parses nothing but the length of the body and whether a stream is requested. The
models ``m-200`` and ``claude-m-200`` stream 200 events. It streams responses and messages too, except below
``/lacking``, which does not have the Responses API.
"""

import asyncio
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import uvloop

EVENTS_A_WRITE = 20
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream": ?true')
_EVENTS = re.compile(rb'"model": ?"(?:[a-z]+-)?m-(\d+)"')

_ANSWER = json.dumps(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1_763_500_000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "word " * 120, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 250, "completion_tokens": 121, "total_tokens": 371},
    }
).encode()
PLAIN = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(_ANSWER), _ANSWER)
LACKING = (
    b'HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 22\r\n\r\n{"detail":"Not Found"}'
)
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Upstream(asyncio.Protocol):
    def __init__(self) -> None:
        self._buffer = b""
        self._wanted = 0
        """Bytes of the request under way; 0: its head is not complete."""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if not self._wanted:
            end = self._buffer.find(b"\r\n\r\n") + 4
            if end < 4:
                return
            length = _LENGTH.search(self._buffer, 0, end)
            self._wanted = end + (int(length[1]) if length else 0)
        if len(self._buffer) >= self._wanted:
            request, self._buffer, self._wanted = self._buffer, b"", 0
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        path = request[: request.find(b" ", 5)]
        if path.endswith(b"/responses") and b"/lacking" in path:
            self._transport.write(LACKING)
            return
        if not _STREAM.search(request):
            self._transport.write(PLAIN)
            return
        count = _EVENTS.search(request)
        made = next((found for name, found in _OTHERS.items() if path.endswith(name)), stream_pieces)
        head, *pieces = made(int(count[1]) if count else 50)
        self._transport.write(head)
        for piece in pieces:
            self._transport.write(piece)


@lru_cache
def stream_pieces(events: int) -> tuple[bytes, ...]:
    """The head with the first event, then the others some at a time, each in a chunk of its own."""
    first = _frame({"role": "assistant", "content": ""})
    words = [_frame({"content": f"word{i} "}) for i in range(events - 2)]
    tail = _frame({}, "stop") + _chunk(_usage()) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    batches = [b"".join(words[i : i + EVENTS_A_WRITE]) for i in range(0, len(words), EVENTS_A_WRITE)]
    return (_STREAM_HEAD + first, *batches, tail)


@lru_cache
def response_pieces(events: int) -> tuple[bytes, ...]:
    """The same as a response."""
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    whole = {"id": "resp_1", "object": "response", "created_at": 1_763_500_000, "model": f"m-{events}", "error": None}
    whole |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "instructions": None, "metadata": {}}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    said = {**part, "text": "".join(f"word{i} " for i in range(events))}
    done = {**item, "status": "completed", "content": [said]}
    spent = {"input_tokens": 250, "output_tokens": 50, "total_tokens": 300}
    usage = {**spent, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    begun: dict[str, object] = {"response": {**whole, "status": "in_progress", "output": [], "usage": None}}
    ended: dict[str, object] = {"response": {**whole, "status": "completed", "output": [done], "usage": usage}}
    docs: list[tuple[str, dict[str, object]]] = [
        ("response.created", begun),
        ("response.in_progress", begun),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.content_part.added", {**place, "part": part}),
        *(
            ("response.output_text.delta", {**place, "delta": f"word{i} ", "logprobs": [], "obfuscation": padding(i)})
            for i in range(events)
        ),
        ("response.output_text.done", {**place, "text": said["text"], "logprobs": []}),
        ("response.content_part.done", {**place, "part": said}),
        ("response.output_item.done", {"output_index": 0, "item": done}),
        ("response.completed", ended),
    ]
    return _batched([(kind, {"sequence_number": i, **doc}) for i, (kind, doc) in enumerate(docs)])


def padding(number: int) -> str:
    """What the vendor pads a piece with: another one for each."""
    return hashlib.sha256(b"%d" % number).hexdigest()[:9]


@lru_cache
def message_pieces(events: int) -> tuple[bytes, ...]:
    """The same as a message."""
    usage = {"input_tokens": 250, "output_tokens": 1}
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": f"m-{events}", "content": []}
    docs: list[tuple[str, dict[str, object]]] = [
        ("message_start", {"message": {**whole, "stop_reason": None, "stop_sequence": None, "usage": usage}}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        *(
            ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": f"word{i} "}})
            for i in range(events)
        ),
        ("content_block_stop", {"index": 0}),
        (
            "message_delta",
            {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 50}},
        ),
        ("message_stop", {}),
    ]
    return _batched(docs)


def _batched(docs: Sequence[tuple[str, dict[str, object]]]) -> tuple[bytes, ...]:
    """The head with the first event, then the others some at a time."""
    first, *others = (
        _chunk(b"event: %b\ndata: %b\n\n" % (kind.encode(), _json({"type": kind, **doc}))) for kind, doc in docs
    )
    batches = [b"".join(others[i : i + EVENTS_A_WRITE]) for i in range(0, len(others), EVENTS_A_WRITE)]
    return (_STREAM_HEAD + first, *batches, b"0\r\n\r\n")


def _usage() -> bytes:
    doc = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_763_500_000, "model": "m"}
    usage = {"prompt_tokens": 250, "completion_tokens": 50, "total_tokens": 300}
    return b"data: " + json.dumps({**doc, "choices": [], "usage": usage}, separators=(",", ":")).encode() + b"\n\n"


def _frame(delta: dict[str, str], finish: str | None = None) -> bytes:
    doc = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1_763_500_000,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
    }
    return _chunk(b"data: " + json.dumps(doc, separators=(",", ":")).encode() + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _json(doc: dict[str, object]) -> bytes:
    return json.dumps(doc, separators=(",", ":")).encode()


_OTHERS = {b"/responses": response_pieces, b"/messages": message_pieces}
"""By the end of the path; all else is chat completions."""


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
