"""A gateway's control surface on a Unix socket and on TCP, and the owner's client of it."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from gateway.client.control import ControlClient
from gateway.control.app import control_app, control_runner
from gateway.core.engine import Engine
from gateway.runfile import Endpoint
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider

SECRET = "the-secret-of-the-runfile"


@dataclass(eq=False)
class Surface:
    """Where it listens; the runner is there to be closed early."""

    runner: web.AppRunner
    unix: Endpoint
    tcp: Endpoint


@asynccontextmanager
async def opened(engine: Engine) -> AsyncIterator[Surface]:
    """The control surface of an engine. Its socket lies in a folder of short name, as sockets demand."""
    runner = control_runner(control_app(engine, SECRET))
    await runner.setup()
    with tempfile.TemporaryDirectory(prefix="tk") as folder:
        path = Path(folder, "control.sock")
        try:
            await web.UnixSite(runner, str(path)).start()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port = next(int(address[1]) for address in runner.addresses if not isinstance(address, str))
            yield Surface(
                runner,
                Endpoint(instance=engine.instance, secret=SECRET, socket=str(path)),
                Endpoint(instance=engine.instance, secret=SECRET, port=port),
            )
        finally:
            await runner.cleanup()


@pytest.fixture
async def surface(gateway: Gateway, provider: Provider) -> AsyncIterator[Surface]:
    """The control surface of the gateway under test, whose upstream answers well."""
    async with opened(gateway.engine) as surface:
        yield surface


@pytest.fixture
def owner(surface: Surface) -> ControlClient:
    return ControlClient(surface.unix, timeout_s=10)
