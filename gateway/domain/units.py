"""Units: types of integers and strings that must never be mixed up."""

from datetime import datetime
from typing import Annotated, NewType

import msgspec

Nanos = NewType("Nanos", int)
"""Nano-dollars: one dollar is 1_000_000_000. Money is never a float."""

Millis = NewType("Millis", Annotated[int, msgspec.Meta(ge=-62_135_596_800_000, le=253_402_300_799_999)])
"""Milliseconds: a duration, or a moment as the time since the epoch. Python's dates have these bounds."""

CallId = NewType("CallId", str)
"""``req_`` and 26 hex digits, the first 12 of them the call's start in milliseconds, so that ids sort by time."""

Factor = Annotated[int, msgspec.Meta(title="factor")]
"""A multiplier in parts per million."""

QUARTER_MS = 900_000
"""A quarter of an hour: every time zone differs from UTC by a multiple of it."""
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

TokenId = NewType("TokenId", str)
ChannelId = NewType("ChannelId", str)

DOLLAR = 1_000_000_000
"""Nano-dollars in a dollar."""

MILLION = 1_000_000
"""Prices are per million tokens, and multipliers are in parts per million."""

MAX_NUMBER = 10**18
"""The largest number in an input: a billion dollars in nano-dollars."""

MAX_MULTIPLIER = 1_000


def local_datetime(ms: int) -> datetime:
    """Returns a moment in the local time zone."""
    return datetime.fromtimestamp(ms / 1000).astimezone()
