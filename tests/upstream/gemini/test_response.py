"""Whole answers become chat completions that are valid to the letter."""

import json
from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.upstream import rawjson
from gateway.upstream.adapter import WholeAnswer
from gateway.upstream.gemini.dialect import GeminiDialect
from gateway.upstream.gemini.request import TOOLS
from gateway.upstream.gemini.response import (
    BROKEN,
    Candidate,
    CandidateNews,
    GeminiResponses,
    finish_of,
    logprobs_of,
    split,
)
from gateway.upstream.translate.tool_names import Signatures
from tests.cases.conversations import function
from tests.cases.gemini.streams import HELLO, TWO_CALLS, response, say, spent, think, use
from tests.conformance.shapes import completion_faults
from tests.fakes.replies import dumps
from tests.upstream.makers import attempt_fails, channel, translated


def _whole(body: object, signatures: Signatures | None = None, **fields: Any) -> WholeAnswer:
    data = body if isinstance(body, bytes) else dumps(body)
    asked = translated({"messages": [], **fields}, model="mine")
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
def test_what_is_not_an_answer_fails(body: object, code: str) -> None:
    with attempt_fails() as caught:
        _whole(body)
    assert caught.value.code == code


def _responses(*docs: Any) -> GeminiResponses:
    responses = GeminiResponses(translated(), channel(), Signatures())
    for doc in docs:
        responses.add(rawjson.fields(rawjson.encode(doc)))
    return responses


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (spent(9, 7), (9, 7, 0, 0)),
        (spent(21, thoughtsTokenCount=60, totalTokenCount=81), (21, 60, 60, 0)),
        (spent(9, 7, thoughtsTokenCount=4, totalTokenCount=20), (9, 11, 4, 0)),
        (spent(9, 11, thoughtsTokenCount=4, totalTokenCount=20), (9, 11, 4, 0)),
        (spent(21, 3, cachedContentTokenCount=5), (21, 3, 0, 5)),
        (spent(21, 3, toolUsePromptTokenCount=4, totalTokenCount=28), (25, 3, 0, 0)),
    ],
)
def test_usage(usage: Any, expected: tuple[int, int, int, int]) -> None:
    found = _responses(response(say("Hi"), **spent(1, 1)), response(**usage)).usage
    assert found is not None
    assert (found.input, found.output, found.reasoning, found.cached) == expected


def test_the_end_is_when_every_candidate_said_why() -> None:
    responses = _responses(response(say("a"), index=0), response(say("b"), finish="STOP", index=1))
    assert not responses.ended
    responses.add(rawjson.fields(rawjson.encode(response(finish="MAX_TOKENS", index=0))))
    assert (responses.ended, responses.endings()) == (True, [(0, "length"), (1, "stop")])


def test_a_blocked_prompt_ends_the_responses_without_words() -> None:
    responses = _responses({"promptFeedback": {"blockReason": "SAFETY"}})
    assert (responses.ended, responses.endings()) == (True, [(0, "content_filter")])


def test_a_failed_model_is_a_failure_unless_something_came() -> None:
    with attempt_fails("MALFORMED_FUNCTION_CALL") as caught:
        _responses(response(finish="MALFORMED_FUNCTION_CALL")).endings()
    assert caught.value.kind is FailureKind.SERVER
    assert _responses(response(say("a"), finish="MALFORMED_FUNCTION_CALL")).endings() == [(0, "stop")]


def test_an_error_is_a_failure() -> None:
    with attempt_fails() as caught:
        _responses({"error": {"code": 429, "message": "x"}})
    assert caught.value.kind is FailureKind.RATE


def test_the_first_id_counts() -> None:
    assert _responses({"responseId": "a"}, {"responseId": "b"}).id == "a"


@pytest.mark.parametrize(("data", "count"), [(b' {"a":1}', 1), (b'[{"a":1},\n{"b":2}]', 2), (b"\xef\xbb\xbf{}", 1)])
def test_one_or_many(data: bytes, count: int) -> None:
    assert len(split(data)) == count


