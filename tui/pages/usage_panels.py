"""Usage panels: the map of hours by weekday, a budget's cost so far against its limit, and budgets as lines."""

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from textual.content import Content

from gateway.domain.budget import Window, window_end, window_start
from gateway.domain.forecast import forecast, pace_span, used_share
from gateway.domain.units import Millis
from gateway.domain.views import BudgetView, SumRow
from tui import charts, glyphs
from tui import format as fmt
from tui.budgets import amounts, budget_line, budget_tone, by_unit
from tui.pages.usage_chart import AXIS, EDGE, MEASURES, ChartPlan, Measure, join_parts, sum_rows, tick_text
from tui.session import ConsoleSession
from tui.text import Part, cell, content, cut, fit_groups, safe
from tui.trends import DAY_MS, HOUR_MS, Trends

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

SHADES = 5

HEAT_NAME = 5
HEAT_SUM = 10
"""The cells of the weekday, and of its sum."""


HEAT_SPAN, HEAT_SPAN_BRIEF = "  the last 4 weeks", "  4 weeks"
"""The time that the map covers, whatever the period of the chart."""


def heat_width(value: Measure, width: int) -> int:
    """Returns the width of the map with its title, at one to three cells for an hour."""
    title = len(f" {value.name} by weekday and hour{HEAT_SPAN}")
    return max(HEAT_NAME + 24 * _hour_width(width) + HEAT_SUM, min(title, width))


