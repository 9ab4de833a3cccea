"""Format: amounts, counts, durations, ages and moments as text for narrow columns. Integers in, text out."""

from datetime import datetime

from gateway.domain.human_values import brief_count as brief_count  # noqa: PLC0414 - pages use it from here
from gateway.domain.human_values import brief_span, percent_text, state_word
from gateway.domain.human_values import count_text as count_text  # noqa: PLC0414 - pages use it from here
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.units import DOLLAR

NOTHING = "·"


def cost(nanos: int) -> str:
    """Returns an amount in at most nine cells up to a thousand dollars. One that would round to zero is shown as
    ``<$0.00001``.
    """
    size = abs(nanos)
    sign = "-" if nanos < 0 else ""
    if size == 0:
        return "$0"
    if size >= 100 * DOLLAR:
        return f"{sign}${_round(size, 2):,.2f}"
    if size >= DOLLAR // 1000:
        return f"{sign}${_round(size, 4):.4f}"
    if size >= 500:
        return f"{sign}${_round(size, 6):.6f}"
    return f"{sign}<$0.00001"


def dollar_amount(nanos: int) -> str:
    """Returns an amount in whole cents, or exact if it is less than one."""
    if abs(nanos) < DOLLAR // 100:
        return brief_dollars(nanos)
    cents = (2 * abs(nanos) + DOLLAR // 100) // (2 * (DOLLAR // 100))
    return dollars((cents if nanos >= 0 else -cents) * (DOLLAR // 100))


def short_cost(nanos: int) -> str:
    """Returns an amount in a narrow column: whole cents, or at most nine cells if it is less than one."""
    return dollar_amount(nanos) if not nanos or abs(nanos) >= DOLLAR // 100 else cost(nanos)


def seconds(ms: int | None) -> str:
    """Returns a duration of a call in at most six cells: ``4ms``, ``0.61s``, ``19.35s``, ``2m05s``."""
    if ms is None:
        return NOTHING
    if ms < 10:
        return f"{ms}ms"
    return f"{ms / 1000:.2f}s" if ms < 100_000 else brief_span(ms)


def count(number: int) -> str:
    """Returns a count with all digits up to a million: ``3,455``, ``1.25M``."""
    return f"{number:,}" if number < 1_000_000 else brief_count(number)


def percent(part: float) -> str:
    """Returns a share as a percentage: ``2.1%``, ``97%``, ``100%``. Less than the whole is never ``100%``."""
    percent = part * 100
    return f"{percent:.1f}%" if 0 < percent < 10 else percent_text(part)


def age(ms: int) -> str:
    """Returns an age in one unit: ``now``, ``14s``, ``2m``, ``3h``, ``9d``."""
    for letter, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms >= size:
            return f"{ms // size}{letter}"
    return "now"


def ago(now: int, then: int | None) -> str:
    """Returns the age of a moment; ``never`` for None."""
    return "never" if then is None else age(max(0, now - then))


def time_ago(now: int, then: int) -> str:
    """Returns ``just now``, ``14s ago``."""
    passed = ago(now, then)
    return "just now" if passed == "now" else f"{passed} ago"


def countdown(now: int, until: int) -> str:
    """Returns a countdown: ``14s``, ``2m05s``."""
    ms = max(0, until - now)
    return f"{-(-ms // 1000)}s" if ms < 60_000 else brief_span(ms)


def channel_state(state: str, until_ms: int | None = None, now: int = 0) -> str:
    """Returns ``ok``, ``off``, ``paused until 12:30``, ``paused 14s``, ``needs attention`` or ``retrying``.

    For a key also ``not set``.
    """
    if state == "cooling" and until_ms is not None and until_ms <= now:
        state, until_ms = "half_open", None  # the end of a pause is not an event
    word = state_word(state)
    if until_ms is None:
        return word
    if until_ms - now < 60_000:
        return f"{word} {countdown(now, until_ms)}"
    return f"{word} until {clock(until_ms)[:5]}"


def clock(ms: int) -> str:
    """Returns the local time of day: ``14:13:18``."""
    return datetime.fromtimestamp(ms / 1000).astimezone().strftime("%H:%M:%S")


def moment(ms: int, now: int) -> str:
    """Returns a moment in at most 12 cells: the time if it is today, otherwise the day with it: ``14 Sep 09:30``, ``14
    Sep 2025``.
    """
    then, today = (datetime.fromtimestamp(at / 1000).astimezone() for at in (ms, now))
    if then.date() == today.date():
        return then.strftime("%H:%M:%S")
    return f"{then.day:2} {then:%b} {then:%H:%M}" if then.year == today.year else f"{then.day:2} {then:%b %Y}"


def brief_moment(ms: int, now: int) -> str:
    """Returns a moment in 8 cells: the time if it is today, with the weekday within a week (``Sa 14:03``), with the day
    of the month within four (``14 09:30``), otherwise the day: ``14 Aug``.
    """
    then, today = (datetime.fromtimestamp(at / 1000).astimezone() for at in (ms, now))
    back = (today.date() - then.date()).days
    if back == 0:
        return f"{then:%H:%M:%S}"
    if 0 < back < 7:  # the weekday is unambiguous
        return f"{f'{then:%a}'[:2]} {then:%H:%M}"
    if 0 < back < 28:  # so is the day of the month
        return f"{then.day:2} {then:%H:%M}"
    return f"{then.day:2} {then:%b}" if then.year == today.year else f"{then:%b %Y}"


def day(ms: int) -> str:
    """Returns a date: ``14 Sep``."""
    then = datetime.fromtimestamp(ms / 1000).astimezone()
    return f"{then.day} {then:%b}"


def price(nanos: int | None) -> str:
    """Returns dollars per million tokens without needless zeros: ``3``, ``0.25``, ``0.028``."""
    if nanos is None:
        return NOTHING
    text = dollars(nanos).replace("$", "")
    return text.removesuffix(".00")


def aligned_price(nanos: int | None, places: int, nothing: str = NOTHING) -> str:
    """Returns the same for a right-aligned column: at least two decimals, and blanks for decimals that only other
    prices have.
    """
    if nanos is None:
        return nothing + " " * (places + 1)
    text = dollars(nanos).replace("$", "")
    return (text + " " * (places - decimals(nanos)))[: max(len(text), PRICE_CELLS)]


PRICE_CELLS = 7
"""The cells of a column of prices; only a longer price is cut."""


def decimals(nanos: int) -> int:
    """Returns the number of decimals of an amount, at least two."""
    return len(dollars(nanos).partition(".")[2])


def _round(nanos: int, digits: int) -> float:
    """Returns dollars for formatting only: rounded half up as an integer first, so that the float is exact enough."""
    step: int = DOLLAR // 10**digits
    units: int = (2 * nanos + step) // (2 * step)
    return units / float(10**digits)
