"""Usage: cost, calls, tokens and latency over time, who used most, and how long budgets last at this pace."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from gateway.domain.errors import GatewayError
from gateway.domain.units import Millis
from gateway.domain.views import BudgetView, Summary, SumRow
from tui import format as fmt
from tui.actions import bindings
from tui.alerts import used_share
from tui.budgets import budget_line, budget_tone, by_unit, forecast
from tui.pages.base import ConsolePage, Verb
from tui.pages.usage_chart import MEASURES, chart, legend, ranking, side_by_side, steps_per_cell
from tui.session import ConsoleSession
from tui.text import Part, cell, content, lines, safe
from tui.trends import Trends, days, hours, trends
from tui.widgets.text_block import TextBlock

PERIODS: Mapping[str, tuple[str, int]] = {
    "30 days": ("day", 30),
    "24 hours": ("hour", 24),
    "7 days": ("day", 7),
    "90 days": ("day", 90),
    "365 days": ("day", 365),
}
"""Step and how many of them."""

DIMENSIONS = ("model", "token", "channel", "group", "app", "api")
RANKED = ("token", "model", "channel", "app")

REFRESH_MS = 10_000
"""Milliseconds between fetches; only new calls trigger one."""

LEGEND = 34
SIDE_BY_SIDE = 96
"""Width in cells from which the legend is beside the chart."""

GAUGE = 14


class UsageSums(msgspec.Struct, frozen=True):
    """The server's sums for one period and dimension."""

    trends: Trends
    total: SumRow
    rankings: Mapping[str, Sequence[SumRow]]


def next_option(choice: str, options: Sequence[str]) -> Verb:
    """An action that switches to the next option."""

    def verb(page: Any) -> None:
        choices = page.session.state.view("usage").choices
        at = options.index(page.choice(choice, options))
        choices[choice] = options[(at + 1) % len(options)]
        page.renew()

    return verb


