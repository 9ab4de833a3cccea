"""Whole answers become chat completions that are valid to the letter."""

import json
from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.upstream.adapter import AnswerStream, WholeAnswer
from gateway.upstream.call_memory import CallMemory
from gateway.upstream.gemini.dialect import GeminiDialect
from gateway.upstream.gemini.partial_call import PartialCall
from gateway.upstream.gemini.reader import read_logprobs
from tests.cases.answers import chunks_in
from tests.cases.gemini.streams import event, response, say, spent, use
from tests.conformance.shapes import completion_faults
from tests.fakes.replies import dumps
from tests.upstream.makers import as_chat, attempt_fails, body_of, channel, translated


def _whole(body: object, memory: CallMemory | None = None, **fields: Any) -> WholeAnswer:
    data = body if isinstance(body, bytes) else dumps(body)
    asked = translated({"messages": [], **fields}, model="mine")
    return as_chat(GeminiDialect(memory)).whole(data, asked, channel())


def _doc(body: object, **more: Any) -> Any:
    doc = json.loads(body_of(_whole(body, **more)))
    assert completion_faults(doc) == []
    return doc


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (rb'[{"text":"caf\u00e9 \/ \ud83d\ude42"}]', "caf\u00e9 / \U0001f642"),
        (rb'[{"text":"\ud83d"}]', "\ud83d"),
        (b'[null,{"text":7},{"text":null},{"text":["b"]},{"text":""},{"text":"a"}]', "a"),
        (b'{ "text" : "a" }', "a"),
    ],
)
def test_texts_in_any_spelling_and_what_is_none(parts: bytes, said: str) -> None:
    body = b'{"responseId":"r","candidates":[{"content":{"parts":%b},"finishReason":"STOP"}]}' % parts
    assert json.loads(body_of(_whole(body)))["choices"][0]["message"]["content"] == said


@pytest.mark.parametrize(
    "content", [b"7", b'"a"', b'{"parts":"a"}', b'{"parts":["a"]}', b'[[{"text":"a"}]]', b'{"parts":[3]}']
)
def test_contents_that_are_none(content: bytes) -> None:
    body = b'{"candidates":[{"content":%b,"finishReason":"STOP"}]}' % content
    with attempt_fails("not an answer"):
        _whole(body)


def test_calls() -> None:
    memory = CallMemory()
    body = response(use("f", {"a": [1]}, "fc_1", "U0lH"), use("g"), finish="STOP", **spent(9, 5))
    choice = _doc(body, memory=memory)["choices"][0]
    first, second = choice["message"]["tool_calls"]
    assert first == {
        "id": "fc_1",
        "type": "function",
        "function": {"name": "f", "arguments": '{"a":[1]}'},
        "extra_content": {"google": {"thought_signature": "U0lH"}},
    }
    assert (second["id"][:5], second["function"]["arguments"]) == ("call_", "{}")
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")
    assert memory.recall("", "fc_1") == b"U0lH"


def test_a_blocked_prompt_is_an_answer_without_words() -> None:
    whole = _whole({"promptFeedback": {"blockReason": "SAFETY"}, **spent(9)})
    doc = json.loads(body_of(whole))
    assert (completion_faults(doc), doc["choices"][0]["message"]["content"]) == ([], "")
    assert (whole.finish, whole.reported and whole.reported.input) == ("content_filter", 9)


def test_probabilities() -> None:
    body = response(say("a"), finish="STOP")
    body["candidates"][0]["logprobsResult"] = {"chosenCandidates": [{"token": "a", "logProbability": -1}]}
    assert _doc(body)["choices"][0]["logprobs"]["content"][0]["logprob"] == -1


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


def _streamed(*docs: Any, **fields: Any) -> AnswerStream:
    """A stream of these responses, at its end."""
    stream = as_chat(GeminiDialect()).stream(translated({"messages": [], **fields}), channel())
    for doc in docs:
        stream.feed(event(doc))
    stream.end()
    return stream


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (spent(9, 7), (9, 7, 0, 0)),
        (spent(21, thoughtsTokenCount=60, totalTokenCount=81), (21, 60, 60, 0)),
        (spent(9, 7, thoughtsTokenCount=4, totalTokenCount=20), (9, 11, 4, 0)),
        (spent(9, 11, thoughtsTokenCount=4, totalTokenCount=20), (9, 11, 4, 0)),
        (spent(21, 3, cachedContentTokenCount=5), (21, 3, 0, 5)),
        (spent(21, 3, toolUsePromptTokenCount=4, totalTokenCount=28), (25, 3, 0, 0)),
        ({"usageMetadata": {"candidatesTokenCount": 20, "totalTokenCount": 120}}, (100, 20, 0, 0)),
    ],
)
def test_usage(usage: Any, expected: tuple[int, int, int, int]) -> None:
    found = _streamed(response(say("Hi")), response(**usage), response(finish="STOP")).state.reported
    assert found is not None
    assert (found.input, found.output, found.reasoning, found.cached) == expected


