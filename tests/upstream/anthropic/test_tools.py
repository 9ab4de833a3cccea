"""Tools, choice and form of the answer, in every combination."""

import time
from typing import Any

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.upstream.anthropic.messages import JSON_TOOL, tools_and_choice
from gateway.upstream.anthropic.models import AnthropicModel
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.translation import Parameters
from tests.cases.conversations import call, function
from tests.fakes.replies import Doc
from tests.refusals import refusal_of
from tests.upstream.makers import translated

NATIVE, TOOL = AnthropicModel(patterns=()), AnthropicModel(patterns=(), structured=False)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
F = function("f", x={"type": "string"})
NAMED = {"type": "function", "function": {"name": "f"}}
SOME = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}


def _equip(row: AnthropicModel = NATIVE, *, thinking: bool = False, **fields: Any) -> dict[str, Any]:
    parameters = Parameters(translated({"messages": [], **fields}), NOTHING)
    form, parallel = parameters.take_format(), parameters.take("parallel_tool_calls", bool)
    tools, choice = tools_and_choice(
        parameters.conversation, form, row, thinking=thinking, forbids_parallel=parallel is False
    )
    found: dict[str, Any] = msgspec.json.decode(rawjson.encode({"tools": tools, "choice": choice}))
    return found


@pytest.mark.parametrize(
    ("asked", "parallel", "choice"),
    [
        (None, None, None),
        ("auto", None, {"type": "auto"}),
        ("none", None, {"type": "none"}),
        ("required", None, {"type": "any"}),
        (NAMED, None, {"type": "tool", "name": "f"}),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        (NAMED, False, {"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
    ],
)
def test_choice_and_parallel_calls(asked: Any, parallel: bool | None, choice: Any) -> None:
    assert _equip(tools=[F], tool_choice=asked, parallel_tool_calls=parallel)["choice"] == choice


def test_without_tools_there_is_no_choice() -> None:
    assert _equip(tool_choice="required", parallel_tool_calls=False)["choice"] is None


def test_some_tools_may_be_allowed() -> None:
    found = _equip(tools=[F, function("g")], tool_choice=SOME)
    assert ([tool["name"] for tool in found["tools"]], found["choice"]) == (["f"], {"type": "any"})


def test_a_tool_that_is_defined_twice_is_sent_once() -> None:
    twice = _equip(tools=[F, function("g"), function("f", y={"type": "number"})])["tools"]
    assert [(tool["name"], list(tool["input_schema"]["properties"])) for tool in twice] == [("f", ["x"]), ("g", [])]


@pytest.mark.parametrize("asked", ["required", NAMED])
def test_a_model_that_cannot_be_forced_is_not(asked: Any) -> None:
    error = refusal_of(_equip, AnthropicModel(patterns=(), forced_tools=False), tools=[F], tool_choice=asked)
    assert (error.code, error.param) == ("unsupported_parameter", "tool_choice")


def test_a_tool_is_strict_where_the_model_supports_that() -> None:
    cache = {"type": "ephemeral"}
    strict = {**F, "function": {**F["function"], "strict": True}, "cache_control": cache}
    described = {"name": "f", "description": "Does f.", "input_schema": F["function"]["parameters"]}
    closed = {**described["input_schema"], "additionalProperties": False}
    expected = {**described, "input_schema": closed, "strict": True, "cache_control": cache}
    assert _equip(tools=[strict])["tools"] == [expected]
    assert _equip(TOOL, tools=[strict])["tools"] == [{**described, "cache_control": cache}]


CLOSED = {"type": "object", "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "string"}, {"type": "string"}),
        (
            {"type": "integer", "description": "An hour.", "minimum": 0, "maximum": 23},
            {"type": "integer", "description": 'An hour.\n\n{"minimum":0,"maximum":23}'},
        ),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "string", "format": "regex"}, {"type": "string", "description": '{"format":"regex"}'}),
        (
            {"type": "array", "minItems": 1, "items": {"type": "string", "maxLength": 9}},
            {"type": "array", "minItems": 1, "items": {"type": "string", "description": '{"maxLength":9}'}},
        ),
        (
            {"type": "array", "description": 5, "minItems": 2, "items": {"type": "string"}},
            {"type": "array", "description": '{"minItems":2}', "items": {"type": "string"}},
        ),
        ({"oneOf": [{"type": "null"}, {"const": 1}]}, {"anyOf": [{"type": "null"}, {"const": 1}]}),
        ({"type": "object", "properties": {}}, {**CLOSED, "properties": {}}),
        (
            {"type": "object", "properties": {"b": {"$ref": "#/$defs/B", "title": "B"}}, "required": ["b"]},
            {**CLOSED, "properties": {"b": {"$ref": "#/$defs/B"}}, "required": ["b"]},
        ),
        ({}, None),
        (True, None),
        ({"description": "Anything."}, None),
        ({"type": "object"}, None),
        ({"type": ["object", "null"]}, None),
        ({"type": "object", "properties": {}, "additionalProperties": True}, None),
        ({"type": "object", "properties": {}, "additionalProperties": {}}, None),
        ({"type": "object", "additionalProperties": {"type": "string"}}, None),
        ({"type": "object", "properties": {}, "patternProperties": {"^x": {"type": "string"}}}, None),
        ({"type": "array"}, None),
    ],
)
def test_a_strict_schema_has_what_claude_compiles(schema: Any, strict: Any) -> None:
    """The recordings of Anthropic's API in rig's tests, and Anthropic's own SDKs, have the same keywords."""
    sent = function("f", a=schema)
    sent["function"] |= {"strict": True}
    (tool,) = _equip(tools=[sent])["tools"]
    assert (tool["input_schema"]["properties"]["a"], tool.get("strict")) == (
        (schema, None) if strict is None else (strict, True)
    )
    assert tool["input_schema"].get("additionalProperties") is (None if strict is None else False)


