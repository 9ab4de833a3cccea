"""Run: a gateway whose upstream repeats a given text, and what comes out of it."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.client.control import ControlClient
from gateway.domain.channel import Dialect
from gateway.domain.errors import GatewayError
from gateway.domain.units import ChannelId
from tests.control.conftest import SECRET, opened
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider
from tests.fakes.wire import Gone
from tests.faults.canaries import PROMPT, leaks, quotes, secret_of
from tests.faults.canary_places import Place

ALL = os.environ.get("TOLLKEEPER_CANARIES") == "all"
"""Every combination is to be tried."""
MODEL = {Dialect.OPENAI: "gpt-4o", Dialect.ANTHROPIC: "claude-sonnet-4-5", Dialect.GEMINI: "gemini-3.8-flash"}


@dataclass(eq=False)
class CanaryRun:
    """A gateway whose upstream repeats a given text, and everything that came out of it."""

    gateway: Gateway
    provider: Provider
    home: Path
    capture: pytest.LogCaptureFixture
    secrets: set[str] = field(default_factory=set)
    out: dict[str, bytes] = field(default_factory=dict)
    prompts: dict[str, bytes] = field(default_factory=dict)
    """The part of ``out`` that must not show the prompt."""
    seen: bytearray = field(default_factory=bytearray)
    """What the client got."""
    asked: int = 0

    def plant(self, dialect: Dialect, kind: str, **more: Any) -> tuple[str, str, str]:
        """A channel whose key and headers are of that kind; these secrets."""
        key, header, bearer = (secret_of(kind, number) for number in range(3))
        usual = {"base_url": self.provider.root(dialect), "key": key}
        fields = {**usual, "headers": {"x-team": header, "x-pass": f"Bearer {bearer}"}, **more}
        self.gateway.channel(fields.pop("base_url"), f"m={MODEL.get(dialect, '')}", dialect=dialect, **fields)
        self.secrets |= {key, header, bearer}
        return key, header, bearer

    def tell(self, place: Place, status: int, text: str) -> None:
        """From now on the upstream answers everything with this text in this place."""

        async def script(exchange: Exchange) -> None:
            await place(text).give(exchange, status)
            exchange.socket.close()

        self.provider.other = script
        self.gateway.engine.health.clear(ChannelId("ch_up"))

    async def ask(self, place: Place, status: int, text: str, *, stream: bool = False) -> Answer | None:
        """One call that is answered so."""
        self.tell(place, status, text)
        self.asked += 1
        return await self.call(stream=stream)

    async def call(self, *, stream: bool = False) -> Answer | None:
        """One call of a client's; None if the connection was closed instead of an answer."""
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}]
        try:
            answer = await self.gateway.client.chat(messages=messages, stream=stream)
        except Gone:
            return None
        head = "\n".join([answer.head.line, *(f"{name}: {value}" for name, value in answer.head.headers)])
        self.seen += head.encode() + b"\n" + answer.body + b"\n"
        return answer

    async def command(self, owner: ControlClient, method: str, path: str, body: Any = None) -> None:
        """One request of the owner's; its answer or its error is kept."""
        try:
            shown = await owner.send(owner.build_request(method, path, body))
        except GatewayError as error:
            shown = f"{error.message} {error.code} {error.param} {error.details}".encode()
        self.out[path] = self.out.get(path, b"") + shown + b"\n"

    async def _harvest(self) -> None:
        """Everything else that came out of it: files, log, control surface, events."""
        await self.gateway.settled(0)
        kept: dict[str, bytes] = {"log": self.capture.text.encode()}
        async with opened(self.gateway.engine) as surface:
            owner = ControlClient(surface.unix, timeout_s=10)
            for path in ("/calls?limit=5000", "/channels", "/channels/up", "/models", "/usage?by=channel", "/status"):
                kept[path] = await owner.send(owner.build_request("GET", path))
            async for event in owner.events(1000):
                kept["events"] = msgspec.json.encode(event)
                break
        kept |= kept_in(self.home)
        self.out |= kept
        self.prompts |= kept

    async def found(self) -> list[str]:
        """What should not be there."""
        await self._harvest()
        token = self.gateway.client.key
        self.out["client"] = bytes(self.seen)
        return leaks(self.out, self.secrets | {token, SECRET}) + quotes(self.prompts)


def kept_in(home: Path) -> dict[str, bytes]:
    """The files of a home; of the configuration and its history without the fields in which secrets are kept."""
    files = [path for path in home.rglob("*") if path.is_file() and path.stat().st_size and path.name != "run.json"]
    found = {path.name: path.read_bytes().strip(b"\0") for path in files}
    secret = ("config", "history")
    return {name: _without_secrets(data) if name.startswith(secret) else data for name, data in found.items()}


def _without_secrets(config: bytes) -> bytes:
    doc = json.loads(config)

    def bare(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                name: bare(inner) for name, inner in value.items() if name not in ("key", "keys", "headers", "proxy")
            }
        return [bare(inner) for inner in value] if isinstance(value, list) else value

    return json.dumps(bare(doc)).encode()
