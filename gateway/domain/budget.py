"""Budgets: what may be spent in a window of time, when a window begins and ends, and what it is called.

A new window is a member of ``Window`` and a row of ``_WINDOWS``.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

import msgspec

from gateway.domain.units import Millis, Nanos


class Calendar(msgspec.Struct, frozen=True):
    """The boundaries of a window. Times without an offset are local.

    They are taken from the calendar and not computed as multiples of 24 hours, so that days with a change of clocks are
    right.
    """

    first: Callable[[datetime], datetime]
    """When the window that holds a moment began. The moment has its offset."""
    following: Callable[[datetime], datetime]
    """When the one after a window begins, by the first moment of that window."""


class WindowInfo(msgspec.Struct, frozen=True, kw_only=True):
    """All that differs from window to window."""

    calendar: Calendar | None
    """None: it began at 0 and does not end."""
    adjective: str
    """``daily``, as in "daily budget"; empty: a budget is called just that."""
    current: str
    """The window that holds this moment: ``today``."""
    rate: str
    """What follows an amount: ``a day``."""
    chart_step: Literal["hour", "day"]
    """What one sum of its chart counts."""
    example: int
    """Dollars, for help texts."""


class Window(StrEnum):
    """How long a budget lasts, in local time. Weeks begin on Monday. What is unused does not roll over."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    EVER = "ever"

    @property
    def info(self) -> WindowInfo:
        """All that differs from window to window."""
        return _WINDOWS[self]


def _midnight(moment: datetime) -> datetime:
    return datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - local by intent: resolved by timestamp()


def _monday(moment: datetime) -> datetime:
    return _midnight(moment) - timedelta(days=moment.weekday())


_WINDOWS = {
    Window.DAY: WindowInfo(
        calendar=Calendar(_midnight, lambda first: first + timedelta(days=1)),
        adjective="daily",
        current="today",
        rate="a day",
        chart_step="hour",
        example=5,
    ),
    Window.WEEK: WindowInfo(
        calendar=Calendar(_monday, lambda first: first + timedelta(days=7)),
        adjective="weekly",
        current="this week",
        rate="a week",
        chart_step="hour",
        example=20,
    ),
    Window.MONTH: WindowInfo(
        calendar=Calendar(
            lambda moment: _midnight(moment).replace(day=1),
            lambda first: (first + timedelta(days=32)).replace(day=1),
        ),
        adjective="monthly",
        current="this month",
        rate="a month",
        chart_step="day",
        example=50,
    ),
    Window.EVER: WindowInfo(
        calendar=None, adjective="", current="in total", rate="in all", chart_step="day", example=100
    ),
}


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be spent in one window; at least one of the two amounts is set."""

    window: Window = Window.EVER
    nanos: Nanos | None = None
    tokens: int | None = None


def window_start(window: Window, now: Millis) -> Millis:
    """The moment at which the window that holds ``now`` began, by this machine's local calendar. EVER began at 0."""
    calendar = _WINDOWS[window].calendar
    return Millis(0) if calendar is None else _millis(calendar.first(_local(now)))


def window_end(window: Window, now: Millis) -> Millis | None:
    """The moment at which the window that holds ``now`` ends; None for EVER."""
    calendar = _WINDOWS[window].calendar
    return None if calendar is None else _millis(calendar.following(calendar.first(_local(now))))


BALANCE_ID = "balance"
"""The account's balance, where budgets are named by their ids."""
BALANCE_NAME = "balance of the account"


def budget_id(window: str, kind: str, owner: str) -> str:
    """An id that stays when names change: ``day:token:tok_1``; of the account: ``day:account:``."""
    return f"{window}:{kind}:{owner}"


def budget_name(window: Window, owner: str) -> str:
    """``daily budget of token 'ci'``."""
    return f"{_WINDOWS[window].adjective} budget of {owner}".lstrip()


def _local(now: Millis) -> datetime:
    return datetime.fromtimestamp(now / 1000).astimezone()


def _millis(moment: datetime) -> Millis:
    return Millis(int(moment.timestamp() * 1000))
