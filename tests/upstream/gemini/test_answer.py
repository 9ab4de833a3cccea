"""Whole answers become chat completions that are valid to the letter."""

import json
from typing import Any

import pytest

from gateway.upstream.adapter import Whole
from gateway.upstream.gemini.dialect import GeminiDialect
from gateway.upstream.translate.tool_names import Signatures
from tests.cases.gemini.streams import HELLO, TWO_CALLS, response, say, spent, think, use
from tests.conformance.shapes import completion_faults
from tests.fakes.replies import dumps
from tests.upstream.makers import attempt_fails, channel, order


def _whole(body: object, signatures: Signatures | None = None, **fields: Any) -> Whole:
    data = body if isinstance(body, bytes) else dumps(body)
    asked = order({"messages": [], **fields}, model="mine")
    return GeminiDialect(signatures or Signatures()).whole(data, asked, channel())


def _doc(body: object, **more: Any) -> Any:
    doc = json.loads(_whole(body, **more).body)
    assert completion_faults(doc) == []
    return doc


def test_text() -> None:
    doc = _doc(response(think("Hm"), say("Hel"), say("lo"), finish="STOP", **spent(21, 5, cachedContentTokenCount=5)))
    message = doc["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Hello", "Hm")
    assert (doc["id"], doc["model"], doc["created"]) == ("r1", "mine", 77)
    assert (doc["usage"]["prompt_tokens"], doc["usage"]["prompt_tokens_details"]["cached_tokens"]) == (21, 5)


def test_calls() -> None:
    signatures = Signatures()
    body = response(use("f", {"a": [1]}, "fc_1", "U0lH"), use("g"), finish="STOP", **spent(9, 5))
    choice = _doc(body, signatures=signatures)["choices"][0]
    first, second = choice["message"]["tool_calls"]
    assert first == {
        "id": "fc_1",
        "type": "function",
        "function": {"name": "f", "arguments": '{"a":[1]}'},
        "extra_content": {"google": {"thought_signature": "U0lH"}},
    }
    assert (second["id"][:5], second["function"]["arguments"]) == ("call_", "{}")
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")
    assert signatures.recall("fc_1") == b"U0lH"


def test_several_candidates() -> None:
    body = response(say("a"), finish="STOP", index=0)
    body["candidates"].append({"content": {"parts": [say("b")]}, "finishReason": "SAFETY"})
    choices = _doc(body)["choices"]
    found = [(choice["index"], choice["message"]["content"], choice["finish_reason"]) for choice in choices]
    assert found == [(0, "a", "stop"), (1, "b", "content_filter")]


def test_a_blocked_prompt_is_an_answer_without_words() -> None:
    whole = _whole({"promptFeedback": {"blockReason": "SAFETY"}, **spent(9)})
    doc = json.loads(whole.body)
    assert (completion_faults(doc), doc["choices"][0]["message"]["content"]) == ([], "")
    assert (whole.finish, whole.reported and whole.reported.input) == ("content_filter", 9)


def test_probabilities() -> None:
    body = response(say("a"), finish="STOP")
    body["candidates"][0]["logprobsResult"] = {"chosenCandidates": [{"token": "a", "logProbability": -1}]}
    assert _doc(body)["choices"][0]["logprobs"]["content"][0]["logprob"] == -1


@pytest.mark.parametrize("body", [HELLO, [response(say("Hel")), response(say("lo \U0001f642"), finish="STOP")]])
def test_many_responses_to_a_plain_request_are_put_together(body: object) -> None:
    assert _doc(body)["choices"][0]["message"]["content"] == "Hello \U0001f642"


def test_calls_in_events_are_put_together_too() -> None:
    assert len(_doc(TWO_CALLS)["choices"][0]["message"]["tool_calls"]) == 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"code": 503, "message": "x"}}, "upstream_overloaded"),
        ([{"error": {"code": 500, "message": "x"}}], "upstream_error"),
        ({"candidates": []}, "upstream_bad_response"),
        ({"candidates": ["odd"]}, "upstream_bad_response"),
        (response(finish="MALFORMED_FUNCTION_CALL"), "upstream_bad_response"),
        (b"<html>Sorry</html>", "upstream_bad_response"),
        (b"", "upstream_bad_response"),
    ],
)
def test_what_is_no_answer_fails(body: object, code: str) -> None:
    with attempt_fails() as caught:
        _whole(body)
    assert caught.value.code == code
