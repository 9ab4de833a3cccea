"""Several counts of one answer as one: reports that follow each other, and the steps of an answer."""

from collections.abc import Iterable, Mapping
from typing import Any


def merge(known: dict[str, Any], more: dict[str, Any], *, falls: bool) -> tuple[dict[str, Any], bool]:
    """Returns both reports as one, and whether a smaller count of the later one was not believed.

    ``falls``: the vendor corrects its counts, so that a smaller one is believed unless it is zero.
    """
    out, fell = dict(known), False
    for name, value in more.items():
        before = out.get(name)
        if value is None:
            continue
        if isinstance(before, dict) and isinstance(value, dict):
            out[name], inner = merge(before, value, falls=falls)
            fell = fell or inner
        elif isinstance(before, int) and isinstance(value, int) and 0 <= value < before and not (falls and value):
            fell = True
        else:
            out[name] = value
    return out, fell


_INPUT, _CACHE = "input_tokens", ("cache_read_input_tokens", "cache_creation_input_tokens")


def settle_moved(known: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the known counts without the input tokens that a later report counts as cached.

    Anthropic counts them apart. The compatible servers of Qwen and Kimi begin with the whole prompt as input, and name
    the cache at the end, with the input beside it or without. The prompt never becomes smaller by that.
    """
    before, after, cached = known.get(_INPUT), more.get(_INPUT), _cache_tokens(more)
    if type(before) is not int or cached <= _cache_tokens(known):
        return known
    late = after is None and known.keys().isdisjoint(_CACHE)
    if late or (type(after) is int and after < before):
        return {**known, _INPUT: max(after or 0, before + _cache_tokens(known) - cached)}
    return known


def _cache_tokens(report: Mapping[str, Any]) -> int:
    counts = (report.get(name) for name in _CACHE)
    return sum(count for count in counts if type(count) is int)


_SUMMED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_LONG_WRITE = "ephemeral_1h_input_tokens"


def sum_iterations(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns Anthropic's report with the sum over its ``iterations``, if it has them: the total leaves out a
    compaction.
    """
    steps = [step for step in report["iterations"] if isinstance(step, dict)]
    if not steps:
        return report
    sums: dict[str, Any] = {name: _sum(step.get(name) for step in steps) for name in _SUMMED}
    made = [step["cache_creation"] for step in steps if isinstance(step.get("cache_creation"), dict)]
    if made:
        sums["cache_creation"] = {_LONG_WRITE: _sum(one.get(_LONG_WRITE) for one in made)}
    return {**report, **{name: total for name, total in sums.items() if total is not None}}


def _sum(numbers: Iterable[object]) -> int | None:
    """Returns the sum; None without counts, -1 if one of them is invalid."""
    found = [number for number in numbers if number is not None]
    counts = [number for number in found if type(number) is int and number >= 0]
    return None if not found else sum(counts) if len(counts) == len(found) else -1
