"""Fast upstream: the cheapest server that answers chat completions, so that what is measured is what stands before it.

Run as a module; prints its port. It parses nothing but the length of the body and whether a stream is requested. The
models ``m-200`` and ``claude-m-200`` stream 200 events. It streams responses and messages too, except below
``/lacking``, which does not have the Responses API.
"""

import asyncio
import hashlib
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import uvloop

from tests.fakes import messages, replies, responses
from tests.fakes.replies import Doc, chunk, delta, dumps, event
from tests.fakes.wire import chunked

EVENTS_A_WRITE = 20
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream": ?true')
_EVENTS = re.compile(rb'"model": ?"(?:[a-z]+-)?m-(\d+)"')

_ANSWER = dumps(replies.whole("m", replies.choice("word " * 120), spent=replies.usage(250, 121)))
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
    """A chat of so many events."""
    words = [delta(f"word{i} ") for i in range(events - 2)]
    chunks = [chunk(one) for one in (delta("", role="assistant"), *words, delta(finish="stop"))]
    return _batched([*map(event, chunks), event(chunk(usage=replies.usage(250, 50))), replies.DONE])


@lru_cache
def response_pieces(events: int) -> tuple[bytes, ...]:
    """The same as a response."""
    words = [f"word{i} " for i in range(events)]
    item = responses.message("".join(words))
    (part,) = item["content"]
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    whole = responses.response(item, model=f"m-{events}", usage=responses.spent(250, 50))
    begun = {"response": {**whole, "status": "in_progress", "output": [], "usage": None}}
    docs: list[tuple[str, Doc]] = [
        ("created", begun),
        ("in_progress", begun),
        ("output_item.added", {"output_index": 0, "item": {**item, "status": "in_progress", "content": []}}),
        ("content_part.added", {**place, "part": {**part, "text": ""}}),
        *(
            ("output_text.delta", {**place, "delta": word, "logprobs": [], "obfuscation": padding(i)})
            for i, word in enumerate(words)
        ),
        ("output_text.done", {**place, "text": part["text"], "logprobs": []}),
        ("content_part.done", {**place, "part": part}),
        ("output_item.done", {"output_index": 0, "item": item}),
        ("completed", {"response": whole}),
    ]
    return _batched([responses.event(f"response.{kind}", i, **doc) for i, (kind, doc) in enumerate(docs)])


def padding(number: int) -> str:
    """What the vendor pads a piece with: another one for each."""
    return hashlib.sha256(b"%d" % number).hexdigest()[:9]


@lru_cache
def message_pieces(events: int) -> tuple[bytes, ...]:
    """The same as a message."""
    said = messages.text_block("abc" * events)  # which comes in pieces of three characters
    spent = {"input_tokens": 250, "output_tokens": 50}
    return _batched(messages.message_events(messages.message(said, model=f"m-{events}", spent=spent)))


def _batched(events: Sequence[bytes]) -> tuple[bytes, ...]:
    """The head with the first event, then the others some at a time, each in a chunk of its own."""
    first, *others = map(chunked, events)
    batches = [b"".join(others[i : i + EVENTS_A_WRITE]) for i in range(0, len(others), EVENTS_A_WRITE)]
    return (_STREAM_HEAD + first, *batches, chunked(b""))


_OTHERS = {b"/responses": response_pieces, b"/messages": message_pieces}
"""By the end of the path; all else is chat completions."""


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
