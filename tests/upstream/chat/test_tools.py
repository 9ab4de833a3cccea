"""A toolbox is the same however the client put it."""

from typing import Any

import pytest

from gateway.domain.errors import BadRequest
from gateway.upstream.translate.request import Toolbox, read_request, read_tools
from tests.cases.conversations import function
from tests.upstream.makers import order

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