def test_an_answer_ends_when_every_candidate_has_a_reason() -> None:
    began = (response(say("a"), index=0), response(say("b"), finish="STOP", index=1))
    assert _streamed(*began, n=2).failure is not None
    assert _streamed(*began, response(finish="MAX_TOKENS", index=0), n=2).state.finish == "length"


def test_a_failed_model_is_a_failure_unless_something_came() -> None:
    failed = response(finish="MALFORMED_FUNCTION_CALL")
    failed["candidates"][0]["finishMessage"] = "Malformed function call: f(a=1)"
    with attempt_fails("MALFORMED_FUNCTION_CALL: Malformed function call: f") as caught:
        _whole(failed)
    assert caught.value.kind is FailureKind.SERVER
    stream = _streamed(response(say("a"), finish="MALFORMED_FUNCTION_CALL"))
    assert (stream.state.finish, stream.state.marks) == ("stop", ("failed_at_end",))
    thought = response({"text": "Hm", "thought": True}, {"thoughtSignature": "s"})
    assert _streamed(thought, response(finish="MALFORMED_FUNCTION_CALL")).failure is not None


def test_the_first_id_counts() -> None:
    first, second = ({"responseId": id, **response(say("a"), finish="STOP")} for id in ("a", "b"))
    assert _streamed({**first, "responseId": "a"}, {**second, "responseId": "b"}).state.upstream_id == "a"


def _message(*parts: Any, **fields: Any) -> Any:
    return _doc(response(*parts, finish="STOP"), **fields)["choices"][0]["message"]


def test_arguments_that_come_in_pieces_are_put_together() -> None:
    parts = [
        {"name": "f", "id": "a", "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.city", "stringValue": "New ", "willContinue": True}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.city", "stringValue": "York"}], "willContinue": True},
        {
            "partialArgs": [{"jsonPath": "$.city"}, {"jsonPath": "$.tags[]"}, {"jsonPath": "$.map"}],
            "willContinue": True,
        },
        {
            "partialArgs": [{"jsonPath": "$.days[1].n", "numberValue": 2}, {"jsonPath": "$.days[]"}],
            "willContinue": True,
        },
        {"partialArgs": [{"jsonPath": "$['x y']", "boolValue": True}, {"jsonPath": "$.late", "willContinue": True}]},
    ]
    stream = as_chat(GeminiDialect()).stream(translated(), channel())
    out = b"".join(stream.feed(event(response({"functionCall": part}))) for part in parts)
    out += stream.feed(event(response(finish="STOP"))) + stream.end()
    calls = [call for chunk in chunks_in(out) for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    arguments = "".join(call["function"].get("arguments", "") for call in calls)
    assert (calls[0]["id"], stream.state.finish) == ("a", "tool_calls")
    lists = {"tags": [], "map": {}, "days": [None, {"n": 2}]}
    assert json.loads(arguments) == {"city": "New York", **lists, "x y": True}


@pytest.mark.parametrize("path", ["$" + ".a" * 2000, "$" + "[9000]" * 90])
def test_a_piece_with_an_endless_path_is_no_answer(path: str) -> None:
    call = {"name": "f", "partialArgs": [{"jsonPath": path, "stringValue": "x"}]}
    with attempt_fails("not an answer"):
        _message({"functionCall": call})


def test_a_list_is_not_copied_for_each_piece_of_it() -> None:
    call = PartialCall({"name": "f"}, "")
    piece = {"partialArgs": [{"jsonPath": "$.a[9999]", "stringValue": "x"}]}
    call.add_pieces(piece)
    items = call.arguments["a"]
    call.add_pieces(piece)
    assert call.arguments["a"] is items
    assert items[9998:] == [None, "xx"]


def test_the_end_of_a_call_that_has_ended_adds_nothing() -> None:
    """Arguments in pieces end with an empty call, also where the last piece has ended the call already."""
    first = {"functionCall": {"name": "f", "id": "i", "willContinue": True}}
    piece = {"functionCall": {"partialArgs": [{"jsonPath": "$.city", "stringValue": "Oslo"}]}}
    (call,) = _message(first, piece, {"functionCall": {}})["tool_calls"]
    assert (call["id"], call["function"]) == ("i", {"name": "f", "arguments": '{"city":"Oslo"}'})


def test_sources_are_annotations() -> None:
    body = response(say("It rains."), finish="STOP")
    body["candidates"][0]["groundingMetadata"] = {
        "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
        "groundingSupports": [{"segment": {"endIndex": 9, "text": "It rains."}, "groundingChunkIndices": [0]}],
    }
    (annotation,) = _doc(body)["choices"][0]["message"]["annotations"]
    found = annotation["url_citation"]
    assert (annotation["type"], found["url"], found["title"]) == ("url_citation", "https://a.example", "A")
    assert (found["start_index"], found["end_index"], found["content"]) == (0, 9, "It rains.")


def test_the_last_finish_reason_counts() -> None:
    docs = [response(say("a"), finish="STOP"), response(say("b"))]
    assert (_streamed(*docs).state.finish, _streamed(*docs, response(finish="SAFETY")).state.finish) == (
        "stop",
        "content_filter",
    )


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        *((reason, "content_filter") for reason in ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "SPII", "OTHER")),
        *((reason, "content_filter") for reason in ("PROHIBITED_CONTENT", "IMAGE_SAFETY", "IMAGE_OTHER", "NO_IMAGE")),
        *((reason, "content_filter") for reason in ("ESCALATION", "MODEL_ARMOR", "PUP_LIMITED_DISABLED")),
        *((reason, "stop") for reason in ("SOMETHING_NEW", "FINISH_REASON_UNSPECIFIED")),
    ],
)
def test_every_finish_reason(reason: str, finish: str) -> None:
    assert _whole(response(say("a"), finish=reason)).finish == finish


