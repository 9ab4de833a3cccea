"""Usage panels: the heat map of hours by weekday, the course of a budget against its limit, and budgets as lines."""

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from textual.content import Content

from gateway.client.cells import cell, cut
from gateway.client.control import ControlClient
from gateway.domain.budget import Window, window_end, window_start
from gateway.domain.forecast import forecast, pace_span, used_share
from gateway.domain.units import DAY_MS, HOUR_MS, Millis, local_datetime
from gateway.domain.views import BudgetView, SumRow
from tui import charts, glyphs
from tui.budgets import amounts, budget_line, budget_tone, by_unit
from tui.pages.usage_bars import AXIS, EDGE, MEASURES, ChartPlan, Measure, sum_rows
from tui.pages.usage_chart import with_value_axis
from tui.session import ConsoleSession
from tui.text import Part, content, fit_groups, safe
from tui.trends import Trends

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

SHADES = 5

HEAT_NAME = 5
HEAT_SUM = 10
"""The widths of the weekday and of its sum."""

HEAT_SPAN, HEAT_SPAN_BRIEF = "  the last 4 weeks", "  4 weeks"
"""The time that the heat map covers, whatever the period of the chart."""


def heat_width(value: Measure, width: int) -> int:
    """Returns the width of the heat map and its title, with one to three cells for an hour."""
    title = len(f" {value.name} by weekday and hour{HEAT_SPAN}")
    return max(HEAT_NAME + 24 * _hour_width(width) + HEAT_SUM, min(title, width))


