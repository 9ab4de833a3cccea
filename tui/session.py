"""ConsoleSession: what all parts of a console share: the server's client, the board, the clock and the saved state.

A ``ServerLauncher`` finds the server of this home, or starts one.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from textual.message import Message

from gateway.client import control, launch, request
from gateway.config import DEFAULT_HOST, DEFAULT_PORT, Config
from gateway.domain.errors import Unavailable
from gateway.domain.history import ChangeSource
from gateway.domain.units import Millis
from gateway.runfile import Endpoint
from tui import key_advice
from tui.board import Board
from tui.keymap import Keymap
from tui.preferences import Preferences
from tui.saved_state import SavedState
from tui.text import Part


class ConsoleSession:
    """The session, which is created once and passed to every page and widget."""

    def __init__(
        self,
        config: Config,
        now: Callable[[], Millis],
        state: SavedState,
        preferences: Preferences | None = None,
        *,
        in_ascii: bool = False,
    ) -> None:
        self.config = config
        self.preferences = preferences or Preferences()
        self.ascii = in_ascii
        self.now = now
        """The wall clock. The screen shows it, so tests pass their own."""
        self.state = state
        self.board = Board()
        self.link: Literal["connecting", "starting", "attached", "gone"] = "connecting"
        self.reason = ""
        self.temporary_filters: dict[str, str] = {}
        """Filters that are not saved, by page, such as a time span that was opened from a chart."""
        self._client: control.ControlClient | None = None

    @property
    def lasting_state(self) -> SavedState:
        """Returns the state to save, for the next console."""
        views = {
            page: msgspec.structs.replace(view, filter="")
            if view.filter and view.filter == self.temporary_filters.get(page)
            else view
            for page, view in self.state.views.items()
        }
        return msgspec.structs.replace(self.state, views=views)

    @property
    def client(self) -> control.ControlClient:
        """Returns the client of the attached server. Raises Unavailable if none is attached."""
        if self._client is None or self.link != "attached":
            msg = f"The server is not running. Press {self.key('app.start')} to start it."
            raise Unavailable(msg, code="server_gone")
        return self._client

    @property
    def source(self) -> ChangeSource | None:
        """Returns how this console is named in its changes; None before a server is attached."""
        return None if self._client is None else self._client.source

    @property
    def started_here(self) -> bool:
        """Returns whether this console started the server that it is attached to."""
        client, source = self._client, self.source
        return client is not None and source is not None and client.endpoint.starter == source.session

    @property
    def progress(self) -> str:
        """Returns what the console is doing until it has data to show; empty once it has, and if the server is gone."""
        if self.link == "starting":
            return "starting the server"
        is_waiting = self.link == "connecting" or (self.link == "attached" and self.board.status is None)
        return "connecting to the server" if is_waiting else ""

    @property
    def keymap(self) -> Keymap:
        return self.preferences.keymap

    def key(self, id_: str) -> str:
        return self.keymap.key(id_)

    def hint(self, text: str, tone: str = "") -> list[Part]:
        """Returns the parts of a text. ``{entity.new}`` in it becomes the key of that action, and ``{2}`` the key 2."""
        keys = re.compile(r"[a-z]+\.[a-z_]+")
        return [
            (keys.sub(lambda match: self.key(match[0]), part), "key") if at % 2 else (part, tone)
            for at, part in enumerate(re.split("[{}]", text))
        ]

    def advice(self, text: str) -> str:
        """Returns a message of the server with keys instead of the commands that it names."""
        return key_advice.key_advice(text, self.keymap)

    @property
    def program(self) -> str:
        """Returns the command line that finds this data folder."""
        return f"tollkeeper{self.config.home_option}"

    @property
    def restart_command(self) -> str:
        """Returns the command line that starts a server at the address of the previous one, which clients know."""
        url = urlsplit(self.address)
        host = f" --host {url.hostname}" if url.hostname and url.hostname != DEFAULT_HOST else ""
        port = f" --port {url.port}" if url.port and url.port != DEFAULT_PORT else ""
        return f"{self.program}{host}{port}"

    @property
    def address(self) -> str:
        """Returns the base URL of /v1; empty before the first snapshot."""
        return self.board.status.address if self.board.status else ""

    def attach(self, client: control.ControlClient) -> None:
        """Use the server that answered, which may be the same as before."""
        self._client = client
        self.link, self.reason = "attached", ""

    def mark_server_gone(self, reason: str) -> None:
        """Note that the server is gone. Its last state stays on the board, without its running calls."""
        self.link, self.reason = "gone", reason
        self.board.mark_server_gone()


@dataclass
class AttachedServer(Message):
    """A server that answered. The feed posts it, and its snapshot will follow."""

    client: control.ControlClient


class ServerLauncher:
    """Finds and starts servers. One that it starts listens at the address of the previous one, which clients know."""

    def __init__(self, config: Config) -> None:
        self._config = msgspec.structs.replace(config, starter=os.urandom(4).hex())
        self._client: control.ControlClient | None = None

    async def find(self) -> AttachedServer | None:
        """Returns the running server; None if none runs."""
        endpoint = await launch.find(self._config)
        return None if endpoint is None else self._attach(endpoint)

    async def ensure(self) -> AttachedServer:
        """Returns the running server, or a new one. Raises Unavailable."""
        return self._attach(await launch.ensure(self._config))

    def _attach(self, endpoint: Endpoint) -> AttachedServer:
        if port := urlsplit(endpoint.address).port:
            host = endpoint.host_option or self._config.host
            self._config = msgspec.structs.replace(self._config, host=host, port=port)
        if self._client is None:
            source = ChangeSource(via="console", session=self._config.starter, place=request.terminal_name())
            self._client = control.ControlClient(endpoint, source=source)
        self._client.endpoint = endpoint  # an open form holds the client, and saves at the new server
        return AttachedServer(self._client)
