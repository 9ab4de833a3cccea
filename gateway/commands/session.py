"""Session: the connection of a command to the gateway, which is the same with and without a running server.

A running server is reached through its control socket. Without one, the control surface is started in this process on
the same home, under the same lock, and used in the same way.
"""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.client.launch import BUSY_S, START_S, find_unless_silent
from gateway.client.request import terminal_name
from gateway.commands.base import HANDLES, HOME, HOST, PORT
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import confirm, now
from gateway.commands.output import notify
from gateway.config import Config, is_home, load
from gateway.domain.errors import GatewayError, NotFound
from gateway.domain.history import ChangeSource, Question
from gateway.domain.text import plain
from gateway.runfile import Endpoint

T = TypeVar("T")
Work = Callable[[ControlClient], Awaitable[T]]

WAITS_S = {"server_slow": BUSY_S, "store_busy": START_S}
"""How long a command waits for a silent server, and for a home that another process uses, such as a starting server."""

NO_SERVER = "no server is running for {home}; start one with 'tollkeeper serve'"


@asynccontextmanager
async def reach(
    config: Config, *, listen: bool = False, running: bool = False, create: bool = False, needs_data: bool = True
) -> AsyncIterator[ControlClient]:
    """Open a client of the running server, or of a server in this process.

    ``listen`` also opens /v1 in this process. ``running`` requires a running server. A missing data folder is created
    with ``create``, is an error if ``needs_data``, and is otherwise replaced by an empty temporary one. Waits some
    seconds for a server that does not answer, and while another process has the home locked. Raises Quit if a required
    server or folder is missing, Unavailable if a server does not answer, and StoreError if the home stays locked.
    """
    async with AsyncExitStack() as stack:
        if not (create or running or is_home(config.home)):
            if needs_data:
                advice = "start with 'tollkeeper serve', or name the right folder with --home"
                raise Quit(f"no data in {config.home} yet; {advice}", Exit.NOT_FOUND)
            config = msgspec.structs.replace(config, home=Path(stack.enter_context(TemporaryDirectory())))
        began, endpoint = asyncio.get_running_loop().time(), None
        while endpoint is None:
            try:
                endpoint = await _find_or_start(config, stack, listen=listen, running=running)
            except GatewayError as error:
                if asyncio.get_running_loop().time() >= began + WAITS_S.get(error.code, 0.0):
                    raise
                await asyncio.sleep(0.1)
        context = click.get_current_context(silent=True)
        command = context.command_path.partition(" ")[2] if context is not None else ""  # without its arguments
        yield ControlClient(endpoint, source=ChangeSource(via="command", command=command, place=terminal_name()))


def current_config() -> Config:
    """Returns the folders and address of the gateway that this command is about."""
    meta = click.get_current_context().meta
    return load(home=meta.get(HOME), host=meta.get(HOST), port=meta.get(PORT))


def run(work: Work[T], *, timeout_s: float | None = None, **options: bool) -> T:
    """Returns the result of ``work`` with a client; see ``reach`` for the options. Raises TimeoutError."""
    # tests pass a function of their own
    open_client: Callable[..., AbstractAsyncContextManager[ControlClient]] = click.get_current_context().obj or reach
    config = current_config()

    async def main() -> T:
        async with asyncio.timeout(timeout_s), open_client(config, **options) as client:
            client.confirm = _confirm
            await _print_key_owners(client)
            return await work(client)

    return asyncio.run(main())


async def _print_key_owners(client: ControlClient) -> None:
    """Print the owners of the keys that were typed in a search, once per command."""
    for handle in click.get_current_context().meta.pop(HANDLES, ()):
        try:
            notify(f"{(await client.key_owner(handle)).text(now())}.")
        except NotFound as error:
            notify(f"{error.message}.")


async def _confirm(question: Question) -> bool:
    """Ask what the server wants to be confirmed. Returns True, or raises Quit."""
    notify(*(plain(reason, 400) for reason in question.reasons))
    confirm(plain(question.text, 400))
    return True


async def _find_or_start(config: Config, stack: AsyncExitStack, *, listen: bool, running: bool) -> Endpoint:
    if (endpoint := await find_unless_silent(config)) is not None:
        return endpoint
    if running:
        raise Quit(NO_SERVER.format(home=config.home), Exit.UNREACHABLE)
    with server_imports():
        # late: a command needs the server's code only if no server is running
        from gateway.server import embedded_server

    return await stack.enter_async_context(embedded_server(config, listen=listen))


@contextmanager
def server_imports() -> Iterator[None]:
    """Speed up the import of the server in this block.

    On import, aiohttp loads the system's certificates twice, for its client, which is not used here. That takes 20% of
    the server's start and 2 MiB of memory, so aiohttp gets an empty file instead. Garbage collection, which takes
    another 5%, is off, because imports leave no garbage.
    """
    if "gateway.server" in sys.modules:
        yield
        return
    name = "SSL_CERT_FILE"
    previous, os.environ[name] = os.environ.get(name), os.devnull
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        del os.environ[name]
        if previous is not None:
            os.environ[name] = previous
