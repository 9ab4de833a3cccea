"""Tried: makes a test call with a token and shows how long it takes, then its receipt, or why it failed."""

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from gateway.domain.errors import GatewayError
from gateway.domain.views import TokenView
from tui.receipt import receipt
from tui.safe import safe, safe_lines
from tui.session import Session
from tui.tones import content, lines
from tui.trial import trial

TICK_S = 0.2


class Tried(Static):
    """One call at a time; ``key`` is empty if it is not known."""

    class Done(Message):
        """There is a receipt, or a reason."""

    def __init__(self, session: Session, token: TokenView, key: str) -> None:
        super().__init__(classes="said")
        self._session = session
        self._token = token
        self._key = key
        self._model = ""
        self._began: int | None = None

    def on_mount(self) -> None:
        self.set_interval(TICK_S, self._draw_waiting)

    def call(self, model: str) -> None:
        """Make the call, unless one is being made or the server is gone."""
        if not model:
            self.update(content(("this token sees no model: 'e' on the page changes its group", "bad")))
        elif self._began is None and self._session.link == "attached":
            self._model, self._began = model, self._session.now()
            self._draw_waiting()
            self.run_worker(self._call(), group="trial", exit_on_error=True)

    async def _call(self) -> None:
        session = self._session
        try:
            call = await trial(session, self._token, self._model, self._key)
        except GatewayError as error:
            self.update(self._failure(error))
        else:
            self.update(receipt(call, session.now(), session.glyphs, max(20, self.size.width)))
        finally:
            self._began = None
            self.post_message(self.Done())

    def _failure(self, error: GatewayError) -> Content:
        what = f"{self._session.glyphs.failed} the test call failed: {safe_lines(error.message)}"
        return lines(content((what, "bad")), content(("8 runs the doctor: it finds out why", "dim")))

    def _draw_waiting(self) -> None:
        if self._began is not None:
            passed = (self._session.now() - self._began) / 1000
            self.update(content((f"asking {safe(self._model, 60)} through the gateway ... {passed:.1f} s", "live")))
