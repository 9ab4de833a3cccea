"""Human values: counts, multipliers, spans of time, moments and price tiers as people write and read them.

The tier ``200k=6/22.50`` is for inputs of more than 200,000 tokens; it costs 6 dollars for input and 22.50 for output.
Up to three amounts may follow: cached input, cache write, long cache write. ``price.rates`` has their defaults.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from gateway.domain.errors import BadRequest
from gateway.domain.money import parse_dollars, typed_dollars
from gateway.domain.price import DAY_MINUTES, DAYS, RATE_AMOUNTS, UPSTREAM, Day, Price, PriceHours, Tier, rates, zone_of
from gateway.domain.units import MAX_MULTIPLIER, MAX_NUMBER, MILLION, Millis, local_datetime

_COUNT = re.compile(r"((?=\.?[0-9])[0-9]{0,40}(?:\.[0-9]{1,6})?)([kKmMbB]?)", re.ASCII)
_MULTIPLIER = re.compile(r"(?=\.?[0-9])[0-9]{0,40}(?:\.[0-9]{1,6})?", re.ASCII)
_SPAN = re.compile(r"((?=\.?[0-9])[0-9]{0,9}(?:\.[0-9]{1,3})?)(ms|s|m|h|d|w)", re.ASCII)
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?", re.ASCII)

_THOUSANDS = {"": 1, "k": 1_000, "m": MILLION, "b": 1_000 * MILLION}
_WEEK = re.compile(r"\d{4}-W\d{2}")
_MONTH = re.compile(r"\d{4}-\d{2}")
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_WEEKS = {"week": 0, "last-week": -1}
_MONTHS = {"month": 0, "last-month": -1}
_SPANS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def parse_count(text: str) -> int:
    """Returns a whole number such as ``1000``, ``1_000``, ``250k`` or ``1.5M``. Raises BadRequest for anything else."""
    match = _COUNT.fullmatch(text.strip().replace("_", ""))
    number = Decimal(match[1]) * _THOUSANDS[match[2].lower()] if match else Decimal("0.5")
    if number != int(number):
        raise BadRequest(f"{text!r} is not a whole number such as 1000, 250k or 1.5M")
    if number > MAX_NUMBER:
        raise BadRequest(f"{text!r} is more than {MAX_NUMBER}, the most a number may be")
    return int(number)


def parse_multiplier(text: str) -> int:
    """Returns a multiplier such as ``1.5`` or ``x0.25`` in parts per million. Raises BadRequest for anything else."""
    number = text.strip().removeprefix("x")
    if not _MULTIPLIER.fullmatch(number):
        raise BadRequest(f"{text!r} is not a number such as 1.5 (at most 6 digits after the point)")
    if Decimal(number) > MAX_MULTIPLIER:
        raise BadRequest(f"{text!r} is more than {MAX_MULTIPLIER}, the most a multiplier may be")
    return int(Decimal(number) * MILLION)


def parse_seconds(text: str, place: str = "") -> float:
    """Returns a number of seconds, at most a day. Raises BadRequest, whose message begins with ``place``."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= 86_400:  # also false for nan
        raise BadRequest(f"{place}{text!r} is not a number of seconds from 0 to 86400")
    return seconds


