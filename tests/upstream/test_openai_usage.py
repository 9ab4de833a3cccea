"""Usual usage: what is read quickly is what the whole reading says."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.usage_counts import openai_usage
from gateway.upstream.usage_report import read_report

COUNT = st.one_of(st.integers(-1, 30), st.sampled_from([None, True, 5.0, "5", 20_000_001]))
DETAILS = st.none() | st.dictionaries(
    st.sampled_from(["cached_tokens", "reasoning_tokens", "audio_tokens", "accepted_prediction_tokens", "more"]), COUNT
)


def _reports(inputs: str, outputs: str, *more: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {inputs: COUNT, outputs: COUNT, "total_tokens": COUNT | st.integers(0, 60)},
        optional={f"{inputs}_details": DETAILS, f"{outputs}_details": DETAILS, **dict.fromkeys(more, COUNT)},
    )


CHAT = ("prompt_tokens", "completion_tokens")
REPORT = _reports(*CHAT, "cost", "output_tokens")


def raw(report: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(report).encode())


@given(report=REPORT, fits=st.booleans())
def test_nothing_is_read_otherwise_than_by_the_whole_reading(report: dict[str, Any], fits: bool) -> None:
    inputs, outputs = report["prompt_tokens"], report["completion_tokens"]
    if fits and type(inputs) is int and type(outputs) is int:
        report["total_tokens"] = inputs + outputs
    quick = openai_usage(raw(report))
    if quick is not None:
        reading = read_report(report)
        assert reading is not None
        assert (quick, False) == (reading.usage, reading.suspect)


def test_the_usual_report_is_read() -> None:
    report = {
        "prompt_tokens": 20,
        "completion_tokens": 9,
        "total_tokens": 29,
        "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 2, "audio_tokens": 0, "accepted_prediction_tokens": 1},
    }
    assert openai_usage(raw(report)) == Usage(input=20, cached=4, output=9, reasoning=2, source=UsageSource.REPORTED)


@pytest.mark.parametrize(
    "changed",
    [
        {"total_tokens": 30},
        {"completion_tokens_details": {"audio_tokens": 3}},
        {"prompt_tokens_details": {"cached_tokens": 21}},
        {"num_search_queries": 1},
    ],
)
def test_any_other_report_is_left_to_the_whole_reading(changed: dict[str, Any]) -> None:
    report = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29, **changed}
    assert openai_usage(raw(report)) is None
