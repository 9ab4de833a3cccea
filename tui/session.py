"""Session: what all parts of one console share: the server's client, the board, the clock, saved state; and the Link.

A Link finds the server that runs on this home, or starts one.
"""

import os
from collections.abc import Callable
from typing import Literal, Protocol
from urllib.parse import urlsplit

import msgspec

from gateway.client import control, launch, request
from gateway.config import DEFAULT_HOST, DEFAULT_PORT, Config
from gateway.domain.errors import Unavailable
from gateway.domain.history import ChangeSource
from gateway.domain.units import Millis
from gateway.runfile import Endpoint
from tui import key_advice
from tui.board import Board
from tui.glyphs import Glyphs
from tui.keymap import Keymap
from tui.preferences import Preferences
from tui.saved_state import SavedState

LinkState = Literal["connecting", "starting", "attached", "gone"]


class ConsoleSession:
    """Built once and passed to every page and widget."""

    def __init__(
        self,
        config: Config,
        glyphs: Glyphs,
        now: Callable[[], Millis],
        state: SavedState,
        preferences: Preferences | None = None,
    ) -> None:
        self.config = config
        self.preferences = preferences or Preferences()
        """The owner's own keys and themes."""
        self.glyphs = msgspec.structs.replace(glyphs)
        """The marks of this console; see ``Glyphs``."""
        self.now = now
        """The wall clock; part of the screen, so tests give their own."""
        self.state = state
        self.board = Board()
        self.link: LinkState = "connecting"
        self.reason = ""
        """Why the server is gone."""
        self.started_here = False
        """Whether this console started the server it is attached to."""
        self.passing_filters: dict[str, str] = {}
        """Filters by page that last as long as this console: a span of time that was opened from a chart."""
        self._client: control.ControlClient | None = None

    @property
    def lasting_state(self) -> SavedState:
        """The state as the next console finds it."""
        views = {
            page: msgspec.structs.replace(view, filter="")
            if view.filter and view.filter == self.passing_filters.get(page)
            else view
            for page, view in self.state.views.items()
        }
        return msgspec.structs.replace(self.state, views=views)

    @property
    def client(self) -> control.ControlClient:
        """The attached server. Raises Unavailable while there is none."""
        if self._client is None or self.link != "attached":
            raise Unavailable(
                f"The server is not running. Press {self.key('app.start')} to start it.", code="server_gone"
            )
        return self._client

    @property
    def progress(self) -> str:
        """What the console is doing before it has data to show. Empty once it has data, and if the server is gone."""
        if self.link == "starting":
            return "starting the server"
        waiting = self.link == "connecting" or (self.link == "attached" and self.board.status is None)
        return "connecting to the server" if waiting else ""

    @property
    def keymap(self) -> Keymap:
        """The keys of all actions."""
        return self.preferences.keymap

    def key(self, id_: str) -> str:
        """The key of an action, as sentences name it."""
        return self.keymap.key(id_)

    def advice(self, text: str) -> str:
        """The text with keys instead of the commands that it advises."""
        return key_advice.key_advice(text, self.keymap)

    @property
    def program(self) -> str:
        """The command line that finds this data folder."""
        return f"tollkeeper{self.config.home_option}"

    @property
    def restart_command(self) -> str:
        """The command line that starts a server here where the last one was: clients know that address."""
        last = urlsplit(self.address)
        host = f" --host {last.hostname}" if last.hostname and last.hostname != DEFAULT_HOST else ""
        port = f" --port {last.port}" if last.port and last.port != DEFAULT_PORT else ""
        return f"{self.program}{host}{port}"

    @property
    def address(self) -> str:
        """Base URL of /v1; empty before the first snapshot."""
        return self.board.status.address if self.board.status else ""

    def attach(self, client: control.ControlClient, *, started_here: bool) -> None:
        """A server answered."""
        self._client = client
        self.started_here = self.started_here or started_here
        self.link, self.reason = "attached", ""

    def lose(self, reason: str) -> None:
        """The server is gone; its last state stays on the board, without what ran there."""
        self.link, self.reason = "gone", reason
        self.board.lose()


class AttachedServer(msgspec.Struct, frozen=True):
    """A server that answered."""

    client: control.ControlClient
    started_here: bool


class ServerLink(Protocol):
    """Finds and starts servers; tests have their own."""

    async def find(self) -> AttachedServer | None:
        """The running server, if there is one."""
        ...

    async def ensure(self) -> AttachedServer:
        """The running server, or a new one. Raises Unavailable."""
        ...


class ServerLauncher:
    """The real one. A server that it starts after another one listens where that one did: clients know that address."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._session = os.urandom(4).hex()

    async def find(self) -> AttachedServer | None:
        endpoint = await launch.find(self._config)
        return None if endpoint is None else self._attached(endpoint, started_here=False)

    async def ensure(self) -> AttachedServer:
        server = await launch.ensure(self._config)
        return self._attached(server.endpoint, started_here=server.started_here)

    def _attached(self, endpoint: Endpoint, *, started_here: bool) -> AttachedServer:
        if port := urlsplit(endpoint.address).port:
            host = endpoint.host_option or self._config.host
            self._config = msgspec.structs.replace(self._config, host=host, port=port)
        source = ChangeSource(via="console", session=self._session, place=request.terminal_name())
        return AttachedServer(control.ControlClient(endpoint, source=source), started_here=started_here)
