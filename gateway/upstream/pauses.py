"""Pauses: how long an upstream asks to wait, in headers or in the words of an error, in seconds from 0 to 3600.

Vendors write a time as seconds (``12``), milliseconds, a span (``1m2.5s``), a date, or the time since the epoch.
Absolute times are compared with the answer's own ``Date``, because the upstream's clock may differ from ours.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from gateway.domain.lazy_pattern import lazy_pattern

_EPOCH_S, _EPOCH_MS = 1.5e9, 1.5e12
"""Larger numbers are times since the epoch, not durations. They are after the middle of 2017."""

_UNITS = (
    (("ms", "mil", "毫"), 0.001),
    (("s", "秒"), 1.0),
    (("m", "分"), 60.0),
    (("h", "小"), 3600.0),
    (("d", "天"), 86400.0),
)
"""The seconds of each unit, by its first letters; the first match counts."""
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

_RATELIMIT_RESET = lazy_pattern(r"(?:\breset|;\s*t)\s*=\s*\"?(\d+(?:\.\d+)?)")
"""Matches the reset in ``ratelimit``: ``limit=10, remaining=0, reset=12``, or newer ``"default";r=0;t=12``."""


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds in ``retry-after`` or a header whose name has that in it; None if no value is valid."""
    names = [name for name in headers if "retry-after" in name]
    for name in sorted(names, key=lambda name: (not name.endswith("-ms"), len(name))):
        pause_s = _parse_pause(headers[name], headers, unit_s=0.001 if name.endswith("-ms") else 1.0)
        if pause_s is not None:
            return pause_s
    return None


def reset_s(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds until the limit that was reached resets; None if unknown.

    Many vendors report several limits in every answer. A limit with nothing left was reached. Otherwise it is the one
    with the smallest share left, or, if the shares are unknown, the one that resets first.
    """
    limits = [(share, pause_s) for share, pause_s in _limits(headers) if pause_s is not None]
    reached = [pause_s for share, pause_s in limits if share == 0]
    return max(reached) if reached else min(limits, default=(0, None))[1]


def _limits(headers: Mapping[str, str]) -> Iterator[tuple[float, float | None]]:
    """Yields the share left of each limit, 2 if unknown, and the seconds until it resets; None if they are invalid."""
    for name, value in headers.items():
        if "limit" in name and "reset" in name:
            remaining = _number(headers.get(name.replace("reset", "remaining"), ""))
            limit = _number(headers.get(name.replace("reset", "limit"), ""))
            yield _share(remaining, limit), _parse_pause(value, headers)
        elif name == "ratelimit" and (match := _RATELIMIT_RESET.search(value)):
            yield 2.0, _parse_pause(match[1], headers)


def _share(remaining: float | None, limit: float | None) -> float:
    """Returns the share left of a limit, at most 1; 2 if it is unknown."""
    if remaining is None or remaining < 0:
        return 2.0
    return min(remaining / limit, 1.0) if limit else float(remaining > 0)


def pause_in_words(words: str, headers: Mapping[str, str]) -> float | None:
    """Returns the seconds to wait in a lower-case message: ``please retry in 34.07s``, ``try again in 1m2.5s``."""
    match = _WORDS.search(words)
    if match is not None:
        return _clamp(_span_s(match[1] or match[2]))
    moment = _MOMENT.search(words)
    if moment is None:
        return None
    day, hour, zone = moment.groups()
    beijing = timezone(timedelta(hours=8))  # Zhipu is the only vendor that writes moments without a zone
    parsed = _parse_iso(f"{day}T{hour}{(zone or '').replace('utc', 'z').upper()}", beijing)
    return _seconds_until(parsed, headers)


def _parse_pause(text: str, headers: Mapping[str, str], *, unit_s: float = 1.0) -> float | None:
    """Returns the time in a header as seconds; None if it is invalid. A bare number has units of ``unit_s`` seconds."""
    text = text.strip().lower()
    number = _number(text)
    if number is not None:
        if number < _EPOCH_S or unit_s != 1.0 or math.isinf(number):
            return _clamp(number * unit_s)
        with suppress(OverflowError, OSError, ValueError):
            moment = datetime.fromtimestamp(number / 1000 if number >= _EPOCH_MS else number, UTC)
            return _seconds_until(moment, headers)
        return None
    if _WHOLE_SPAN.fullmatch(text):
        return _clamp(_span_s(text))
    try:
        return _seconds_until(parsedate_to_datetime(text), headers)
    except (TypeError, ValueError):
        return _seconds_until(_parse_iso(text.upper(), UTC), headers)


def _span_s(span: str) -> float:
    """Returns the seconds of a span such as ``1m2.5s``."""
    pause_s = 0.0
    for number, unit in _AMOUNT.findall(span):
        pause_s += float(number) * next(seconds for starts, seconds in _UNITS if unit.startswith(starts))
    return pause_s


def _parse_iso(text: str, default_zone: timezone) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=default_zone)


def _seconds_until(moment: datetime | None, headers: Mapping[str, str]) -> float | None:
    """Returns the seconds from the answer's date to the moment; None if it has no date, or the moment has passed."""
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
    return min(seconds, 3600.0) if seconds >= 0 else None
