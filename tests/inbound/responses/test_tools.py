"""Tools of the Responses API as functions, and back."""

import json
from typing import Any

import msgspec
import pytest

from gateway.domain.conversation import Conversation, ToolChoice
from gateway.domain.errors import BadRequest
from gateway.domain.order import Order
from gateway.inbound.responses.tools import ClientTool, ToolKind, ToolTable
from gateway.upstream.openai.request import write_chat
from tests.refusals import refusal_of


def table(*tools: dict[str, Any]) -> ToolTable:
    found = ToolTable()
    found.add([msgspec.Raw(json.dumps(tool).encode()) for tool in tools])
    return found


def functions(found: ToolTable) -> list[dict[str, Any]]:
    """The functions as a chat completion has them."""
    given = Order(fields={}, model="m", conversation=Conversation(turns=(), tools=tuple(found.offers)))
    written = json.loads(bytes(write_chat(given).fields.get("tools", b"[]")))
    return [tool["function"] for tool in written]


def choice(found: ToolTable, value: Any) -> ToolChoice:
    return found.read_choice(msgspec.Raw(json.dumps(value).encode()))


OBJECT = {"type": "object", "properties": {}}


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": OBJECT, **fields}


SEARCH = {"type": "tool_search", "execution": "client", "parameters": OBJECT, "description": "finds"}


def test_a_function_is_nested() -> None:
    found = table(function("f", description="does", strict=None), function("g", strict=True))
    assert functions(found) == [
        {"name": "f", "description": "does", "parameters": OBJECT},
        {"name": "g", "parameters": OBJECT, "strict": True},
    ]


def test_functions_of_namespaces_stay_apart() -> None:
    spaces = [
        {"type": "namespace", "name": name, "description": f"about {name}", "tools": [function("get")]}
        for name in ("crm", "erp")
    ]
    found = table(*spaces, function("get"))
    assert [one["name"] for one in functions(found)] == ["crm__get", "erp__get", "get"]
    assert functions(found)[0]["description"] == "about crm"
    assert found.client_tool("erp__get") == ClientTool(ToolKind.FUNCTION, "get", "erp")
    assert found.function_name(ClientTool(ToolKind.FUNCTION, "get", "crm")) == "crm__get"


def test_a_long_name_of_a_namespace_is_refused() -> None:
    error = refusal_of(table, {"type": "namespace", "name": "n" * 257, "description": "", "tools": [function("get")]})
    assert error.param == "tools[0].name"


def test_a_function_that_spells_like_one_of_a_namespace_gets_a_name_of_its_own() -> None:
    found = table(function("a__b"), {"type": "namespace", "name": "a", "description": "", "tools": [function("b")]})
    first, second = (offer.name for offer in found.offers)
    assert first == "a__b"
    assert second != first
    assert found.client_tool(second) == ClientTool(ToolKind.FUNCTION, "b", "a")


def test_a_custom_tool_becomes_a_function_that_says_its_grammar() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}
    (one,) = functions(table({"type": "custom", "name": "apply_patch", "description": "patches", "format": grammar}))
    assert one["description"] == 'patches\n\nInput must match this lark grammar:\nstart: "x"'
    assert one["parameters"]["required"] == ["input"]


def test_a_search_that_the_client_runs_is_a_function() -> None:
    found = table(SEARCH)
    assert functions(found) == [{"name": "tool_search", "description": "finds", "parameters": OBJECT}]
    assert found.client_tool("tool_search").kind is ToolKind.TOOL_SEARCH


@pytest.mark.parametrize("kind", ["web_search", "web_search_preview", "file_search", "code_interpreter", "mcp"])
def test_tools_of_the_vendor_are_left_out_and_named(kind: str) -> None:
    found = table({"type": kind}, function("f"))
    assert (found.omitted, len(found.offers)) == ([kind], 1)
    assert choice(found, "required") == ToolChoice(mode="required")


def test_a_choice_of_the_vendors_tool_is_refused() -> None:
    with pytest.raises(BadRequest) as refused:
        choice(table({"type": "web_search"}, function("f")), {"type": "web_search"})
    assert (refused.value.code, refused.value.param) == ("unsupported_parameter", "tool_choice")


def test_required_with_none_but_the_vendors_tools_is_refused() -> None:
    with pytest.raises(BadRequest, match="web_search"):
        choice(table({"type": "web_search"}), "required")
    assert choice(table({"type": "web_search"}), "auto") == ToolChoice()


def test_shells_and_patches_have_their_documented_arguments() -> None:
    found = table({"type": "local_shell"}, {"type": "shell"}, {"type": "apply_patch"})
    assert [one["parameters"]["required"] for one in functions(found)] == [["command"], ["commands"], ["type", "path"]]
    assert found.client_tool("shell").kind is ToolKind.SHELL


def test_the_skills_of_a_local_shell_are_told() -> None:
    skill = {"name": "pdf", "description": "Reads PDFs.", "path": "/skills/pdf"}
    (shell,) = functions(table({"type": "shell", "environment": {"type": "local", "skills": [skill]}}))
    assert shell["description"] == (
        "Runs shell commands and returns their output.\n\n"
        'Skills: [{"name":"pdf","description":"Reads PDFs.","path":"/skills/pdf"}]'
    )


def test_a_shell_in_the_vendors_container_is_left_out() -> None:
    found = table({"type": "shell", "environment": {"type": "container_auto"}})
    assert found.omitted == ["shell"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("none", ToolChoice(mode="none")),
        ({"type": "auto"}, ToolChoice(mode="auto")),
        ({"type": "function", "name": "f"}, ToolChoice(mode="named", name="f")),
        ({"type": "function", "name": "g", "namespace": "n"}, ToolChoice(mode="named", name="n__g")),
        ({"type": "custom", "name": "c"}, ToolChoice(mode="named", name="c")),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            ToolChoice(mode="required", allowed=("f",)),
        ),
    ],
)
def test_choices_name_the_functions(given: Any, wanted: ToolChoice) -> None:
    space = {"type": "namespace", "name": "n", "description": "", "tools": [function("g")]}
    assert choice(table(function("f"), space, {"type": "custom", "name": "c"}), given) == wanted


def test_the_place_of_a_fault_is_named() -> None:
    with pytest.raises(BadRequest) as refused:
        table(function("f"), {"type": "function"})
    assert refused.value.param == "tools[1].name"
    with pytest.raises(BadRequest) as refused:
        table({"type": "function", "name": 1})
    assert refused.value.param == "tools[0].name"
    with pytest.raises(BadRequest) as refused:
        choice(table(function("f")), {"type": "function", "function": {"name": "f"}})
    assert refused.value.param == "tool_choice.name"
