"""A request is read with types; texts stay as they came; what has another type is named."""

from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.errors import BadRequest
from gateway.upstream.translate.request import (
    Toolbox,
    left_out,
    read_parts,
    read_request,
    read_tools,
    refusal_of,
    unsupported_param,
)
from tests.cases.conversations import function
from tests.upstream.makers import channel, error_of, order


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


def test_null_and_false_lose_nothing() -> None:
    fields = _fields({"a": None, "b": False, "c": 0, "d": {}, "e": 1})
    assert left_out(fields, frozenset({"e"})) == ["c", "d"]


NAMED = {"type": "function", "function": {"name": "f"}}


def _tools(**fields: Any) -> Toolbox:
    return read_tools(read_request(order({"messages": [], **fields}).fields))


def _names(toolbox: Toolbox) -> list[str]:
    return [offer.function.name for offer in toolbox.offers]


def test_nothing() -> None:
    assert _tools() == Toolbox()


def test_tools_and_legacy_functions() -> None:
    assert _names(_tools(tools=[function("f")], functions=[{"name": "g"}])) == ["f", "g"]


@pytest.mark.parametrize(
    ("fields", "mode", "name", "forced"),
    [
        ({"tool_choice": "auto"}, "auto", "", False),
        ({"tool_choice": "none"}, "none", "", False),
        ({"tool_choice": "required"}, "required", "", True),
        ({"tool_choice": NAMED}, "named", "f", True),
        ({"function_call": "none"}, "none", "", False),
        ({"function_call": {"name": "f"}}, "named", "f", True),
        ({"function_call": "none", "tool_choice": "auto"}, "auto", "", False),
    ],
)
def test_choices(fields: dict[str, Any], mode: str, name: str, forced: bool) -> None:
    found = _tools(**fields)
    assert (found.mode, found.name, found.forced) == (mode, name, forced)


def test_some_tools_may_be_allowed() -> None:
    some = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}
    found = _tools(tools=[function("f"), function("g")], tool_choice=some)
    assert (_names(found), found.mode) == (["f"], "required")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0]"),
        ({"tool_choice": "perhaps"}, "tool_choice"),
        ({"tool_choice": {"type": "custom", "custom": {"name": "x"}}}, "tool_choice"),
        ({"function_call": "perhaps"}, "function_call"),
    ],
)
def test_the_rest_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        _tools(**fields)
    assert caught.value.param == param


def test_a_fault_becomes_a_failure() -> None:
    failed = error_of(refusal_of(channel(), unsupported_param("n", "only one\x1b[31m")).failure)
    assert (failed.kind, failed.sent, failed.code, failed.param) == (
        FailureKind.CLIENT,
        False,
        "unsupported_parameter",
        "n",
    )
    assert failed.message.startswith("channel 'up' cannot take this request: n: only one")
    assert "\x1b" not in failed.message


def test_clients_get_status_400() -> None:
    assert error_of(refusal_of(channel(), unsupported_param("n", "x")).failure).http_status == 400
