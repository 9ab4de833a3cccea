"""WhyScreen: shows what would happen to a token's call to a model, and which rules decide it. Nothing is sent or spent.

The answer is fetched again every two seconds, so that pauses count down and limits fill up on the screen.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from textual import on, work
from textual.binding import Binding
from textual.content import Content
from textual.widgets import Input

from gateway.client.decision import decision_rows
from gateway.domain.diagnosis import ASSUMED, RouteView, Why, request_like
from gateway.domain.errors import GatewayError
from gateway.domain.views import BudgetView, CallView
from tui import format as fmt, glyphs
from tui.budgets import budget_parts, by_unit
from tui.clipboard import copy_text
from tui.session import ConsoleSession
from tui.text import Part, TextCard, content, key_hints, lines, safe, safe_lines
from tui.widgets.choices import Picker
from tui.widgets.dialogs import notice
from tui.widgets.form import FormField, FormRow
from tui.widgets.text_block import TextDialog


class WhyScreen(TextDialog):
    """The dialog. Token and model can be changed, and the answer changes with them."""

    DEFAULT_CSS = "WhyScreen TextBlock { margin: 1 0 0 0; }"
    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("W", "dismiss", "Close"),
        Binding("down,j", "app.focus_next", show=False),
        Binding("up,k", "app.focus_previous", show=False),
        Binding("Y", "copy", show=False),
    ]

    def __init__(self, session: ConsoleSession, token: str, model: str, call: CallView | None = None) -> None:
        """``call``: a call whose API and size are assumed."""
        self._session = session
        board = session.board
        self._tokens = _including(token, sorted(entity.name for entity in board.tokens))
        self._models = _including(model, sorted(entity.name for entity in board.models))
        self._token, self._model = token or self._tokens[0], model or self._models[0]
        self._request, self._note = ({}, "") if call is None else request_like(call)
        self._answer: Why | None = None
        self._error = ""
        keys = (("left right", " or typing change  "), ("tab", " token, model, text  "), ("Y", " command  "))
        fields = (("token", self._tokens, self._token), ("model", self._models, self._model))
        rows = [
            FormRow(FormField(id=name, label=name, options=names, value=value, hint="type to search"), label_width=10)
            for name, names, value in fields
        ]
        super().__init__("What a call would get, and why", self.text, key_hints(*keys, ("esc", " closes")), *rows)

    def on_mount(self) -> None:
        self.fetch()
        self.set_interval(2.0, self.fetch)

    @work(group="why", exclusive=True)
    async def fetch(self) -> None:
        """Fetch the answer in the background. A newer request replaces an older one."""
        try:
            self._answer = await self._session.client.why(self._token, self._model, **self._request)
            self._error = ""
        except GatewayError as error:
            self._error = error.message
        self.draw()

    def text(self, width: int) -> Content:
        if self._error:
            return content((safe_lines(self._session.advice(self._error)), "bad"))
        if self._answer is None:
            return content(("checking ...", "dim"))
        text = why_text(self._answer, self._session, width)
        if self._note:
            card = TextCard(width, label=11)
            card.row("request", (self._note, "warn" if ASSUMED in self._note else "dim"))
            text = lines(card.content(), text)
        return lines(text, content(""), content((f" $ {safe(self.command(), 1_000)}", "dim")))

    def command(self) -> str:
        return "tollkeeper " + fmt.cli_command("why", self._token, self._model, **self._request)

    @on(Picker.Picked)
    @on(Input.Changed)
    def apply_inputs(self) -> None:
        """Fetch the answer for another token, once it is fully typed, or another model, which may be unknown."""
        token, model = (row.input.value.strip() for row in self.query(FormRow))
        if (token, model) != (self._token, self._model) and token in self._tokens and model:
            self._token, self._model = token, model
            self.fetch()

    def action_copy(self) -> None:
        copy_text(self, self.command(), f"Copied:\n{self.command()}")


async def explain_for_groups(page: Any, groups: Collection[str] | None, models: Sequence[str]) -> None:
    """Show the dialog for the last used token of these groups, or of all, and the first model that the token sees."""
    tokens = [token for token in page.session.board.tokens if groups is None or token.group in groups]
    if not tokens:
        raise notice(f"No token can use it. Page 2 ({page.session.key('entity.new')}) creates one.")
    if not models:
        raise notice("It has no models.")
    last = max(tokens, key=lambda token: token.last_used_ms or 0)
    model = next((name for name in models if name in last.sees), models[0])
    await page.ask(WhyScreen(page.session, last.name, model))


def _including(name: str, names: Sequence[str]) -> list[str]:
    """Returns the names and this one, if it is not among them: a model that no channel offers can be checked too."""
    if not name or name in names:
        return [*names] or ["none"]
    return [name, *names]


def why_text(answer: Why, session: ConsoleSession, width: int) -> Content:
    """Returns the whole answer, in lines of at most ``width`` cells."""
    card = TextCard(width, label=11)
    for label, parts in decision_rows(answer, _budget_lines):
        card.row(label, *((safe(session.advice(text), 1_000), tone) for text, tone in parts))
    card.line("")
    _add_routes(card, answer, session.now())
    return card.content()


def _budget_lines(budget: BudgetView) -> Iterator[list[Part]]:
    for each in by_unit([budget]):
        yield [(f"{each.window.value:<5} ", ""), *budget_parts(each, 8)]


def _add_routes(card: TextCard, answer: Why, now: int) -> None:
    label = "channels"
    for route in answer.routes:
        mark: Part = (glyphs.FAILED, "warn")
        if not route.passed:
            mark = (glyphs.ON, "ok")
        elif route.last_resort:
            mark = (glyphs.WARNING, "warn")
        card.row(label, mark, (f" {safe(route.channel, 40)}", "bold"), *_route_parts(route, answer.model, now))
        label = ""
    if not answer.routes:
        card.row(label, ("none: no channel of the group offers the model", "warn"))


def _route_parts(route: RouteView, model: str, now: int) -> Iterator[Part]:
    if route.chance:
        yield f"   first choice {fmt.percent(route.chance)}", "ok"
    if route.place:
        yield f"   {safe(route.place, 60)}", "dim"
    if route.state != "ok" and not route.passed:
        yield f"   {safe(fmt.channel_state(route.state, route.until_ms, now), 24)}", "warn"
    if route.in_flight:
        yield f"   {route.in_flight} running", "live"
    if route.model != model:
        yield f"   for {safe(route.model, 60)} instead", "dim"
    if route.upstream_model not in ("", route.model):
        yield f"   as {safe(route.upstream_model, 60)}", "dim"
    if route.conversion:
        yield f"   {safe(route.conversion)}", "dim"
    if route.passed:
        yield f"   {safe(route.passed, 1_000)}", "warn"
