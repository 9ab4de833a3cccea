"""Replies: scripts of upstreams that behave, and the pieces of which tests make those that do not."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.fakes.provider import JSON, Bill, Exchange, Script

Doc = dict[str, Any]

DONE = b"data: [DONE]\n\n"
CREATED = 1_763_500_000
"""The ``created`` of every answer, in seconds."""


class Seen:
    """Signs of life, as many as a test counts."""

    def __init__(self) -> None:
        self.events = self.comments = 0
        self.final_size: int | None = None


def dumps(doc: object) -> bytes:
    """Compact JSON, non-ASCII escaped as most servers do."""
    return json.dumps(doc, separators=(",", ":")).encode()


def usage(prompt: int = 9, completion: int = 12, **more: Any) -> Doc:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}


def choice(content: str | None = "Hello", *, index: int = 0, finish: str | None = "stop", **message: Any) -> Doc:
    said = {"role": "assistant", "content": content, "refusal": None, **message}
    return {"index": index, "message": said, "logprobs": None, "finish_reason": finish}


def whole(model: str, *choices: Doc, id: str = "chatcmpl-1", spent: Doc | None = None, **more: Any) -> Doc:
    """A plain answer's body; without ``spent`` it names no usage."""
    doc: Doc = {"id": id, "object": "chat.completion", "created": CREATED, "model": model}
    doc["choices"] = list(choices) or [choice()]
    return {**doc, **({} if spent is None else {"usage": spent}), **more}


def delta(content: str | None = None, *, index: int = 0, finish: str | None = None, **more: Any) -> Doc:
    """One choice of a chunk."""
    said = {**({} if content is None else {"content": content}), **more}
    return {"index": index, "delta": said, "logprobs": None, "finish_reason": finish}


def chunk(*choices: Doc, id: str = "chatcmpl-1", model: str = "m", **more: Any) -> Doc:
    doc: Doc = {"id": id, "object": "chat.completion.chunk", "created": CREATED, "model": model}
    return {**doc, "choices": list(choices), **more}


def event(doc: object) -> bytes:
    """The chunk as it goes over the wire."""
    return b"data: " + dumps(doc) + b"\n\n"


def story(*words: str, id: str = "chatcmpl-1", model: str = "m", finish: str = "stop") -> list[Doc]:
    """A well-formed stream's chunks without usage: role, words, finish."""
    first = chunk(delta("", role="assistant"), id=id, model=model)
    said = [chunk(delta(word), id=id, model=model) for word in words]
    return [first, *said, chunk(delta(finish=finish), id=id, model=model)]


def tool_call(index: int, id: str, name: str, arguments: str) -> Doc:
    """One complete tool call as a chunk's delta carries it."""
    return {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def speak(*words: str, prompt: int = 9, completion: int = 12) -> Script:
    """The good upstream: answers plain or streamed as asked, usage chunk if asked, and bills it."""
    said = words or ("Hel", "lo")

    async def script(exchange: Exchange) -> None:
        id = f"chatcmpl-fake{exchange.number}"
        asked = exchange.json
        model, spent = str(asked["model"]), usage(prompt, completion)
        if asked.get("stream"):
            tail = [chunk(id=id, model=model, usage=spent)] if _wants_usage(asked) else []
            await in_steps(*story(*said, id=id, model=model), *tail, DONE)(exchange)
        else:
            await exchange.answer(dumps(whole(model, choice("".join(said)), id=id, spent=spent)))
        exchange.bill = Bill(id, prompt, completion)

    return script


def reply(doc: object, *, status: int = 200, kind: str = JSON, headers: Mapping[str, str] | None = None) -> Script:
    """Always this body: bytes as they are, anything else as JSON."""
    body = doc if isinstance(doc, bytes) else dumps(doc)

    async def script(exchange: Exchange) -> None:
        await exchange.answer(body, status=status, kind=kind, headers=headers)

    return script


def fail(
    status: int, message: str = "it broke", *, code: object = None, headers: Mapping[str, str] | None = None
) -> Script:
    """An error in OpenAI's form."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    return reply({"error": error}, status=status, headers=headers)


def stream(*docs: Doc, done: bool = True) -> Script:
    """These chunks, then ``[DONE]``, then a clean end."""
    return in_steps(*docs, DONE if done else b"")


def stream_bytes(data: bytes, *, size: int = 0, headers: Mapping[str, str] | None = None) -> Script:
    """These bytes as the body of a stream, in chunks of ``size`` bytes (0: one chunk), then a clean end."""

    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream(headers)
        for start in range(0, len(data), size or len(data)):
            await exchange.piece(data[start : start + (size or len(data))])
            await asyncio.sleep(0)
        await exchange.finish()

    return script


def cut(*docs: bytes | Doc) -> Script:
    """These chunks, and then a reset in the middle of the stream."""

    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for doc in docs:
            await exchange.piece(doc if isinstance(doc, bytes) else event(doc))
        await asyncio.sleep(0.02)  # a reset discards what the peer has not read yet
        exchange.socket.reset()

    return script


def in_steps(*steps: bytes | Doc | float | asyncio.Event | Callable[[], None], hangs: bool = False) -> Script:
    """A stream of these pieces and chunks; a number is a pause in seconds, an event is waited for, a function called.

    ``hangs``: it has no end, and the connection stays open.
    """

    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for step in steps:
            if isinstance(step, asyncio.Event):
                await exchange.until(step)
            elif isinstance(step, float):
                await asyncio.sleep(step)
            elif callable(step):
                step()
            else:
                await exchange.piece(step if isinstance(step, bytes) else event(step))
        await (exchange.left() if hangs else exchange.finish())

    return script


def endless(data: bytes, *, first: bytes = b"", pause: float = 0) -> Script:
    """The first piece, and then the other again and again until the gateway leaves."""

    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.piece(first)
        while not exchange.gone.is_set():
            await exchange.piece(data)
            await asyncio.sleep(pause)  # a writer whose peer has gone never waits, and so never learns of it

    return script


def raw(data: bytes) -> Script:
    """These very bytes as the answer, head and all; then the connection is closed."""

    async def script(exchange: Exchange) -> None:
        await exchange.write(data)
        exchange.socket.close()
        await exchange.left()

    return script


def at_path(end: str, there: Script, elsewhere: Script | None = None) -> Script:
    """The one at paths that end so, the other at all others, which are not there unless it is given."""

    async def script(exchange: Exchange) -> None:
        await (there if exchange.path.endswith(end) else elsewhere or fail(404, "Not Found"))(exchange)

    return script


def speak_after(go: asyncio.Event | float, answer: Script | None = None) -> Script:
    """This or a good answer once the test sets the event, or after so many seconds."""

    async def script(exchange: Exchange) -> None:
        await (asyncio.sleep(go) if isinstance(go, float) else exchange.until(go))
        await (answer or speak())(exchange)

    return script


async def silence(exchange: Exchange) -> None:
    """Takes the request and never answers."""
    await exchange.left(3600)


async def slam(exchange: Exchange) -> None:
    """Resets before a byte was answered."""
    exchange.socket.reset()


def _wants_usage(asked: Doc) -> bool:
    return bool((asked.get("stream_options") or {}).get("include_usage"))
