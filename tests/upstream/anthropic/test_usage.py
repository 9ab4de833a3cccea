"""Reports add up the cache, replace earlier numbers, and are not believed when they cannot be true."""

from typing import Any

from gateway.domain.usage import Usage, UsageSource
from gateway.upstream import rawjson
from gateway.upstream.anthropic.response import Report

START = {"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 20, "output_tokens": 1}


def _seen(*reports: Any) -> tuple[Usage | None, bool]:
    report, usage = Report(), None
    for found in reports:
        usage = report.see(rawjson.raw(found))
    return usage, report.suspect


def test_input_is_what_was_fresh_and_what_was_cached() -> None:
    usage = Usage(input=33, cached=20, cache_write=3, output=1, source=UsageSource.REPORTED)
    assert _seen(START) == (usage, False)


def test_later_numbers_replace_earlier_ones_and_nulls_do_not() -> None:
    usage = Usage(input=33, cached=20, cache_write=3, output=55, reasoning=30, source=UsageSource.REPORTED)
    later = {"input_tokens": None, "output_tokens": 55, "output_tokens_details": {"thinking_tokens": 30}}
    assert _seen(START, later) == (usage, False)


def test_iterations_are_summed() -> None:
    steps = [{"input_tokens": 100, "output_tokens": 10}, {"input_tokens": 5, "output_tokens": 2}, "odd"]
    usage, _ = _seen({"input_tokens": 5, "output_tokens": 2, "iterations": steps})
    assert usage == Usage(input=105, output=12, source=UsageSource.REPORTED)


def test_odd_iterations_are_passed_over() -> None:
    assert _seen({"input_tokens": 5, "output_tokens": 2, "iterations": 3})[0] is not None


def test_without_an_input_count_there_is_no_report() -> None:
    assert _seen({"output_tokens": 4}) == (None, False)
    assert _seen(None) == (None, False)


def test_what_cannot_be_true_is_suspect() -> None:
    assert _seen({"input_tokens": -1}) == (None, True)
