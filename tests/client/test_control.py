import asyncio
import inspect
import subprocess
import sys

import pytest

from gateway.client.control import ControlClient
from gateway.control.app import ROUTES
from gateway.domain.errors import InternalError, NotFound, Unavailable
from gateway.domain.events import Heartbeat
from gateway.domain.units import Millis
from gateway.runfile import Endpoint
from tests.client.scripted import saying, talking
from tests.control.conftest import Surface
from tests.fakes.clock import skip


async def test_every_route_has_its_method() -> None:
    """A method a route, or one for each of its alternatives; other methods send several requests."""
    methods = [name for name, _ in inspect.getmembers(ControlClient, inspect.isfunction) if not name.startswith("_")]
    general = {"request", "send", "build_request"}
    combined = {"add_offers"}
    assert len(set(methods) - general - combined) == sum(path.count("|") + 1 for _, path, _ in ROUTES)


@pytest.mark.parametrize("ref", ["nobody", "a b", "ä/ö", "..%2f", "?"])
async def test_what_is_not_there_is_reported_by_its_name(owner: ControlClient, ref: str) -> None:
    for ask in (owner.token, owner.group, owner.channel):
        with pytest.raises(NotFound) as caught:
            await ask(ref)
        assert ref in caught.value.message


async def test_a_wrong_secret_is_reported(surface: Surface) -> None:
    stale = Endpoint(instance="x", secret="wrong", socket=surface.unix.socket)
    with pytest.raises(Exception, match="secret"):
        await ControlClient(stale).status()
    with pytest.raises(Exception, match="secret"):
        await anext(ControlClient(stale).events())


async def test_events_of_another_version_are_reported_as_such() -> None:
    async with saying(b'HTTP/1.1 200 OK\r\n\r\n{"type":"novelty"}\n') as place:
        with pytest.raises(InternalError) as caught:
            await anext(ControlClient(Endpoint(instance="x", secret="s", port=place.port)).events())
    assert caught.value.code == "version_mismatch"


@pytest.mark.hasty(1.0)
async def test_a_server_that_sends_nothing_any_more_is_reported() -> None:
    """The real one sends a heartbeat every 15 seconds, unless it is suspended."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 200 OK\r\n\r\n{"type":"beat","time_ms":1}\n')
        await reader.read()

    async with talking(talk) as place:
        events = ControlClient(Endpoint(instance="x", secret="s", port=place.port)).events()
        assert await anext(events) == Heartbeat(time_ms=Millis(1))
        second = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.1)
        await skip(45.0)
        assert not second.done()
        await skip(16.0)
        with pytest.raises(Unavailable, match="the server does not answer; it may be suspended, or hang"):
            await second


def test_the_client_of_the_control_surface_imports_nothing_slow() -> None:
    """What is slow to import has no place in a front end's client."""
    heavy = "{'aiohttp', 'textual', 'tinydb', 'click'}"
    program = f"import sys, gateway.client.control; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
