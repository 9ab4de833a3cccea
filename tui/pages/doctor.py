"""Doctor page: finds out why calls fail, by checks in order, whose results are shown one by one."""

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from gateway.client.control import ControlClient
from gateway.client.doctor import CHECKS, Case, examine
from gateway.domain.views import Step
from tui import format as fmt, glyphs
from tui.pages.base import ConsolePage, Verb
from tui.session import ConsoleSession
from tui.text import TextCard, content, lines, safe
from tui.widgets.combobox import ChoiceInput, Suggestion
from tui.widgets.dialogs import toast
from tui.widgets.text_block import TextBlock

MARKS = {
    "ok": (glyphs.OK, "ok"),
    "fail": (glyphs.FAILED, "bad"),
    "warning": (glyphs.WARNING, "warn"),
    "skipped": (glyphs.NOTHING, "dim"),
}


class DoctorPage(ConsolePage):
    """The page with fields for token and model and the checks. The text has the focus first: letters are keys there."""

    DEFAULT_CSS = """
    DoctorPage .asked { height: 1; margin: 0 1; }
    DoctorPage .asked Static { width: 10; color: $muted; }
    DoctorPage .asked Input { background: $panel; }
    DoctorPage ChoiceList:nocolor { max-height: 11; border: solid $border; }
    DoctorPage TextBlock { margin: 1 0 0 0; }
    """
    scopes = ("doctor",)
    verbs: ClassVar[Mapping[str, Verb]] = {"run": lambda page: page.examine()}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "app.focus_next", show=False),
        Binding("up,k", "app.focus_previous", show=False),
        Binding("escape", "leave_field", show=False),
    ]

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(session)
        defaults = {"token": "the last one used; tab, then type to choose another", "model": "the first one visible"}
        self._inputs = [
            ChoiceInput("", (), only=True, many=False, placeholder=default, id=name)
            for name, default in defaults.items()
        ]
        self._steps: list[Step] = []
        self._began: int | None = None
        """When the checks started; None while none run."""
        self._duration = 0
        self._subject: tuple[str, str] | None = None
        """The token and the model of the current or last checks."""
        self._names: tuple[list[str], list[str]] = ([], [])

    def compose(self) -> ComposeResult:
        intro = content(("Finds the first thing that stops calls from working, and says how to fix it.", "dim"))
        yield Static(intro, classes="lead whole")
        for field in self._inputs:
            yield Horizontal(Static(field.id or ""), Vertical(field, field.choices), classes="asked")
        yield TextBlock()

    action_leave_field = ConsolePage.take_focus

    def renew(self) -> None:
        board = self.session.board
        names = ([token.name for token in board.tokens], [model.name for model in board.models])
        if names != self._names:
            self._names = names
            for field, suggested in zip(self._inputs, names, strict=True):
                field.offer([Suggestion(name) for name in sorted(suggested)])
        self.draw()

    def draw(self) -> None:
        self.query_one(TextBlock).show(self.report)

    def report(self, width: int) -> Content:
        card, steps = TextCard(width, label=26), self._steps
        names = [name for name, _ in CHECKS]  # those that always run, then the others that have finished so far
        names += [step.name for step in steps[len(names) :]]
        if self._began is not None and len(steps) >= len(CHECKS):
            names.append("channels and machine")
        for number, name in enumerate(names):
            label = safe(name, 26 - 2)
            if number < len(steps):
                step = steps[number]
                mark, tone = MARKS[step.result]
                text = safe(self.session.advice(step.text), 1_000)
                card.row(label, (f"{mark} ", tone), (text, "dim" if tone == "dim" else ""))
                if step.fix:
                    card.row("", (f"{glyphs.RIGHT} {safe(self.session.advice(step.fix), 1_000)}", "key"))
            elif self._began is not None and number == len(steps):
                elapsed = (self.session.now() - self._began) / 1000
                card.row(label, (f"{glyphs.RUNNING} checking ... {elapsed:.1f} s", "live"))
            else:
                card.row(label, (glyphs.NOTHING, "dim"))
        command = content((f" $ {safe(self.command(), 1_000)}", "dim"))
        return lines(card.content(), content(""), self._verdict(), content(""), command)

    def command(self) -> str:
        token, model = self.subject()
        return "tollkeeper " + fmt.cli_command("doctor", token=token or None, model=model or None)

    def subject(self) -> tuple[str, str]:
        """Returns the names of the token and the model to check; an empty one is chosen by the checks."""
        token, model = (field.value.strip() for field in self._inputs)
        return token, model

    def examine(self) -> None:
        """Run the checks in the background, unless they are running. Raises Unavailable if no server is attached."""
        if self._began is None:
            client = self.session.client
            self._steps, self._began = [], self.session.now()
            self.draw()
            self.run_worker(self._examine(client), group="doctor", exit_on_error=True)
        else:
            toast(self, "The checks are still running.")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Run the checks, and select the name, so that the next typed text replaces it."""
        self.action_act("run")
        event.input.select_all()

    def on_input_changed(self) -> None:
        """Stop the checks and discard their results if they are for other names."""
        if self.subject() != self._subject:
            self.workers.cancel_group(self, "doctor")
            self._steps, self._began = [], None
        self.draw()

    async def _examine(self, client: ControlClient) -> None:
        token, model = self._subject = self.subject()
        began, steps = self._began, self._steps
        try:
            async for step in examine(Case(client, token_ref=token, model=model), one_call=bool(token or model)):
                steps.append(step)
                if len(steps) <= 60:
                    self.draw()  # later ones are drawn every second, because drawing thousands takes long
        finally:
            if self._steps is steps:  # otherwise it was cancelled
                self._duration, self._began = self.session.now() - (began or 0), None
        self.draw()  # not if the page closes: then nothing is left to draw on

    def _verdict(self) -> Content:
        if self._began is not None:
            return content("")
        run = self.session.key("doctor.run")
        if not self._steps:
            return content(
                *self.session.hint(" {doctor.run} runs the checks; the last one is a real call, and is charged")
            )
        results = {step.result for step in self._steps}
        verdict, tone = "all checks passed: calls work", "ok"
        if "fail" in results:
            verdict, tone = f"fix this, then press {run} to check again", "bad"
        elif "warning" in results:
            verdict, tone = f"calls work; {glyphs.WARNING} is a separate problem", "ok"
        return content((f" {verdict}", tone), (f"   {fmt.duration(self._duration)}", "dim"))
