"""Budgets: what may be spent in a window of time, when a window begins and ends, and what it is called.

A new window is a member of ``Window`` and a row of ``_WINDOWS``.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

import msgspec

from gateway.domain.units import HOUR_MS, Millis, Nanos, local_datetime


class WindowInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that differs from window to window.

    Boundaries are local times without an offset. They follow the calendar and are not multiples of 24 hours, so days
    when the clock changes are right.
    """

    first: Callable[[datetime], datetime] | None = None
    """Returns when the window that contains a moment began; None if it began at 0 and does not end."""
    following: Callable[[datetime], datetime] | None = None
    """Returns when the next window begins, from the start of a window; None if no window follows."""
    adjective: str
    """The adjective before "budget", such as ``daily``; empty for a budget without an end."""
    current: str
    """The name of the current window, such as ``today``."""
    rate: str
    """The words after an amount, such as ``a day``."""
    chart_step: Literal["hour", "day"]
    """The length of time that one column of the window's chart stands for."""
    example: int
    """An amount in dollars, for help texts."""


class Window(StrEnum):
    """How long a budget applies, in local time. Weeks begin on Monday. What is unused is not carried over."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    EVER = "ever"

    @property
    def info(self) -> WindowInfo:
        return _WINDOWS[self]


def _midnight(moment: datetime) -> datetime:
    return datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - local by intent: resolved by timestamp()


_WINDOWS = {
    Window.DAY: WindowInfo(
        first=_midnight,
        following=lambda first: first + timedelta(days=1),
        adjective="daily",
        current="today",
        rate="a day",
        chart_step="hour",
        example=5,
    ),
    Window.WEEK: WindowInfo(
        first=lambda moment: _midnight(moment) - timedelta(days=moment.weekday()),
        following=lambda first: first + timedelta(days=7),
        adjective="weekly",
        current="this week",
        rate="a week",
        chart_step="hour",
        example=20,
    ),
    Window.MONTH: WindowInfo(
        first=lambda moment: _midnight(moment).replace(day=1),
        following=lambda first: (first + timedelta(days=32)).replace(day=1),
        adjective="monthly",
        current="this month",
        rate="a month",
        chart_step="day",
        example=50,
    ),
    Window.EVER: WindowInfo(adjective="", current="in total", rate="in all", chart_step="day", example=100),
}


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be spent in one window: money, tokens, or both."""

    window: Window = Window.EVER
    nanos: Nanos | None = None
    tokens: int | None = None


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """What calls used or hold: nano-dollars, input and output tokens together, and the number of calls."""

    nanos: Nanos = Nanos(0)
    tokens: int = 0
    calls: int = 0

    def plus(self, nanos: int, tokens: int, calls: int) -> "Amounts":
        return Amounts(Nanos(self.nanos + nanos), self.tokens + tokens, self.calls + calls)


WARN_SHARE = 0.8
"""The spent share of a budget that causes a warning."""


def share_of(budget: Budget, nanos: int, tokens: int) -> float:
    """Returns which share of a budget these amounts are: of its money or of its tokens, whichever is larger."""
    pairs = ((nanos, budget.nanos), (tokens, budget.tokens))
    return max((used / limit if limit else float(used > 0) for used, limit in pairs if limit is not None), default=0.0)


EVER = Millis(0)
"""When the window ``Window.EVER`` began."""


def window_start(window: Window, now: Millis) -> Millis:
    """Returns when the window that contains ``now`` began, by this machine's local calendar. EVER began at 0."""
    first = _WINDOWS[window].first
    return EVER if first is None else _millis(first(local_datetime(now)))


def window_end(window: Window, now: Millis) -> Millis | None:
    """Returns when the window that contains ``now`` ends; None for EVER."""
    first, following = _WINDOWS[window].first, _WINDOWS[window].following
    return None if first is None or following is None else _millis(following(first(local_datetime(now))))


def days(count: int, now: Millis) -> list[Millis]:
    """Returns the starts of the last ``count`` local days, oldest first, by the calendar: days differ in length."""
    starts = [window_start(Window.DAY, now)]
    while len(starts) < count:
        starts.append(window_start(Window.DAY, Millis(starts[-1] - HOUR_MS)))
    return starts[::-1]


BALANCE_ID = "balance"
"""The id of the account's balance, where it is listed like a budget."""
BALANCE_NAME = "balance of the account"


def budget_id(window: str, kind: str, owner: str) -> str:
    """Returns an id that survives renames: ``day:token:tok_1``; for the account ``day:account:``."""
    return f"{window}:{kind}:{owner}"


def budget_name(window: Window, owner: str) -> str:
    """Returns ``daily budget of token 'ci'``."""
    return f"{_WINDOWS[window].adjective} budget of {owner}".lstrip()


def _millis(moment: datetime) -> Millis:
    return Millis(int(moment.timestamp() * 1000))
