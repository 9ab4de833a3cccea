"""Usage page: cost, calls, tokens and durations over time, the busiest hours, and how long a budget will last."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from gateway.client.cells import cut
from gateway.domain.budget import days
from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.query import parse
from gateway.domain.units import HOUR_MS, Millis
from gateway.domain.views import Summary
from tui import format as fmt, glyphs
from tui.pages import usage_table
from tui.pages.base import AnyPage, ConsolePage, Verb
from tui.pages.list_page import edit_filter
from tui.pages.usage_bars import ALL, MEASURES, Bars, ChartPlan, bars_of, is_known
from tui.pages.usage_chart import bar_time, chart, chart_height, chart_title, sum_texts
from tui.pages.usage_panels import (
    WEEKDAYS,
    BudgetCourse,
    budget_chart,
    budget_sources,
    fetch_course,
    heat_map,
    heat_width,
)
from tui.session import ConsoleSession
from tui.text import Part, content, fit_groups, lines, safe, side_by_side
from tui.trends import Trends, hours, trends
from tui.widgets.search_input import FilterInput
from tui.widgets.text_block import LeadLine, TextBlock

PERIODS: Mapping[str, tuple[str, int]] = {
    "30 days": ("day", 30),
    "24 hours": ("hour", 24),
    "7 days": ("day", 7),
    "90 days": ("day", 90),
    "365 days": ("day", 365),
}
"""The step and the number of steps of each period."""

OPTIONS: Mapping[str, Sequence[str]] = {
    "period": list(PERIODS),
    "value": list(MEASURES),
    "by": ["model", "token", "channel", "group", "app", "api"],
}


class UsageSums(msgspec.Struct, frozen=True, kw_only=True):
    """The server's sums for one period and dimension."""

    trends: Trends
    overall: Summary
    """The sums of all keys together."""
    hours: Trends
    """The sums of the hours of the last weeks, all keys together."""
    course: BudgetCourse | None
    """The course of a budget at the time of the fetch; its ``updated`` adds what was used later."""
    fetched_ms: Millis


def next_option(page: AnyPage, choice: str, step: int = 1) -> None:
    """Switch a choice to its next option; with a ``step`` of -1, to the previous one."""
    options = OPTIONS[choice]
    current = options.index(page.choice(choice))
    page.view.choices[choice] = options[(current + step) % len(options)]
    page.bars_back, page.series = 0, ALL if choice == "by" else page.series
    page.renew()


def next_budget(page: AnyPage) -> None:
    """Show the next budget in its panel."""
    page.budget += 1
    page.refetch()


