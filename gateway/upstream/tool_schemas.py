"""Tool schemas: what older drafts of JSON Schema allow becomes valid in the draft of 2020, where Claude refuses it.

OpenAI and Claude refuse alternatives at the top level, too, OpenAI and Gemini lists without ``items``, and MiniMax no
parameters at all. Such tools come from MCP servers and code generators. Arguments that they allow stay allowed.
"""

from collections.abc import Callable, Collection
from typing import Any

from gateway.domain import rawjson
from gateway.domain.lazy_pattern import lazy_pattern

SCHEMAS = "tools[].input_schema=2020-12"
"""Stands for a server that checks schemas against the draft of 2020."""
SCHEMAS_REFUSED = lazy_pattern(
    r"(?i)input_schema: json schema is invalid|must match json schema draft 2020|function parameters is|moonshot flav"
    r"|\b(?:any|one|all)of\W.{0,60}\bat the top level|\b(?:array|object) schema missing \w|\bitems: missing field"
    r"|\bspecify the schema type field|not defined in the schema properties|\"parameters\",\s*\"properties\""
)

_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_LISTS = frozenset({"required", "enum", "anyOf", "oneOf", "allOf", "prefixItems"})
"""Keywords whose value must be a list, and not an empty one except for ``required``."""
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value must be an object of schemas."""
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
COMBINATIONS = frozenset({"anyOf", "oneOf", "allOf"})
"""Keywords that are refused at the top of a schema, and whose arguments are merged there."""
_DATA = frozenset({"enum", "const", "default", "examples", "required"})
STRICT = "tools[].strict"
"""Stands for a server that refuses strict schemas: they have too many parameters, or refer to themselves."""
_COMPILED = frozenset(
    {
        *("$ref", "$defs", "definitions", "type", "properties", "required", "items", "enum", "const"),
        *("default", "title", "description", "pattern", *COMBINATIONS),
    }
)
"""Keywords that Claude compiles into the grammar of an answer, as far as their values allow."""
_VALUES = COMBINATIONS | {"type", "properties", "enum", "const", "$ref"}
"""A schema has at least one of these keywords, unless it allows any value."""
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})


def fit_schemas(fields: dict[str, Any], refused: Collection[str]) -> None:
    """Make the schemas of a request's tools, raw or decoded, valid if the server refuses others."""
    tools = rawjson.value(rawjson.encode(fields.get("tools"))) if SCHEMAS in refused else None
    if isinstance(tools, list) and (valid := list(map(_with_valid_schema, tools))) != tools:
        fields["tools"] = rawjson.raw(valid)


def _with_valid_schema(tool: Any) -> Any:
    if isinstance(function := rawjson.at(tool, "function"), dict):
        return {**tool, "function": _with_valid_schema({"parameters": {}, **function})}
    name = next((name for name in ("input_schema", "parameters") if isinstance(rawjson.at(tool, name), dict)), "")
    return {**tool, name: _object_schema(_valid(tool[name]))} if name else tool


def strict_schema(schema: Any) -> dict[str, Any] | None:
    """Returns a schema as Claude takes it for strict tools and answers, written as by Anthropic's SDKs: objects have no
    other members than those named, and descriptions say what is not compiled. None if it allows any value somewhere.
    """
    try:
        return _make_strict(_valid(rawjson.value(rawjson.encode(schema))))
    except ValueError:
        return None


def _make_strict(schema: Any) -> dict[str, Any]:
    """Returns a strict schema. Raises ValueError if the schema allows any value, or members of any name."""
    is_map = "object" in (rawjson.at(schema, "type") or "") and "properties" not in schema
    if is_map or not isinstance(schema, dict) or not _VALUES & schema.keys():
        raise ValueError("any value is allowed")
    if schema.get("additionalProperties", False) is not False or "patternProperties" in schema:
        raise ValueError("members of any name are allowed")
    if "$ref" in schema:  # stands alone, apart from what it may refer to
        schema = {name: value for name, value in schema.items() if name in ("$ref", "$defs", "definitions")}
    kept = {name: _with_parts(name, value, _make_strict) for name, value in schema.items() if _is_compiled(name, value)}
    lost = {name: value for name, value in schema.items() if name not in kept and name != "additionalProperties"}
    if "oneOf" in kept:
        kept["anyOf"] = kept.pop("oneOf")
    if lost:
        kept["description"] = f"{rawjson.text_at(kept, 'description')}\n\n{rawjson.encode(lost).decode()}".strip()
    return {**kept, "additionalProperties": False} if "properties" in kept else kept


