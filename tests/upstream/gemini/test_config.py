"""Wishes become a generationConfig; what the model does not take is named."""

import json
from typing import Any

import pytest

from gateway.upstream import rawjson
from gateway.upstream.gemini.models import UNKNOWN, row_of
from gateway.upstream.gemini.request import config_of
from gateway.upstream.translate.request import read_request
from tests.upstream.makers import order

OLD, NEW, LITE = row_of("gemini-2.5-flash"), row_of("gemini-3.8-flash"), row_of("gemini-2.5-flash-lite")
PRO, FLASH = row_of("gemini-2.5-pro"), row_of("gemini-3.6-flash")


def _config(row: Any, **fields: Any) -> tuple[Any, list[str]]:
    dropped: list[str] = []
    request = read_request(order({"messages": [], **fields}).fields)
    found = config_of(request, row, request.output_cap, dropped)
    return json.loads(rawjson.encode(found)), dropped


def test_everything_with_a_counterpart() -> None:
    sampling = {"temperature": 1.5, "top_p": 0.5, "top_k": 3, "presence_penalty": 0.1, "frequency_penalty": 0.2}
    limits = {"max_completion_tokens": 7, "max_tokens": 5, "stop": "a", "n": 2, "seed": 4}
    assert _config(OLD, **sampling, **limits, logprobs=True, top_logprobs=2) == (
        {
            "maxOutputTokens": 7,
            "stopSequences": ["a"],
            "candidateCount": 2,
            "seed": 4,
            "temperature": 1.5,
            "topP": 0.5,
            "topK": 3,
            "presencePenalty": 0.1,
            "frequencyPenalty": 0.2,
            "responseLogprobs": True,
            "logprobs": 2,
        },
        [],
    )


def test_nothing_asked_is_nothing_said() -> None:
    assert _config(NEW, n=1, stop=None, logprobs=False) == ({}, [])


def test_the_newest_models_take_less() -> None:
    asked = {"temperature": 1.5, "top_k": 3, "presence_penalty": 0.1, "logprobs": True}
    assert _config(NEW, **asked) == ({}, ["temperature", "top_k", "presence_penalty", "logprobs"])


@pytest.mark.parametrize(
    ("effort", "new", "flash", "old", "lite", "pro"),
    [
        ("none", "low", "minimal", 0, 0, 128),
        ("minimal", "low", "minimal", 128, 512, 128),
        ("low", "low", "low", 1024, 1024, 1024),
        ("medium", "medium", "medium", 8192, 8192, 8192),
        ("high", "high", "high", 24576, 24576, 24576),
        ("max", "high", "high", 24576, 24576, 24576),
    ],
)
def test_effort(effort: str, new: str, flash: str, old: int, lite: int, pro: int) -> None:
    shown = {} if effort == "none" else {"includeThoughts": True}
    levels = [_config(row, reasoning_effort=effort)[0]["thinkingConfig"] for row in (NEW, FLASH)]
    assert levels == [{"thinkingLevel": level, **shown} for level in (new, flash)]
    budgets = [_config(row, reasoning_effort=effort)[0]["thinkingConfig"] for row in (OLD, LITE, PRO)]
    assert budgets == [{"thinkingBudget": budget, **shown} for budget in (old, lite, pro)]


@pytest.mark.parametrize(("row", "effort"), [(UNKNOWN, "high"), (NEW, "enormous")])
def test_effort_that_cannot_be_said_is_dropped(row: Any, effort: str) -> None:
    assert _config(row, reasoning_effort=effort) == ({}, ["reasoning_effort"])


def test_no_effort_is_no_loss_where_there_is_no_thinking() -> None:
    assert _config(UNKNOWN, reasoning_effort="none") == ({}, [])


def test_the_form_of_the_answer() -> None:
    schema = {"type": "object", "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert _config(NEW, response_format={"type": "json_object"})[0] == {"responseMimeType": "application/json"}
    assert _config(NEW, response_format={"type": "text"})[0] == {}
    expected = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    assert _config(NEW, response_format=form)[0] == expected
