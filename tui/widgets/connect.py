"""Connect: the card that shows how to use a token, as texts to paste, and makes a test call with it.

The key of a new token is on the card, this once. In the texts it is masked until ``v`` shows it, and it is copied in
full. The test call is a tiny streamed call through /v1, like a client's; its receipt is shown, or why it failed.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from gateway.client import connect_card
from gateway.client.app import AppTarget, Snippet
from gateway.client.apps import APPS
from gateway.client.connect_card import Shell
from gateway.client.model_choice import RecentCalls, best_model, choose_model, recent_calls
from gateway.client.test_call import PublicApi
from gateway.domain.errors import GatewayError
from gateway.domain.text import mask
from gateway.domain.views import CallView, ModelView, TokenView
from tui import glyphs
from tui.clipboard import copy_text
from tui.receipt import receipt
from tui.screens import DialogScreen
from tui.session import ConsoleSession
from tui.text import Part, content, key_hints, lines, link, safe, safe_lines
from tui.widgets.combobox import MAX_PICKER_OPTIONS
from tui.widgets.dialogs import Dialog, toast
from tui.widgets.form import Form, FormField, field_plan

APP_NAMES = tuple(APPS)
OWN_SHELL: Shell = "powershell" if os.name == "nt" else "sh"
APPS_KIND = "Apps"
TEXTS: Mapping[str, Callable[[str, str, str], str]] = {
    "Shell": lambda url, key, _: connect_card.environment(url, key, "sh"),
    "fish": lambda url, key, _: connect_card.environment(url, key, "fish"),
    "PowerShell": lambda url, key, _: connect_card.environment(url, key, "powershell"),
    "Python": lambda _url, _key, model: connect_card.python(model),
    "Node": lambda _url, _key, model: connect_card.node(model),
    "curl": lambda url, key, model: connect_card.curl(url, model, key),
}
"""Functions that return the text of a kind for a base URL, a key and a model. Apps have texts of their own."""
KINDS = (*TEXTS, APPS_KIND)


class Connect(DialogScreen[str]):
    """The card. Its result is why the last test call failed; empty if it did not."""

    DEFAULT_CSS = """
    Connect .text { height: auto; max-height: 14; background: $panel; padding: 0 1; margin: 1 0 0 0; }
    Connect .result, Connect .keys { height: auto; margin: 1 0 0 0; }
    Connect .inside { height: auto; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    """
    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q", "leave", "Close"),
        Binding("tab,right,l", "turn(1)", show=False, priority=True),
        Binding("shift+tab,left,h", "turn(-1)", show=False, priority=True),
        Binding("m", "model", show=False),
        Binding("y,c", "copy", show=False),
        Binding("k", "copy_key", show=False),
        Binding("a", "guide('next app')", show=False),
        Binding("A", "guide('previous app')", show=False),
        Binding("n", "guide('next part')", show=False),
        Binding("v", "guide('key')", show=False),
        Binding("t,enter", "try", show=False, priority=True),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up", "scroll(-1)", show=False),
    ]

    def __init__(self, session: ConsoleSession, token: TokenView, key: str = "", *, first: str = "") -> None:
        """``key`` is known only of a new or rotated token; ``first``: the model of a test call that is made at once."""
        self._session = session
        self._token = token
        self._key = key
        self._first = first
        self._texts = ConnectTexts(session, token, key, first)
        self._choices = Static(classes="chosen")
        self._choices.auto_links = False
        self._text = Static(classes="text")
        self._test = TokenTest(session, token, key)
        inside = VerticalScroll(self._choices, self._text, self._test, classes="inside", can_focus=False)
        keys = [(" t", " test call  "), ("y", " copy text  ")]
        keys += [("k", " copy key  "), ("v", " show it  ")] if key else []
        keys += [("m", " model  "), ("a", " app  "), ("tab", " kind  ")]
        hints = Static(key_hints(*keys, ("esc", " close")), classes="keys")
        # Above the scrolling part: a new key must be visible, however long the receipt below is.
        about_key = Static(_about_key(session, token, key), classes="key")
        super().__init__(Dialog(f"Connect with {token.name}", about_key, inside, hints, classes="big"))

    def on_mount(self) -> None:
        self.draw_text()
        self.run_worker(self._read_models(), exit_on_error=True)
        if self._first:
            self.action_try()

    def draw_text(self) -> None:
        texts, seen = self._texts, self._token.sees
        hint = "m for the next" if len(seen) <= MAX_PICKER_OPTIONS else "m searches"
        position = f"   {seen.index(texts.model) + 1} of {len(seen)}, {hint}" if seen else ""
        name = safe(texts.model) or "none: this token sees no model"
        rows = [content(("model  ", "dim"), (name, "bold"), (position, "dim")), Content("")]
        kinds: list[Part | str | Content] = []
        for number, kind in enumerate(KINDS):
            is_chosen = number == texts.kind
            tab = Content.styled(f" {kind} ", "reverse bold") if is_chosen else content((f" {kind} ", "dim"))
            kinds += [link(tab, "screen.kind", number), " "]
        rows.append(content(*kinds))
        if texts.is_of_app:
            rows += [Content(""), texts.app_names(), Content(""), texts.about_part()]
        self._choices.update(lines(*rows))
        text = texts.text()
        if self._key and not texts.shows_key:
            text = text.replace(self._key, mask(self._key))
        # many lines, because a settings file may name every model
        self._text.update(Content(safe_lines(text, lines=400)))

    def action_guide(self, step: str) -> None:
        """Show the next or previous program, or the next part of its texts, or show or mask the key."""
        texts = self._texts
        if step == "key":
            texts.shows_key = not texts.shows_key
        elif step == "next part":
            texts.part += 1
        else:
            if texts.is_of_app:  # otherwise the current program will be shown
                texts.app, texts.part = texts.app + (1 if step == "next app" else -1), 0
            texts.kind = KINDS.index(APPS_KIND)
        self.draw_text()

    def action_kind(self, number: int) -> None:
        self._texts.kind = number
        self.draw_text()

    def action_turn(self, by: int) -> None:
        self.action_kind((self._texts.kind + by) % len(KINDS))

    def action_model(self) -> None:
        """Choose the next model that the token sees; if there are many, ask for one."""
        seen, texts = list(self._token.sees), self._texts

        def use(model: str | None) -> None:
            texts.chosen_model = model or texts.chosen_model
            self.draw_text()

        if len(seen) > MAX_PICKER_OPTIONS:
            field = FormField(id="model", label="Model", value=texts.model, options=seen)
            self.app.push_screen(Form(field_plan("Model", field, "Use")), use)
        elif seen:
            use(seen[(seen.index(texts.model) + 1) % len(seen)])

    def action_copy(self) -> None:
        texts = self._texts
        name = APPS[texts.app_name].title if texts.is_of_app else KINDS[texts.kind]
        copy_text(self, texts.text(), f"Copied: {name}")

    def action_copy_key(self) -> None:
        if self._key:
            copy_text(self, self._key, "Key copied.")
        else:
            rotate = self._session.key("tokens.rotate")
            toast(self, f"The key was shown only once. {rotate} on the Tokens page issues a new one.", bad=True)

    def action_scroll(self, by: int) -> None:
        self.query_one(".inside").scroll_relative(y=by, animate=False)

    def action_leave(self) -> None:
        self.dismiss(self._test.failure)

    def action_try(self) -> None:
        self._test.call(self._texts.model)

    async def _read_models(self) -> None:
        """Fetch the models and the calls of the token, which some programs need for their texts."""
        with suppress(GatewayError):  # the texts are also valid for the chosen model alone
            client = self._session.client
            self._texts.models = await client.models(self._token.id)
            self._texts.calls = await recent_calls(client, self._token.id)
        self.draw_text()


def _about_key(session: ConsoleSession, token: TokenView, key: str) -> Content:
    if key:
        return lines(
            content((safe(key), "key")),
            content(("The key is shown only this once, and is not stored. ", "warn"), ("k copies it.", "")),
        )
    rotate = session.key("tokens.rotate")
    return content((f"{safe(token.hint)}   the key was shown when it was created; {rotate} issues a new one", "dim"))


class TokenTest(Static):
    """A test of a token, one call at a time. ``key`` is empty if it is not known."""

    def __init__(self, session: ConsoleSession, token: TokenView, key: str) -> None:
        super().__init__(classes="result")
        self._session = session
        self._token = token
        self._key = key
        self._model = ""
        self._began: int | None = None
        self.failure = ""
        """Why the last call failed; empty if it did not."""

    def on_mount(self) -> None:
        self.set_interval(0.2, self._draw_waiting)

    def call(self, model: str) -> None:
        """Make a call, unless one is running. Without a model or a server, show what to do."""
        self.failure = ""
        if not model:
            edit = self._session.key("entity.edit")
            self.update(content((f"this token sees no models: {edit} on the Tokens page changes its group", "bad")))
        elif self._session.link != "attached":
            start = self._session.key("app.start")
            self.update(content((f"the server is not running: close this, then {start} starts it", "bad")))
        elif self._began is None:
            self._model, self._began = model, self._session.now()
            self._draw_waiting()
            self.run_worker(self._call(), group="trial", exit_on_error=True)

    async def _call(self) -> None:
        session = self._session
        try:
            call = await make_test_call(session, self._token, self._model, self._key)
        except GatewayError as error:
            self.update(self._note_failure(error))
        else:
            self.update(receipt(call, session, max(20, self.size.width)))
        self._began = None
        # the cost is at the end of the receipt, which may be longer than the screen
        self.call_after_refresh(self.screen.query_one(".inside").scroll_end, animate=False)

    def _note_failure(self, error: GatewayError) -> Content:
        self.failure = safe_lines(self._session.advice(error.message))
        text = f"{glyphs.FAILED} the test call failed: {self.failure}"
        return lines(content((text, "bad")), content(("page 8, Doctor, finds out why", "dim")))

    def _draw_waiting(self) -> None:
        if self._began is not None:
            elapsed = (self._session.now() - self._began) / 1000
            self.update(content((f"calling {safe(self._model, 60)} through the gateway ... {elapsed:.1f} s", "live")))


async def make_test_call(session: ConsoleSession, token: TokenView, model: str, key: str = "") -> CallView:
    """Make a test call with the key, or a pass from the server. Returns the finished call. Raises GatewayError."""
    client = session.client
    call_id = await PublicApi(session.address, key or (await client.token_pass(token.id))["key"]).test_call(model)
    return await client.call(call_id)


class ConnectTexts:
    """The texts of the card: the chosen kind, program, part of the program's texts and model, and the text for them."""

    def __init__(self, session: ConsoleSession, token: TokenView, key: str, model: str = "") -> None:
        """``key``: the token's key, empty if it is not known; ``model``: the chosen one, empty for the default."""
        self._session = session
        self._token = token
        self._key = key
        self.shows_key = False
        self.models: Sequence[ModelView] = ()
        self.calls: RecentCalls = ((), ())
        self.chosen_model = model if model in token.sees else ""
        """The chosen model; empty: the default."""
        self.kind = 0
        self.app = 0
        """The number of the program. The first one follows the last one again."""
        self.part = 0
        """The number of the part of its texts. The first one follows the last one again."""

    @property
    def is_of_app(self) -> bool:
        """Returns whether the text is for a program."""
        return KINDS[self.kind] == APPS_KIND

    @property
    def app_name(self) -> str:
        return APP_NAMES[self.app % len(APP_NAMES)]

    @property
    def model(self) -> str:
        """Returns the chosen model, otherwise the best one for the program; empty if the token sees none."""
        if self.chosen_model or not self.is_of_app:
            return self.chosen_model or best_model(self._token.sees)
        return choose_model(self._token.sees, self.calls, APPS[self.app_name].family)[0]

    def text(self) -> str:
        """Returns the chosen text, with the key in full."""
        if self.is_of_app:
            return self._part()[1].lines(OWN_SHELL)
        return TEXTS[KINDS[self.kind]](self._session.address, self._key, self.model or "MODEL")

    def app_names(self) -> Content:
        names = [Content.styled(name, "reverse bold" if name == self.app_name else "dim") for name in APP_NAMES]
        return Content("  ").join(names)

    def about_part(self) -> Content:
        position, part = self._part()
        return content((APPS[self.app_name].title, "bold"), ("   ", ""), (position, "dim"), (part.place, ""))

    def _part(self) -> tuple[str, Snippet]:
        """Returns the chosen part, after a text that says which one it is, if there are several."""
        target = AppTarget.of(self._session.address, self.models, model=self.model or "MODEL", key=self._key)
        if not target.models:
            target = msgspec.structs.replace(target, models={target.model: None})
        parts = APPS[self.app_name].setup(target).guide
        number = self.part % len(parts)
        position = f"part {number + 1} of {len(parts)}, n for the next: " if len(parts) > 1 else ""
        return position, parts[number]
