"""Whatever API a request is of, the same rules change it, and lose no text."""

from base64 import b64encode
from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.domain.prompt_size import bound_of
from gateway.upstream.answer_formats import JSON_LINE, NO_JSON, NO_SCHEMAS, STRICT_SCHEMAS
from gateway.upstream.message_rules import RULES, object_text
from gateway.upstream.request_rules import fit_request
from gateway.upstream.tool_schemas import SCHEMAS
from tests.fakes.replies import Doc

USER = {"role": "user", "content": "u"}
IMAGE = {"type": "image_url", "image_url": {"url": "https://x/a.png"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
OBJECT = {"type": "json_object"}
TEXTS, NO_SYSTEM = "messages[].content=text", "messages[].role=user only"
ALTERNATION = "messages[].role=alternating"
LINES = f'{JSON_LINE}\n\nIt must match this JSON schema:\n{{"type":"object"}}'
LIST = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "maxItems": 3}}}
SAID = {"a": {"type": "array", "items": {"type": "string"}, "description": '{"maxItems":3}'}}
STRICT_LIST = {"type": "object", "properties": SAID, "additionalProperties": False}
NULLABLE = {"type": ["string", "null"], "enum": [None, "a"], "default": None}


def _fit(rules: Any, sent: Doc) -> tuple[Doc, list[str]]:
    """The request as these rules want it, and the names of what it loses."""
    fields, lost = fit_request({name: rawjson.raw(value) for name, value in sent.items()}, rules)
    return {name: rawjson.value(raw) for name, raw in fields.items()}, lost


def _said(role: str, content: Any, **more: Any) -> Doc:
    return {"role": role, "content": content, **more}


def _part(text: str) -> Doc:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("rule", "sent", "changed"),
    [
        ("messages[].image", {"messages": [{"content": [{"type": "image"}]}]}, ["messages[].image"]),
        ("thinking=adaptive", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, ["thinking.budget_tokens"]),
        ("thinking=enabled", {"thinking": {"type": "adaptive"}}, []),
        ("thinking=enabled", {"thinking": {"type": "adaptive"}, "max_tokens": 1024}, ["thinking"]),
        ("messages[].text", {"messages": [{"role": "assistant", "content": None}]}, []),
        ("messages[].content=some", {"messages": [{"role": "assistant", "tool_calls": []}]}, []),
        ("messages[].tool_call_id=short", {"messages": [{"tool_call_id": "call_1"}]}, []),
        ("messages[].tool_call_id=short", {"input": [{"call_id": "call_1"}]}, []),
        ("null", {"tools": []}, []),
        ("messages[].role", {"messages": [{"role": "developer"}]}, []),
        ("messages[].role", {"input": [{"role": "developer"}]}, []),
        ("stream=true", {"stream": False}, []),
        ("stream=false", {"stream": True}, []),
    ],
)
def test_a_rule_changes_what_it_is_about(rule: str, sent: Doc, changed: list[str]) -> None:
    fitting, lost = _fit([rule], sent)
    assert (fitting != sent, lost) == (True, changed)
    others = {"model": "m", "tools": [{"type": "function"}]}
    assert rule.startswith("stream=") or _fit([rule], others) == (others, [])


@pytest.mark.parametrize(
    ("rule", "sent", "kept"),
    [
        (
            "messages[].tool_calls[].index",
            {"messages": [{"tool_calls": [{"id": "c", "index": 0}, {"id": "d"}]}, {"content": "index"}]},
            {"messages": [{"tool_calls": [{"id": "c"}, {"id": "d"}]}, {"content": "index"}]},
        ),
        (
            "messages[].content[].cache_control",
            {"messages": [{"content": [{"text": "a", "cache_control": {}}]}, {"content": ["x", {"cache_control": 1}]}]},
            {"messages": [{"content": [{"text": "a"}]}, {"content": ["x", {"cache_control": 1}]}]},
        ),
        (
            "tools[].strict",
            {"tools": [{"strict": True, "function": {"name": "f", "strict": None}}]},
            {"tools": [{"function": {"name": "f"}}]},
        ),
        ("tools[].strict", {"tools": [{"function": "odd"}], "messages": []}, None),
        ("tools[].strict", {"messages": []}, None),
        ("output_config.effort", {"output_config": {"effort": "low"}}, {}),
        ("seed", {"seed": 1, "n": 1}, {"n": 1}),
    ],
)
def test_a_field_is_left_out_and_named(rule: str, sent: Doc, kept: Doc | None) -> None:
    assert _fit(("user", rule), sent) == ((sent, []) if kept is None else (kept, [rule]))


