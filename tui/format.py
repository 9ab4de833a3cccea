"""Format: writes amounts, counts, durations and moments for narrow columns, and equivalent command lines."""

import shlex

from gateway.domain.human_values import (
    brief_count as brief_count,  # noqa: PLC0414 - pages use it from here
    brief_span,
    call_duration,
    count_text as count_text,  # noqa: PLC0414 - pages use it from here
    percent_text,
    state_word,
)
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.units import DOLLAR, local_datetime
from tui import glyphs

CENT = DOLLAR // 100


def cost(nanos: int) -> str:
    """Returns an amount in at most nine cells, below a thousand dollars; ``<$0.00001`` if it would round to zero."""
    amount = abs(nanos)
    sign = "-" if nanos < 0 else ""
    if amount == 0:
        return "$0"
    if amount < 500:
        return f"{sign}<$0.00001"
    digits = 4 if amount >= DOLLAR // 1000 else 6
    if amount >= 100 * DOLLAR:
        digits = 2
    step = DOLLAR // 10**digits
    units = (2 * amount + step) // (2 * step)  # half up: formatting a float would round some amounts down
    return f"{sign}${units / 10**digits:,.{digits}f}"


def dollar_amount(nanos: int) -> str:
    """Returns an amount rounded to whole cents, or the exact amount if it is less than a cent."""
    if abs(nanos) < CENT:
        return brief_dollars(nanos)
    cents = (2 * abs(nanos) + CENT) // (2 * CENT)
    return dollars((cents if nanos >= 0 else -cents) * CENT)


def short_cost(nanos: int) -> str:
    """Returns an amount for a narrow column: in whole cents, or like ``cost`` if it is less than a cent."""
    return dollar_amount(nanos) if not nanos or abs(nanos) >= CENT else cost(nanos)


def duration(ms: float | None) -> str:
    """Returns a duration of a call in at most six cells; a dot for None."""
    return glyphs.NOTHING if ms is None else call_duration(round(ms))


def count(number: int) -> str:
    """Returns a count with all digits up to a million: ``3,455``, ``1.25M``."""
    return f"{number:,}" if number < 1_000_000 else brief_count(number)


def percent(share: float) -> str:
    """Returns a share as a percentage: ``2.1%``, ``97%``, ``100%``. A share below 1 is never shown as ``100%``."""
    number = share * 100
    return f"{number:.1f}%" if 0 < number < 9.95 else percent_text(share)


def age(ms: int) -> str:
    """Returns an age in one unit: ``now``, ``14s``, ``2m``, ``3h``, ``9d``."""
    for letter, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms >= size:
            return f"{ms // size}{letter}"
    return "now"


def countdown(now: int, until: int | None) -> str:
    """Returns the time left until a moment: ``14s``, ``2m05s``; empty for None."""
    if until is None:
        return ""
    ms = max(0, until - now)
    return f"{-(-ms // 1000)}s" if ms < 60_000 else brief_span(ms)


def channel_state(state: str, until_ms: int | None = None, now: int = 0) -> str:
    """Returns the state of a channel or key in words: ``ok``, ``paused until 12:30``, ``paused 14s``, ``not set``."""
    if state == "cooling" and until_ms is not None and until_ms <= now:
        state, until_ms = "half_open", None  # the server sends no event when a pause ends
    word = state_word(state)
    if until_ms is None:
        return word
    if until_ms - now < 60_000:
        return f"{word} {countdown(now, until_ms)}"
    return f"{word} until {local_datetime(until_ms):%H:%M}"


def moment(ms: int, now: int) -> str:
    """Returns a moment in at most 12 cells: ``09:30:15`` today, ``14 Sep 09:30``, ``14 Sep 2025`` in another year."""
    time, today = local_datetime(ms), local_datetime(now)
    if time.date() == today.date():
        return time.strftime("%H:%M:%S")
    return f"{time.day:2} {time:%b} {time:%H:%M}" if time.year == today.year else f"{time.day:2} {time:%b %Y}"


def brief_moment(ms: int, now: int) -> str:
    """Returns a moment in 8 cells: ``09:30:15``, ``Sa 14:03`` in a week, ``14 09:30`` in four weeks, or ``14 Aug``."""
    time, today = local_datetime(ms), local_datetime(now)
    days_ago = (today.date() - time.date()).days
    if days_ago == 0:
        return f"{time:%H:%M:%S}"
    if 0 < days_ago < 7:  # the weekday is unambiguous
        return f"{time.strftime('%a')[:2]} {time:%H:%M}"
    if 0 < days_ago < 28:  # so is the day of the month
        return f"{time.day:2} {time:%H:%M}"
    return f"{time.day:2} {time:%b}" if time.year == today.year else f"{time:%b %Y}"


def day(ms: int) -> str:
    """Returns a date: ``14 Sep``."""
    date = local_datetime(ms)
    return f"{date.day} {date:%b}"


def price(nanos: int | None) -> str:
    """Returns dollars per million tokens without needless zeros: ``3``, ``0.25``, ``0.028``."""
    if nanos is None:
        return glyphs.NOTHING
    return dollars(nanos).replace("$", "").removesuffix(".00")


def decimals(nanos: int) -> int:
    """Returns the number of decimals of an amount, at least two."""
    return len(dollars(nanos).partition(".")[2])


def cli_command(*words: str, **options: str | int | None) -> str:
    """Returns words and options quoted for a shell. Options that are None are left out; True is a flag."""
    parts = [shlex.quote(word) for word in words]
    for name, value in options.items():
        if value is not None:
            parts.append(f"--{name.replace('_', '-')}")
            if value is not True:
                parts.append(shlex.quote(str(value)))
    return " ".join(parts)
