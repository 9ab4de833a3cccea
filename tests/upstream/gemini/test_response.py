"""Answers become chat completions that are valid to the letter, whole and streamed."""

import json
import time
from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.upstream.adapter import AnswerStream, WholeAnswer
from gateway.upstream.gemini.dialect import GeminiDialect
from gateway.upstream.gemini.partial_call import PartialCall
from gateway.upstream.gemini.reader import read_logprobs
from tests.cases.answers import chunks_in
from tests.cases.gemini.streams import TWO_CALLS, event, response, say
from tests.conformance.shapes import completion_faults
from tests.fakes.replies import dumps
from tests.upstream.makers import as_chat, attempt_fails, body_of, channel, translated


def _whole(body: object) -> WholeAnswer:
    data = body if isinstance(body, bytes) else dumps(body)
    return as_chat(GeminiDialect()).whole(data, translated({"messages": []}), channel())


def _doc(body: object) -> Any:
    doc = json.loads(body_of(_whole(body)))
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


def test_log_probabilities_are_in_the_answer() -> None:
    body = response(say("a"), finish="STOP")
    body["candidates"][0]["logprobsResult"] = {"chosenCandidates": [{"token": "a", "logProbability": -1}]}
    assert _doc(body)["choices"][0]["logprobs"]["content"][0]["logprob"] == -1


def _streamed(*docs: Any) -> AnswerStream:
    """A stream of these responses, at its end."""
    stream = as_chat(GeminiDialect()).stream(translated({"messages": []}), channel())
    for doc in docs:
        stream.feed(event(doc))
    stream.end()
    return stream


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
        _doc(response({"functionCall": call}, finish="STOP"))


def test_a_text_is_not_copied_for_each_piece_of_it() -> None:
    """It took a minute for the 15,000 pieces of 7 MB."""
    call = PartialCall({"name": "f", "args": {"a": "-"}}, "")
    piece = {"partialArgs": [{"jsonPath": path, "stringValue": "x" * 1000} for path in ("$.a", "$.b[1]", "$['a']")]}
    began = time.process_time()
    for _ in range(10_000):
        call.add_pieces(piece)
    assert call.arguments == {"a": "-" + "x" * 20_000_000, "b": [None, "x" * 10_000_000]}
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        ([("$.a", "x"), ("$.a", "y"), ("$.a", 5)], {"a": 5}),
        ([("$.a", "x"), ("$.a", "y"), ("$.a", 5), ("$.a", "z")], {"a": "z"}),
        ([("$.a", "x"), ("$.a.b", 1), ("$.a", "y")], {"a": {"b": 1}}),
        ([("$.a.b", "x"), ("$.a", 5), ("$.a.b", "y")], {"a": 5}),
        ([("$", "x"), ("$", "y")], "xy"),
    ],
)
def test_another_value_takes_the_place_of_a_text(pieces: list[tuple[str, str | int]], arguments: object) -> None:
    call = PartialCall({"name": "f"}, "")
    for path, value in pieces:
        kind = "stringValue" if isinstance(value, str) else "numberValue"
        call.add_pieces({"partialArgs": [{"jsonPath": path, kind: value}]})
    assert call.arguments == arguments


def test_a_list_is_not_copied_for_each_piece_of_it() -> None:
    call = PartialCall({"name": "f"}, "")
    piece = {"partialArgs": [{"jsonPath": "$.a[9999]", "stringValue": "x"}]}
    call.add_pieces(piece)
    items = call.arguments["a"]
    call.add_pieces(piece)
    assert call.arguments["a"] is items
    assert items[9998:] == [None, "xx"]


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
    assert _whole(response(say("a"), finish=reason)).state.finish == finish


CHOSEN = {"token": "é", "tokenId": 3, "logProbability": -0.5}
OTHER = {"token": "x", "logProbability": -2}


def test_tokens_and_what_else_they_could_have_been() -> None:
    found = read_logprobs({"chosenCandidates": [CHOSEN, OTHER], "topCandidates": [{"candidates": [CHOSEN, OTHER]}]})
    first = {"token": "é", "logprob": -0.5, "bytes": [195, 169]}
    second = {"token": "x", "logprob": -2, "bytes": [120]}
    content = [{**first, "top_logprobs": [first, second]}, {**second, "top_logprobs": []}]
    assert found == content


def test_odd_ones_are_passed_over() -> None:
    assert read_logprobs({"chosenCandidates": ["odd", {}], "topCandidates": ["odd"]}) == [
        {"token": "", "logprob": -9999.0, "bytes": [], "top_logprobs": []}
    ]


@pytest.mark.parametrize("kind", ["toolCall", "toolResponse", "functionResponse"])
def test_parts_of_tools_that_the_vendor_runs_are_named(kind: str) -> None:
    answer = _whole(response({kind: {"id": "t", "toolType": "GOOGLE_SEARCH_WEB"}}, say("Hi"), finish="STOP"))
    assert (answer.state.marks, json.loads(body_of(answer))["choices"][0]["message"]["content"]) == (
        ("block_dropped",),
        "Hi",
    )


def test_the_names_of_googles_python_library_are_read_and_arguments_stay() -> None:
    part = {"function_call": {"name": "f", "args": {"city_name": {"a_b": 1}}}}
    used = {"prompt_token_count": 3, "candidates_token_count": 2, "total_token_count": 5}
    answer = _whole({"candidates": [{"content": {"parts": [part]}, "finish_reason": "STOP"}], "usage_metadata": used})
    (call,) = json.loads(body_of(answer))["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"city_name":{"a_b":1}}'}
    assert answer.state.reported is not None
    assert (answer.state.reported.input, answer.state.reported.output, answer.state.finish) == (3, 2, "tool_calls")


def _stream() -> AnswerStream:
    return as_chat(GeminiDialect()).stream(translated(), channel())


def test_words_are_not_held_back() -> None:
    stream = _stream()
    assert [bool(stream.feed(part + b"\r\n\r\n")) for part in TWO_CALLS.split(b"\r\n\r\n")[:-1]] == [True] * 4 + [False]


@pytest.mark.parametrize(
    ("model", "searches"), [("gemini-3-flash-preview", 3), ("gemini-2.5-flash", 1), ("gemini-pro", 1), ("", 3)]
)
def test_searches_of_a_grounded_answer_are_counted_as_they_are_billed(model: str, searches: int) -> None:
    """Each query once, empty ones not at all; before Gemini 3 the answer, however many queries it took."""
    spent = {"promptTokenCount": 10, "candidatesTokenCount": 3, "totalTokenCount": 13}
    stream, chunks = _stream(), [response(say("a")), response(say("b"), finish="STOP")]
    for doc, queries in zip(chunks, (["a", "", "b"], ["a", "b", "c"]), strict=True):
        doc.update(usageMetadata=spent, **({"modelVersion": model} if model else {}))
        doc["candidates"][0]["groundingMetadata"] = {"webSearchQueries": queries}
        stream.feed(event(doc))
    stream.end()
    assert stream.state.reported is not None
    assert (dict(stream.state.reported.parts), stream.state.reported.input) == ({"searches": searches}, 10)
