"""A candidate tells words from thoughts from calls, and numbers its calls across responses."""

from typing import Any

import pytest

from gateway.upstream import rawjson
from gateway.upstream.gemini.request import TOOLS
from gateway.upstream.gemini.response import Candidate, News
from gateway.upstream.translate.tool_names import Signatures
from tests.cases.conversations import function
from tests.cases.gemini.streams import say, think, use
from tests.upstream.makers import order


def _candidate(**fields: Any) -> Candidate:
    return Candidate(0, order({"messages": [], **fields}), Signatures())


def _take(candidate: Candidate, *parts: Any, **more: Any) -> News:
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
def test_odd_parts_are_told(parts: Any) -> None:
    with pytest.raises(ValueError, match="parts are objects"):
        _candidate().take(rawjson.fields(rawjson.encode({"content": {"parts": parts}})))
