"""Requests for embeddings, checked before anything is sent; and how they are bounded."""

import json
from typing import Any

import pytest

from gateway.domain.prompt_size import prompt_tokens
from gateway.inbound.api import HttpRequest, parse_large
from gateway.inbound.embeddings.api import EMBEDDINGS
from tests.refusals import refusal_of
from tests.upstream.makers import request_of

LONG = "word " * 100_000


def parsed(**fields: Any) -> Any:
    return request_of(EMBEDDINGS, fields)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": [1.5]}, "input"),
        ({"input": 3}, "input"),
        ({"input": {}}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": "256"}, "dimensions"),
        ({"input": "a", "encoding_format": 1}, "encoding_format"),
        ({"input": "a", "model": ""}, "model"),
    ],
)
def test_the_error_names_the_field_at_fault(fields: dict[str, Any], param: str) -> None:
    assert (refusal_of(parsed, **fields).param or "").partition("[")[0] == param


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ("a", 16),
        ("x" * 298, 100),
        (["x" * 148, "x" * 144], 100),
        (list(range(1, 101)), 100 + 16),
        ([[1] * 50, [2] * 50], 100 + 16),
        ([{"image": "data:image/png;base64," + "x" * 9000}], 16),
    ],
    ids=["short", "text", "texts", "tokens", "arrays of tokens", "image"],
)
def test_the_input_is_bounded_by_its_bytes_or_counted_in_tokens(given: Any, bound: int) -> None:
    assert parsed(input=given).bound.tokens == bound


def test_a_large_request_is_bounded_and_estimated_whole() -> None:
    body = json.dumps({"model": "e", "input": [LONG, "short"]}).encode()
    request = parse_large(EMBEDDINGS, HttpRequest(body=body, target="", headers={}))
    assert request.bound.tokens >= len(LONG) // 3
    assert request.input_estimate is not None
    assert abs(request.input_estimate - 100_000) < 10_000


def test_tokens_are_estimated_as_so_many() -> None:
    assert prompt_tokens(parsed(input=[[1, 2, 3], [4]]).fields) == 4
