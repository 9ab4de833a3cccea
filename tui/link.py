"""Link: how the console comes to a server: the one that runs on this home, or one that it starts."""

from typing import Protocol

import msgspec

from gateway.client import launch
from gateway.client.control import ControlClient
from gateway.config import Config


class Attached(msgspec.Struct, frozen=True):
    """A server that answered."""

    client: ControlClient
    started_here: bool


class Link(Protocol):
    """Finds and starts servers; tests have their own."""

    async def find(self) -> Attached | None:
        """The running server, if there is one."""
        ...

    async def ensure(self) -> Attached:
        """The running server, or a new one. Raises Unavailable."""
        ...


class Launcher:
    """The real one."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def find(self) -> Attached | None:
        endpoint = await launch.find(self._config)
        return None if endpoint is None else Attached(ControlClient(endpoint), started_here=False)

    async def ensure(self) -> Attached:
        server = await launch.ensure(self._config)
        return Attached(ControlClient(server.endpoint), started_here=server.started_here)