@pytest.mark.parametrize("data", [b"", b"[1]", b'"x"', b"<html>"])
def test_what_is_none(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting|object"):
        split(data)


def _candidate(**fields: Any) -> Candidate:
    return Candidate(0, translated({"messages": [], **fields}), Signatures())


def _take(candidate: Candidate, *parts: Any, **more: Any) -> CandidateNews:
    fields = rawjson.fields(rawjson.encode({"content": {"parts": parts}, **more}))
    return candidate.take(fields)


def test_words_and_thoughts() -> None:
    news = _take(_candidate(), think("a"), say("b"), say(""), {"executableCode": {}}, think("c"), say("d"))
    assert (news.texts, news.thoughts, news.calls) == (["b", "d"], ["a", "c"], [])


def test_calls_are_numbered_across_responses() -> None:
    candidate = _candidate()
    calls = [*_take(candidate, use("f", id="a"), use("f", id="b")).calls, *_take(candidate, use("g", id="c")).calls]
    assert [(call["index"], call["id"]) for call in calls] == [(0, "a"), (1, "b"), (2, "c")]


def test_calls_have_the_clients_names() -> None:
    candidate = _candidate(tools=[function("1st")])
    assert _take(candidate, use(TOOLS.sent("1st"))).calls[0]["function"]["name"] == "1st"


def test_the_last_finish_reason_counts() -> None:
    candidate = _candidate()
    _take(candidate, say("a"), finishReason="STOP")
    _take(candidate, say("b"))
    assert (candidate.reason, candidate.produced) == ("STOP", True)
    _take(candidate, finishReason="SAFETY")
    assert candidate.reason == "SAFETY"


def test_without_content_there_is_no_news() -> None:
    candidate = _candidate()
    assert (candidate.take({}).empty, candidate.produced) == (True, False)


@pytest.mark.parametrize("parts", [["odd"], "odd", [3]])
def test_odd_parts_are_reported(parts: Any) -> None:
    with pytest.raises(ValueError, match="parts are objects"):
        _candidate().take(rawjson.fields(rawjson.encode({"content": {"parts": parts}})))


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        *((reason, "content_filter") for reason in ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "SPII", "OTHER")),
        *((reason, "content_filter") for reason in ("PROHIBITED_CONTENT", "IMAGE_SAFETY", "IMAGE_OTHER", "NO_IMAGE")),
        *((reason, "content_filter") for reason in ("ESCALATION", "MODEL_ARMOR", "PUP_LIMITED_DISABLED")),
        *((reason, "stop") for reason in (*sorted(BROKEN), "SOMETHING_NEW", "")),
    ],
)
def test_every_finish_reason(reason: str, finish: str) -> None:
    assert finish_of(reason) == finish


CHOSEN = {"token": "é", "tokenId": 3, "logProbability": -0.5}
OTHER = {"token": "x", "logProbability": -2}


def test_tokens_and_what_else_they_could_have_been() -> None:
    found = logprobs_of({"chosenCandidates": [CHOSEN, OTHER], "topCandidates": [{"candidates": [CHOSEN, OTHER]}]})
    first = {"token": "é", "logprob": -0.5, "bytes": [195, 169]}
    second = {"token": "x", "logprob": -2, "bytes": [120]}
    content = [{**first, "top_logprobs": [first, second]}, {**second, "top_logprobs": []}]
    assert found == {"content": content, "refusal": None}


def test_none_are_none() -> None:
    results: list[Any] = [None, {}, [], {"chosenCandidates": "odd"}]
    assert [logprobs_of(result) for result in results] == [None] * 4


def test_odd_ones_are_passed_over() -> None:
    assert logprobs_of({"chosenCandidates": ["odd", {}], "topCandidates": ["odd"]}) == {
        "content": [{"token": "", "logprob": -9999.0, "bytes": [], "top_logprobs": []}],
        "refusal": None,
    }
