"""Session: what all parts of one console share: the server's client, the board, the clock, and what is remembered."""

from collections.abc import Callable
from typing import Literal

from gateway.client.control import ControlClient
from gateway.config import Config
from gateway.domain.errors import Unavailable
from gateway.domain.units import Millis
from tui.board import Board
from tui.glyphs import Glyphs
from tui.state import Remembered

Linked = Literal["starting", "attached", "gone"]


class Session:
    """Built once and passed to every page and widget."""

    def __init__(self, config: Config, glyphs: Glyphs, now: Callable[[], Millis], remembered: Remembered) -> None:
        self.config = config
        self.glyphs = glyphs
        self.now = now
        """The wall clock; part of the screen, so tests give their own."""
        self.remembered = remembered
        self.board = Board()
        self.link: Linked = "starting"
        self.reason = ""
        """Why the server is gone."""
        self.started_here = False
        """Whether this console started the server it is attached to."""
        self._client: ControlClient | None = None

    @property
    def client(self) -> ControlClient:
        """The attached server. Raises Unavailable while there is none."""
        if self._client is None or self.link != "attached":
            raise Unavailable("the server is gone; r starts it again", code="server_gone")
        return self._client

    @property
    def address(self) -> str:
        """Base URL of /v1; empty before the first snapshot."""
        return self.board.status.address if self.board.status else ""

    def attach(self, client: ControlClient, *, started_here: bool) -> None:
        """A server answered."""
        self._client = client
        self.started_here = self.started_here or started_here
        self.link, self.reason = "attached", ""

    def lose(self, reason: str) -> None:
        """The server is gone; what it said last stays on the board."""
        self.link, self.reason = "gone", reason