@pytest.mark.parametrize(
    ("rules", "sent", "effort"),
    [
        (["reasoning"], {"reasoning": {"effort": "high"}}, "high"),
        (["reasoning"], {"reasoning": {"max_tokens": 4096}}, "medium"),
        (["reasoning"], {"reasoning": {"enabled": False}, "reasoning_effort": "low"}, "low"),
        (["reasoning"], {"reasoning": {"exclude": True}}, None),
        (["reasoning", "reasoning_effort"], {"reasoning": {"effort": "high"}}, None),
        (["seed"], {"reasoning_effort": "low"}, "low"),
    ],
)
def test_the_effort_of_a_refused_reasoning_is_sent_under_its_usual_name(
    rules: list[str], sent: Doc, effort: str | None
) -> None:
    fitting, _ = _fit(rules, {"messages": [USER], **sent})
    assert fitting == {"messages": [USER], **({} if effort is None else {"reasoning_effort": effort})}
    assert _fit(rules, {"input": "hi", "reasoning": {"effort": "high"}})[0].get("reasoning_effort") is None


@pytest.mark.parametrize(
    ("rule", "sent", "thinking", "effort"),
    [
        ("thinking=adaptive", {"type": "enabled", "budget_tokens": 4096}, {"type": "adaptive"}, "medium"),
        ("thinking=enabled", {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 4096}, None),
        ("thinking=enabled", {"type": "disabled"}, {"type": "disabled"}, None),
    ],
)
def test_a_model_thinks_in_the_form_that_it_takes(rule: str, sent: Any, thinking: Any, effort: str | None) -> None:
    fitting, _ = _fit([rule], {"thinking": sent, "max_tokens": 32_000})
    assert (fitting["thinking"], fitting.get("output_config", {}).get("effort")) == (thinking, effort)


@pytest.mark.parametrize(
    ("thinking", "rule"),
    [
        ({}, "tool_choice=auto"),
        ({"thinking": {"type": "adaptive"}}, "tool_choice=auto with thinking"),
        ({"reasoning_effort": "low"}, "tool_choice=auto with thinking"),
        ({"reasoning": {"enabled": True}}, "tool_choice=auto with thinking"),
        ({"enable_thinking": True}, "tool_choice=auto with thinking"),
        ({"thinking": {"type": "disabled"}}, "tool_choice=auto without thinking"),
        ({"reasoning_effort": "none"}, "tool_choice=auto without thinking"),
        ({"enable_thinking": False}, "tool_choice=auto without thinking"),
    ],
)
def test_only_a_request_that_thinks_like_the_refused_one_may_not_demand_a_call(thinking: Doc, rule: str) -> None:
    forced: list[Any] = ["required", {"type": "any"}, {"type": "function", "function": {"name": "f"}}]
    others: list[Any] = ["auto", "none", None, {"type": "none"}, {"type": "auto"}]
    for learned in ("tool_choice=auto", "tool_choice=auto with thinking", "tool_choice=auto without thinking"):
        lost = ["tool_choice"] if learned == rule else []
        for choice in forced:
            assert _fit([learned], {"tool_choice": choice, **thinking})[1] == lost
        for choice in others:
            request = {"tool_choice": choice, **thinking}
            assert _fit([learned], request) == (request, [])


