"""Client: a caller of the gateway on raw sockets: good calls in one line, and every bad manner bytes are capable of."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.wire import PATIENCE_S, Head, Socket, head_bytes

Doc = dict[str, Any]

HELLO = [{"role": "user", "content": "Say hello."}]


@dataclass(frozen=True, slots=True)
class Answer:
    head: Head
    body: bytes

    @property
    def status(self) -> int:
        return self.head.status

    @property
    def json(self) -> Doc:
        doc = json.loads(self.body)
        assert isinstance(doc, dict), doc
        return doc

    @property
    def error(self) -> Doc:
        error = self.json["error"]
        assert isinstance(error, dict), error
        return error

    @property
    def refusal(self) -> tuple[int, str | None, str | None]:
        """Status, code and param at one glance."""
        return self.status, self.error["code"], self.error["param"]

    @property
    def chunks(self) -> list[Doc]:
        """A streamed body's events but ``[DONE]``."""
        return [json.loads(data) for data in events(self.body) if data != b"[DONE]"]

    @property
    def text(self) -> str:
        """What the answer says: of a stream, choice 0's pieces joined."""
        if self.head.get("content-type").startswith("text/event-stream"):
            return "".join(c["delta"].get("content") or "" for doc in self.chunks for c in doc.get("choices", ())[:1])
        return str(self.json["choices"][0]["message"]["content"])


@dataclass(slots=True)
class Stream:
    """An answer that is still coming."""

    head: Head
    socket: Socket
    body: bytearray = field(default_factory=bytearray)
    _pieces: AsyncIterator[bytes] | None = None

    async def event(self) -> bytes:
        """The next event's or comment's lines, without the blank line. Raises StopAsyncIteration at the end."""
        if self._pieces is None:
            self._pieces = self.socket.pieces(self.head, answer=True)
        while (end := self.body.find(b"\n\n")) < 0:
            self.body += await anext(self._pieces)
        found = bytes(self.body[:end])
        del self.body[: end + 2]
        return found

    async def rest(self) -> bytes:
        if self._pieces is None:
            self._pieces = self.socket.pieces(self.head, answer=True)
        async for piece in self._pieces:
            self.body += piece
        return bytes(self.body)


@dataclass(frozen=True, slots=True)
class Client:
    port: int
    key: str = ""

    async def connect(self, *, window: int = 0) -> Socket:
        """A connection of our own; ``window`` bounds what the system buffers for us, in bytes."""
        raw = socket.socket()
        raw.setblocking(False)
        if window:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(raw, ("127.0.0.1", self.port))
        _, peer = await loop.create_connection(Socket, sock=raw)
        return peer

    async def send(self, data: bytes, *, window: int = 0) -> Socket:
        """A connection of our own over which these bytes have gone."""
        peer = await self.connect(window=window)
        await peer.write(data)
        return peer

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str | None] | None = None
    ) -> bytes:
        """The bytes of one request; a header set to None is left out."""
        usual: dict[str, str | None] = {"host": f"127.0.0.1:{self.port}"}
        if self.key:
            usual["authorization"] = f"Bearer {self.key}"
        if body:
            usual |= {"content-type": "application/json", "content-length": str(len(body))}
        pairs = {**usual, **{name.lower(): value for name, value in (headers or {}).items()}}
        return head_bytes(f"{method} {path} HTTP/1.1", [(n, v) for n, v in pairs.items() if v is not None]) + body

    async def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str | None] | None = None
    ) -> Answer:
        """One request over a connection of its own."""
        return await self.raw(self.request(method, path, body, headers))

    async def raw(self, data: bytes) -> Answer:
        """Send these very bytes and read one answer."""
        peer = await self.connect()
        try:
            await peer.write(data)
            return await read_answer(peer)
        finally:
            peer.close()

    async def get(self, path: str, headers: Mapping[str, str | None] | None = None) -> Answer:
        return await self.ask("GET", path, headers=headers)

    async def post(self, body: bytes | Doc, headers: Mapping[str, str | None] | None = None) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("POST", "/v1/chat/completions", data, headers)

    async def chat(self, model: str = "m", **fields: Any) -> Answer:
        """A plain or streamed call, read to its end."""
        return await self.post({"model": model, "messages": HELLO, **fields})

    async def messages(self, model: str = "m", **fields: Any) -> Answer:
        body = json.dumps({"model": model, "max_tokens": 1000, "messages": HELLO, **fields}).encode()
        return await self.ask("POST", "/v1/messages", body)

    @asynccontextmanager
    async def streaming(self, model: str = "m", *, window: int = 0, **fields: Any) -> AsyncIterator[Stream]:
        """A streamed call whose head has come; the connection is reset at the end if it is still open."""
        peer = await self.connect(window=window)
        try:
            await peer.write(self.chat_bytes(model, stream=True, **fields))
            yield Stream(await peer.read_head(), peer)
        finally:
            peer.reset()

    def chat_bytes(self, model: str = "m", **fields: Any) -> bytes:
        body = json.dumps({"model": model, "messages": HELLO, **fields}).encode()
        return self.request("POST", "/v1/chat/completions", body)


async def read_answer(peer: Socket, *, patience_s: float = PATIENCE_S, bodyless: bool = False) -> Answer:
    """One answer, interim ones before it skipped; ``bodyless`` for HEAD. Raises Gone if the gateway closes before."""
    async with asyncio.timeout(patience_s):
        while (head := await peer.read_head()).status < 200:
            pass
        bodyless |= head.status in {204, 304}
        return Answer(head, b"" if bodyless else await peer.read_body(head, answer=True))


def events(body: bytes) -> list[bytes]:
    """The data of every event of a body in the form the gateway promises: one ``data: `` line each, LF only."""
    lines = [part for part in body.split(b"\n\n") if part and not part.startswith(b":")]
    assert all(line.startswith(b"data: ") and b"\n" not in line for line in lines), lines
    return [line[6:] for line in lines]
