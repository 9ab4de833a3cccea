"""Usage sums: fetches the sums that the Usage page shows for a period."""

import msgspec

from gateway.client.control import ControlClient
from gateway.domain.units import Millis
from gateway.domain.views import SumRow
from tui.pages.usage_bars import MEASURES
from tui.pages.usage_panels import BudgetCourse, BudgetSource, budget_window
from tui.trends import HOUR_MS, Trends, days, hours, trends


class UsageSums(msgspec.Struct, frozen=True):
    """The server's sums for one period and dimension."""

    trends: Trends
    overall: Trends
    """The sums of all keys together."""
    total: SumRow
    hours: Trends
    """The sums of the hours of the last weeks, all keys together."""
    first_ms: Millis | None
    course: BudgetCourse | None
    """The course of a budget at the time of the fetch; its ``updated`` adds what was used later."""
    fetched_ms: Millis
    words: str = ""
    """The filter that the calls match; empty: all calls."""
    incomplete: bool = False
    """Whether records of the period are deleted, so that their calls are missing in sums with a filter."""


async def fetch_sums(
    client: ControlClient, now: Millis, *, by: str, steps: tuple[str, int], budget: BudgetSource | None, words: str
) -> UsageSums:
    """Returns the sums of matching calls, and the course of a budget, which counts all calls. Raises GatewayError."""
    step, count = steps
    starts = hours(count, now) if step == "hour" else days(count, now)
    since, filter_words = starts[0], words or None
    main = await client.summary(by=by, since=since, step=step, percentiles=True, words=filter_words)
    overall = await client.summary(since=since, step=step, percentiles=True, words=filter_words)
    heat_starts = hours((now - days(28, now)[0]) // HOUR_MS + 1, now)
    heat = await client.summary(since=heat_starts[0], step="hour", words=filter_words)
    course = None
    if budget is not None:
        window = budget_window(budget, now)
        summary = await client.summary(by=budget.by, since=window.start, step=window.step)
        number = MEASURES["cost" if budget.budget.nanos is not None else "tokens"].number
        used = [(point.start_ms, number(point.row)) for point in summary.series if point.key == budget.key]
        course = BudgetCourse(budget, window, used)
    return UsageSums(
        trends(main, starts),
        trends(overall, starts),
        overall.total,
        trends(heat, heat_starts),
        main.first_ms,
        course,
        now,
        words,
        main.incomplete,
    )
