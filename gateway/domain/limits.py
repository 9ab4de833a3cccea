"""Limits: how much and how fast, as the owner sets it."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from gateway.domain.units import Millis, Nanos


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rates of a token, group or channel; None means no limit. Minutes slide, days begin at local midnight."""

    rpm: int | None = None
    """Requests a minute."""
    tpm: int | None = None
    """Input and output tokens a minute."""
    rpd: int | None = None
    tpd: int | None = None
    concurrent: int | None = None
    """Calls in flight. None on a channel: as many as the settings say."""
    streams: int | None = None
    """Streams in flight, of a token or group. None on a token: as many as the settings say."""
    queue: int | None = None
    """Calls that may wait for a place among those in flight; None: as many as the settings say."""
    queue_s: int | None = None
    """Seconds a call may wait for such a place; 0: it is refused at once. None: as the settings say."""


NO_LIMITS = Limits()

DEFAULT_OUTPUT = 4096
"""Output tokens that are held for where a request has no cap."""


class LimitReading(msgspec.Struct, frozen=True, gc=False):
    """A limit, what is left of it, and seconds until it is whole again."""

    limit: int
    left: int
    reset_s: float


Readings = tuple[LimitReading | None, LimitReading | None]
"""The tightest limit of requests and the tightest of tokens, of all that bind a call."""

NO_READINGS: Readings = (None, None)


class Window(StrEnum):
    """How long a budget lasts, in local time. Weeks begin on Monday. What is unused does not roll over."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    EVER = "ever"


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be spent in one window; at least one of the two amounts is set."""

    window: Window = Window.EVER
    nanos: Nanos | None = None
    tokens: int | None = None


def window_start(window: Window, now: Millis) -> Millis:
    """The moment at which the window that holds ``now`` began, by this machine's local calendar.

    Local midnight is taken from the calendar and not computed as a multiple of 24 hours, so that days with a change of
    clocks are right. EVER began at 0.
    """
    if window is Window.EVER:
        return Millis(0)
    return _millis(_first_day(window, _local(now)))


def window_end(window: Window, now: Millis) -> Millis | None:
    """The moment at which the window that holds ``now`` ends; None for EVER."""
    if window is Window.EVER:
        return None
    first = _first_day(window, _local(now))
    if window is Window.DAY:
        return _millis(first + timedelta(days=1))
    if window is Window.WEEK:
        return _millis(first + timedelta(days=7))
    return _millis((first + timedelta(days=32)).replace(day=1))


def _local(now: Millis) -> datetime:
    return datetime.fromtimestamp(now / 1000).astimezone()


def _first_day(window: Window, day: datetime) -> datetime:
    midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - local by intent: resolved by timestamp()
    if window is Window.WEEK:
        return midnight - timedelta(days=midnight.weekday())
    return midnight.replace(day=1) if window is Window.MONTH else midnight


def _millis(naive_local: datetime) -> Millis:
    return Millis(int(naive_local.timestamp() * 1000))
