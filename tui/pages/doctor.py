"""Doctor: why does my call fail? Checks in order, shown one by one as they finish."""

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from gateway.client.control import ControlClient
from gateway.client.doctor import CHECKS, examine
from gateway.domain.views import Step
from tui import format as fmt
from tui import glyphs
from tui.cli_commands import cli_command
from tui.pages.base import ConsolePage, Verb
from tui.session import ConsoleSession
from tui.text import TextCard, content, lines, safe
from tui.widgets.combobox import ChoiceInput, Combobox, Suggestion
from tui.widgets.dialogs import toast
from tui.widgets.text_block import TextBlock

LAST_USED = "the last one used; tab, then type to choose another"
FIRST_SEEN = "the first one visible"


def run(page: Any) -> None:
    """Run all checks again."""
    page.examine()


class DoctorPage(ConsolePage):
    """The page with two fields to choose from, and one line for each question. The text has the focus at first, because
    letters are keys there.
    """

    DEFAULT_CSS = """
    DoctorPage .asked { height: 1; margin: 0 1; }
    DoctorPage .asked Static { width: 10; color: $muted; }
    DoctorPage .asked Input { background: $panel; }
    DoctorPage ChoiceList:nocolor { max-height: 11; border: solid $border; }
    DoctorPage TextBlock { margin: 1 0 0 0; }
    """
    scopes = ("doctor",)
    verbs: ClassVar[Mapping[str, Verb]] = {"run": run}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "app.focus_next", show=False),
        Binding("up,k", "app.focus_previous", show=False),
        Binding("escape", "leave_field", show=False),
    ]

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(session, "doctor")
        self._steps: list[Step] = []
        self._began: int | None = None
        """When the checks started; None while none run."""
        self._took = 0
        self._asked: tuple[str, str] | None = None
        """The token and model of the current or last checks."""
        self._names: tuple[list[str], list[str]] = ([], [])

    def compose(self) -> ComposeResult:
        yield Static(content((" Finds the first thing that stops calls from working, and says how to fix it.", "dim")))
        with Horizontal(classes="asked"):
            yield Static("token")
            yield _field("token", LAST_USED)
        with Horizontal(classes="asked"):
            yield Static("model")
            yield _field("model", FIRST_SEEN)
        yield TextBlock()

    def take_focus(self) -> None:
        self.query_one(TextBlock).focus()

    def action_leave_field(self) -> None:
        """Return to the text, and to the keys of the page."""
        self.take_focus()

    def renew(self) -> None:
        board = self.session.board
        names = ([token.name for token in board.tokens], [model.name for model in board.models])
        if names != self._names:
            self._names = names
            for id_, suggested in zip(("token", "model"), names, strict=True):
                self.query_one(f"#{id_}", ChoiceInput).offer([Suggestion(name) for name in sorted(suggested)])
        self.draw()

    def draw(self) -> None:
        """Draw the questions, with the answers so far."""
        self.query_one(TextBlock).show(self.report)

    def report(self, width: int) -> Content:
        """Returns one line for each question; below a bad answer, what to do."""
        card = TextCard(width, label=26)
        marks = {
            "ok": (glyphs.OK, "ok"),
            "fail": (glyphs.FAILED, "bad"),
            "warning": (glyphs.WARNING, "warn"),
            "skipped": (glyphs.NOTHING, "dim"),
        }
        for number, name in enumerate(self._names_of_steps()):
            step = self._steps[number] if number < len(self._steps) else None
            if step is not None:
                mark, tone = marks[step.result]
                card.row(
                    safe(name, 26 - 2),
                    (f"{mark} ", tone),
                    (safe(self.session.advice(step.text), 1_000), "dim" if tone == "dim" else ""),
                )
                if step.fix:
                    card.row("", (f"{glyphs.RIGHT} {safe(self.session.advice(step.fix), 1_000)}", "key"))
            elif self._began is not None and number == len(self._steps):
                passed = (self.session.now() - self._began) / 1000
                card.row(safe(name, 26 - 2), (f"{glyphs.RUNNING} checking ... {passed:.1f} s", "live"))
            else:
                card.row(safe(name, 26 - 2), (glyphs.NOTHING, "dim"))
        return lines(
            card.content(), content(""), self._verdict(), content(""), content((f" $ {self.command()}", "dim"))
        )

    def _names_of_steps(self) -> list[str]:
        """Returns the questions, then the further checks that have finished so far."""
        names = [name for name, _ in CHECKS]
        names += [step.name for step in self._steps[len(names) :]]
        if self._began is not None and len(self._steps) >= len(CHECKS):
            names.append("channels and machine")
        return names

    def command(self) -> str:
        """Returns the equivalent command."""
        token, model = self.asked()
        return "tollkeeper " + cli_command("doctor", token=safe(token) or None, model=safe(model) or None)

    def asked(self) -> tuple[str, str]:
        """Returns the names of token and model; empty for one that the checks choose."""
        token, model = (self.query_one(f"#{id_}", ChoiceInput).value.strip() for id_ in ("token", "model"))
        return token, model

    def examine(self) -> None:
        """Run the checks in the background, unless they are running. Raises Unavailable."""
        if self._began is None:
            client = self.session.client
            self._steps, self._began = [], self.session.now()
            self.draw()
            self.run_worker(self._examine(client), group="doctor", exit_on_error=True)
        else:
            toast(self, "The checks are still running.")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Run the checks. Text typed next replaces the name."""
        self.do(run)
        event.input.select_all()

    def on_input_changed(self) -> None:
        """Discard the results, also those to come, if they are for other names."""
        if self.asked() != self._asked:
            self.workers.cancel_group(self, "doctor")
            self._steps, self._began = [], None
        self.draw()

    async def _examine(self, client: ControlClient) -> None:
        token, model = self._asked = self.asked()
        began, steps = self._began, self._steps
        try:
            async for step in examine(client, token=token, model=model, one_call=bool(token or model)):
                steps.append(step)
                self.draw()
        finally:
            if self._steps is steps:  # otherwise it was cancelled
                self._took, self._began = self.session.now() - (began or 0), None
                self.draw()

    def _verdict(self) -> Content:
        if self._began is not None:
            return content("")
        run = self.session.key("doctor.run")
        if not self._steps:
            return content(" ", (run, "key"), " runs the checks; the last one is a real call, and is charged")
        results = {step.result for step in self._steps}
        words, tone = "all checks passed: calls work", "ok"
        if "fail" in results:
            words, tone = f"fix this, then press {run} to check again", "bad"
        elif "warning" in results:
            words, tone = f"calls work; {glyphs.WARNING} is a separate problem", "ok"
        return content((f" {words}", tone), (f"   {fmt.seconds(self._took)}", "dim"))


def _field(id_: str, otherwise: str) -> Combobox:
    """Returns a field to choose a name in; ``otherwise`` says what is used while it is empty."""
    return Combobox(ChoiceInput("", (), only=True, many=False, placeholder=otherwise, id=id_))
