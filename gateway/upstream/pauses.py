"""How long an upstream asks to wait, in seconds from 0 to 600: in headers, in the details of an error or in its words.

Vendors write a time as seconds (``12``), milliseconds, a span (``1m2.5s``), a date, or the time since the epoch.
Absolute times are compared with the answer's own ``Date``: the upstream's clock need not be ours.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from gateway.domain.lazy_pattern import lazy_pattern

PAUSE_LIMIT_S = 600.0

_MILLIS = ("retry-after-ms", "x-retry-after-ms", "x-ms-retry-after-ms")
_RETRY = (*_MILLIS, "retry-after", "x-retry-after", "x-ratelimit-retry-after", "ratelimit-retry-after")

_EPOCH_S, _EPOCH_MS = 1.5e9, 1.5e12
"""Larger numbers are times since the epoch, not durations: after the middle of 2017."""

_UNITS = (
    (("ms", "mil", "毫"), 0.001),
    (("s", "秒"), 1.0),
    (("m", "分"), 60.0),
    (("h", "小"), 3600.0),
    (("d", "天"), 86400.0),
)
"""Units by their start; the first that matches counts."""
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_UNIT = r"(?:ms|milliseconds?|毫秒|s|secs?|seconds?|秒|m|mins?|minutes?|分钟?|h|hrs?|hours?|小时|d|days?|天)(?![a-z])"
_AMOUNT = lazy_pattern(rf"({_NUMBER})\s*({_UNIT})")
_SPAN = rf"(?:{_NUMBER}\s*{_UNIT}[\s,]{{0,3}}(?:and\s)?){{1,5}}"
_WHOLE_SPAN = lazy_pattern(_SPAN)
_WORDS = lazy_pattern(
    rf"(?:retry|try again|wait|available again|reset|请在|请等待)[^.\d]{{0,40}}?({_SPAN})"
    rf"|({_SPAN})[^.\d]{{0,12}}(?:重试|再试|later)"
)
_MOMENT = lazy_pattern(
    r"(?:reset|regain|retry|try again|available|限额将在)\D{0,40}"
    r"(\d{4}-\d\d-\d\d)(?:t|\s+(?:at\s+)?)(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?\s*(utc|z|[+-]\d\d:?\d\d)?"
)

_COMBINED = lazy_pattern(r"(?:\breset|;\s*t)\s*=\s*\"?(\d+(?:\.\d+)?)")
"""Matches ``ratelimit``: ``limit=10, remaining=0, reset=12``, in the newer draft ``"default";r=0;t=12``."""


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Returns the value of ``retry-after`` or one of its other names; None without a valid one."""
    for name in _RETRY:
        pause = span_s(headers.get(name, ""), headers, unit=0.001 if name in _MILLIS else 1.0)
        if pause is not None:
            return pause
    return None


def reset_s(headers: Mapping[str, str]) -> float | None:
    """Returns how long until the limit that was reached resets.

    Many vendors report several limits in every answer. One with nothing left was reached; if there is none, the one
    with the smallest share left; if that is unknown, the one that resets first.
    """
    known = list(_limits(headers))
    empty = [pause for share, pause in known if share == 0]
    if empty:
        return max(empty)
    return min(known)[1] if known else None


def _limits(headers: Mapping[str, str]) -> Iterator[tuple[float, float]]:
    """Yields the share left of each limit, 2 if unknown, and how long until it resets."""
    for name, value in headers.items():
        if "limit" in name and "reset" in name:
            pause = span_s(value, headers)
            left = _number(headers.get(name.replace("reset", "remaining"), ""))
            most = _number(headers.get(name.replace("reset", "limit"), ""))
            share = 2.0 if left is None or left < 0 else left and (min(left / most, 1.0) if most else 1.0)
        elif name == "ratelimit" and (match := _COMBINED.search(value)):
            share, pause = 2.0, span_s(match[1], headers)
        else:
            continue
        if pause is not None:
            yield share, pause


def told_s(words: str, headers: Mapping[str, str]) -> float | None:
    """Returns the pause in a lower-case message: ``please retry in 34.07s``, ``try again in 1m2.5s``."""
    match = _WORDS.search(words)
    if match is not None:
        return _clamp(_sum(match[1] or match[2]))
    moment = _MOMENT.search(words)
    if moment is None:
        return None
    day, hour, zone = moment.groups()
    beijing = timezone(timedelta(hours=8))  # Zhipu is the only vendor that writes moments without a zone
    parsed = _iso(f"{day}T{hour}{(zone or '').replace('utc', 'z').upper()}", beijing)
    return _until(parsed, headers)


def span_s(text: str, headers: Mapping[str, str], *, unit: float = 1.0) -> float | None:
    """Returns a time in a header or field in seconds; None if it is invalid. A bare number is in ``unit`` seconds."""
    text = text.strip().lower()
    number = _number(text)
    if number is not None:
        if number < _EPOCH_S or unit != 1.0 or math.isinf(number):
            return _clamp(number * unit)
        return _until(_moment(number / 1000 if number >= _EPOCH_MS else number), headers)
    if _WHOLE_SPAN.fullmatch(text):
        return _clamp(_sum(text))
    try:
        return _until(parsedate_to_datetime(text), headers)
    except (TypeError, ValueError):
        return _until(_iso(text.upper(), UTC), headers)


def _sum(span: str) -> float:
    return sum(float(number) * _unit_s(unit) for number, unit in _AMOUNT.findall(span))


def _unit_s(unit: str) -> float:
    return next(seconds for starts, seconds in _UNITS if unit.startswith(starts))


def _iso(text: str, zone: timezone) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)


def _moment(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _until(moment: datetime | None, headers: Mapping[str, str]) -> float | None:
    """Returns the seconds from the answer's date on; None if it has none, or the moment is over."""
    try:
        now = parsedate_to_datetime(headers.get("date", ""))
        return None if moment is None else _clamp((moment - now).total_seconds())
    except (TypeError, ValueError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _clamp(seconds: float) -> float | None:
    return min(seconds, PAUSE_LIMIT_S) if seconds >= 0 else None
