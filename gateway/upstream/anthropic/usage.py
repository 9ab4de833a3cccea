"""Usage: Anthropic's reports of one answer. In a stream the numbers are running totals, told piece by piece."""

from collections.abc import Iterable
from typing import Any

import msgspec

from gateway.domain.usage import Usage
from gateway.upstream import rawjson, usage

_SUMMED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class Report:
    """What was reported so far. Later numbers replace earlier ones; they are never added up."""

    def __init__(self) -> None:
        self._told: dict[str, Any] = {}
        self.suspect = False

    def see(self, report: msgspec.Raw | None) -> Usage | None:
        """Takes one more report, and gives the whole; None as long as there is no input count."""
        found = rawjson.maybe(report)
        if isinstance(found, dict):
            self._told |= {name: value for name, value in found.items() if value is not None}
        reading = usage.read(_summed(self._told))
        if reading is None:
            self.suspect = self.suspect or "input_tokens" in self._told
            return None
        self.suspect = self.suspect or reading.suspect
        return reading.usage


def _summed(told: dict[str, Any]) -> dict[str, Any]:
    """With ``iterations`` the sum over these is what was used: the total leaves out that of a compaction."""
    found = told.get("iterations")
    steps = [step for step in found if isinstance(step, dict)] if isinstance(found, list) else []
    if not steps:
        return told
    sums = {name: _sum(step.get(name) for step in steps) for name in _SUMMED}
    return told | {name: total for name, total in sums.items() if total is not None}


def _sum(numbers: Iterable[object]) -> int | None:
    """The sum; None if there are none, -1 if one of them is no count."""
    found = [number for number in numbers if number is not None]
    counts = [number for number in found if type(number) is int and number >= 0]
    return None if not found else sum(counts) if len(counts) == len(found) else -1
