"""PriceHours: the days and hours of the week in which a price applies: ``mon-fri 01:00-04:00 UTC``.

Hours whose end is before their start continue into the next day, and belong to the day on which they begin. The zone is
a name of the IANA database, so summer time is respected. ``human_values`` parses the text.
"""

from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Literal, get_args
from zoneinfo import ZoneInfo

import msgspec

from gateway.domain.units import Millis

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
DAY_MINUTES = 24 * 60


class PriceHours(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hours of some days of the week."""

    days: tuple[Day, ...] = DAYS
    """The days, in the order of the week."""
    start: int
    """The first minute, in minutes since midnight, below ``DAY_MINUTES``."""
    end: int
    """The first minute after the hours, up to ``DAY_MINUTES``; if it is not later than ``start``, it is on the next
    day."""
    zone: str = "UTC"

    def contains(self, moment: Millis) -> bool:
        """Returns whether the moment is in these hours. Raises the same errors as ``zone_of``."""
        local = datetime.fromtimestamp(moment / 1000, zone_of(self.zone))
        minute, day = local.hour * 60 + local.minute, local.weekday()
        if self.start < self.end:
            return self.start <= minute < self.end and DAYS[day] in self.days
        began = day if minute >= self.start else day - 1 if minute < self.end else None
        return began is not None and DAYS[began] in self.days

    def __str__(self) -> str:
        days = "" if self.days == DAYS else _written_days([DAYS.index(day) for day in self.days]) + " "
        return f"{days}{_written_time(self.start)}-{_written_time(self.end)} {self.zone}"


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Returns the zone with that name. Raises ValueError, OSError or KeyError (ZoneInfoNotFoundError) for an unknown
    one.
    """
    return UTC if name.upper() in ("UTC", "GMT", "Z") else ZoneInfo(name)


def _written_days(days: list[int]) -> str:
    """Returns days as ``mon-fri`` or ``sat,sun``, from their numbers in order."""
    spans: list[list[int]] = []
    for day in days:
        if spans and spans[-1][-1] == day - 1:
            spans[-1].append(day)
        else:
            spans.append([day])
    return ",".join(DAYS[s[0]] if len(s) == 1 else f"{DAYS[s[0]]}-{DAYS[s[-1]]}" for s in spans)


def _written_time(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
