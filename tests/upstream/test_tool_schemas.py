"""Schemas of older drafts become valid in the draft of 2020 where a server checks them."""

from typing import Any

import pytest

from gateway.upstream.request_rules import rules_in
from gateway.upstream.tool_schemas import SCHEMAS, with_valid_schemas


@pytest.mark.parametrize(
    "message",
    [
        "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 (see https://j.org).",
        "Invalid schema for function 'f': In context=('properties', 'a'), array schema missing items.",
        "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[a].items: missing field.",
        "tools.3.input_schema: JSON schema is invalid - please consult https://json-schema.org",
    ],
)
def test_a_refusal_of_a_schema_is_recognized(message: str) -> None:
    assert rules_in(message) == [SCHEMAS]


@pytest.mark.parametrize(
    ("schema", "valid"),
    [
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 0}),
        ({"maximum": 9, "exclusiveMaximum": False}, {"maximum": 9}),
        ({"exclusiveMinimum": True}, {}),
        ({"items": [{"type": "string"}, 5]}, {"prefixItems": [{"type": "string"}, {}]}),
        ({"items": [{}], "additionalItems": False}, {"prefixItems": [{}], "items": False}),
        ({"items": []}, {}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}),
        ({"type": "string", "required": True}, {"type": "string"}),
        ({"type": "any", "description": "d"}, {"description": "d"}),
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": [{}]}, {}),
        ({"enum": []}, {}),
        ({"enum": None, "properties": None, "required": []}, {"required": []}),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, {}),
        ({"anyOf": [{"type": "file"}, {"type": "null"}]}, {"anyOf": [{}, {"type": "null"}]}),
        ({"properties": {"enum": {"type": "int"}, "required": True}}, {"properties": {"enum": {}, "required": True}}),
        ({"default": {"type": "any"}, "const": {"enum": []}}, {"default": {"type": "any"}, "const": {"enum": []}}),
        ({"additionalProperties": {"type": "any"}}, {"additionalProperties": {}}),
    ],
)
def test_a_schema_allows_the_same_in_the_draft_of_2020(schema: Any, valid: Any) -> None:
    tool = {"name": "f", "input_schema": {"type": "object", "properties": {"a": schema}}}
    expected = {"name": "f", "input_schema": {"type": "object", "properties": {"a": valid}}}
    assert with_valid_schemas([tool]) == [expected]
    assert with_valid_schemas([expected]) == [expected]
    sent, changed = ({"function": {"name": "f", "parameters": each["input_schema"]}} for each in (tool, expected))
    assert with_valid_schemas([sent]) == [changed]


@pytest.mark.parametrize("name", ["input_schema", "parameters"])
def test_alternatives_at_the_top_level_become_properties(name: str) -> None:
    alternatives = [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {"required": ["b"]}]
    schema = {"properties": {"b": {"type": "number"}}, "oneOf": alternatives, "not": {"required": ["c"]}}
    expected = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}}
    assert with_valid_schemas([{"name": "f", name: schema}]) == [{"name": "f", name: expected}]


@pytest.mark.parametrize("tools", [None, 5, [{"type": "web_search_20250305", "name": "web_search"}, "x"]])
def test_other_tools_stay(tools: Any) -> None:
    assert with_valid_schemas(tools) == tools
