"""Usage: cost, calls, tokens and times over time, the busiest hours, and how long a budget lasts."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.query import parse
from tui import format as fmt
from tui import glyphs
from tui.pages.base import AnyPage, ConsolePage, Verb
from tui.pages.list_page import edit_filter
from tui.pages.usage_chart import MEASURES, Bars, ChartPlan, bars_of, chart, known
from tui.pages.usage_cursor import DIMENSIONS, Layout, click, move_bar, move_series, open_calls
from tui.pages.usage_panels import (
    WEEKDAYS,
    BudgetSource,
    budget_chart,
    budget_sources,
    heat_map,
    heat_width,
    side_by_side,
)
from tui.pages.usage_sums import UsageSums, fetch
from tui.pages.usage_table import SeriesRow, series_columns, series_rows, series_table
from tui.session import ConsoleSession
from tui.text import Part, content, cut, lines, safe
from tui.trends import HOUR_MS
from tui.widgets.search_input import FilterInput
from tui.widgets.text_block import LeadLine, TextBlock

PERIODS: Mapping[str, tuple[str, int]] = {
    "30 days": ("day", 30),
    "24 hours": ("hour", 24),
    "7 days": ("day", 7),
    "90 days": ("day", 90),
    "365 days": ("day", 365),
}
"""The step of each period, and the number of steps."""

OPTIONS: Mapping[str, Sequence[str]] = {"period": list(PERIODS), "value": list(MEASURES), "by": DIMENSIONS}
"""The options of each choice."""


def next_option(choice: str, step: int = 1) -> Verb:
    """Returns an action that switches to the next option; with a ``step`` of -1, to the previous one."""

    def verb(page: Any) -> None:
        options = OPTIONS[choice]
        at = options.index(page.choice(choice))
        page.view.choices[choice] = options[(at + step) % len(options)]
        page.back, page.series = 0, None if choice == "by" else page.series
        page.renew()

    return verb


def next_budget(page: AnyPage) -> None:
    """Show the next budget in the chart."""
    page.budget += 1
    page.refetch()


def all_calls(page: AnyPage) -> None:
    """Remove the filter, so that all calls count again."""
    page.view.filter = page.complaint = ""
    page.query_one(FilterInput).close()
    page.on_input_submitted()


class UsageBlock(TextBlock, inherit_bindings=False):
    """The text of the page. The arrows select a bar and a series; pages scroll."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown,ctrl+f", "page_down", show=False),
        Binding("pageup,ctrl+b", "page_up", show=False),
        Binding("home,g", "scroll_home", show=False),
        Binding("end,G", "scroll_end", show=False),
    ]


