"""Gateway: a real one in this process, on a free loopback port, over a real store; and short words to set it up."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from gateway.config import Config
from gateway.core.auth import new_id, new_key
from gateway.core.clock import Clock
from gateway.core.engine import Engine
from gateway.core.live_calls import CallDeadlines
from gateway.core.memory import resident
from gateway.domain.account import Account, Grant
from gateway.domain.call import Record
from gateway.domain.channel import Channel
from gateway.domain.group import Group
from gateway.domain.key_owners import digest, hint
from gateway.domain.price import Price
from gateway.domain.registry import Change
from gateway.domain.settings import Settings
from gateway.domain.token import Token
from gateway.domain.units import DOLLAR, Millis, Nanos, TokenId
from gateway.server import open_engine
from gateway.v1.ports import open_public_port
from tests.core import kit
from tests.fakes.client import Client

HASTE = 20.0
"""Pauses between attempts are so many times shorter than real ones."""
GRANTED = Nanos(10 * DOLLAR)
OWN = 64 << 20
"""Bytes that a gateway takes by itself."""
INPUT, OUTPUT = Nanos(2_500_000_000), Nanos(10_000_000_000)
"""The usual price: 2.50 and 10 dollars per million tokens, 2,500 and 10,000 nano-dollars a token."""


@dataclass(eq=False)
class Gateway:
    """The engine behind the port, and the first client's way to it."""

    engine: Engine
    port: int
    client: Client
    """Presents the key of token ``laptop``."""

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def change(self, table: Any, key: str, value: Any) -> None:
        self.engine.change([Change(table, key, value)])

    def channel(self, base_url: str, *models: str, name: str = "up", **fields: Any) -> Channel:
        """Add or replace a channel; a model is ``public`` or ``public=upstream``."""
        channel = kit.channel(name, *models, base_url=base_url, **fields)
        self.change("channels", channel.id, channel)
        return channel

    def token(self, name: str = "laptop", *, group: str = "default", **fields: Any) -> Client:
        """Add or replace a token; a client that presents its key."""
        key, id = new_key(), TokenId(f"tok_{name}")
        self.change("tokens", id, Token(id=id, name=name, group=group, digest=digest(key), hint=hint(key), **fields))
        return Client(self.port, key)

    def group(self, name: str, **fields: Any) -> None:
        self.change("groups", name, Group(name=name, **fields))

    def price(self, model: str = "m", input: Nanos = INPUT, output: Nanos = OUTPUT, **fields: Any) -> None:
        self.change("prices", model, Price(model=model, input=input, output=output, **fields))

    def grant(self, nanos: int) -> None:
        """Give or, with a negative amount, take."""
        id = new_id("gr")
        self.change("grants", id, Grant(id=id, nanos=Nanos(nanos), time=self.engine.now()))

    def settings(self, **fields: Any) -> None:
        """Set the whole of the settings; what is not named takes its default."""
        self.change("settings", "", Settings(**fields))

    @property
    def records(self) -> list[Record]:
        """All of them, oldest first."""
        return self.engine.store.calls.find(limit=1_000_000)[::-1]

    @property
    def record(self) -> Record:
        """The only one."""
        (record,) = self.records
        return record

    async def until(self, true: Callable[[], object]) -> None:
        """For what tells nobody when it comes about."""
        for _ in range(4000):
            if true():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("it never came about")

    async def call(self, model: str = "m", **fields: Any) -> Record:
        """The record of one chat of the first client."""
        before = self.engine.store.calls.count
        await self.client.chat(model, **fields)
        return (await self.settled(before + 1))[-1]

    async def settled(self, count: int = 1) -> list[Record]:
        """Wait until so many calls are recorded and none runs."""
        for _ in range(2000):
            if not self.engine.live.calls and self.engine.store.calls.count >= count:
                return self.records
            await asyncio.sleep(0.005)
        raise AssertionError(f"{len(self.engine.live.calls)} calls run, {self.engine.store.calls.count} are recorded")


@asynccontextmanager
async def running(
    home: Path, *, patience: CallDeadlines | None = None, haste: float = HASTE, wall: Callable[[], Millis] | None = None
) -> AsyncIterator[Gateway]:
    """A gateway with ten dollars, the group ``default`` and the token ``laptop``; no channel yet.

    Of the memory of this process it sees what is new: what other tests have left would make it refuse calls.
    """
    config = Config(home=home, host="127.0.0.1", port=0)
    before = resident()
    async with AsyncExitStack() as stack:
        stack.enter_context(patch("gateway.core.engine.resident", lambda: max(0, resident() - before + OWN)))
        clock = Clock(mono=asyncio.get_running_loop().time, sleep=lambda s: asyncio.sleep(s / haste))
        clock = clock if wall is None else msgspec.structs.replace(clock, wall=wall)
        engine = await stack.enter_async_context(open_engine(config, clock=clock, deadlines=patience))
        await stack.enter_async_context(open_public_port(engine, config))
        port = int(engine.address.rpartition(":")[2].partition("/")[0])
        gateway = Gateway(engine, port, Client(port))
        if not engine.catalog.registry.grants:
            engine.change(_beginnings())
        gateway.client = gateway.token()
        yield gateway


def _beginnings() -> Sequence[Change]:
    grant = Grant(id="gr_first", nanos=GRANTED, time=Millis(0))
    return [
        Change("account", "", Account()),
        Change("grants", grant.id, grant),
        Change("groups", "default", Group(name="default")),
    ]