@pytest.mark.parametrize(
    ("sent", "levels", "fitting"),
    [
        ("max", "low,medium,high", "high"),
        ("high", "xhigh,medium,low", "medium"),
        ("minimal", "low,high", "low"),
        ("none", "low,high", "low"),
        ("high", "none,default", "default"),
        ("low", "none,default", "default"),
        ("high", "none", None),
        ("extreme", "low,high", None),
        ("high", "low,high", "high"),
        (5, "low,high", 5),
    ],
)
@pytest.mark.parametrize("name", ["reasoning_effort", "reasoning.effort", "output_config.effort"])
def test_the_nearest_effort_is_sent(sent: Any, levels: str, fitting: Any, name: str) -> None:
    holder, _, member = name.rpartition(".")
    request, kept = ({} if value is None else {member: value} for value in (sent, fitting))
    if holder:
        request, kept = {holder: request}, {holder: kept}
    assert _fit(["user", f"reasoning_effort in {levels}"], request) == (kept, [] if sent == fitting else [name])


@pytest.mark.parametrize(("sent", "fitting"), [(0, 0.01), (1.7, 1.0), (0.5, 0.5), (1, 1), (None, None), ("hot", "hot")])
def test_the_nearest_value_in_a_range_is_sent(sent: Any, fitting: Any) -> None:
    kept, lost = _fit(("user", "range of temperature 0.01 1"), {"temperature": sent, "top_p": 0})
    assert (kept, lost) == ({"temperature": fitting, "top_p": 0}, [] if sent == fitting else ["temperature"])


@pytest.mark.parametrize(
    ("form", "rules", "messages", "kept", "sent"),
    [
        (SCHEMA, (NO_SCHEMAS,), [USER], OBJECT, [_said("system", LINES), USER]),
        (SCHEMA, (NO_JSON,), [USER], SCHEMA, [USER]),
        (
            SCHEMA,
            (NO_SCHEMAS, NO_JSON),
            [_said("developer", "Be."), USER],
            None,
            [_said("developer", f"Be.\n\n{LINES}"), USER],
        ),
        (OBJECT, (NO_JSON,), [USER], None, [_said("system", JSON_LINE), USER]),
        (OBJECT, (NO_SCHEMAS,), [USER], OBJECT, [USER]),
        (SCHEMA, (STRICT_SCHEMAS,), [USER], None, [_said("system", LINES), USER]),
        (OBJECT, (STRICT_SCHEMAS,), [USER], OBJECT, [USER]),
        ({"type": "text"}, (NO_JSON,), [USER], {"type": "text"}, [USER]),
        (SCHEMA, ("user",), [USER], SCHEMA, [USER]),
        ({"type": 5}, (NO_JSON,), [USER], {"type": 5}, [USER]),
    ],
)
def test_the_prompt_says_what_a_format_cannot(form: Any, rules: Any, messages: Any, kept: Any, sent: Any) -> None:
    fitting, lost = _fit(rules, {"response_format": form, "messages": messages})
    assert lost == ([] if kept == form else ["response_format"])
    assert (fitting.get("response_format"), fitting["messages"]) == (kept, sent)


@pytest.mark.parametrize("given", [{}, {"json_schema": {"name": "x", "schema": LIST}}])
def test_a_relay_to_claude_gets_a_strict_schema(given: Doc) -> None:
    named = {**given.get("json_schema", {}), "schema": STRICT_LIST}
    form = {"type": "json_schema", **(given or {"schema": LIST})}
    fitting, lost = _fit([STRICT_SCHEMAS], {"response_format": form, "messages": [USER]})
    assert (fitting, lost) == ({"response_format": {**form, "json_schema": named}, "messages": [USER]}, [])


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({"tools": [], "tool_choice": "auto", "stop": [], "user": None, "n": 1}, {"n": 1}),
        ({"tools": [], "functions": [{}], "tool_choice": "auto"}, {"functions": [{}], "tool_choice": "auto"}),
        ({"tool_choice": "none", "n": 1}, {"n": 1}),
        ({"messages": [_said("assistant", None, tool_calls=[], name=None)]}, {"messages": [_said("assistant", "")]}),
        ({"messages": [_said("user", [])]}, {"messages": [_said("user", "")]}),
        (
            {"input": [{"type": "reasoning", "content": None, "summary": []}, _said("user", None)]},
            {"input": [{"type": "reasoning", "summary": []}, _said("user", "")]},
        ),
        (
            {"tools": [{"function": {"strict": None, "parameters": {"properties": {"a": NULLABLE}, "required": []}}}]},
            {"tools": [{"function": {"parameters": {"properties": {"a": NULLABLE}}}}]},
        ),
        (
            {"messages": [{"type": "tool_use", "input": {"a": None}}]},
            {"messages": [{"type": "tool_use", "input": {"a": None}}]},
        ),
    ],
)
def test_only_what_says_nothing_is_left_out(sent: Doc, kept: Doc) -> None:
    assert _fit(["null"], sent) == (kept, [])