def _hour_width(width: int) -> int:
    return max(1, min(3, (width - HEAT_NAME - HEAT_SUM) // 24))


def heat_map(hours: Trends, plan: ChartPlan, width: int) -> list[Content]:
    """Returns the hours of the local day by weekday, the last four weeks added up."""
    value = plan.measure
    by_slot = _by_weekday(hours, plan.first_ms)
    numbers = {slot: value.number(sum_rows(rows)) for slot, rows in by_slot.items() if rows}
    highest = max(numbers.values(), default=0.0)
    hour_width = _hour_width(width)
    title = f" {value.name} by weekday and hour"
    span = HEAT_SPAN if len(title) + len(HEAT_SPAN) <= width else HEAT_SPAN_BRIEF
    lines = [content(*fit_groups(width, [(title, "bold")], [(span, "dim")]))]
    for day, name in enumerate(WEEKDAYS):
        parts: list[Part] = [(f" {name} ", "dim")]
        slots = [(day, hour) for hour in range(24)]
        parts += [_heat_cell(numbers.get(slot), highest, plan, hour_width, is_known=slot in by_slot) for slot in slots]
        rows = [row for slot in slots for row in by_slot.get(slot, ())]
        text = value.text(value.number(sum_rows(rows))) if rows else glyphs.NOTHING
        lines.append(content(*parts, (cell(text, HEAT_SUM, right=True), "dim")))
    hour_labels = "".join(
        f"{hour:<{3 * hour_width}}" if hour_width > 1 or hour % 6 == 0 else " " * 3 for hour in range(0, 24, 3)
    )
    lines.append(content((f"{' ' * HEAT_NAME}{hour_labels}", "dim")))
    return [*lines, _heat_legend(numbers, highest, plan, width)]


def _heat_legend(numbers: dict[tuple[int, int], float], highest: float, plan: ChartPlan, width: int) -> Content:
    """Returns the shades, from no calls to the busiest, and when the busiest was if that fits."""
    shades = len(glyphs.SHADES) - 1 if plan.patterns else SHADES
    steps = [_heat_cell(highest * (level / shades) ** 2, highest, plan, 2) for level in range(1, shades + 1)]
    busiest = max(numbers, key=lambda slot: numbers[slot], default=None)
    moment = "" if busiest is None else f"  {WEEKDAYS[busiest[0]]} {busiest[1]:02}:00"
    indent, no_calls, little = " " * HEAT_NAME, f"{glyphs.NOTHING} no calls   ", "little "
    highest_text = f" most: {plan.measure.text(highest)}"
    texts = [
        (f"{indent}{no_calls}{little}", f"{highest_text}{moment}"),
        (f"{indent}{little}", f"{highest_text}{moment}"),
        (f"{indent}{little}", highest_text),
    ]
    legends = [content((start, "dim"), *steps, (end, "dim")) for start, end in texts]
    return next((legend for legend in legends if legend.cell_length <= width), content(indent, *steps))


def _by_weekday(hours: Trends, first_ms: Millis | None) -> dict[tuple[int, int], list[SumRow]]:
    """Returns the rows of each weekday and hour; those that were only before the first call are left out."""
    by_slot: dict[tuple[int, int], list[SumRow]] = {}
    cells = hours.series.get("", {})
    for start in hours.starts:
        time = local_datetime(start)
        if start in cells or (first_ms is not None and start + HOUR_MS > first_ms):
            rows = by_slot.setdefault((time.weekday(), time.hour), [])
            if start in cells:
                rows.append(cells[start])
    return by_slot


def _heat_cell(number: float | None, highest: float, plan: ChartPlan, width: int, *, is_known: bool = True) -> Part:
    """Returns a cell of the heat map. Shades follow the square root, so that one extreme does not level all others."""
    if number is None:
        return (glyphs.NOTHING if is_known else " ").center(width), "dim"
    shades = glyphs.SHADES
    max_shade = len(shades) - 1 if plan.patterns else SHADES  # in ASCII and without colours, shades are characters
    shade = max(1, charts.shade_of(math.sqrt(max(0.0, number)), math.sqrt(highest), max_shade))
    return (shades[shade] * width, "") if plan.patterns else (glyphs.BLOCKS[charts.FULL] * width, f"heat{shade}")


class BudgetSource(msgspec.Struct, frozen=True):
    """A budget and its owner."""

    kind: str
    """``account``, ``group`` or ``token``."""
    key: str
    """The owner's key in the sums by that kind."""
    name: str
    since: Millis
    """When the budget began, for a window without a fixed start."""
    budget: BudgetView

    @property
    def by(self) -> str:
        """Returns the dimension of its sums; empty for the account."""
        return "" if self.kind == "account" else self.kind

    @property
    def identity(self) -> tuple[str, str, Window, bool]:
        """Returns what identifies the budget, however much of it is used."""
        return self.kind, self.key, self.budget.window, self.budget.nanos is None

    @property
    def label(self) -> str:
        return self.kind if self.kind == "account" else f"{self.kind} {self.name}"


class BudgetCourse(msgspec.Struct, frozen=True):
    """The use of a budget up to now, on an axis of time."""

    source: BudgetSource
    start: Millis
    end: Millis
    used: Sequence[tuple[Millis, float]] = ()
    """The start of an hour or day, and the amount used in it."""

    @property
    def step(self) -> str:
        """Returns ``hour`` or ``day``."""
        return self.source.budget.window.info.chart_step

    @property
    def value(self) -> Measure:
        return MEASURES["cost" if self.source.budget.nanos is not None else "tokens"]

    @property
    def limit(self) -> int:
        budget = self.source.budget
        return budget.nanos if budget.nanos is not None else budget.tokens or 0

    @property
    def spent(self) -> int:
        """Returns the amount used so far, in the unit of the limit."""
        budget = self.source.budget
        return budget.spent_nanos if budget.nanos is not None else budget.spent_tokens

    def at(self, moment: float, now: Millis) -> float:
        """Returns the amount used up to a moment; for one after now, the amount that is expected at this pace."""
        if moment >= now:
            return self.spent + self.pace(now) * (moment - now)
        used = float(self.spent) - sum(amount for _, amount in self.used)
        step_ms = HOUR_MS if self.step == "hour" else DAY_MS
        for start, amount in self.used:
            length = max(1, min(step_ms, now - start))
            used += amount * max(0.0, min(1.0, (moment - start) / length))
        return max(0.0, used)

    def with_current(self, sources: Sequence[BudgetSource], fetched: Millis, now: Millis) -> "BudgetCourse":
        """Returns the course with the current amounts of its budget. What was used since is added as one piece."""
        source = next((other for other in sources if other.identity == self.source.identity), self.source)
        new = new_course(source, now)
        if new.start > self.start and source.budget.window is not Window.EVER:
            return new
        added = new.spent - self.spent
        used = [*self.used, (fetched, float(added))] if added > 0 else self.used
        return msgspec.structs.replace(self, source=source, used=used)

    def pace(self, now: Millis) -> float:
        """Returns the amount used per millisecond; 0 while it is too early to tell."""
        span = pace_span(self.source.budget, now, self.source.since)
        return self.spent / span if span else 0.0


async def fetch_course(client: ControlClient, source: BudgetSource, now: Millis) -> BudgetCourse:
    """Returns the course of a budget, with what the server has summed up. Raises GatewayError."""
    course = new_course(source, now)
    summary = await client.summary(by=source.by, since=course.start, step=course.step)
    points = [point for point in summary.series if point.key == source.key]
    return msgspec.structs.replace(course, used=[(point.start_ms, course.value.number(point.row)) for point in points])


def new_course(source: BudgetSource, now: Millis) -> BudgetCourse:
    """Returns the unused course of a budget in its window, or in the last and next weeks if it has no end."""
    window = source.budget.window
    if (ends := window_end(window, now)) is not None:
        return BudgetCourse(source, window_start(window, now), ends)
    start = max(source.since, Millis(window_start(Window.DAY, now) - 30 * DAY_MS))
    return BudgetCourse(source, Millis(min(start, now - DAY_MS)), Millis(now + 30 * DAY_MS))


def budget_chart(course: BudgetCourse, now: Millis, size: tuple[int, int], more: Sequence[Part] = ()) -> list[Content]:
    """Returns the used amount as an area, the limit as a line, and the expected amount. ``more`` ends it."""
    width, height = size
    columns = max(8, width - AXIS - EDGE)
    length = course.end - course.start
    moments = [course.start + length * (x + 1) / columns for x in range(columns)]
    past = [moment - length / columns < now for moment in moments]
    values = [course.at(min(at, now) if gone else at, now) for at, gone in zip(moments, past, strict=True)]
    has_forecast = course.pace(now) > 0
    highest = max(course.limit, course.spent, min(max(values), course.limit * 1.5) if has_forecast else 0)
    ticks = charts.ticks(highest, height, whole=course.value.integers)
    used = [value if gone else 0.0 for value, gone in zip(values, past, strict=True)]
    ahead_rows = [ticks.row_of(v) if has_forecast and not gone else -1 for v, gone in zip(values, past, strict=True)]
    rows = list(_course_rows(used, ahead_rows, ticks.row_of(course.limit), ticks))
    chart = [*with_value_axis(course.value, rows, ticks), *_budget_axis(course, past, columns)]
    legend: list[Part] = [(" " * (AXIS + EDGE if width >= 70 else 1), ""), (glyphs.SQUARE, "chart1")]
    legend += [(" used   ", "dim"), (glyphs.LIMIT * 2, "bad"), (" limit   ", "dim")]
    legend += [(glyphs.AHEAD * 2, "warn"), (" at this pace   ", "dim")] if has_forecast else []
    return [_budget_title(course, now, width), *chart, content(*legend, *more)]


def _course_rows(
    used: Sequence[float], ahead_rows: Sequence[int], limit_row: int, ticks: charts.Ticks
) -> Iterator[list[Part]]:
    """Yields the rows: the used amounts as an area, under the limit and, by column, the expected amounts."""
    for number, areas in enumerate(charts.stack_bars([[amount] for amount in used], ticks.height, ticks.top)):
        row: list[Part] = []
        for area, ahead_row in zip(areas, ahead_rows, strict=True):
            if ahead_row == number:
                row.append((glyphs.AHEAD, "warn"))
            elif number == limit_row:
                is_full = area.text == glyphs.BLOCKS[charts.FULL]
                row.append((glyphs.LIMIT, "bad on chart1" if is_full else "bad"))
            else:
                row.append((area.text, "chart1" if area.series >= 0 else ""))
        yield row


def _budget_title(course: BudgetCourse, now: Millis, width: int) -> Content:
    budget = course.source.budget
    title = f" {safe(course.source.label, 32)}, {budget.window.info.current}: {amounts(budget)}"
    outlook = cut(forecast(budget, now, course.source.since), max(0, width - len(title) - 3))
    return content((title, "bold"), (f"   {outlook}", "dim"))


def _budget_axis(course: BudgetCourse, past: Sequence[bool], columns: int) -> Iterator[Content]:
    """Yields the axis, and below it the start of the window, now, and its end."""
    now_column = max(0, sum(past) - 1)
    line = glyphs.AXIS[3] * now_column + glyphs.TICK + glyphs.AXIS[3] * (columns - now_column - 1)
    yield content((f"{cell('0', AXIS, right=True)} {glyphs.AXIS[2]}{line}", "dim"))
    start_text, end_text = (_moment(at, course.step) for at in (course.start, course.end))
    text = " " * columns
    for column, label in ((max(0, now_column - 1), "now"), (0, start_text), (columns - len(end_text), end_text)):
        if not text[max(0, column - 1) : column + len(label) + 1].strip():
            text = text[:column] + label + text[column + len(label) :]
    yield content((" " * (AXIS + EDGE) + text[:columns], "dim"))


def _moment(ms: int, step: str) -> str:
    time = local_datetime(ms)
    return f"{time:%a} {time:%H:%M}" if step == "hour" else f"{time.day} {time:%b}"


def budget_sources(session: ConsoleSession) -> list[BudgetSource]:
    """Returns all budgets of the account, of groups and of tokens, the most used one first."""
    board, account, sources = session.board, session.board.account, []
    if account is not None:
        begun = session.now() if account.begun_ms is None else account.begun_ms
        sources = [BudgetSource("account", "", "", begun, b) for b in by_unit(account.budgets)]
    sources += [BudgetSource("group", g.id, g.name, g.created_ms, b) for g in board.groups for b in by_unit(g.budgets)]
    sources += [BudgetSource("token", t.id, t.name, t.created_ms, b) for t in board.tokens for b in by_unit(t.budgets)]
    return sorted(sources, key=lambda source: -used_share(source.budget))


def budget_rows(session: ConsoleSession, sources: Iterable[BudgetSource], width: int) -> list[Content]:
    """Returns a line for each budget, with its gauge and its forecast."""
    now, narrow = session.now(), width < 95
    rows = []
    for source in sources:
        share, budget = used_share(source.budget), source.budget
        name = cell(safe(source.label), 13 if narrow else 20)
        line = f"{budget_line(budget, 4 if narrow else 14)}  "
        start = f" {name} {budget.window.value:<6} "
        text = cut(forecast(budget, now, source.since), max(0, width - len(start) - len(line)))
        rows.append(content(start, (line, budget_tone(share)), (text, budget_tone(share) or "dim")))
    return rows
