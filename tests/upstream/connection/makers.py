"""Makers: a pool that asks a provider's scripts one after the other."""

import asyncio

import msgspec

from gateway.domain.channel import Timeouts
from gateway.upstream.adapter import Prepared
from gateway.upstream.connection.pool import Pool
from gateway.upstream.connection.reply import HttpReply
from gateway.upstream.openai.stream import ChatStream
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.wire import PATIENCE_S
from tests.upstream.makers import channel


class Asker:
    """Asks through one pool, whose deadlines are those of the first question."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._pool: Pool | None = None

    async def __call__(self, script: Script, **deadlines: float) -> HttpReply:
        self._provider.on("m", script)
        up = channel(self._provider.base_url)
        up = msgspec.structs.replace(up, timeouts=Timeouts(**deadlines))
        self._pool = self._pool or Pool(up, {})
        asked = Prepared(url=f"{up.base_url}/chat/completions", headers={}, body=b'{"model":"m"}')
        return await self._pool.send("POST", asked, up.timeouts.head)

    @property
    def pool(self) -> Pool:
        assert self._pool is not None
        return self._pool

    @property
    def exchange(self) -> Exchange:
        """The last one."""
        return self._provider.last

    async def idle(self) -> None:
        """Until the exchange has ended and its bytes have been read."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.exchange.ended:  # noqa: ASYNC110 - the provider has no event for it
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()


async def drain(answer: HttpReply, into: ChatStream) -> None:
    """Feed all that comes."""
    async for data in answer.chunks(into):
        into.feed(data)