@pytest.mark.parametrize("parameters", [None, {}, {"properties": {}}, {"type": ["object", "null"]}, {"type": "OBJECT"}])
def test_a_schema_is_always_an_object(parameters: Any) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    assert _equip(tools=[tool])["tools"][0]["input_schema"]["type"] == "object"


TEXT = {"type": "string"}


def test_null_members_of_a_schema_are_left_out() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": None, "required": None, "title": "T"}}}
    assert _equip(tools=[tool])["tools"][0]["input_schema"] == {"type": "object", "title": "T"}


@pytest.mark.parametrize(
    ("schema", "properties", "required"),
    [
        (
            {"anyOf": [{"properties": {"a": TEXT, "c": TEXT}, "required": ["a", "c"]}, {"required": ["c"]}]},
            {"a": TEXT, "c": TEXT},
            ["c"],
        ),
        (
            {"oneOf": [{"properties": {"a": TEXT}, "required": ["a"]}], "properties": {"b": TEXT}},
            {"a": TEXT, "b": TEXT},
            ["a"],
        ),
        (
            {
                "allOf": [{"$ref": "#/$defs/A"}, {"required": ["b"]}],
                "$defs": {"A": {"properties": {"a": TEXT}, "required": ["a"]}},
            },
            {"a": TEXT},
            ["a", "b"],
        ),
        ({"anyOf": [True, {"$ref": "#/nowhere"}, 3]}, {}, []),
        (
            {"properties": {"a": {"properties": {"b": TEXT}}}, "allOf": [{"$ref": "#/properties/a"}]},
            {"a": {"properties": {"b": TEXT}}, "b": TEXT},
            [],
        ),
        (
            {
                "properties": {"a": {"properties": {"b": {"properties": {"c": TEXT}}}}},
                "allOf": [{"$ref": "#/properties/a/properties/b"}],  # would be there twice
            },
            {"a": {"properties": {"b": {"properties": {"c": TEXT}}}}},
            [],
        ),
        ({"allOf": "x"}, {}, []),
    ],
)
def test_combinations_at_the_top_of_a_schema_are_merged(schema: Any, properties: Any, required: Any) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    found = _equip(tools=[tool])["tools"][0]["input_schema"]
    assert (found["type"], found["properties"], found.get("required", [])) == ("object", properties, required)
    assert not found.keys() & {"anyOf", "oneOf", "allOf", "$defs"}


def test_many_alternatives_take_linear_time() -> None:
    definition: Doc = {"properties": {f"a{number}": {} for number in range(10_000)}}
    schema = {"$defs": {"A": definition}, "anyOf": [{"$ref": "#/$defs/A"}] * 10_000}
    apart: Doc = {"oneOf": [{"properties": {f"a{number}": {}}} for number in range(10_000)]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": one}} for one in (schema, apart)]
    began = time.process_time()
    (found,) = _equip(tools=tools[:1])["tools"]
    _equip(tools=tools[1:])
    assert time.process_time() - began < 1
    assert len(found["input_schema"]["properties"]) == 10_000


def test_tools_of_earlier_turns_are_defined_but_not_to_be_called() -> None:
    found = _equip(messages=[{"role": "assistant", "tool_calls": [call("1", "f", "{}"), call("2", "f", "{}")]}])
    assert [tool["name"] for tool in found["tools"]] == ["f"]
    assert found["choice"] == {"type": "none"}


def test_a_schema_where_the_model_can_be_held_to_it_needs_no_tool() -> None:
    assert _equip(response_format=FORM)["tools"] == []


@pytest.mark.parametrize(
    ("asked", "thinking", "choice"),
    [
        (None, False, {"type": "tool", "name": JSON_TOOL}),
        ("none", False, {"type": "tool", "name": JSON_TOOL}),
        ("auto", False, {"type": "any"}),
        ("required", False, {"type": "any"}),
        ("auto", True, {"type": "auto"}),
    ],
)
def test_a_schema_elsewhere_is_a_tool(asked: str | None, thinking: bool, choice: Any) -> None:
    found = _equip(TOOL, thinking=thinking, tools=[F], tool_choice=asked, response_format=FORM)
    assert found["choice"] == choice
    assert [(tool["name"], tool["input_schema"]) for tool in found["tools"]][1] == (JSON_TOOL, SCHEMA)