CHOSEN = {"token": "é", "tokenId": 3, "logProbability": -0.5}
OTHER = {"token": "x", "logProbability": -2}


def test_tokens_and_what_else_they_could_have_been() -> None:
    found = read_logprobs({"chosenCandidates": [CHOSEN, OTHER], "topCandidates": [{"candidates": [CHOSEN, OTHER]}]})
    first = {"token": "é", "logprob": -0.5, "bytes": [195, 169]}
    second = {"token": "x", "logprob": -2, "bytes": [120]}
    content = [{**first, "top_logprobs": [first, second]}, {**second, "top_logprobs": []}]
    assert found == content


def test_none_are_none() -> None:
    results: list[Any] = [None, {}, [], {"chosenCandidates": "odd"}]
    assert [read_logprobs(result) for result in results] == [[]] * 4


def test_odd_ones_are_passed_over() -> None:
    assert read_logprobs({"chosenCandidates": ["odd", {}], "topCandidates": ["odd"]}) == [
        {"token": "", "logprob": -9999.0, "bytes": [], "top_logprobs": []}
    ]


def test_an_empty_call_is_none() -> None:
    (call,) = _message({"functionCall": {"name": "f", "id": "i", "args": {"city": "Oslo"}}}, {"functionCall": {}})[
        "tool_calls"
    ]
    assert (call["id"], call["function"]) == ("i", {"name": "f", "arguments": '{"city":"Oslo"}'})


@pytest.mark.parametrize("kind", ["toolCall", "toolResponse", "functionResponse"])
def test_parts_of_tools_that_the_vendor_runs_are_named(kind: str) -> None:
    answer = _whole(response({kind: {"id": "t", "toolType": "GOOGLE_SEARCH_WEB"}}, say("Hi"), finish="STOP"))
    assert (answer.marks, json.loads(body_of(answer))["choices"][0]["message"]["content"]) == (("block_dropped",), "Hi")


def test_places_on_a_map_are_sources() -> None:
    doc = response(say("There."), finish="STOP")
    doc["candidates"][0]["groundingMetadata"] = {"groundingChunks": [{"maps": {"uri": "https://m/1", "title": "M"}}]}
    (found,) = _doc(doc)["choices"][0]["message"]["annotations"]
    assert (found["url_citation"]["url"], found["url_citation"]["title"]) == ("https://m/1", "M")


def test_the_names_of_googles_python_library_are_read_and_arguments_stay() -> None:
    part = {"function_call": {"name": "f", "args": {"city_name": {"a_b": 1}}}}
    used = {"prompt_token_count": 3, "candidates_token_count": 2, "total_token_count": 5}
    answer = _whole({"candidates": [{"content": {"parts": [part]}, "finish_reason": "STOP"}], "usage_metadata": used})
    (call,) = json.loads(body_of(answer))["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"city_name":{"a_b":1}}'}
    assert answer.reported is not None
    assert (answer.reported.input, answer.reported.output, answer.finish) == (3, 2, "tool_calls")