class UsagePage(ConsolePage):
    """A chart, rankings, budgets."""

    DEFAULT_CSS = "UsagePage .lead { height: 1; }"
    scopes = ("usage",)
    verbs: ClassVar[Mapping[str, Verb]] = {
        "period": next_option("period", list(PERIODS)),
        "value": next_option("value", list(MEASURES)),
        "by": next_option("by", DIMENSIONS),
    }
    BINDINGS = bindings(*scopes, verbs=frozenset(verbs))

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(session, "usage")
        self._found: UsageSums | None = None
        self._asked: tuple[str, str, int, int] | None = None
        """Period, dimension, time and number of calls of the last fetch."""

    def compose(self) -> ComposeResult:
        yield Static(classes="lead")
        yield TextBlock()

    def take_focus(self) -> None:
        self.query_one(TextBlock).focus()

    def choice(self, name: str, options: Sequence[str]) -> str:
        """The chosen option; the first one if that is no longer valid."""
        chosen = self.session.state.view("usage").choices.get(name, "")
        return chosen if chosen in options else options[0]

    def renew(self) -> None:
        if self.session.link == "attached" and self._due():
            self.run_worker(self._ask(), group="usage", exclusive=True, exit_on_error=True)
        self.query_one(".lead", Static).update(self.lead())
        self.query_one(TextBlock).show(self.draw)

    def lead(self) -> Content:
        """What is shown, and the sums of it."""
        dot = f" {self.session.glyphs.dot} "
        parts: list[Part | str] = []
        for name, options, key in (
            ("period", list(PERIODS), "p"),
            ("value", list(MEASURES), "v"),
            ("by", DIMENSIONS, "b"),
        ):
            parts += [(f" {key} ", "key"), (f"{name} ", "dim"), (f"{self.choice(name, options)}  ", "bold")]
        if (found := self._found) is not None:
            total = found.total
            tokens = fmt.short_count(total.input_tokens + total.output_tokens)
            parts.append(
                dot.join((f" {fmt.dollar_amount(total.cost_nanos)}", f"{tokens} tok", fmt.counted(total.calls, "call")))
            )
        return content(*parts)

    def draw(self, width: int, height: int) -> Content:
        """The whole page, at this size."""
        found, glyphs = self._found, self.session.glyphs
        if found is None:
            return content((" loading ...", "dim"))
        if not found.total.calls:
            return lines(
                content(""),
                content((" No calls in this period.", "bold")),
                content(" p changes it; 2, c shows how to connect a client"),
            )
        value = MEASURES[self.choice("value", list(MEASURES))]
        wide = width >= SIDE_BY_SIDE
        room = width - LEGEND - 2 if wide else width
        tall = max(6, min(16, height // 2 if wide else height // 2 - 2))
        rows = [content((f" {value.name} {self._step(found, room)}", "bold"))]
        drawn = chart(found.trends, value, room, tall, glyphs)
        named = legend(found.trends, value, LEGEND, max(3, tall - 2) if wide else 4, glyphs)
        rows += side_by_side(drawn, named, room + 2) if wide else [*drawn, *(content("  ", line) for line in named)]
        rows.append(content(""))
        rows += self._rankings(found, width)
        return lines(*rows, content(""), *self._budgets())

    def _step(self, found: UsageSums, width: int) -> str:
        """What one bar stands for."""
        step, chunk = PERIODS[self.choice("period", list(PERIODS))][0], steps_per_cell(found.trends, width)
        return f"per {chunk} {step}s" if chunk > 1 else "per hour" if step == "hour" else "per day"

    def _rankings(self, found: UsageSums, width: int) -> list[Content]:
        value = MEASURES[self.choice("value", list(MEASURES))]
        across = 4 if width >= 180 else 2 if width >= 76 else 1
        each = width // across
        blocks = [ranking(by, found.rankings[by], value, each - 1, self.session.glyphs) for by in RANKED]
        rows: list[Content] = []
        for at in range(0, len(blocks), across):
            row = blocks[at]
            for number, block in enumerate(blocks[at + 1 : at + across], 1):
                row = side_by_side(row, block, each * number)
            rows += [*row, content("")]
        return rows[:-1]

    def _budgets(self) -> list[Content]:
        now, glyphs = self.session.now(), self.session.glyphs
        rows = []
        for name, since, budget in self._all_budgets():
            part = used_share(budget)
            text = forecast(budget, now, since)
            head = f"   {cell(safe(name), 20)} {budget.window.value:<6} "
            rows.append(
                content(
                    head,
                    (budget_line(budget, GAUGE, glyphs), budget_tone(part)),
                    (f"   {text}", budget_tone(part) or "dim"),
                )
            )
        title = content((" budgets", "bold"), ("" if rows else "   none; e on pages 2, 3 and 6 adds them", "dim"))
        return [title, *rows]

    def _all_budgets(self) -> list[tuple[str, Millis, BudgetView]]:
        board = self.session.board
        now = self.session.now()
        found = [("account", now, budget) for budget in by_unit(board.account.budgets if board.account else ())]
        found += [(f"group {g.name}", g.created_ms, budget) for g in board.groups for budget in by_unit(g.budgets)]
        found += [(f"token {t.name}", t.created_ms, budget) for t in board.tokens for budget in by_unit(t.budgets)]
        return sorted(found, key=lambda one: -used_share(one[2]))

    def _due(self) -> bool:
        board = self.session.board
        calls = board.calls.total - len(board.calls.running)
        asked = (self.choice("period", list(PERIODS)), self.choice("by", DIMENSIONS))
        now = self.session.now()
        last = self._asked
        if last is not None and last[:2] == asked and (now - last[2] < REFRESH_MS or calls == last[3]):
            return False
        self._asked = (*asked, now, calls)
        return True

    async def _ask(self) -> None:
        by, (step, count) = self.choice("by", DIMENSIONS), PERIODS[self.choice("period", list(PERIODS))]
        now, client = self.session.now(), self.session.client
        starts = hours(count, now) if step == "hour" else days(count, now)
        try:
            main = await client.summary(by=by, since=starts[0], step=step)
            others: dict[str, Summary] = {
                one: await client.summary(by=one, since=starts[0]) for one in RANKED if one != by
            }
        except GatewayError:
            self._asked = None
            return  # the header says that the server is gone
        rankings = {one: others.get(one, main).rows for one in RANKED}
        self._found = UsageSums(trends(main, starts), main.total, rankings)
        self.renew()
