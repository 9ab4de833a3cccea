"""What a server refuses of a format is in the prompt instead."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.upstream.answer_formats import JSON_LINE, NO_JSON, NO_SCHEMAS, fit_format
from gateway.upstream.request_rules import fit_request, rules_in

SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
OBJECT = {"type": "json_object"}
LINES = f'{JSON_LINE}\n\nIt must match this JSON schema:\n{{"type":"object"}}'
USER = {"role": "user", "content": "u"}


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ("This response_format type is unavailable now", True),  # DeepSeek
        ("response_format.type `json_schema` is unavailable now", True),
        ("'response_format.type' must be 'json_schema' or 'text'", True),  # LM Studio
        ("This model does not support response format `json_schema`. See supported models", True),  # Groq
        ("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.", True),
        ("body.response_format: Extra inputs are not permitted", True),
        ("json mode cannot be combined with tool/function calling", True),
        ('"tools" is incompatible with "response_format"', True),
        ("The provided JSON schema contains features not supported by xgrammar.", True),  # vLLM
        ("Invalid schema for response_format 'x': In context=(), 'uniqueItems' is not supported", False),
        (
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            False,
        ),
        ("Tool schemas are not supported", False),
    ],
)
def test_a_refusal_of_a_format_is_recognized(message: str, refused: bool) -> None:
    assert rules_in(message) == ([NO_SCHEMAS, NO_JSON] if refused else [])


@pytest.mark.parametrize(
    ("form", "learned", "rules"),
    [
        (SCHEMA, (), [NO_SCHEMAS]),
        (SCHEMA, (NO_SCHEMAS,), [NO_JSON]),
        (SCHEMA, (NO_SCHEMAS, NO_JSON), []),
        (OBJECT, (), [NO_JSON]),
        (OBJECT, (NO_SCHEMAS,), [NO_JSON]),
        ({"type": "text"}, (), []),
        (None, (), []),
    ],
)
def test_json_without_a_schema_comes_before_no_json(form: Any, learned: tuple[str, ...], rules: list[str]) -> None:
    fields = {"response_format": rawjson.raw(form), "messages": rawjson.raw([USER])}
    sent, _ = fit_request(fields, learned)
    assert [rule for rule in (NO_SCHEMAS, NO_JSON) if fit_request(fields, (*learned, rule))[0] != sent] == rules


@pytest.mark.parametrize(
    ("form", "learned", "messages", "kept", "sent"),
    [
        (SCHEMA, (NO_SCHEMAS,), [USER], OBJECT, [{"role": "system", "content": LINES}, USER]),
        (
            SCHEMA,
            (NO_SCHEMAS, NO_JSON),
            [{"role": "developer", "content": "Be."}, USER],
            None,
            [{"role": "developer", "content": f"Be.\n\n{LINES}"}, USER],
        ),
        (OBJECT, (NO_JSON,), [USER], None, [{"role": "system", "content": JSON_LINE}, USER]),
        (OBJECT, (NO_SCHEMAS,), [USER], OBJECT, [USER]),
        ({"type": "text"}, (NO_JSON,), [USER], {"type": "text"}, [USER]),
        (SCHEMA, ("user",), [USER], SCHEMA, [USER]),
        ({"type": 5}, (NO_JSON,), [USER], {"type": 5}, [USER]),
    ],
)
def test_the_prompt_says_what_the_format_cannot(
    form: Any, learned: tuple[str, ...], messages: list[Any], kept: Any, sent: list[Any]
) -> None:
    fields = {"response_format": rawjson.raw(form), "messages": rawjson.raw(messages)}
    dropped = fit_format(fields, learned)
    assert dropped == ([] if kept == form else ["response_format"])
    assert rawjson.maybe(fields.get("response_format")) == kept
    assert rawjson.value(fields["messages"]) == sent