def test_what_is_nested_too_deeply_is_left_to_the_upstream() -> None:
    deep = rawjson.raw([])
    for _ in range(5000):
        deep = type(deep)(b"[" + bytes(deep) + b"]")
    assert fit_request({"messages": deep}, ["null"]) == ({"messages": deep}, [])


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
        ({"enum": ["a", "b"]}, {"enum": ["a", "b"], "type": "string"}),
        ({"enum": ["a", 1]}, {"enum": ["a", 1]}),
        ({"properties": {"b": {}}, "required": ["b", "c", {}]}, {"properties": {"b": {}}, "required": ["b"]}),
        ({"enum": None, "properties": None, "required": []}, {"required": []}),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, {}),
        ({"anyOf": [{"type": "file"}, {"type": "null"}]}, {"anyOf": [{}, {"type": "null"}]}),
        (
            {"type": "string", "anyOf": [{"enum": ["a"]}, {"type": "null"}]},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        ({"type": 5}, {}),
        ({"type": "string", "anyOf": [{}, True]}, {"anyOf": [{}, True]}),
        ({"type": ["string", "null"], "anyOf": [{}]}, {"type": ["string", "null"], "anyOf": [{}]}),
        ({"properties": {"enum": {"type": "int"}, "required": True}}, {"properties": {"enum": {}, "required": True}}),
        ({"default": {"type": "any"}, "const": {"enum": []}}, {"default": {"type": "any"}, "const": {"enum": []}}),
        ({"additionalProperties": {"type": "any"}}, {"additionalProperties": {}}),
    ],
)
def test_a_schema_allows_the_same_in_the_draft_of_2020(schema: Any, valid: Any) -> None:
    sent, kept = ({"type": "object", "properties": {"a": each}} for each in (schema, valid))
    assert _fit([SCHEMAS], {"tools": [{"name": "f", "input_schema": sent}]})[0]["tools"][0]["input_schema"] == kept
    assert _fit([SCHEMAS], {"tools": [{"name": "f", "input_schema": kept}]})[0]["tools"][0]["input_schema"] == kept
    (tool,) = _fit([SCHEMAS], {"tools": [{"function": {"name": "f", "parameters": sent}}]})[0]["tools"]
    assert tool["function"]["parameters"] == kept


