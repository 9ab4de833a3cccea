"""What the gateway itself reads of a request is checked; everything else is left as it came."""

import json
from typing import Any

import pytest

from gateway.domain.output_limit import MAX_CHOICES, MAX_TOKEN_COUNT
from gateway.inbound.api import HttpRequest, InboundRequest
from gateway.inbound.chat.api import CHAT, MAX_MODEL
from tests.refusals import refusal_of

MESSAGES = [{"role": "user", "content": "hi"}]


def parse(body: bytes) -> InboundRequest:
    return CHAT.parse(HttpRequest(body=body, target="/", headers={}))


def ask(**fields: Any) -> InboundRequest:
    return parse(json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode())


def refusal(**fields: Any) -> tuple[str, str | None]:
    """Code and param."""
    error = refusal_of(ask, **fields)
    return error.code, error.param


def test_values_stay_as_they_were_sent() -> None:
    body = b'{"model":"m", "messages": [ {"role":"user","content":"\\u0061"} ],"x":{"deep":[1.50,  null]},'
    fields = parse(body + b'"temperature":1e0}').fields
    assert [bytes(fields[name]) for name in ("messages", "x", "temperature")] == [
        b'[ {"role":"user","content":"\\u0061"} ]',
        b'{"deep":[1.50,  null]}',
        b"1e0",
    ]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 7}, 7),
        ({"max_tokens": 5, "max_completion_tokens": 7}, 7),
        ({"max_tokens": 5, "max_completion_tokens": None}, 5),
        ({"max_tokens": None}, None),
        ({"max_tokens": MAX_TOKEN_COUNT}, MAX_TOKEN_COUNT),
    ],
)
def test_the_output_limit_has_two_names(fields: dict[str, Any], found: int | None) -> None:
    assert ask(**fields).output_cap == found


@pytest.mark.parametrize(
    ("fields", "left", "found"),
    [
        ({"max_tokens": -1}, {}, None),
        ({"max_completion_tokens": -1, "seed": -1}, {"seed": -1}, None),
        ({"max_tokens": -1, "max_completion_tokens": 7}, {"max_completion_tokens": 7}, 7),
        ({"max_tokens": 5, "max_completion_tokens": -1}, {"max_tokens": 5}, 5),
        ({"max_tokens": -1, "max_completion_tokens": -1}, {}, None),
    ],
)
def test_a_limit_of_minus_one_is_none(fields: dict[str, Any], left: dict[str, Any], found: int | None) -> None:
    request = ask(**fields)
    sent = {name: json.loads(bytes(raw)) for name, raw in request.fields.items()}
    assert (request.body, sent) == (b"", {"model": "m", "messages": MESSAGES, **left})
    assert request.output_cap == found


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"stream": True}, (True, False)),
        ({"stream": None}, (False, False)),
        ({"stream": True, "stream_options": None}, (True, False)),
        ({"stream": True, "stream_options": {}}, (True, False)),
        ({"stream": True, "stream_options": {"include_usage": None}}, (True, False)),
        ({"stream": True, "stream_options": {"include_usage": False}}, (True, False)),
        ({"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": 1}}, (True, True)),
        ({"stream": False, "stream_options": None}, (False, False)),
    ],
)
def test_streaming_and_its_usage_are_requested(fields: dict[str, Any], found: tuple[bool, bool]) -> None:
    request = ask(**fields)
    assert (request.stream, request.include_usage) == found


NULLS = ("stream", "n", "max_tokens", "max_completion_tokens", "tools", "temperature", "top_p", "stream_options")