def _hour_width(width: int) -> int:
    return max(1, min(3, (width - HEAT_NAME - HEAT_SUM) // 24))


def heat_map(hours: Trends, plan: ChartPlan, width: int) -> list[Content]:
    """Returns the hours of the local day by weekday, the last four weeks added up; ``hours`` has the sums of
    each hour.
    """
    value = plan.value
    by_hour, seen = _by_weekday(hours, plan.first_ms)
    numbers = {at: value.number(sum_rows(rows)) for at, rows in by_hour.items()}
    highest = max(numbers.values(), default=0.0)
    each = _hour_width(width)
    title, span = f" {value.name} by weekday and hour", HEAT_SPAN
    span = span if len(title) + len(span) <= width else HEAT_SPAN_BRIEF
    lines = [content(*fit_groups(width, [(title, "bold")], [(span, "dim")]))]
    for day, name in enumerate(WEEKDAYS):
        parts: list[Part] = [(f" {name} ", "dim")]
        cells = ((day, hour) for hour in range(24))
        parts += [_heat_cell(numbers.get(at), at in seen, highest, each, plan) for at in cells]
        rows = [row for hour in range(24) for row in by_hour.get((day, hour), ())]
        text = value.text(value.number(sum_rows(rows))) if rows else glyphs.NOTHING
        lines.append(content(*parts, (cell(text, HEAT_SUM, right=True), "dim")))
    marks = "".join(f"{hour:<{3 * each}}" if each > 1 or hour % 6 == 0 else " " * 3 for hour in range(0, 24, 3))
    lines.append(content((f"{' ' * HEAT_NAME}{marks}", "dim")))
    return [*lines, _heat_legend(numbers, highest, plan, width)]


def _heat_legend(numbers: dict[tuple[int, int], float], highest: float, plan: ChartPlan, width: int) -> Content:
    """Returns the shades from nothing to most, and when the most was, if that fits."""
    shades = len(glyphs.SHADES) - 1 if plan.patterns else SHADES
    steps = [_heat_cell(highest * (level / shades) ** 2, True, highest, 2, plan) for level in range(1, shades + 1)]
    most = max(numbers, key=lambda at: numbers[at], default=None)
    when = "" if most is None else f"  {WEEKDAYS[most[0]]} {most[1]:02}:00"
    indent, nothing, little = " " * HEAT_NAME, f"{glyphs.NOTHING} no calls   ", "little "
    highest_text = f" most: {plan.value.text(highest)}"
    texts = [
        (f"{indent}{nothing}{little}", f"{highest_text}{when}"),
        (f"{indent}{little}", f"{highest_text}{when}"),
        (f"{indent}{little}", highest_text),
    ]
    legends = [content((before, "dim"), *steps, (after, "dim")) for before, after in texts]
    return next((legend for legend in legends if legend.cell_length <= width), content(indent, *steps))


def _by_weekday(
    hours: Trends, first_ms: Millis | None
) -> tuple[dict[tuple[int, int], list[SumRow]], set[tuple[int, int]]]:
    """Returns the rows of each weekday and hour, and which weekdays and hours are known."""
    by_hour: dict[tuple[int, int], list[SumRow]] = {}
    seen = set()
    cells = hours.series.get("", {})
    for start in hours.starts:
        then = fmt.local_time(start)
        at = (then.weekday(), then.hour)
        if first_ms is not None and start + HOUR_MS > first_ms:
            seen.add(at)
        if start in cells:
            by_hour.setdefault(at, []).append(cells[start])
    return by_hour, seen


def _heat_cell(number: float | None, known: bool, highest: float, each: int, plan: ChartPlan) -> Part:  # noqa: FBT001 - a cell's fact
    """Returns one cell of the map. Shades follow the square root, so that one extreme hour does not make all others
    alike.
    """
    if number is None:
        return (glyphs.NOTHING if known else " ").center(each), "dim"
    shades = glyphs.SHADES
    most = len(shades) - 1 if plan.patterns else SHADES  # in ASCII and without colours, shades are characters
    shade = max(1, charts.shade_of(math.sqrt(max(0.0, number)), math.sqrt(highest), most))
    return (shades[shade] * each, "") if plan.patterns else (glyphs.BLOCKS[charts.FULL] * each, f"heat{shade}")


class BudgetSource(msgspec.Struct, frozen=True):
    """A budget and its owner."""

    kind: str
    """``account``, ``group`` or ``token``."""
    key: str
    """The owner's key in sums by that kind."""
    name: str
    since: Millis
    """When a window without a fixed start began."""
    budget: BudgetView

    @property
    def by(self) -> str:
        """Returns the dimension of its sums; empty for the account."""
        return "" if self.kind == "account" else self.kind

    def same_budget(self, other: "BudgetSource") -> bool:
        """Returns whether both are the same budget, regardless of its use."""
        unit, other_unit = self.budget.nanos is None, other.budget.nanos is None
        same = (other.kind, other.key, other.budget.window, other_unit)
        return (self.kind, self.key, self.budget.window, unit) == same

    @property
    def label(self) -> str:
        """Returns ``account``, ``token laptop``."""
        return self.kind if self.kind == "account" else f"{self.kind} {self.name}"


class BudgetWindow(msgspec.Struct, frozen=True):
    """The time span of the axis."""

    start: Millis
    end: Millis
    step: str


def budget_window(source: BudgetSource, now: Millis) -> BudgetWindow:
    """Returns the window of the budget; for one without a window, the last weeks and the next ones."""
    window = source.budget.window
    step = window.info.chart_step
    ends = window_end(window, now)
    if ends is None:
        start = max(source.since, Millis(window_start(Window.DAY, now) - 30 * DAY_MS))
        return BudgetWindow(Millis(min(start, now - DAY_MS)), Millis(now + 30 * DAY_MS), step)
    return BudgetWindow(window_start(window, now), ends, step)


class BudgetCourse(msgspec.Struct, frozen=True):
    """The use of a budget up to now."""

    source: BudgetSource
    window: BudgetWindow
    used: Sequence[tuple[Millis, float]]
    """The start of an hour or day, and the amount used in it."""

    @property
    def value(self) -> Measure:
        """Returns the measure that the budget counts."""
        return MEASURES["cost" if self.source.budget.nanos is not None else "tokens"]

    @property
    def limit(self) -> int:
        """Returns the limit in nano-dollars or tokens."""
        budget = self.source.budget
        return budget.nanos if budget.nanos is not None else budget.tokens or 0

    @property
    def spent(self) -> int:
        """Returns the amount used so far, in the unit of the limit."""
        budget = self.source.budget
        return budget.spent_nanos if budget.nanos is not None else budget.spent_tokens

    def at(self, moment: float, now: Millis) -> float:
        """Returns the use up to a moment; after now, the use expected at this pace."""
        if moment >= now:
            return self.spent + self.pace(now) * (moment - now)
        done = float(self.spent) - sum(amount for _, amount in self.used)
        size = HOUR_MS if self.window.step == "hour" else DAY_MS
        for start, amount in self.used:
            length = max(1, min(size, now - start))
            done += amount * max(0.0, min(1.0, (moment - start) / length))
        return max(0.0, done)

    def updated(self, sources: Sequence[BudgetSource], fetched: Millis, now: Millis) -> "BudgetCourse":
        """Returns the course with the current amounts of its budget, from ``sources``; use after the fetch is added as
        one piece.
        """
        source = next((other for other in sources if other.same_budget(self.source)), self.source)
        window = budget_window(source, now)
        if window.start > self.window.start and source.budget.window is not Window.EVER:
            return BudgetCourse(source, window, [])
        new = BudgetCourse(source, self.window, self.used)
        more = new.spent - self.spent
        return BudgetCourse(source, self.window, [*self.used, (fetched, float(more))]) if more > 0 else new

    def pace(self, now: Millis) -> float:
        """Returns the use per millisecond; 0 while it is too early to tell."""
        span = pace_span(self.source.budget, now, self.source.since)
        return self.spent / span if span else 0.0


def budget_chart(course: BudgetCourse, now: Millis, size: tuple[int, int], more: Sequence[Part] = ()) -> list[Content]:
    """Returns the use so far as an area, the limit as a line, and the expected use at this pace. ``more`` is about
    other budgets.
    """
    width, height = size
    budget = course.source.budget
    room = max(8, width - AXIS - EDGE)
    length = course.window.end - course.window.start
    moments = [course.window.start + length * (x + 1) / room for x in range(room)]
    past = [moment - length / room < now for moment in moments]
    values = [course.at(min(at, now) if gone else at, now) for at, gone in zip(moments, past, strict=True)]
    ahead = course.pace(now) > 0
    wanted = max(course.limit, course.spent, min(max(values), course.limit * 1.5) if ahead else 0)
    ticks = charts.ticks(wanted, height, whole=course.value.whole)
    height = ticks.height
    limit_row = ticks.row_of(course.limit)
    title = f" {safe(course.source.label, 32)}, {budget.window.info.current}: {amounts(budget)}"
    coming = forecast(budget, now, course.source.since)
    lines = [content((title, "bold"), (f"   {cut(coming, max(0, width - len(title) - 3))}", "dim"))]
    areas = charts.stack_bars([[v] if gone else [0.0] for v, gone in zip(values, past, strict=True)], height, ticks.top)
    for number, row in enumerate(areas):
        parts: list[Part] = []
        for x, mark in enumerate(row):
            future = ahead and not past[x] and ticks.row_of(values[x]) == number
            parts.append(_budget_cell(mark, number == limit_row, future))
        label = tick_text(course.value, ticks, number // ticks.rows) if number % ticks.rows == 0 else ""
        axis = glyphs.AXIS[1 if label else 0]
        lines.append(content((f"{cell(label, AXIS, right=True)} {axis}", "dim"), *join_parts(parts)))
    lines += list(_budget_axis(course, past, room))
    legend: list[Part] = [
        (" " * (AXIS + EDGE if width >= 70 else 1), ""),
        (glyphs.SQUARE, "chart1"),
        (" used   ", "dim"),
    ]
    legend += [(glyphs.LIMIT * 2, "bad"), (" limit   ", "dim")]
    legend += [(glyphs.AHEAD * 2, "warn"), (" at this pace   ", "dim")] if ahead else []
    return [*lines, content(*legend, *more)]


def _budget_cell(chart_cell: charts.ChartCell, limit: bool, ahead: bool) -> Part:  # noqa: FBT001 - facts of a cell
    if ahead:
        return glyphs.AHEAD, "warn"
    if limit:
        full = chart_cell.text == glyphs.BLOCKS[charts.FULL]
        return glyphs.LIMIT, "bad on chart1" if full else "bad"
    return chart_cell.text, "chart1" if chart_cell.series >= 0 else ""


def _budget_axis(course: BudgetCourse, past: Sequence[bool], room: int) -> Iterator[Content]:
    """Yields the axis, and below it the start of the window, now, and its end."""
    here = max(0, sum(past) - 1)
    line = glyphs.AXIS[3] * here + glyphs.TICK + glyphs.AXIS[3] * (room - here - 1)
    yield content((f"{cell('0', AXIS, right=True)} {glyphs.AXIS[2]}{line}", "dim"))
    first, last = (_moment(at, course.window.step) for at in (course.window.start, course.window.end))
    text = " " * room
    for at, label in ((max(0, here - 1), "now"), (0, first), (room - len(last), last)):
        if not text[max(0, at - 1) : at + len(label) + 1].strip():
            text = text[:at] + label + text[at + len(label) :]
    yield content((" " * (AXIS + EDGE) + text[:room], "dim"))


def _moment(ms: int, step: str) -> str:
    then = fmt.local_time(ms)
    return f"{then:%a} {then:%H:%M}" if step == "hour" else f"{then.day} {then:%b}"


def budget_sources(session: ConsoleSession) -> list[BudgetSource]:
    """Returns all budgets, the most used one first."""
    board, account, sources = session.board, session.board.account, []
    if account is not None:
        begun = session.now() if account.begun_ms is None else account.begun_ms
        sources = [BudgetSource("account", "", "", begun, b) for b in by_unit(account.budgets)]
    sources += [BudgetSource("group", g.id, g.name, g.created_ms, b) for g in board.groups for b in by_unit(g.budgets)]
    sources += [BudgetSource("token", t.id, t.name, t.created_ms, b) for t in board.tokens for b in by_unit(t.budgets)]
    return sorted(sources, key=lambda one: -used_share(one.budget))


def budget_rows(session: ConsoleSession, sources: Iterable[BudgetSource], width: int) -> list[Content]:
    """Returns each budget with its gauge and forecast."""
    now, narrow = session.now(), width < 95
    rows = []
    for source in sources:
        part, budget = used_share(source.budget), source.budget
        name = cell(safe(source.label), 13 if narrow else 20)
        line = f"{budget_line(budget, 4 if narrow else 14)}  "
        head = f" {name} {budget.window.value:<6} "
        text = cut(forecast(budget, now, source.since), max(0, width - len(head) - len(line)))
        rows.append(content(head, (line, budget_tone(part)), (text, budget_tone(part) or "dim")))
    return rows


def side_by_side(left: Sequence[Content], right: Sequence[Content], width: int) -> list[Content]:
    """Returns two blocks side by side; ``width`` is the left one's."""
    rows = []
    for number in range(max(len(left), len(right))):
        line = left[number] if number < len(left) else Content("")
        other = right[number] if number < len(right) else Content("")
        rows.append(Content.assemble(line, " " * max(0, width - line.cell_length), other))
    return rows
