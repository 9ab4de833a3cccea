"""Ranges: a sampling parameter outside of the range that a refusal names is sent with the nearest value in it."""

from collections.abc import Collection

from gateway.domain import rawjson
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.rawjson import Fields

RANGES = "range of "
"""The prefix of the name of a rule, such as ``range of temperature 0.01 1``."""
_STEP = 0.01
"""The distance from an end that does not belong to a range."""
_NAMES = r"(temperature|top_p|presence_penalty|frequency_penalty)\b"
_NUMBER = r"(-?\d{1,3}(?:\.\d{1,4})?)"
_INTERVAL = lazy_pattern(rf"(?i){_NAMES}[^\[(]{{0,60}}?([\[(])\s*{_NUMBER}\s*,\s*{_NUMBER}\s*([\])])")
_AT_MOST = lazy_pattern(rf"(?i){_NAMES}.{{0,60}}?(?:less than or equal to|<=|at most)\s+{_NUMBER}")


def range_rules(text: str) -> list[str]:
    """Returns the names of the rules for the ranges that a refusal names."""
    rules = []
    for name, start, low, high, end in _INTERVAL.findall(text):
        minimum = float(low) + (_STEP if start == "(" else 0)
        maximum = float(high) - (_STEP if end == ")" else 0)
        rules.append(f"{RANGES}{name.lower()} {minimum:g} {maximum:g}")
    rules += [f"{RANGES}{name.lower()} -inf {float(maximum):g}" for name, maximum in _AT_MOST.findall(text)]
    return rules


def fit_ranges(fields: Fields, learned: Collection[str]) -> list[str]:
    """Replace parameters outside of the learned ranges. Returns their names."""
    changed = []
    for rule in learned:
        if rule.startswith(RANGES):
            name, minimum, maximum = rule.removeprefix(RANGES).split(" ")
            value = rawjson.maybe(fields.get(name))
            if isinstance(value, int | float) and (fitting := min(max(value, float(minimum)), float(maximum))) != value:
                fields[name] = rawjson.raw(fitting)
                changed.append(name)
    return changed