def parse_span(text: str) -> Millis:
    """Returns the milliseconds of ``250ms``, ``90s``, ``10m``, ``1h``, ``30d`` or ``2w``. Raises BadRequest."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise BadRequest(f"{text!r} is not a span of time such as 90s, 10m, 1h or 30d")
    return Millis(int(Decimal(match[1]) * _SPANS[match[2]]))


def parse_past(text: str, now: Millis, *, end: bool = False) -> Millis:
    """Returns the past moment of a span, the latest such time of day, or a day, week or month (see ``_iso_text``)."""
    if _SPAN.fullmatch(text.strip()):
        return Millis(now - parse_span(text))
    if _TIME.fullmatch(text.strip()):
        moments = (parse_date(_iso_text(f"{day} {text}", now, -1)) for day in ("today", "yesterday"))
        return next(moment for moment in moments if moment <= now)
    return parse_date(_iso_text(text, now, -1), end=end)


def parse_future(text: str, now: Millis) -> Millis:
    """Returns the moment of a span, a time of day, or the end of a day. Raises BadRequest for a past moment."""
    if _SPAN.fullmatch(text.strip()):
        moment = Millis(now + parse_span(text))
    elif _TIME.fullmatch(text.strip()):
        moments = (parse_date(_iso_text(f"{day} {text}", now, 1)) for day in ("today", "tomorrow"))
        moment = next(moment for moment in moments if moment > now)
    else:
        moment = parse_date(_iso_text(text, now, 1), end=True)
    if moment <= now:
        raise BadRequest(f"{text!r} is in the past; use a future time such as 30d")
    return moment


def _iso_text(text: str, now: Millis, direction: int) -> str:
    """Returns the ISO 8601 form of a text such as ``today``, ``week``, ``last-month``, ``monday 9:00``, ``25 Nov``.

    A weekday or date is the next one, today included, or with the direction -1 the last one. Other texts are unchanged.
    """
    words, today = text.lower().split(), local_datetime(now).date()
    clock = words.pop() if len(words) > 1 and _TIME.fullmatch(words[-1]) else ""
    clock = clock and f"T{clock.zfill(8 if clock.count(':') > 1 else 5)}"
    word = " ".join(words).replace("last ", "last-")
    if word in _MONTHS:
        last = today.replace(day=1) - timedelta(days=1)
        return f"{last if _MONTHS[word] else today:%Y-%m}{clock}"
    if word in _WEEKS:
        return f"{today + timedelta(weeks=_WEEKS[word]):%G-W%V}{clock}"
    if word in _DAYS:
        return f"{today + timedelta(days=_DAYS[word])}{clock}"
    days = (today + timedelta(days=direction * distance) for distance in range(366))
    return next((f"{day}{clock}" for day in days if _is_named(day, word, has_time=bool(clock))), text)


def _is_named(day: date, word: str, *, has_time: bool) -> bool:
    """Returns whether this is a day's name: ``mon``, ``25 nov``, ``nov 25``; before a time also its number alone."""
    if has_time and word.isdecimal():
        return int(word) == day.day
    dates = (f"{day:%d %b}", f"{day.day} {day:%b}", f"{day:%b} {day.day}")
    return word in map(str.lower, dates) or (len(word) > 1 and f"{day:%A}".lower().startswith(word))


def parse_date(text: str, *, end: bool = False) -> Millis:
    """Returns the moment of an ISO 8601 date or time, which is local unless it has an offset.

    A date, week or month without a time means its first moment, or with ``end`` the first one after. Raises BadRequest.
    """
    text = text.strip()
    is_month = _MONTH.fullmatch(text) is not None
    try:
        moment = datetime.fromisoformat(f"{text}-01" if is_month else text)
    except ValueError:
        msg = (
            f"{text!r} is not a time; use a span such as 1h or 30d, a time such as 14:00, a day such as today, monday "
            "or 25 Nov, or a date such as 2026-11-30, 2026-11-30T14:00 or 2026-11"
        )
        raise BadRequest(msg) from None
    try:
        if end and is_month:
            moment = (moment + timedelta(days=31)).replace(day=1)
        elif end and len(text) <= len("2026-11-30"):
            moment += timedelta(weeks=1) if _WEEK.fullmatch(text) else timedelta(days=1)
        return Millis(int(moment.timestamp() * 1000))
    except (OverflowError, ValueError):
        raise BadRequest(f"{text!r} is out of range") from None


def brief_count(number: int) -> str:
    """Returns a count with three significant digits: ``950``, ``12.3k``, ``1.25M``."""
    for letter, size in (("B", 1_000 * MILLION), ("M", MILLION), ("k", 1_000)):
        if number >= size - size // 2_000:
            digits = 1 if number < 100 * size else 0
            if number < 10 * size:
                digits = 2
            rounded = f"{Decimal(number) / size:.{digits}f}"
            return (rounded.rstrip("0").rstrip(".") if digits else rounded) + letter
    return str(number)