def clear_filter(page: AnyPage) -> None:
    """Clear the filter, so that all calls are summed up again."""
    page.view.filter = ""
    page.field.close()
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
        "period": partial(next_option, choice="period"),
        "period_back": partial(next_option, choice="period", step=-1),
        "value": partial(next_option, choice="value"),
        "by": partial(next_option, choice="by"),
        "budget": next_budget,
        "filter": edit_filter,
        "all": clear_filter,
        "open": usage_table.open_calls,
        "earlier": partial(usage_table.move_bar, step=1),
        "later": partial(usage_table.move_bar, step=-1),
        "above": partial(usage_table.move_series, step=-1),
        "below": partial(usage_table.move_series, step=1),
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "act('earlier')", show=False),
        Binding("right", "act('later')", show=False),
        Binding("up,k", "act('above')", show=False),
        Binding("down,j", "act('below')", show=False),
    ]

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(session)
        self.view = session.state.view("usage")
        hint = "tok:laptop  model:claude-*  app:zed  !st:err  cost:>0.01"
        self.field = FilterInput(hint, self.view.filter, classes="filter")
        self.bars_back = 0
        """The selected bar, as the number of bars back from the newest."""
        self.series = ALL
        """The key of the selected series."""
        self.budget = 0
        """The number of the budget in its panel, counted from the most used one, and over again after the last."""
        self.text_layout: usage_table.TextLayout | None = None
        """The places in the text, for the cursor and the mouse; None if no chart is shown."""
        self._sums: UsageSums | None = None
        self._drawn_state: tuple[object, ...] = ()
        self._fetch_ms = 0
        self._fetch_error = ""
        """Why the last fetch failed; empty if it did not."""
        self._typing: Timer | None = None
        """The timer that delays the search for a moment after each change of the filter; None before the first."""

    def compose(self) -> ComposeResult:
        yield LeadLine(classes="lead")
        yield self.field
        yield UsageBlock()

    @property
    def complaint(self) -> str:
        """Returns the error of the filter; empty if it is valid."""
        try:
            parse(self.view.filter, self.session.now())
        except BadRequest as error:
            return self.session.advice(error.message)
        return ""

    def choice(self, name: str) -> str:
        """Returns the chosen option, or the first one if the saved choice is not valid."""
        chosen = self.view.choices.get(name, "")
        return chosen if chosen in OPTIONS[name] else OPTIONS[name][0]

    def refetch(self) -> None:
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.fetched = None
        self.fetched_ms = Millis(0)  # at once
        self.renew()

    def renew(self) -> None:
        if not self.complaint and self._typing is None:
            calls = self.session.board.calls.total - len(self.session.board.calls.running)
            subject = (self.choice("period"), self.choice("by"), self.view.filter.strip())
            pause = max(10_000, 20 * self._fetch_ms)  # a filter searches all records
            self.fetch_if_due(subject, calls, pause_ms=pause)
        self.query_one(LeadLine).show(self.lead(), whole=bool(self.complaint or self._fetch_error))
        session = self.session
        state = (
            id(self._sums),
            self.bars_back,
            self.series,
            tuple(self.view.choices.items()),
            session.board.tables_version,
            self.app.theme,
            self.app.no_color,
            session.now() // 60_000,  # the course of a budget changes with the time
        )
        if state != self._drawn_state:  # drawing takes too long to be repeated at every refresh
            self._drawn_state = state
            self.query_one(UsageBlock).show(self.draw)

    def lead(self) -> Content:
        if error := self.complaint or self._fetch_error:
            return content((f" {safe(error, 600)}", "bad"))
        parts: list[Part] = []
        for name in OPTIONS:
            parts += [
                (f" {self.session.key(f'usage.{name}')} ", "key"),
                (f"{name} ", "dim"),
                (f"{self.choice(name)}  ", "bold"),
            ]
        if self._sums is None:
            return content(*parts)
        total = self._sums.overall.total
        tokens = fmt.brief_count(total.input_tokens + total.output_tokens)
        parts.append((f" {fmt.dollar_amount(total.cost_nanos)} {glyphs.DOT} {tokens} tok", ""))
        calls = f" {glyphs.DOT} {fmt.count_text(total.calls, 'call')}"
        return content(*fit_groups(self.size.width, parts, [(calls, "")]))

    def draw(self, width: int) -> Content:
        self.text_layout = None
        sums = self._sums
        if sums is None:
            return content((" loading ...", "dim"))
        overall, total = sums.overall, sums.overall.total
        if not total.calls:
            return _no_calls_text(self.session, filtered=bool(self.view.filter.strip()))
        plan = ChartPlan(
            trends=sums.trends,
            measure=MEASURES[self.choice("value")],
            patterns=self.app.no_color,
            first_ms=overall.first_ms,
        )
        bars, rows = bars_of(plan, width), usage_table.series_rows(plan, total)
        selected_bar = usage_table.correct_selection(self, bars, rows)
        height = chart_height(self.query_one(UsageBlock).scrollable_content_region.height, len(rows))
        chart_lines = chart(plan, bars, height, selected_bar, self.series)
        top = [
            chart_title(plan, bars, incomplete=overall.incomplete),
            *chart_lines,
            self._selection_line(plan, bars, selected_bar, rows),
            content(""),
        ]
        columns = usage_table.series_columns(plan, total, self.choice("by"), width)
        self.text_layout = usage_table.TextLayout(bars, range(1, len(chart_lines) - 1), len(top), rows, columns)
        table = usage_table.series_table(plan, rows, columns, self.series)
        return lines(*top, *table, content(""), *self._panels(plan, sums, width))

    def _selection_line(self, plan: ChartPlan, bars: Bars, bar: int, rows: Sequence[usage_table.SeriesRow]) -> Content:
        """Returns the sums of the selected bar, as many as fit, and how to see its calls."""
        name = next(series.name for series in rows if series.key == self.series)
        parts = [(f" {glyphs.RUNNING} {bar_time(bars, bar)}", "key"), (f"  {cut(name, 28)}  ", "bold")]
        row = bars.rows[self.series].get(bar)
        if row is None:
            reason = "no calls" if is_known(plan, bars, bar) else "before the first call"
            return content(*parts, (reason, "dim"))
        hint = self.session.hint("{   usage.open} opens the calls", "dim") if self.size.width >= 70 else []
        width = self.size.width - 2 - sum(len(text) for text, _ in hint)
        first, *others = filter(None, sum_texts(row, plan.measure, self.choice("value")))
        groups = [[(f" {glyphs.DOT} {text}", "")] for text in others]
        free = max(0, width - sum(len(text) for text, _ in parts))
        return content(*fit_groups(width, [*parts, (cut(first, free), "")], *groups), *hint)

    def _panels(self, plan: ChartPlan, sums: UsageSums, width: int) -> list[Content]:
        """Returns the heat map and the course of a budget: side by side if they fit, otherwise one below the other."""
        now, sources = self.session.now(), budget_sources(self.session)
        course = None if sums.course is None else sums.course.with_current(sources, sums.fetched_ms, now)
        if course is None:
            return heat_map(sums.hours, plan, width)
        hint: list[Part] = []
        if len(sources) > 1:
            hint = self.session.hint(f"{{usage.budget}} next of {len(sources)}", "dim")
        height = len(WEEKDAYS)
        if width < 112:  # too narrow for two panels side by side
            budget = budget_chart(course, now, (width, height), hint)
            return [*heat_map(sums.hours, plan, width), content(""), *budget]
        map_width = heat_width(plan.measure, width // 2)
        budget = budget_chart(course, now, (width - map_width - 4, height), hint)
        return side_by_side(heat_map(sums.hours, plan, map_width), budget, map_width + 3)

    async def fetch(self) -> None:
        began_ms = self.session.now()
        try:
            self._sums = await self._fetch_sums(began_ms)
            self._fetch_error = ""
        except GatewayError as error:
            self._fetch_error = "" if error.code == "server_gone" else error.message  # the header says that it is gone
            self.fetched = None  # fetch again after the pause, even without new calls
        self._fetch_ms = self.session.now() - began_ms

    async def _fetch_sums(self, now: Millis) -> UsageSums:
        """Returns the sums of matching calls, and the course of a budget, which counts all. Raises GatewayError."""
        client = self.session.client
        words = self.view.filter.strip() or None
        step, count = PERIODS[self.choice("period")]
        starts = hours(count, now) if step == "hour" else days(count, now)
        query = {"since": starts[0], "step": step, "percentiles": True, "words": words}
        sums = await client.summary(by=self.choice("by"), **query)
        overall = await client.summary(**query)
        heat_starts = hours((now - days(28, now)[0]) // HOUR_MS + 1, now)
        heat = await client.summary(since=heat_starts[0], step="hour", words=words)
        sources = budget_sources(self.session)
        course = await fetch_course(client, sources[self.budget % len(sources)], now) if sources else None
        by_key = trends(sums, starts)
        all_calls = trends(overall, starts).series.get("", {})
        return UsageSums(
            trends=msgspec.structs.replace(by_key, series={**by_key.series, ALL: all_calls}),
            overall=overall,
            hours=trends(heat, heat_starts),
            course=course,
            fetched_ms=now,
        )

    def on_input_changed(self, event: Input.Changed) -> None:
        if self.view.filter == event.value:
            return
        self.view.filter = event.value
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(0.3, self.refetch)  # wait for more letters: it has to search

    def on_input_submitted(self) -> None:
        self.take_focus()
        self.refetch()

    async def on_click(self, event: events.Click) -> None:
        """Select the bar, series or measure that was clicked, or open the calls of what was selected."""
        offset = event.get_content_offset(self.query_one("UsageBlock Static", Static))
        if offset is not None and self.text_layout is not None:
            await usage_table.click(self, self.text_layout, offset.x, offset.y)


def _no_calls_text(session: ConsoleSession, *, filtered: bool) -> Content:
    match, hint = "", f"2, {session.key('tokens.connect')} shows how to connect a client"
    if filtered:
        match, hint = " that fit the filter", f"{session.key('usage.all')} shows those of all calls"
    return lines(
        content(""),
        content((f" No calls{match} in this period.", "bold")),
        content(f" {session.key('usage.period')} changes the period; {hint}"),
    )
