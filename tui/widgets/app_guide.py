"""AppGuide: what each known program needs to use a token, as the card of ``connect`` shows it, one part at a time.

The token's key, if it is known, is masked in the shown texts until the user asks to see it.
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
    """The chosen program, the chosen part of its texts, and the model in them."""

    def __init__(self, session: ConsoleSession, token: TokenView, key: str, model: str = "") -> None:
        """``key``: the token's key, empty if it is not known; ``model``: the chosen one, empty for the default."""
        self._session = session
        self._token = token
        self._key = key
        self._key_shown = False
        self._models: Sequence[ModelView] = ()
        self._calls = RecentCalls()
        self.chosen_model = model if model in token.sees else ""
        """The chosen model; empty: the default."""
        self.shown = False
        """Whether the card shows the texts of a program now."""
        self._app = 0
        self._part = 0

    async def read_models(self) -> None:
        """Fetch the models and the calls of the token, which some programs need for their texts."""
        with suppress(GatewayError):  # the texts are also valid for the chosen model alone
            client = self._session.client
            self._models = await client.models(self._token.id)
            self._calls = await RecentCalls.fetch(client, self._token.id)

    @property
    def app_name(self) -> str:
        return APP_NAMES[self._app]

    @property
    def model(self) -> str:
        """Returns the chosen model, otherwise the best one for the program; empty if the token sees none."""
        if self.chosen_model or not self.shown:
            return self.chosen_model or best_model(self._token.sees)
        return choose_model(self._token.sees, self._calls, APPS[self.app_name].family).model

    @property
    def model_text(self) -> str:
        return safe(self.model, 200) or "MODEL"

    def text(self) -> str:
        """Returns the text of the chosen part, with the key in full."""
        return self._parts()[self._part].lines(OWN_SHELL)

    def masked(self, text: str) -> str:
        """Returns a text with the key masked, unless the user asked to see it."""
        return text if self._key_shown or not self._key else text.replace(self._key, mask(self._key))

    def toggle_key(self) -> None:
        self._key_shown = not self._key_shown

    def next_part(self) -> None:
        self._part = (self._part + 1) % len(self._parts())

    def step_app(self, by: int) -> None:
        """Go to another program, if one is shown already; otherwise the current one will be."""
        if self.shown:
            self._app, self._part = (self._app + by) % len(APP_NAMES), 0

    def names(self) -> Content:
        names = [Content.styled(name, "reverse bold" if name == self.app_name else "dim") for name in APP_NAMES]
        return Content("  ").join(names)

    def about_part(self) -> Content:
        """Returns the title of the program, and where the chosen part of its texts goes."""
        parts = self._parts()
        title: list[Part] = [(APPS[self.app_name].title, "bold"), ("   ", "")]
        if len(parts) > 1:
            title.append((f"part {self._part + 1} of {len(parts)}, n for the next: ", "dim"))
        return content(*title, (parts[self._part].where, ""))

    def _parts(self) -> Sequence[Snippet]:
        target = AppTarget.of(self._session.address, self._models, model=self.model_text, key=self._key)
        if not target.models:
            target = msgspec.structs.replace(target, models={target.model: None})
        return APPS[self.app_name].guide(target)
