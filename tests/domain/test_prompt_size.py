"""The size of a prompt: media and seals are recognized by the objects they are in, and nowhere else."""

import json
from typing import Any

import msgspec
import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.estimate import BOUND_FETCHED_TOKENS
from gateway.domain.prompt_size import bound_of, tokens_of


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value, separators=(",", ":")).encode())


def bound(block: object) -> int:
    """Of one block, beyond that of none."""
    return bound_of([raw([block, "x" * 48])]) - bound_of([raw(["x" * 48])])


LONG = "A" * 24_000


def image(media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": LONG}}


def test_text_counts_a_third_of_its_bytes() -> None:
    assert bound({"type": "text", "text": LONG}) == pytest.approx(8000, abs=20)


@pytest.mark.parametrize(
    "block", [image(), {"type": "input_image", "image_url": "data:image/png;base64," + LONG}], ids=["source", "url"]
)
def test_an_image_counts_the_same_however_large_it_is(block: dict[str, Any]) -> None:
    assert bound(block) == pytest.approx(1500, abs=40)


def test_a_document_counts_by_its_size() -> None:
    assert bound(image("application/pdf")) == pytest.approx(1500, abs=40)
    assert bound({**image("application/pdf"), "title": LONG}) == pytest.approx(9500, abs=40)


def test_a_text_in_a_source_is_text() -> None:
    assert bound(image("text/plain")) == pytest.approx(8000, abs=40)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "", "signature": LONG},
        {"type": "redacted_thinking", "data": LONG},
        {"type": "reasoning", "encrypted_content": LONG},
    ],
    ids=lambda block: str(block["type"]),
)
def test_sealed_reasoning_counts_an_eighth_of_its_bytes(block: dict[str, Any]) -> None:
    assert bound(block) == pytest.approx(3000, abs=20)


def test_what_a_tool_is_called_with_is_text_whatever_it_looks_like() -> None:
    assert bound({"type": "tool_use", "input": {"x": image(), "type": "thinking", "signature": LONG}}) > 15_000


def test_a_repeated_key_may_not_hide_text_behind_an_image() -> None:
    twice = b'[{"type":"base64","media_type":"image/png","data":"QUJD","data":"QUJD"}]'
    with pytest.raises(BadRequest, match="twice"):
        bound_of([msgspec.Raw(twice)])


def test_tools_cost_a_flat_amount_as_well() -> None:
    tools = raw([{"name": "f"}])
    assert bound_of([raw("x" * 300)], [tools]) - bound_of([raw("x" * 300)]) > 600


def test_the_estimate_is_below_the_bound() -> None:
    values = [raw([{"type": "text", "text": "How far is the Moon from here? " * 40}, image()])]
    assert 0 < tokens_of(values, (), 1) < bound_of(values)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "document", "source": {"type": "url", "url": "https://h/a.pdf"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "input_file", "file_url": "https://h/a.pdf"},
        {"type": "input_file", "file_id": "file_1"},
    ],
)
def test_a_document_that_the_vendor_fetches_may_be_long(item: dict[str, Any]) -> None:
    assert bound_of([raw([item])]) > BOUND_FETCHED_TOKENS
    assert bound_of([raw([{"type": "tool_use", "input": item}])]) < 1000


def test_an_image_that_the_vendor_fetches_is_an_image() -> None:
    assert bound_of([raw([{"type": "image", "source": {"type": "url", "url": "https://h/a.png"}}])]) < 5000