def exact_count(number: int) -> str:
    """Returns a count as it is typed, in the brief form if it is exact."""
    brief = brief_count(number)
    return brief if parse_count(brief) == number else str(number)


def plural(number: int, noun: str) -> str:
    """Returns a noun, given in either form, for a number. Words may follow it, as in ``requests a minute``."""
    first, space, tail = noun.partition(" ")
    singular = f"{first[:-3]}y" if first.endswith("ies") else first.removesuffix("s")
    many = f"{singular[:-1]}ies" if singular.endswith("y") and singular[-2:-1] not in "aeiou" else f"{singular}s"
    return f"{singular if number == 1 else many}{space}{tail}"


def percent_text(share: float) -> str:
    """Returns a share as ``84%``. Less than 1 is never ``100%``."""
    return f"{share:.0%}" if share >= 1 else f"{min(round(share * 100), 99)}%"


def count_text(number: int, noun: str) -> str:
    """Returns ``1 call``, ``3,455 calls``, ``1 request a minute``."""
    return f"{number:,} {plural(number, noun)}"


def first_of(texts: Sequence[str], count: int) -> str:
    """Returns the first names and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(texts) - count} more" if len(texts) > count else ""
    return ", ".join(texts[:count]) + more


def unset_text(names: Sequence[str]) -> str:
    """Returns a text that says that these variables are not set; empty if the list is empty."""
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not set where the server runs" if names else ""


def brief_context(tokens: int | None, source: str, unit: str = "") -> str:
    """Returns a model's context: ``128k``, or ``128k (list)`` if it is from a price list; empty if it is unknown."""
    mark = "" if source in ("", UPSTREAM) else " (list)"
    return f"{brief_count(tokens)}{unit}{mark}" if tokens else ""


def brief_multiplier(millionths: int) -> str:
    """Returns a multiplier as ``x1`` or ``x1.5``."""
    return f"x{(Decimal(millionths) / MILLION).normalize():f}"


def brief_span(ms: int) -> str:
    """Returns a length of time in at most two units: ``85ms``, ``1.25s``, ``2m05s``, ``3h12m``, ``4d06h``."""
    if ms < 1_000:
        return f"{ms}ms"
    if ms < 60_000:
        return f"{Decimal(ms) / 1000:.{2 if ms < 10_000 else 1}f}s"
    seconds = ms // 1000
    for letter, size, small_letter, small_size in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            return f"{seconds // size}{letter}{seconds % size // small_size:02d}{small_letter}"
    raise AssertionError  # sixty seconds are a minute


def ago(ms: int) -> str:
    """Returns roughly how long ago: ``just now``, ``12 s ago``, ``3h12m ago``."""
    return "just now" if ms < 1_000 else f"{pause_text(ms // 1000)} ago"


def call_duration(ms: int) -> str:
    """Returns a duration of a call in at most six cells: ``4ms``, ``0.61s``, ``19.35s``, ``2m05s``."""
    if ms < 10:
        return f"{ms}ms"
    return f"{ms / 1000:.2f}s" if ms < 100_000 else brief_span(ms)


def pause_text(seconds: float) -> str:
    """Returns a time to wait: ``30 s``, ``2m05s``, ``59m59s``."""
    whole = round(seconds)
    return f"{whole} s" if whole < 100 else brief_span(whole * 1000)


def local_time(ms: int) -> str:
    """Returns a moment in local time to the second: ``2026-11-20 22:31:05``."""
    return local_datetime(ms).strftime("%Y-%m-%d %H:%M:%S")


def expiry_time(ms: int) -> str:
    """Returns an expiry in local time, which is often the end of a day: ``end of 2026-12-31``."""
    return f"end of {date}" if (date := ended_date(ms)) else local_time(ms)


