"""App guide: what each known program needs to use a token, one part at a time.

It is the part of the connect card with keys of its own: programs and their parts are turned with them, and a key that
the card knows is masked until `v` shows it.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from gateway.client.app import AppTarget, Snippet
from gateway.client.apps import APPS
from gateway.client.connect_card import Shell
from gateway.client.model_choice import CallsBefore, best_model, choose_model
from gateway.domain.errors import GatewayError
from gateway.domain.text import mask
from gateway.domain.views import ModelView, TokenView
from tui.session import ConsoleSession
from tui.text import Part, content, safe

PLACEHOLDER_MODEL = "MODEL"
APP_NAMES = tuple(APPS)
OWN_SHELL: Shell = "powershell" if os.name == "nt" else "sh"


class AppGuide(Vertical, can_focus=True):
    """The names of all programs and where the chosen part goes; its text is shown by the card."""

    DEFAULT_CSS = """
    AppGuide { height: auto; }
    AppGuide .apps, AppGuide .where { height: auto; margin: 1 0 0 0; }
    """
    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("a", "app(1)", show=False),
        Binding("A", "app(-1)", show=False),
        Binding("n", "part", show=False),
        Binding("v", "show_key", show=False),
    ]

    class Changed(Message):
        """Another text is to be shown; ``chosen``: because a program was chosen."""

        def __init__(self, *, chosen: bool = False) -> None:
            super().__init__()
            self.chosen = chosen

    def __init__(self, session: ConsoleSession, token: TokenView, key: str, model: str = "") -> None:
        """``key`` is empty if it is not known; ``model`` is the chosen one."""
        super().__init__()
        self._session = session
        self._token = token
        self._key = key
        self._key_shown = False
        self._models: Sequence[ModelView] = ()
        self._calls = CallsBefore()
        self.chosen_model = model if model in token.sees else ""
        """Empty: the usual one."""
        self.shown = False
        """Whether the card is about a program."""
        self._app = 0
        self._part = 0

    def compose(self) -> ComposeResult:
        yield Static(classes="apps")
        yield Static(classes="where")

    async def on_mount(self) -> None:
        self.focus()
        self.run_worker(self._read_models(), exit_on_error=True)

    async def _read_models(self) -> None:
        """What the token sees, with each model's context: some programs want to know it; and what it called."""
        with suppress(GatewayError):  # the texts are right for the chosen model alone
            client = self._session.client
            self._models = await client.models(self._token.id)
            self._calls = await CallsBefore.of(client, self._token.id)
            self.post_message(self.Changed())

    def draw(self) -> None:
        """Show the programs or not."""
        apps, where = self.query_one(".apps", Static), self.query_one(".where", Static)
        apps.display = where.display = self.shown
        if self.shown:
            names = [Content.styled(name, "reverse bold" if name == self.name_now else "dim") for name in APP_NAMES]
            apps.update(Content("  ").join(names))
            where.update(self._about_part())

    @property
    def name_now(self) -> str:
        """The chosen program."""
        return APP_NAMES[self._app]

    @property
    def model(self) -> str:
        """The chosen model, or the one that the program begins with; empty if the token sees none."""
        if self.chosen_model or not self.shown:
            return self.chosen_model or best_model(self._token.sees)
        return choose_model(self._token.sees, self._calls, APPS[self.name_now].family).model

    @property
    def model_text(self) -> str:
        """The model as it is in the texts."""
        return safe(self.model, 200) or PLACEHOLDER_MODEL

    def text(self) -> str:
        """The chosen part, to be copied, with the key in full."""
        return self._parts()[self._part].lines(OWN_SHELL)

    def masked(self, text: str) -> str:
        """A text as it may be shown."""
        return text if self._key_shown or not self._key else text.replace(self._key, mask(self._key))

    def action_app(self, by: int) -> None:
        """The next program; the first time, the one that is chosen."""
        if self.shown:
            self._app, self._part = (self._app + by) % len(APP_NAMES), 0
        self.post_message(self.Changed(chosen=True))

    def action_part(self) -> None:
        """The next part of what the program needs."""
        self._part = (self._part + 1) % len(self._parts())
        self.post_message(self.Changed())

    def action_show_key(self) -> None:
        """Show the key in the texts, or mask it again."""
        self._key_shown = not self._key_shown
        self.post_message(self.Changed())

    def _parts(self) -> Sequence[Snippet]:
        target = AppTarget.of(self._session.address, self._models, model=self.model_text, key=self._key)
        if not target.models:
            target = msgspec.structs.replace(target, models={target.model: None})
        return APPS[self.name_now].guide(target)

    def _about_part(self) -> Content:
        parts = self._parts()
        title: list[Part] = [(APPS[self.name_now].title, "bold"), ("   ", "")]
        if len(parts) > 1:
            title.append((f"part {self._part + 1} of {len(parts)}, n for the next: ", "dim"))
        return content(*title, (parts[self._part].where, ""))