def test_a_function_without_parameters_gets_an_empty_schema() -> None:
    (tool,) = _fit([SCHEMAS], {"tools": [{"type": "function", "function": {"name": "f"}}]})[0]["tools"]
    assert tool["function"] == {"name": "f", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("name", ["input_schema", "parameters"])
def test_alternatives_at_the_top_level_become_properties(name: str) -> None:
    alternatives = [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {"required": ["b"]}]
    schema = {"properties": {"b": {"type": "number"}}, "oneOf": alternatives, "not": {"required": ["c"]}}
    expected = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}}
    assert _fit([SCHEMAS], {"tools": [{"name": "f", name: schema}]})[0] == {"tools": [{"name": "f", name: expected}]}
    parts = {"$defs": {"A": {"properties": {"a": {}}, "required": ["a"]}}, "allOf": [{"$ref": "#/$defs/A"}]}
    (tool,) = _fit([SCHEMAS], {"tools": [{"name": "f", name: parts}]})[0]["tools"]
    assert tool[name] == {"type": "object", "properties": {"a": {}}, "required": ["a"]}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "anyOf": [{"const": 1}] * 900},
        {"type": "array", "anyOf": [{"minItems": 1}, {"enum": ["type", "items"]}] * 900},
        {"anyOf": [{"type": "ARRAY"}] * 900},
        {"prefixItems": [{"type": ["array", "null"]}] * 900},
        {"prefixItems": [{"enum": ["a"]}] * 900},
    ],
    ids=["types", "types and items", "items of alternatives", "items of lists", "types of enums"],
)
def test_what_a_repair_adds_to_schemas_is_held_for(schema: Doc) -> None:
    sent = {"tools": [{"name": "f", "input_schema": {"properties": {"a": schema}}}]}
    bound = bound_of({}, [rawjson.raw(sent["tools"])])
    assert len(rawjson.raw(_fit([SCHEMAS], sent)[0]["tools"])) <= 3 * (bound.tokens - 600)


@pytest.mark.parametrize("tools", [None, 5, [{"type": "web_search_20250305", "name": "web_search"}, "x"]])
def test_other_tools_stay(tools: Any) -> None:
    assert _fit([SCHEMAS], {"tools": tools}) == ({"tools": tools}, [])


SEEN = _part("[An image was here. This model reads text only.]")
RESULT = _said("tool", "r", tool_call_id="c1")


def _called(arguments: str, **more: Any) -> Doc:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}, **more}
    return _said("assistant", None, tool_calls=[call])


def _used(given: Any = None, id: str = "t1") -> Doc:
    return {"type": "tool_use", "id": id, "name": "f", "input": given or {}}


def _result(*parts: Doc, **more: Any) -> Doc:
    """In a turn of Messages."""
    return _said("user", [{"type": "tool_result", "tool_use_id": "t1", "content": [*parts], **more}])


SIGNED = {"google": {"thought_signature": b64encode(b"skip_thought_signature_validator").decode()}}