def ended_date(ms: int) -> str:
    """Returns the local date that ends at a moment; empty if no day ends then."""
    local = datetime.fromtimestamp(ms / 1000).astimezone()
    is_midnight = (local.hour, local.minute, local.second, local.microsecond) == (0, 0, 0, 0)
    return (local.date() - timedelta(days=1)).isoformat() if is_midnight else ""


def zoned_time(ms: int) -> str:
    """Returns a moment with its offset, for readers in other time zones: ``2026-11-20 22:31:05+01:00``."""
    return local_datetime(ms).isoformat(" ", "seconds")


def parse_tier(text: str) -> Tier:
    """Returns the tier of ``200k=6/22.50`` or ``200k=6/22.50/0.60/7.50``. Raises BadRequest for anything else."""
    above, sign, amounts_text = text.strip().partition("=")
    amounts = amounts_text.split("/")
    if not sign or not 2 <= len(amounts) <= 5:
        raise BadRequest(f"{text!r} is not a price for longer inputs such as 200k=6/22.50, which is input/output")
    nanos: dict[str, Any] = dict(zip(RATE_AMOUNTS, map(parse_dollars, amounts), strict=False))
    return Tier(above=parse_count(above), **nanos)


def tier_text(tier: Tier) -> str:
    """Returns the text that one types for the tier."""
    names = [*RATE_AMOUNTS]
    while getattr(tier, names[-1]) is None:
        names.pop()
    tier_rates = rates(Price(model="", input=tier.input, output=tier.output, tiers=(tier,)), tier.above + 1, MILLION)
    amounts = [typed_dollars(getattr(tier_rates, name)) for name in names]
    return f"{exact_count(tier.above)}={'/'.join(amounts)}"


_HOURS = re.compile(
    r"(?:(?P<days>[a-z][a-z,-]*)\s+)?(?P<start>\d\d?:\d\d)\s*-\s*(?P<end>\d\d?:\d\d)(?:\s+(?P<zone>\S+))?",
    re.IGNORECASE,
)


def parse_price_hours(text: str) -> PriceHours:
    """Returns hours such as ``mon-fri 01:00-04:00 UTC``, by default of every day and in UTC. Raises BadRequest."""
    match = _HOURS.fullmatch(text.strip())
    if match is None:
        raise BadRequest(f"{text!r} is not a time range such as 'mon-fri 01:00-04:00 UTC'")
    start, end, zone = _minute_of(match["start"]), _minute_of(match["end"]), match["zone"] or "UTC"
    try:
        zone_of(zone)
    except (KeyError, ValueError, OSError):
        raise BadRequest(f"{zone!r} is not a time zone such as UTC or Europe/Berlin") from None
    return PriceHours(days=_days_of((match["days"] or "mon-sun").lower()), start=start, end=end, zone=zone)


def _days_of(text: str) -> tuple[Day, ...]:
    """Returns the days of a text such as ``mon-fri`` or ``sat,sun``. Raises BadRequest."""
    days: set[int] = set()
    numbers: dict[str, int] = {day: number for number, day in enumerate(DAYS)}
    for span in text.split(","):
        first, _, last = span.partition("-")
        if first not in numbers or (last or first) not in numbers:
            raise BadRequest(f"{text!r} is not a list of days such as mon-fri or sat,sun")
        days |= {(numbers[first] + step) % 7 for step in range((numbers[last or first] - numbers[first]) % 7 + 1)}
    return tuple(DAYS[day] for day in sorted(days))


def _minute_of(text: str) -> int:
    """Returns the minute of the day of a time such as ``14:00``. Raises BadRequest."""
    hours, _, minutes = text.partition(":")
    minute = int(hours) * 60 + int(minutes)
    if int(minutes) >= 60 or minute > DAY_MINUTES:
        raise BadRequest(f"{text!r} is not a time of day")
    return minute


def state_word(state: str, count: int = 1) -> str:
    """Returns the words for the state of a channel, key or listed model, or of several; most are words already."""
    words = {
        "cooling": "paused",
        "attention": "needs attention" if count == 1 else "need attention",
        "half_open": "retrying",
        "unset": "not set",
        "kept_out": "not offered",
    }
    return words.get(state, state)