def _is_compiled(name: str, value: Any) -> bool:
    is_few = name == "minItems" and value in (0, 1)
    return name in _COMPILED or is_few or (name == "format" and str(value) in _FORMATS)


def _object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of an object, without what is refused at the top level."""
    kept = {name: value for name, value in schema.items() if name not in ("not", "enum")}
    kept |= {"type": "object", "properties": kept.get("properties", {})}
    return merge_combinations(kept) if COMBINATIONS & kept.keys() else kept


def _valid(schema: Any) -> Any:
    """Returns a valid schema in place of one. What is not a schema allows anything."""
    if not isinstance(schema, dict):
        return schema if isinstance(schema, bool) else {}
    valid: dict[str, Any] = {}
    for name, value in _newer_names(schema).items():
        if _fits(name, value):
            valid[name] = _with_parts(name, value, _valid)
    if isinstance(properties := valid.get("properties"), dict) and "required" in valid:  # Gemini knows no others
        valid["required"] = [name for name in valid["required"] if isinstance(name, str) and name in properties]
    return valid


def _newer_names(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the keywords by their names of 2020: limits that exclude themselves, lists of items, Google's types."""
    named = dict(schema)
    if isinstance(named.get("type"), str):
        named["type"] = named["type"].lower()
    elif (values := named.get("enum")) and isinstance(values, list) and all(isinstance(each, str) for each in values):
        named.setdefault("type", "string")  # as Gemini and Kimi want it
    for excluded, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if named.get(excluded) is True and limit in named:
            named[excluded] = named.pop(limit)
    if isinstance(named.get("items"), list):
        named["prefixItems"] = named.pop("items")
        if "additionalItems" in named:
            named["items"] = named.pop("additionalItems")
    if isinstance(kind := named.get("type"), str) and (parts := rawjson.list_at(named, "anyOf")):
        del named["type"]  # Kimi wants it in the alternatives; a list of types would multiply what was held for
        named["anyOf"] = [{"type": kind, **part} if part and isinstance(part, dict) else part for part in parts]
    kind = named.get("type")
    if isinstance(kind, str | list) and "array" in kind and "prefixItems" not in named:
        named.setdefault("items", {})
    return named


def _fits(name: str, value: Any) -> bool:
    """Returns whether a keyword may have this value."""
    if name == "type":
        kinds = value if isinstance(value, list) else [value]
        return bool(kinds) and all(isinstance(kind, str) and kind in _TYPES for kind in kinds)
    if name in _LISTS:
        return isinstance(value, list) and (bool(value) or name == "required")
    if name in _MAPS:
        return isinstance(value, dict)
    if name in _NUMBERS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return name != "$schema"


def _with_parts(name: str, value: Any, change: Callable[[Any], Any]) -> Any:
    """Returns the value of a keyword with the schemas in it as ``change`` returns them."""
    if name in _DATA:
        return value
    if name in _MAPS:
        return {key: change(part) for key, part in value.items()}
    if isinstance(value, dict) or name == "items":
        return change(value)
    return [change(part) for part in value] if name in _LISTS else value


def merge_combinations(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema with the arguments that it combines. One is required if all alternatives require it."""
    properties, required = _arguments(schema)
    for keyword in sorted(COMBINATIONS & schema.keys()):
        parts = [_resolve(part, schema) for part in rawjson.list_at(schema, keyword)]
        combined = [_arguments(part) for part in {id(part): part for part in parts}.values()]  # each once
        del schema[keyword]
        for part_properties, _ in combined:
            properties |= {name: raw for name, raw in part_properties.items() if name not in properties}
        if sets := [part_required for _, part_required in combined]:
            required |= set.union(*sets) if keyword == "allOf" else set.intersection(*sets)
    merged: dict[str, Any] = {**schema, "properties": properties}
    if required:
        merged["required"] = sorted(required)
    definitions: dict[str, Any] = {name: merged.pop(name) for name in ("$defs", "definitions") if name in merged}
    return {**merged, **definitions} if b'"$ref"' in rawjson.encode(merged) else merged


def _arguments(schema: Any) -> tuple[dict[str, Any], set[str]]:
    """Returns the arguments in a schema, and the names of those that it requires."""
    properties = rawjson.at(schema, "properties")
    required = {name for name in rawjson.list_at(schema, "required") if isinstance(name, str)}
    return properties if isinstance(properties, dict) else {}, required


def _resolve(part: Any, schema: dict[str, Any]) -> Any:
    """Returns a part of a schema, or what it refers to. Arguments of arguments stay: they would be repeated."""
    path = rawjson.text_at(part, "$ref").split("/")
    return rawjson.at(schema, *path[1:]) if path[0] == "#" and "properties" not in path[2:] else part
