"""What a stuck channel costs the others: ``python -m tests.bench.bench_isolation``.

120 calls hang at a channel that takes connections and never answers; calls at another channel of the same token are
measured first without them, then beside them.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from statistics import median

from tests.bench.load import Job, Result
from tests.bench.processes import LOAD_CORE, Load, free_port, machine, module, serving, tollkeeper, until_answered
from tests.fakes.client import Client
from tests.fakes.provider import Provider
from tests.fakes.replies import silence

STUCK = 120
RATE = 300
CALLS = 1500
ROUNDS = 5


async def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        home, port = Path(name) / "home", free_port()
        _, upstream = stack.enter_context(module("tests.bench.fast_upstream", core=LOAD_CORE))
        tollkeeper(home, "settings", "set", "--channel-calls", "0")
        async with Provider().running() as hole:
            hole.on("stuck", silence)
            for channel, there, model in (("well", upstream, "m"), ("hole", hole.port, "stuck")):
                url = f"http://127.0.0.1:{there}/v1"
                more = ("--models", model, "--group", "default")
                tollkeeper(home, "channel", "add", channel, "--base-url", url, "--key", "k", *more)
            key = str(json.loads(tollkeeper(home, "token", "add", "bench", "--json"))["key"])
            stack.enter_context(serving(home, port))
            until_answered(port, key)
            alone, beside = await measure(port, hole, key)
    base, found = median(r.p99 for r in alone) / 1000, median(r.p99 for r in beside) / 1000
    print(f"p99 at {RATE} calls/s: {base:.2f} ms alone, {found:.2f} ms beside {STUCK} stuck calls")
    print(f"goal: at most {1.2 * base + 2:.2f} ms (1.2 x base + 2): {'held' if found <= 1.2 * base + 2 else 'MISSED'}")


async def measure(port: int, hole: Provider, key: str) -> tuple[list[Result], list[Result]]:
    """Results without and with the stuck calls."""
    alone: list[Result] = []
    beside: list[Result] = []
    load = Load()
    job = Job(port=port, request=Client(port, key).chat_bytes().decode(), calls=CALLS, connections=32, rate=RATE)
    try:
        await asyncio.to_thread(load.run, job)
        alone += [await asyncio.to_thread(load.run, job) for _ in range(ROUNDS)]
        async with stuck(port, hole, key):
            beside += [await asyncio.to_thread(load.run, job) for _ in range(ROUNDS)]
    finally:
        load.end()
    assert not any(result.errors for result in (*alone, *beside))
    return alone, beside


@asynccontextmanager
async def stuck(port: int, hole: Provider, key: str) -> AsyncIterator[None]:
    """The calls that hang, while the block runs."""
    client = Client(port, key)
    callers = [await client.send(client.chat_bytes("stuck")) for _ in range(STUCK)]
    await hole.asked(STUCK)
    yield
    for caller in callers:
        caller.reset()


if __name__ == "__main__":
    asyncio.run(main())
