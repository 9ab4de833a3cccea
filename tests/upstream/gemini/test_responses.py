"""Responses are gathered: usage is the last one told, the end is when every candidate said why."""

from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.upstream import rawjson
from gateway.upstream.gemini.response import Responses, split
from gateway.upstream.translate.tool_names import Signatures
from tests.cases.gemini.streams import response, say, spent
from tests.upstream.makers import attempt_fails, channel, order


def _responses(*docs: Any) -> Responses:
    responses = Responses(order(), channel(), Signatures())
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


def test_a_blocked_prompt_is_an_answer_without_words() -> None:
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