@pytest.mark.parametrize("name", NULLS)
def test_null_is_the_same_as_absent(name: str) -> None:
    assert ask(**{name: None}).choices == 1


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"model": None}, "missing_required_parameter", "model"),
        ({"model": ""}, "missing_required_parameter", "model"),
        ({"model": 1}, "invalid_type", "model"),
        ({"model": ["m"]}, "invalid_type", "model"),
        ({"model": "m" * (MAX_MODEL + 1)}, "invalid_value", "model"),
        ({"messages": None}, "invalid_type", "messages"),
        ({"messages": []}, "invalid_value", "messages"),
        ({"messages": "hi"}, "invalid_type", "messages"),
        ({"messages": {}}, "invalid_type", "messages"),
        ({"messages": ["hi"]}, "invalid_type", "messages[0]"),
        ({"messages": [{"role": "user"}, {"content": "x"}]}, "invalid_type", "messages[1]"),
        ({"messages": [{"role": 1}]}, "invalid_type", "messages[0].role"),
        ({"messages": [{"role": None}]}, "invalid_type", "messages[0].role"),
        ({"stream": "true"}, "invalid_type", "stream"),
        ({"stream": 1}, "invalid_type", "stream"),
        ({"stream_options": {}}, "invalid_value", "stream_options"),
        ({"stream": False, "stream_options": {"include_usage": True}}, "invalid_value", "stream_options"),
        ({"stream": True, "stream_options": True}, "invalid_type", "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "invalid_type", "stream_options.include_usage"),
        ({"max_tokens": -2}, "invalid_value", "max_tokens"),
        ({"max_tokens": 0}, "invalid_value", "max_tokens"),
        ({"max_tokens": 1.5}, "invalid_type", "max_tokens"),
        ({"max_tokens": True}, "invalid_type", "max_tokens"),
        ({"max_tokens": "5"}, "invalid_type", "max_tokens"),
        ({"max_tokens": MAX_TOKEN_COUNT + 1}, "invalid_value", "max_tokens"),
        ({"max_completion_tokens": 0}, "invalid_value", "max_completion_tokens"),
        ({"max_completion_tokens": -1, "max_tokens": 0}, "invalid_value", "max_tokens"),
        ({"max_completion_tokens": 9, "max_tokens": -2}, "invalid_value", "max_tokens"),
        ({"n": 0}, "invalid_value", "n"),
        ({"n": -1}, "invalid_value", "n"),
        ({"n": MAX_CHOICES + 1}, "invalid_value", "n"),
        ({"n": 1000}, "invalid_value", "n"),
        ({"n": "1"}, "invalid_type", "n"),
        ({"temperature": "hot"}, "invalid_type", "temperature"),
        ({"temperature": True}, "invalid_type", "temperature"),
        ({"top_p": []}, "invalid_type", "top_p"),
        ({"tools": {}}, "invalid_type", "tools"),
        ({"tools": "x"}, "invalid_type", "tools"),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, Any], code: str, param: str) -> None:
    assert refusal(**fields) == (code, param)


def test_missing_messages_are_named() -> None:
    error = refusal_of(parse, b'{"model":"m"}')
    assert (error.code, error.param) == ("missing_required_parameter", "messages")


@pytest.mark.parametrize("n", [1, MAX_CHOICES])
def test_choices_may_be_several(n: int) -> None:
    assert ask(n=n).choices == n


@pytest.mark.parametrize(
    "model", ["a/b:free", "../x", "[/]", "\u202e", "😀", "m\n\t\x7f", "\x00", "x" * MAX_MODEL, "models/m@v1"]
)
def test_a_model_may_have_any_name(model: str) -> None:
    """Whether there is one of that name is another question."""
    assert ask(model=model).model == model


@pytest.mark.parametrize("content", [None, [], [{"type": "text", "text": "x"}], "x" * 100_000, {"odd": True}])
def test_contents_are_not_looked_at(content: Any) -> None:
    assert ask(messages=[{"role": "strange", "content": content}]).model == "m"


def test_many_messages_are_taken() -> None:
    assert ask(messages=MESSAGES * 50_000).model == "m"


def test_unknown_fields_are_taken_and_mean_nothing() -> None:
    found = ask(api_base="http://evil", api_key="x", headers={"authorization": "x"}, extra_body={"n": 0})
    assert (found.model, found.choices) == ("m", 1)
    assert bytes(found.fields["api_base"]) == b'"http://evil"'


def test_a_lone_surrogate_is_replaced_where_the_request_is_read() -> None:
    found = ask(messages=[{"role": "user", "content": "cut \ud83d"}])
    assert bytes(found.fields["messages"]) == b'[{"role": "user", "content": "cut \\ufffd"}]'
    assert b"cut \\ud83d" in found.body


def test_the_input_is_bounded_by_a_third_of_its_bytes() -> None:
    small, large = ask().bound.tokens, ask(messages=[{"role": "user", "content": "x" * 3000}]).bound.tokens
    assert small == 16
    assert 1000 <= large <= 1020


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"messages": "hi"}, "messages: Expected `array`, got `str`"),
        ({"messages": [{"role": "user"}, "hi"]}, "messages[1]: Expected `object`, got `str`"),
        ({"messages": [{"content": "hi"}]}, "messages[0]: Object missing required field `role`"),
        ({"messages": [{"role": 1}]}, "messages[0].role: Expected `str`, got `int`"),
        ({"stream": True, "stream_options": []}, "stream_options: Expected `object | null`, got `array`"),
        (
            {"stream": True, "stream_options": {"include_usage": 1}},
            "stream_options.include_usage: Expected `bool | null`, got `int`",
        ),
    ],
)
def test_a_refusal_says_what_is_wanted_at_that_very_place(fields: dict[str, Any], message: str) -> None:
    error = refusal_of(parse, json.dumps({"model": "m", "messages": [{"role": "user"}]} | fields).encode())
    assert error.message == message


@pytest.mark.parametrize(
    ("tools", "is_legacy"), [({}, True), ({"tools": None}, True), ({"tools": []}, True), ({"tools": [{}]}, False)]
)
def test_a_client_that_offers_only_functions_gets_them_in_its_spelling(
    tools: dict[str, Any], *, is_legacy: bool
) -> None:
    assert ask(functions=[{"name": "f"}], **tools).form.has_functions is is_legacy
    assert not ask(functions=[], **tools).form.has_functions