class UsagePage(ConsolePage):
    """The page with a chart, its series and the panels."""

    DEFAULT_CSS = "UsagePage .lead { height: 1; }"
    scopes = ("usage",)
    verbs: ClassVar[Mapping[str, Verb]] = {
        "period": next_option("period"),
        "period_back": next_option("period", -1),
        "value": next_option("value"),
        "by": next_option("by"),
        "budget": next_budget,
        "filter": edit_filter,
        "all": all_calls,
        "open": open_calls,
        "earlier": move_bar(1),
        "later": move_bar(-1),
        "above": move_series(-1),
        "below": move_series(1),
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "act('earlier')", show=False),
        Binding("right", "act('later')", show=False),
        Binding("up,k", "act('above')", show=False),
        Binding("down,j", "act('below')", show=False),
    ]

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(session, "usage")
        self.view = session.state.view("usage")
        self.complaint = _complaint(self.view.filter, session)
        """The error of the filter; empty if it is valid. A saved filter can be invalid, too."""
        self.back = 0
        """The selected bar, counted from the newest."""
        self.series: str | None = None
        """The key of the selected series; None: all together."""
        self.budget = 0
        self.places: Layout | None = None
        self._found: UsageSums | None = None
        self._shown: tuple[object, ...] = ()
        """The state that the text was drawn from."""
        self._asked: tuple[tuple[str, str, str], int, int] | None = None
        """Period, dimension and filter, time and number of calls of the last fetch."""
        self._took_ms = 0
        self._trouble = ""
        """Why the last fetch failed."""
        self._typing: Timer | None = None
        """A timer that runs for a moment after each change of the filter, before the search."""

    def compose(self) -> ComposeResult:
        yield LeadLine(self.renew)
        hint = "tok:laptop  model:claude-*  app:zed  !st:err  cost:>0.01"
        yield FilterInput(hint, self.view.filter, classes="filter")
        yield UsageBlock()

    def take_focus(self) -> None:
        self.query_one(UsageBlock).focus()

    def choice(self, name: str) -> str:
        """Returns the chosen option, or the first one if the saved choice is not valid."""
        chosen = self.view.choices.get(name, "")
        return chosen if chosen in OPTIONS[name] else OPTIONS[name][0]

    def refetch(self) -> None:
        """Fetch again now."""
        timer, self._typing, self._asked = self._typing, None, None
        if timer is not None:
            timer.stop()
        self.renew()

    def renew(self) -> None:
        if self.session.link == "attached" and self._due():
            self.run_worker(self._ask(), group="usage", exclusive=True, exit_on_error=True)
        self.query_one(LeadLine).show(self.lead(), whole=bool(self.complaint or self._trouble))
        session, choices = self.session, tuple(self.view.choices.items())
        looks = (self.app.theme, self.app.no_color, session.now() // 60_000)
        shown = (id(self._found), self.back, self.series, choices, session.board.tables_version, looks)
        if shown != self._shown:  # drawing takes too long to repeat at every refresh
            self._shown = shown
            self.query_one(UsageBlock).show(self.draw)

    def lead(self) -> Content:
        """Returns the line above the chart: the choices and the sums, or an error."""
        if wrong := self.complaint or self._trouble:
            return content((f" {safe(wrong, 600)}", "bad"))
        dot = f" {glyphs.DOT} "
        parts: list[Part | str] = []
        for name in OPTIONS:
            parts += [
                (f" {self.session.key(f'usage.{name}')} ", "key"),
                (f"{name} ", "dim"),
                (f"{self.choice(name)}  ", "bold"),
            ]
        if (summary := self._found) is not None:
            total = summary.total
            tokens = fmt.brief_count(total.input_tokens + total.output_tokens)
            texts = [f" {fmt.dollar_amount(total.cost_nanos)}", f"{tokens} tok", fmt.count_text(total.calls, "call")]
            room = self.size.width - sum(len(part[0]) for part in parts)
            parts.append(dot.join(texts if len(dot.join(texts)) <= room else texts[:2]))
        return content(*parts)

    def draw(self, width: int) -> Content:
        """Returns the whole page, at this width."""
        summary, self.places, key = self._found, None, self.session.key
        if summary is None:
            return content((" loading ...", "dim"))
        if not summary.total.calls:
            fitting, hint = "", f"2, {key('tokens.connect')} shows how to connect a client"
            if summary.words:
                fitting, hint = " that fit the filter", f"{key('usage.all')} shows those of all calls"
            return lines(
                content(""),
                content((f" No calls{fitting} in this period.", "bold")),
                content(f" {key('usage.period')} changes the period; {hint}"),
            )
        plan = ChartPlan(
            trends=summary.trends,
            whole=summary.whole,
            value=MEASURES[self.choice("value")],
            patterns=self.app.no_color,
            first_ms=summary.first_ms,
        )
        bars, rows = bars_of(plan, width), series_rows(plan, summary.total)
        if self.series not in [row.key for row in rows]:
            self.series = None
        self.back = min(self.back, len(bars.starts) - 1)
        chosen = len(bars.starts) - 1 - self.back
        height = chart_height(self.query_one(UsageBlock).scrollable_content_region.height, len(rows))
        drawn = chart(plan, bars, height, chosen, self.series)
        top = [
            _title(plan, bars, incomplete=summary.incomplete),
            *drawn,
            self._selected(plan, bars, chosen, rows),
            content(""),
        ]
        columns = series_columns(plan, summary.total, self.choice("by"), width)
        self.places = Layout(bars, range(1, len(drawn) - 1), len(top), rows, columns)
        table = series_table(plan, rows, columns, self.series)
        return lines(*top, *table, content(""), *self._panels(plan, summary, width))

    def _selected(self, plan: ChartPlan, bars: Bars, chosen: int, rows: Sequence[SeriesRow]) -> Content:
        """Returns the sums of the selected bar, and how to see its calls."""
        row, dot = bars.rows[self.series].get(chosen), f" {glyphs.DOT} "
        start = fmt.local_time(bars.starts[chosen])
        name = next(series.name for series in rows if series.key == self.series)
        when = f"{start:%a} {start.day} {start:%b}" + (f" {start:%H:%M}" if bars.hourly else "")
        if bars.chunk > 1:
            last = fmt.local_time(bars.ends[chosen] - HOUR_MS)
            when += f" to {last.day} {last:%b}"
        parts: list[Part | str] = [
            (f" {glyphs.RUNNING} {when}", "key"),
            (f"  {cut(name, 28)}  ", "bold"),
        ]
        if row is None:
            nothing = "no calls" if known(plan, bars, chosen) else "before the first call"
            return content(*parts, (nothing, "dim"))
        tokens = fmt.brief_count(row.input_tokens + row.output_tokens)
        chosen_value = self.choice("value")
        values = {"cost": fmt.short_cost(row.cost_nanos), "calls": fmt.count_text(row.calls, "call")}
        values["tokens"] = f"{tokens} tok"
        if row.errors or chosen_value == "errors":
            values["errors"] = fmt.count_text(row.errors, "error")
        texts = [values[name] for name in sorted(values, key=lambda name: name != chosen_value)]  # chosen one first
        measure = plan.value if plan.value.lines else MEASURES["duration"]
        numbers = {name: number(row) for name, number in measure.lines.items()}
        times = " ".join(f"{name} {fmt.seconds(round(ms))}" for name, ms in numbers.items() if ms is not None)
        texts = [times, *texts] if plan.value.lines else [*texts, times]
        key = self.session.key("usage.open")
        hint: list[Part] = [(f"   {key}", "key"), (" opens the calls", "dim")] if self.size.width >= 70 else []
        room = self.size.width - 2 - sum(len(part[0]) for part in (*parts, *hint))
        while len(dot.join(texts)) > room and len(texts) > 1:
            texts.pop()
        return content(*parts, cut(dot.join(filter(None, texts)), max(0, room)), *hint)

    def _panels(self, plan: ChartPlan, sums: UsageSums, width: int) -> list[Content]:
        """Returns the map of hours by weekday, and a budget's course."""
        now, sources = self.session.now(), budget_sources(self.session)
        course = None if sums.course is None else sums.course.updated(sources, sums.fetched_ms, now)
        if width < 112 or course is None:  # too narrow for two panels side by side
            rows = heat_map(sums.hours, plan, width)
            if course is not None:
                rows += [
                    content(""),
                    *budget_chart(course, now, (width, len(WEEKDAYS)), _next_budget(self.session, sources)),
                ]
            return rows
        left = heat_width(plan.value, width // 2)
        right = budget_chart(course, now, (width - left - 4, len(WEEKDAYS)), _next_budget(self.session, sources))
        return side_by_side(heat_map(sums.hours, plan, left), right, left + 3)

    def _due(self) -> bool:
        board = self.session.board
        calls = board.calls.total - len(board.calls.running)
        asked = (self.choice("period"), self.choice("by"), self.view.filter.strip())
        now, last = self.session.now(), self._asked
        if self.complaint or self._typing is not None:
            return False
        pause = max(10_000, 20 * self._took_ms)  # a filter searches all records
        if last is not None and last[0] == asked and (now - last[1] < pause or calls == last[2]):
            return False
        self._asked = (asked, now, calls)
        return True

    async def _ask(self) -> None:
        sources, began = budget_sources(self.session), self.session.now()
        try:
            self._found = await fetch(
                self.session.client,
                began,
                by=self.choice("by"),
                steps=PERIODS[self.choice("period")],
                budget=sources[self.budget % len(sources)] if sources else None,
                words=self.view.filter.strip(),
            )
            self._trouble = ""
        except BadRequest as error:
            self.complaint = self.session.advice(error.message)
        except GatewayError as error:
            self._trouble = "" if error.code == "server_gone" else error.message  # the header says that it is gone
            if self._asked is not None:
                self._asked = (*self._asked[:2], -1)  # again after the pause, even without new calls
        self._took_ms = self.session.now() - began
        self.renew()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search for the text a moment after the last letter."""
        if self.view.filter == event.value:
            return
        self.view.filter = event.value
        self.complaint = _complaint(event.value, self.session)
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(0.3, self.refetch)  # wait for more letters: it has to search

    def on_input_submitted(self) -> None:
        self.take_focus()
        self.refetch()

    async def on_click(self, event: events.Click) -> None:
        """Select the clicked bar or series, or open its calls if it is selected. A title of the table chooses the
        measure.
        """
        at = event.get_content_offset(self.query_one("UsageBlock Static", Static))
        if at is not None and self.places is not None:
            await click(self, self.places, at.x, at.y)


def _complaint(text: str, session: ConsoleSession) -> str:
    """Returns the error of a filter; empty if it is valid."""
    try:
        parse(text, session.now())
    except BadRequest as error:
        return session.advice(error.message)
    return ""


def _next_budget(session: ConsoleSession, sources: Sequence[BudgetSource]) -> list[Part]:
    """Returns the key that shows the next budget, if there are several."""
    count = len(sources)
    return [(session.key("usage.budget"), "key"), (f" next of {count}", "dim")] if count > 1 else []


def chart_height(height: int, rows: int) -> int:
    """Returns the number of lines of the bars: those that the series leave free, and on tall screens the panels too."""
    rest = height - rows - 6
    for lower, needed in ((44, 18), (34, 11)):
        if height >= lower:
            return max(8, min(22, rest - needed))
    return max(5, min(16, rest))


def _title(plan: ChartPlan, bars: Bars, *, incomplete: bool) -> Content:
    """Returns the title: what a bar stands for, and the meaning of the marks on the axis."""
    step = "hour" if bars.hourly else "day"
    per = f"per {bars.chunk} {step}s" if bars.chunk > 1 else f"per {step}"
    calls = bars.rows[None]
    known_ones = [known(plan, bars, number) for number in range(len(bars.starts))]
    parts: list[Part] = [(f" {plan.value.name} {per}", "bold")]
    if any(there and number not in calls for number, there in enumerate(known_ones)):
        parts.append((f"   {glyphs.NOTHING} no calls" if not plan.value.lines else "   gaps: no calls", "dim"))
    if bars.chunk > 1 and plan.value.lines:
        parts.append(("   p50, p95: the slowest day", "dim"))
    if not all(known_ones):
        parts.append((f"   {glyphs.UNKNOWN * 2} before the first call", "dim"))
    if incomplete:
        parts.append(("   without older calls: their records are deleted", "dim"))
    return content(*parts)
