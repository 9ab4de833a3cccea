"""``selftest``: this very program, proved on this machine in a few seconds: server, calls, events, console, books."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import click

from gateway.client import doctor, launch
from gateway.client.control import ControlClient
from gateway.commands.base import Command
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.output import out
from gateway.config import Config, load
from gateway.domain.errors import GatewayError
from gateway.domain.events import CallSettled

CONSOLE = "tollkeeper.console"
"""The key in the context's shared notes of a function that draws the console once without a terminal and returns its
text."""

Draw = Callable[[Config], str]


@click.command(cls=Command, examples=["tollkeeper selftest && echo it works here"])
def selftest() -> None:
    """Check that this program works on this machine.

    Starts a server on a free port in a temporary folder, sends a plain and a streamed call to its built-in channel,
    reads their events, draws the console once, and verifies the books. Needs no network and leaves nothing behind.
    """
    draw: Draw = click.get_current_context().meta[CONSOLE]
    with tempfile.TemporaryDirectory(prefix="tollkeeper-", ignore_cleanup_errors=True) as folder:
        where = load(home=str(Path(folder) / "home"), host="127.0.0.1", port=0)
        asyncio.run(_examine(where))
        _examine_console(where, draw)
    out("everything works")


async def _examine(where: Config) -> None:
    """Run all checks. Raises Quit at the first failure."""
    async with _server(where) as client:
        _say("a server starts", (await client.status()).address)
        await client.add_token({"name": "selftest", "group": "default"})
        settled = asyncio.create_task(_count_settled(client))  # noqa: TID251 - awaited below
        await asyncio.sleep(0)
        async for step in doctor.ask(client):
            if step.result != "ok":
                settled.cancel()
                raise Quit(f"selftest: {step.name} failed: {step.text}", Exit.FAILED)
            _say(step.name, step.text)
        _say("its events arrive", f"{await settled} events arrived")
        verdict = await client.verify()
        if not verdict.equal:
            raise Quit(f"selftest: the books do not balance: {verdict.difference}", Exit.STORE)
        _say("the books are right", f"{verdict.checks} comparisons were equal")


def _examine_console(where: Config, draw: Draw) -> None:
    shown = draw(where)
    if "tollkeeper" not in shown:
        raise Quit("selftest: the console drew nothing", Exit.FAILED)
    _say("the console draws", f"{len(shown.splitlines())} lines")


@asynccontextmanager
async def _server(where: Config) -> AsyncIterator[ControlClient]:
    where.home.mkdir(mode=0o700, parents=True)
    server = await launch.start(where)
    try:
        async with ControlClient(server.endpoint) as client:
            yield client
    finally:
        with suppress(GatewayError):
            await launch.stop(server.endpoint, now=True, wait_s=15)


async def _count_settled(client: ControlClient) -> int:
    """Returns the calls whose end was reported, once there are enough. Raises Quit if they do not come."""
    seen = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(10.0):
            async for event in client.events(recent=0):
                seen += isinstance(event, CallSettled)
                if seen >= 2:  # the plain call and the streamed one
                    return seen
    raise Quit(f"selftest: only {seen} of 2 events arrived", Exit.FAILED)


def _say(name: str, text: str) -> None:
    out(f"ok  {name:<22}  {text}")
