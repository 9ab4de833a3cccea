"""A request is read with types; texts stay as they came; what has another type is named."""

from typing import Any

import pytest

from gateway.domain.errors import BadRequest
from gateway.upstream.translate.request import left_out, read_parts, read_request
from tests.upstream.makers import order


def _fields(body: Any) -> Any:
    return order(body).fields


def test_what_is_not_known_is_not_looked_at() -> None:
    request = read_request(_fields({"messages": [{"role": "user", "content": "a", "x": {}}], "x": [1], "top_k": 3}))
    assert (request.messages[0].role, request.top_k) == ("user", 3)


def test_texts_keep_their_bytes() -> None:
    request = read_request(_fields('{"messages":[{"role":"user","content":"\\u00e9\\/"}]}'))
    assert bytes(request.messages[0].content) == b'"\\u00e9\\/"'


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"max_tokens": "x"}, "max_tokens"),
        ({"messages": [{"role": "user"}, {"content": "a"}]}, "messages[1]"),
        ({"messages": [], "tools": [{"function": {"name": 3}}]}, "tools[0].function.name"),
        ({"messages": [], "stop": [1]}, "stop[0]"),
    ],
)
def test_another_type_is_named(body: Any, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_request(_fields(body))
    assert (caught.value.code, caught.value.param) == ("invalid_type", param)


def test_parts_are_named_by_their_place() -> None:
    content = _fields({"messages": [{"type": 3}]})["messages"]
    with pytest.raises(BadRequest) as caught:
        read_parts(content, "messages[2].content")
    assert caught.value.param == "messages[2].content[0].type"


def test_content_that_is_neither_text_nor_parts_is_named() -> None:
    with pytest.raises(BadRequest) as caught:
        read_parts(_fields({"x": 3})["x"], "messages[0].content")
    assert caught.value.param == "messages[0].content"


@pytest.mark.parametrize(
    ("body", "cap"), [({"max_tokens": 5}, 5), ({"max_tokens": 5, "max_completion_tokens": 7}, 7), ({"x": 1}, None)]
)
def test_the_output_limit(body: Any, cap: int | None) -> None:
    assert read_request(_fields(body)).output_cap == cap


@pytest.mark.parametrize(("stop", "stops"), [("a", ["a"]), (["a", "b"], ["a", "b"]), (None, [])])
def test_stop_sequences(stop: Any, stops: list[str]) -> None:
    assert read_request(_fields({"stop": stop})).stops == stops


def test_null_and_false_are_no_loss() -> None:
    fields = _fields({"a": None, "b": False, "c": 0, "d": {}, "e": 1})
    assert left_out(fields, frozenset({"e"})) == ["c", "d"]
