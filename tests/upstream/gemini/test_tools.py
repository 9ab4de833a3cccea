"""Tools and the choice among them in Gemini's words."""

from typing import Any

import msgspec
import pytest

from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.gemini.request import tools_of
from gateway.upstream.translate.request import read_request, read_tools
from tests.cases.conversations import function
from tests.upstream.makers import order

F = function("f", x={"type": "string"})
NAMED = {"type": "function", "function": {"name": "f"}}


def _tools(**fields: Any) -> Any:
    request = read_request(order({"messages": [], **fields}).fields)
    return msgspec.json.decode(rawjson.encode(tools_of(read_tools(request))))


def test_declarations() -> None:
    bare = {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {}}}}
    schema = F["function"]["parameters"]
    declared = [{"name": "f", "description": "Does f.", "parametersJsonSchema": schema}, {"name": "g"}]
    assert _tools(tools=[F, bare]) == {"tools": [{"functionDeclarations": declared}]}


def test_legacy_functions_are_the_same() -> None:
    assert _tools(functions=[F["function"]]) == _tools(tools=[F])


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (NAMED, {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
def test_choice(choice: Any, config: Any) -> None:
    assert _tools(tools=[F], tool_choice=choice)["toolConfig"] == {"functionCallingConfig": config}


def test_without_tools_there_is_no_choice() -> None:
    assert _tools(tool_choice="required") == {}


def test_some_tools_may_be_allowed() -> None:
    some = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}
    found = _tools(tools=[F, function("g")], tool_choice=some)
    assert [declared["name"] for declared in found["tools"][0]["functionDeclarations"]] == ["f"]
    assert found["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}


def test_parameters_that_are_no_schema_are_refused() -> None:
    with pytest.raises(BadRequest, match="must be a JSON schema"):
        _tools(tools=[{"type": "function", "function": {"name": "f", "parameters": [1]}}])
