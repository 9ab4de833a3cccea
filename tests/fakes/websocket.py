"""WebSocket: a client of ``/v1/responses`` that speaks frames, and another that sends bytes as they are wanted."""

import asyncio
import json
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

from tests.fakes.client import Client
from tests.fakes.gateway import Gateway
from tests.fakes.replies import dumps
from tests.fakes.wire import PATIENCE_S, Head, Socket

Doc = dict[str, Any]

LAST = ("response.completed", "response.incomplete", "response.failed", "error")


class Talk:
    """An open WebSocket."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.socket = socket

    async def create(self, input: Any = "hi", *, previous: str | None = None, **more: Any) -> None:
        named = {} if previous is None else {"previous_response_id": previous}
        await self.send({"type": "response.create", "model": "m", "input": input, "store": False, **named, **more})

    async def send(self, doc: Any) -> None:
        await self.socket.send_str(dumps(doc).decode())

    async def event(self) -> Doc:
        """The next event. Raises EOFError when the connection is closed."""
        async with asyncio.timeout(PATIENCE_S):
            message = await self.socket.receive()
        if message.type is not WSMsgType.TEXT:
            raise EOFError(f"{message.type.name} {self.socket.close_code}")
        doc = json.loads(message.data)
        assert isinstance(doc, dict)
        return doc

    async def events(self) -> list[Doc]:
        """All events of the next answer."""
        found = [await self.event()]
        while found[-1]["type"] not in LAST:
            found.append(await self.event())
        return found

    async def last(self) -> Doc:
        return (await self.events())[-1]

    async def response(self, input: Any = "hi", **more: Any) -> Doc:
        """The response to a request, which must be complete."""
        await self.create(input, **more)
        last = await self.last()
        assert last["type"] == "response.completed", last
        found = last["response"]
        assert isinstance(found, dict)
        return found

    async def error(self, input: Any = "hi", **more: Any) -> tuple[int, str]:
        """Status and code of the error that a request is answered with."""
        await self.create(input, **more)
        last = await self.last()
        assert last["type"] == "error", last
        return last["status"], last["error"]["code"]

    async def closed(self) -> int:
        """Wait for the end; its code."""
        try:
            await self.event()
        except EOFError:
            return self.socket.close_code or 0
        raise AssertionError("it goes on")


def said(response: Doc) -> str:
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


@asynccontextmanager
async def talk(
    gateway: Gateway, client: Client | None = None, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Talk]:
    """A connection to ``/v1/responses``."""
    one = client or gateway.client
    url = f"http://127.0.0.1:{one.port}/v1/responses"
    async with (
        ClientSession(headers={"authorization": f"Bearer {one.key}"}) as session,
        session.ws_connect(url, headers=headers, autoping=True, max_msg_size=0) as socket,
    ):
        yield Talk(socket)


async def shaken(client: Client, *, window: int = 0) -> tuple[Head, Socket]:
    """The answer to a handshake, and the connection behind it."""
    key = b64encode(os.urandom(16)).decode()
    upgrade = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-version": "13", "sec-websocket-key": key}
    peer = await client.send(client.request("GET", "/v1/responses", headers=upgrade), window=window)
    return await peer.read_head(), peer


def frame(data: bytes, opcode: int = 1, *, last: bool = True) -> bytes:
    """A frame from a client, masked with zeros."""
    first = bytes([(0x80 if last else 0) | opcode])
    if len(data) < 126:
        size = bytes([0x80 | len(data)])
    elif len(data) < 1 << 16:
        size = bytes([0x80 | 126]) + len(data).to_bytes(2)
    else:
        size = bytes([0x80 | 127]) + len(data).to_bytes(8)
    return first + size + bytes(4) + data
