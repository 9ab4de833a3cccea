"""Session: one command's connection to the gateway, the same with and without a running server.

A running server is reached over its control socket. Otherwise its control surface is started inside this process on the
same home, under the same lock, and called in the same way.
"""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.client.launch import look
from gateway.client.request import terminal_name
from gateway.commands.base import HANDLES, HOME, HOST, PORT
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import ACCEPTED, confirm, now
from gateway.commands.output import words
from gateway.config import Config, is_home, load
from gateway.domain.errors import GatewayError, NotFound
from gateway.domain.history import ChangeSource
from gateway.domain.text import plain
from gateway.runfile import Endpoint

T = TypeVar("T")
Work = Callable[[ControlClient], Awaitable[T]]
Reach = Callable[..., AbstractAsyncContextManager[ControlClient]]

BUSY_WAIT_S = 5.0
"""Seconds that a command waits for a home that another process is using."""


NO_HOME = "no data in {home} yet; start with 'tollkeeper serve', or name the right folder with --home"
NO_SERVER = "no server is running for {home}; start one with 'tollkeeper serve'"


@asynccontextmanager
async def reach(
    config: Config, *, listen: bool = False, running: bool = False, create: bool = False, needs_data: bool = True
) -> AsyncIterator[ControlClient]:
    """Opens a client of the running server, or of one inside this process.

    ``listen`` opens /v1 in the latter case. ``running`` demands a running server. ``create`` makes a missing data
    folder; without ``needs_data`` an empty temporary one is used instead. Raises Quit when a demanded server or folder
    is missing, Unavailable when a server does not answer, and StoreBusy when the home stays locked by another process.
    """
    async with AsyncExitStack() as stack:
        if not (create or running or is_home(config.home)):
            if needs_data:
                raise Quit(NO_HOME.format(home=config.home), Exit.NOT_FOUND)
            config = msgspec.structs.replace(config, home=Path(stack.enter_context(TemporaryDirectory())))
        endpoint = await _endpoint(config, stack, listen=listen, running=running)
        yield await stack.enter_async_context(ControlClient(endpoint, source=_source()))


class CommandSession(msgspec.Struct, frozen=True, kw_only=True):
    """What the commands share; tests pass one with a client of their own."""

    reach: Reach = reach


def config() -> Config:
    """Returns the configuration of this command's gateway."""
    meta = click.get_current_context().meta
    return load(home=meta.get(HOME), host=meta.get(HOST), port=meta.get(PORT))


def run(
    work: Work[T], *, listen: bool = False, running: bool = False, create: bool = False, needs_data: bool = True
) -> T:
    """Do one piece of work with a client (see ``reach``)."""
    session = click.get_current_context().find_object(CommandSession) or CommandSession()
    where = config()

    async def main() -> T:
        async with session.reach(where, listen=listen, running=running, create=create, needs_data=needs_data) as client:
            client.confirm = _confirm
            await _name_owners(client)
            return await work(client)

    return asyncio.run(main())


async def _name_owners(client: ControlClient) -> None:
    """Print, once, whose the keys are that were typed for a search."""
    for handle in click.get_current_context().meta.pop(HANDLES, ()):
        try:
            words(f"{(await client.key_owner(handle)).text(now())}.")
        except NotFound as error:
            words(f"{error.message}.")


async def _confirm(reasons: Sequence[str]) -> bool:
    """Ask whether a key or token may work again. Raises Quit unless the answer is yes."""
    for reason in reasons:
        words(plain(reason, 400))
    context = click.get_current_context()
    confirm("Let it work again?", yes=bool(context.params.get("yes") or context.meta.get(ACCEPTED)))
    return True


def _source() -> ChangeSource:
    """Returns who makes the changes of this command: its name without arguments, and its terminal."""
    context = click.get_current_context(silent=True)
    command = context.command_path.partition(" ")[2] if context is not None else ""
    return ChangeSource(via="command", command=command, place=terminal_name())


async def _endpoint(config: Config, stack: AsyncExitStack, *, listen: bool, running: bool) -> Endpoint:
    """Look for a server, then start one; both again while another process holds the home."""
    deadline = asyncio.get_running_loop().time() + BUSY_WAIT_S
    while True:
        seen = await look(config)
        late = asyncio.get_running_loop().time() >= deadline
        if seen.endpoint is not None:
            return seen.endpoint
        if seen.silent is not None:
            if late:
                raise seen.silent
        elif running:
            raise Quit(NO_SERVER.format(home=config.home), Exit.UNREACHABLE)
        else:
            try:
                return await _inside(config, stack, listen=listen)
            except GatewayError as error:
                if error.code != "store_busy" or late:
                    raise
        await asyncio.sleep(0.1)


@contextmanager
def server_imports() -> Iterator[None]:
    """Import the server in this block: nothing is read or searched meanwhile that is not needed.

    aiohttp reads the certificates of the system twice when it is imported, for its client, which is not used here: so
    it finds none. That would be a fifth of the server's start, and 2 MiB of its memory. Searches for garbage, of which
    modules leave none, would be another twentieth.
    """
    if "gateway.server" in sys.modules:
        yield
        return
    name = "SSL_CERT_FILE"
    given, os.environ[name] = os.environ.get(name), os.devnull
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        del os.environ[name]
        if given is not None:
            os.environ[name] = given


async def _inside(config: Config, stack: AsyncExitStack, *, listen: bool) -> Endpoint:
    with server_imports():
        from gateway.server import embedded_server  # it loads everything; not needed while a server runs

    return await stack.enter_async_context(embedded_server(config, listen=listen))
