"""A conversation takes turns, calls carry their signatures, results find their calls."""

import json
from typing import Any

import pytest

from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.gemini.models import row_of
from gateway.upstream.gemini.request import PLACEHOLDER, talk
from gateway.upstream.translate.conversation import read_turns
from gateway.upstream.translate.request import read_request
from gateway.upstream.translate.tool_names import Signatures
from tests.cases.conversations import PIXEL, TOOLS_AND_IMAGE, call
from tests.upstream.makers import order

OLD, NEW = row_of("gemini-2.5-flash"), row_of("gemini-3.8-flash")
SIGNED = {"extra_content": {"google": {"thought_signature": "U0lH"}}}


def _talk(*messages: Any, signatures: Signatures | None = None, row: Any = NEW) -> tuple[Any, Any]:
    turns = read_turns(read_request(order({"messages": messages}).fields).messages)
    found = talk(turns, signatures or Signatures(), row)
    return json.loads(rawjson.encode(found.system)), json.loads(rawjson.encode(found.contents))


def _signatures(*calls: Any, **more: Any) -> list[str | None]:
    _, contents = _talk({"role": "assistant", "tool_calls": calls}, **more)
    return [part.get("thoughtSignature") for part in contents[0]["parts"]]


def test_a_whole_conversation() -> None:
    system, contents = _talk(*TOOLS_AND_IMAGE["messages"], row=OLD)
    assert system == [{"text": "Be brief."}, {"text": "Use the tools."}]
    image = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    calls = [
        {"functionCall": {"id": "call_1", "name": "locate", "args": {"hint": "sea"}}},
        {"functionCall": {"id": "call_2", "name": "weather", "args": {"city": "Oslo"}}},
    ]
    results = [
        {"functionResponse": {"id": "call_1", "name": "locate", "response": {"output": "Oslo harbour"}}},
        {"functionResponse": {"id": "call_2", "name": "weather", "response": {"celsius": 4}}},
    ]
    assert contents == [
        {"role": "user", "parts": [{"text": "Where is this, and how warm?"}, image]},
        {"role": "model", "parts": calls},
        {"role": "user", "parts": [*results, {"text": "And tomorrow?"}]},
    ]


def test_empty_messages_are_left_out_and_one_role_speaks_once() -> None:
    messages = [("user", "a"), ("assistant", ""), ("user", "b"), ("assistant", "c"), ("system", "S"), ("user", "")]
    system, contents = _talk(*({"role": role, "content": text} for role, text in messages))
    assert system == [{"text": "S"}]
    assert contents == [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
        {"role": "model", "parts": [{"text": "c"}]},
    ]


def test_system_words_alone_are_followed_by_a_user() -> None:
    assert _talk({"role": "system", "content": "S"})[1] == [{"role": "user", "parts": [{"text": "."}]}]


def test_a_signature_the_client_sent_back_goes_along() -> None:
    assert _signatures({**call("a", "f", "{}"), **SIGNED}, call("b", "f", "{}")) == ["U0lH", None]


def test_one_it_did_not_send_back_is_recalled() -> None:
    signatures = Signatures()
    signatures.remember("b", b"U0lH")
    assert _signatures(call("a", "f", "{}"), call("b", "f", "{}"), signatures=signatures) == [PLACEHOLDER, "U0lH"]
    assert _signatures(call("b", "f", "{}"), signatures=signatures, row=OLD) == ["U0lH"]


def test_an_unknown_call_gets_the_placeholder_if_it_is_the_first() -> None:
    calls = call("a", "f", "{}"), call("b", "f", "{}")
    assert (_signatures(*calls), _signatures(*calls, row=OLD)) == ([PLACEHOLDER, None], [None, None])


def test_the_legacy_spelling_is_the_same() -> None:
    legacy = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
        {"role": "function", "name": "f", "content": "x"},
    ]
    _, contents = _talk(*legacy, row=OLD)
    made, result = contents[0]["parts"][0]["functionCall"], contents[1]["parts"][0]["functionResponse"]
    assert (made["args"], made["id"], result["name"]) == ({"a": 1}, result["id"], "f")


def test_a_result_without_its_call_is_refused() -> None:
    with pytest.raises(BadRequest, match="'gone'"):
        _talk({"role": "tool", "tool_call_id": "gone", "content": "x"})


def test_names_that_do_not_fit_are_changed() -> None:
    _, contents = _talk({"role": "assistant", "tool_calls": [call("a", "1st name", "{}")]})
    assert contents[0]["parts"][0]["functionCall"]["name"].startswith("_1st_name_")