@pytest.mark.parametrize(
    ("rule", "sent", "kept"),
    [
        (
            "messages[].role=assistant",
            [_called("{}"), RESULT, USER],
            [_called("{}"), RESULT, _said("assistant", "."), USER],
        ),
        (
            "messages[].role=user",
            [USER, _said("assistant", "a")],
            [USER, _said("assistant", "a"), _said("user", "Continue.")],
        ),
        (
            "messages[].role=system",
            [_said("system", "a"), USER, _said("developer", "b"), USER],
            [_said("system", "a\n\nb"), USER, USER],
        ),
        (
            "messages[].role=system",
            [_said("system", "a"), USER, _said("developer", [_part("b")])],
            [_said("system", [_part("a"), _part("b")]), USER],
        ),
        (
            "messages[].image",
            [_said("user", [_part("a"), IMAGE]), _result(IMAGE)],
            [_said("user", [_part("a"), SEEN]), _result(SEEN)],
        ),
        (
            "messages[].text",
            [_said("user", [_part(" "), IMAGE]), _called("{}") | {"content": ""}, RESULT | {"content": ""}],
            [_said("user", [IMAGE]), _called("{}"), RESULT | {"content": "."}],
        ),
        (
            "messages[].text",
            [USER, _said("user", [_part("\n") | {"cache_control": {"type": "ephemeral"}}]), _result(_part(""))],
            [USER, _result(content=".")],
        ),
        *(
            ("messages[].arguments", [_called(given), RESULT], [_called(kept), RESULT])
            for given, kept in (("", "{}"), ("[]", "{}"), ('{"a": "b', '{"invalid_arguments":"{\\"a\\": \\"b"}'))
        ),
        (
            "messages[].input",
            [_said("assistant", [_used(["a"])])],
            [_said("assistant", [_used({"invalid_arguments": '["a"]'})])],
        ),
        ("messages[].thought_signature", [_called("{}")], [_called("{}", extra_content=SIGNED)]),
        (
            "messages[].tool_call_id=short",
            [_said("assistant", [_used(id="functions.Read:0")]), _result(tool_use_id="functions.Read:0")],
            [_said("assistant", [_used(id="9d4d98f9a")]), _result(tool_use_id="9d4d98f9a")],
        ),
        (TEXTS, [_said("user", [_part("a"), _part("b")])], [_said("user", "a\n\nb")]),
        (TEXTS, [_said("user", [_part("a"), IMAGE])], None),
        (TEXTS, [_said("user", "a"), _said("user", []), _said("user", [{"type": "text", "text": 5}])], None),
        (NO_SYSTEM, [_said("system", "s"), USER, _said("developer", "d")], [_said("user", "s\n\nd\n\nu")]),
        (NO_SYSTEM, [_said("system", "s")], [_said("user", "s")]),
        (NO_SYSTEM, [_said("system", "s"), _said("user", [IMAGE])], [_said("user", [_part("s"), IMAGE])]),
        (NO_SYSTEM, [_said("assistant", "a"), USER], None),
        ("messages[].role=not system", [USER, _said("system", "s"), USER], [USER, _said("user", "s"), USER]),
        (
            ALTERNATION,
            [_said("system", "s"), _said("user", "a"), _said("user", [_part("b")]), _said("assistant", "c")],
            [_said("system", "s"), _said("user", [_part("a"), _part("b")]), _said("assistant", "c")],
        ),
        (
            ALTERNATION,
            [_said("assistant", "a"), _said("assistant", "b")],
            [_said("user", "."), _said("assistant", "a\n\nb")],
        ),
        (ALTERNATION, [USER, *(_said("assistant", None, tool_calls=[number]) for number in (1, 2))], None),
        (
            "messages[].image=user",
            [_said("tool", [_part("a"), IMAGE]), _said("tool", [IMAGE]), _said("tool", "b"), _said("assistant", "c")],
            [
                *(_said("tool", [_part("a")]), _said("tool", [_part("[image]")]), _said("tool", "b")),
                *(_said("user", [IMAGE, IMAGE]), _said("assistant", "c")),
            ],
        ),
        (
            "messages[].image=user",
            [_said("user", [{"type": "tool_result", "content": [_part("a"), IMAGE]}, _part("b")])],
            [_said("user", [{"type": "tool_result", "content": [_part("a")]}, _part("b"), IMAGE])],
        ),
        (
            "messages[].text",
            [_said("assistant", None, function_call={"name": "f"}), USER, _said("assistant", "", tool_calls=[])],
            [_said("assistant", None, function_call={"name": "f"}), USER],
        ),
        (
            "messages[].image=base64",
            [_said("user", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, IMAGE])],
            [_said("user", [{"type": "image_url", "image_url": {"url": "AAAA"}}, IMAGE])],
        ),
    ],
)
def test_messages_get_the_shape_that_a_template_demands(rule: str, sent: list[Doc], kept: list[Doc] | None) -> None:
    assert _fit([rule], {"messages": sent})[0]["messages"] == (sent if kept is None else kept)


@pytest.mark.parametrize(
    ("given", "text"),
    [({"a": 1}, '{"a":1}'), ('{"a": 1}', '{"a": 1}'), (None, "{}"), ("[1", '{"invalid_arguments":"[1"}')],
)
def test_arguments_become_the_text_of_an_object_and_lose_nothing(given: Any, text: str) -> None:
    assert object_text(given) == text


@pytest.mark.parametrize("odd", [None, 5, "", {}, [], [5], [None], ["x"], [[]], [{"extra_content": 5}, 5]])
def test_odd_calls_are_left_to_the_upstream(odd: Any) -> None:
    fitting, _ = _fit([*RULES], {"messages": [_said("assistant", odd, tool_calls=odd)]})
    assert [said["tool_calls"] for said in fitting["messages"] if "tool_calls" in said] == [odd] * (
        odd not in (None, "", [])
    )
