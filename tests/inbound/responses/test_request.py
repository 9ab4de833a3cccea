"""A Responses request says in several ways which conversation it is part of; a field of a wrong type is named."""

import json
from typing import Any

import pytest

from gateway.domain.channel import Dialect
from gateway.inbound.api import HttpRequest
from gateway.inbound.responses.api import COMPACTIONS
from gateway.inbound.responses.request import parse_responses_request
from tests.inbound.responses.rendering import of_dialect, planned
from tests.refusals import refusal_of


@pytest.mark.parametrize(
    ("headers", "fields", "session"),
    [
        ({"session-id": "s1"}, {"prompt_cache_key": "s2"}, "s2"),
        ({"session-id": "s1"}, {}, "s1"),
        ({"session_id": "s1"}, {}, "s1"),
        ({"session-id": "", "session_id": "s1"}, {}, "s1"),
        ({"session-id": ""}, {"prompt_cache_key": ""}, ""),
    ],
)
def test_the_clients_name_of_a_conversation(headers: dict[str, str], fields: dict[str, Any], session: str) -> None:
    body = json.dumps({"model": "m", "input": "Hi", **fields}).encode()
    assert parse_responses_request(HttpRequest(body=body, target="/v1/responses", headers=headers)).session == session


def test_an_effort_that_is_not_a_text_is_named() -> None:
    body = json.dumps({"model": "m", "input": "Hi", "reasoning": {"effort": 5}}).encode()
    error = refusal_of(parse_responses_request, HttpRequest(body=body, target="/v1/responses", headers={}))
    assert (error.param, error.code) == ("reasoning.effort", "invalid_type")


def test_a_format_that_is_not_an_object_is_refused_before_it_is_sent_as_a_chat() -> None:
    error = refusal_of(planned, of_dialect(Dialect.ANTHROPIC), text={"format": "json"})
    assert (error.param, error.code) == ("text.format", "invalid_type")


TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}


@pytest.mark.parametrize(("tools", "is_sent"), [([TOOL], True), ([], False), (None, False)])
def test_calls_at_once_are_only_permitted_where_there_are_tools(*, tools: Any, is_sent: bool) -> None:
    """OpenAI refuses the field in a chat without tools."""
    sent = planned(tools=tools, parallel_tool_calls=False).order.fields
    assert ("parallel_tool_calls" in sent) is is_sent


TEXT = "x" * 298
"""100 tokens with its quotes."""
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"input": TEXT}, 100 + 4),
        ({"input": TEXT, "instructions": TEXT}, 2 * (100 + 4)),
        ({"input": [CALL]}, 25 + 25 + 4),
        ({"input": [CALL, CALL]}, 50 + 2 * 25 + 4),
    ],
)
def test_a_text_is_held_for_as_a_message_and_a_call_with_what_a_translation_adds(
    fields: dict[str, Any], tokens: int
) -> None:
    request = HttpRequest(body=json.dumps({"model": "m", **fields}).encode(), target="/v1/responses", headers={})
    assert parse_responses_request(request).bound.tokens == tokens
    assert COMPACTIONS.parse(request).bound.tokens == tokens + 300
