"""App guide: what each known program needs to use a token, one part at a time, as the connect card shows it.

A known key is masked in the texts until the user shows it.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from textual.content import Content

from gateway.client.app import AppTarget, Snippet
from gateway.client.apps import APPS
from gateway.client.connect_card import Shell
from gateway.client.model_choice import RecentCalls, best_model, choose_model
from gateway.domain.errors import GatewayError
from gateway.domain.text import mask
from gateway.domain.views import ModelView, TokenView
from tui.session import ConsoleSession
from tui.text import Part, content, safe

APP_NAMES = tuple(APPS)
OWN_SHELL: Shell = "powershell" if os.name == "nt" else "sh"


class AppGuide:
    """The state of the guide: the chosen program, the chosen part of its texts, and the model in them."""

    def __init__(self, session: ConsoleSession, token: TokenView, key: str, model: str = "") -> None:
        """``key`` is empty if unknown; ``model`` is the chosen one."""
        self._session = session
        self._token = token
        self._key = key
        self._key_shown = False
        self._models: Sequence[ModelView] = ()
        self._calls = RecentCalls()
        self.chosen_model = model if model in token.sees else ""
        """The chosen model; empty: the usual one."""
        self.shown = False
        """Whether the card is about a program."""
        self._app = 0
        self._part = 0

    async def read_models(self) -> None:
        """Fetch the models that the token sees, with their contexts, and the calls it made: some programs need both."""
        with suppress(GatewayError):  # the texts are valid for the chosen model alone
            client = self._session.client
            self._models = await client.models(self._token.id)
            self._calls = await RecentCalls.fetch(client, self._token.id)

    @property
    def name_now(self) -> str:
        """Returns the chosen program."""
        return APP_NAMES[self._app]

    @property
    def model(self) -> str:
        """Returns the chosen model, or the program's first choice; empty if the token sees none."""
        if self.chosen_model or not self.shown:
            return self.chosen_model or best_model(self._token.sees)
        return choose_model(self._token.sees, self._calls, APPS[self.name_now].family).model

    @property
    def model_text(self) -> str:
        """Returns the model as the texts name it."""
        return safe(self.model, 200) or "MODEL"

    def text(self) -> str:
        """Returns the chosen part, to be copied, with the key in full."""
        return self._parts()[self._part].lines(OWN_SHELL)

    def masked(self, text: str) -> str:
        """Returns a text as it may be shown: with the key masked, unless the user has shown it."""
        return text if self._key_shown or not self._key else text.replace(self._key, mask(self._key))

    def turn(self, what: str) -> None:
        """Go to the ``next`` or ``previous`` program or the next ``part`` of one, or show or mask the ``key``."""
        if what == "key":
            self._key_shown = not self._key_shown
        elif what == "part":
            self._part = (self._part + 1) % len(self._parts())
        elif self.shown:  # the first time, the current program is shown
            self._app, self._part = (self._app + (1 if what == "next" else -1)) % len(APP_NAMES), 0

    def names(self) -> Content:
        """Returns the names of all programs."""
        names = [Content.styled(name, "reverse bold" if name == self.name_now else "dim") for name in APP_NAMES]
        return Content("  ").join(names)

    def about_part(self) -> Content:
        """Returns where the chosen part goes."""
        parts = self._parts()
        title: list[Part] = [(APPS[self.name_now].title, "bold"), ("   ", "")]
        if len(parts) > 1:
            title.append((f"part {self._part + 1} of {len(parts)}, n for the next: ", "dim"))
        return content(*title, (parts[self._part].where, ""))

    def _parts(self) -> Sequence[Snippet]:
        target = AppTarget.of(self._session.address, self._models, model=self.model_text, key=self._key)
        if not target.models:
            target = msgspec.structs.replace(target, models={target.model: None})
        return APPS[self.name_now].guide(target)
