"""Zones: the local time of another place, for the time of a block. Rules are spelled out, so no data is needed."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"
NEW_YORK = "EST5EDT,M3.2.0,M11.1.0"
SANTIAGO = "<-04>4<-03>,M9.1.6/24,M4.1.6/24"
"""Clocks change at midnight: one day has none."""
KATHMANDU = "<+0545>-5:45"
LORD_HOWE = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"
"""Clocks change by half an hour."""
UTC = "UTC0"

ZONES = (BERLIN, NEW_YORK, SANTIAGO, KATHMANDU, LORD_HOWE, UTC)


@contextmanager
def local_time_of(zone: str) -> Iterator[None]:
    """``zone`` is what the variable TZ takes."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
