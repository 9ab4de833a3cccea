"""Texts of a delta are made even and counted."""

from typing import Any

import pytest

from gateway.upstream import rawjson
from gateway.upstream.openai import chunks
from gateway.upstream.output_counter import OutputCounter
from tests.fakes.replies import dumps

THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
TEXT = {"type": "text", "text": "Hi"}


def _even(doc: dict[str, Any]) -> dict[str, Any]:
    fields = rawjson.fields(dumps(doc))
    chunks.normalize_texts(fields)
    found = rawjson.value(rawjson.encode(fields))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("doc", "evened"),
    [
        ({"content": "Hi"}, {"content": "Hi"}),
        ({"content": None}, {"content": None}),
        ({"content": [TEXT, TEXT]}, {"content": "HiHi"}),
        ({"content": [THOUGHT, TEXT]}, {"content": "Hi", "reasoning_content": "hm"}),
        ({"content": [THOUGHT]}, {"content": None, "reasoning_content": "hm"}),
        ({"content": [{"type": "thinking", "thinking": "hm"}]}, {"content": None, "reasoning_content": "hm"}),
        ({"content": []}, {"content": ""}),
        ({"content": ["Hi", 5, None, {"type": "image"}]}, {"content": "Hi"}),
        ({"reasoning": "a", "reasoning_content": "a"}, {"reasoning_content": "a"}),
        ({"reasoning": "a", "reasoning_content": None}, {"reasoning": "a", "reasoning_content": None}),
    ],
)
def test_content_is_text_and_reasoning_has_one_name(doc: dict[str, Any], evened: dict[str, Any]) -> None:
    assert _even(doc) == evened


def test_texts_are_counted_and_found() -> None:
    tally = OutputCounter()
    fields = rawjson.fields(dumps({"content": "Hello", "refusal": None, "reasoning": "", "role": "assistant"}))
    assert [bytes(text) for text in chunks.count_texts(fields, tally)] == [b'"Hello"']
    assert tally.chars == 5


@pytest.mark.parametrize("doc", [{"content": 5}, {"reasoning": {}}, {"refusal": ["x"]}])
def test_a_text_that_is_none_is_refused(doc: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        chunks.count_texts(rawjson.fields(dumps(doc)), OutputCounter())
