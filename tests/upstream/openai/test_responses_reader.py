"""Streams of responses lose nothing, and repeat nothing, whatever a relay leaves out, repeats or numbers in its way."""

import json
import re
import time
from collections.abc import Callable

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.failure import AttemptFailed
from gateway.upstream.openai.responses import ResponsesDialect
from tests.fakes.replies import Doc, dumps
from tests.fakes.responses import event, events_of, function_call, message, response, spent
from tests.upstream.makers import as_chat, body_of, channel, translated

Events = list[bytes]

CALLS = function_call("f", "", "call_1"), function_call("g", '{"x":1}', "call_2", "fc_2")
SEARCHES = [
    event(f"response.output_item.{end}", 0, output_index=0, item={"id": id, "type": "web_search_call"})
    for id in ("ws_1", "ws_2")
    for end in ("added", "done")
]
ADVISOR = {"id": "ad_1", "type": "openrouter:advisor"}
ADVICE = [
    event("response.output_item.added", 0, output_index=0, item=ADVISOR),
    event("response.output_text.delta", 0, output_index=0, item_id="ad_1", delta="Use a channel."),
    event("response.output_item.done", 0, output_index=0, item={**ADVISOR, "advice": "Use a channel."}),
]


def without(*words: bytes) -> Callable[[Events], Events]:
    return lambda events: [each for each in events if not any(word in each for word in words)]


def replacing(pattern: bytes, text: bytes) -> Callable[[Events], Events]:
    return lambda events: [re.sub(pattern, text, each) for each in events]


def twice(word: bytes) -> Callable[[Events], Events]:
    return lambda events: [each for each in events for _ in range(2 if word in each else 1)]


def last_response(data: bytes) -> Doc:
    found: Doc = json.loads(data.partition(b"data: ")[2])["response"]
    return found


def with_usage_outside(data: bytes) -> bytes:
    whole = last_response(data)
    return event("response.completed", 9, usage=whole.pop("usage"), response=whole)


CUT = replacing(rb'"delta":"[^"]*\\"x\\":1}', rb'"delta":"{\\"x\\":')
CALL_END = re.compile(rb"output_item\.done.*\n.*call_id")
KINDS: dict[str, Callable[[Events], Events]] = {
    "all": lambda events: events,
    "no places": replacing(rb'"output_index":\d,', b""),
    "no places, and all ends at last, as from llama.cpp": lambda events: [
        *without(b"output_item.done")(replacing(rb'"output_index":\d,', b"")(events[:-1])),
        *(each for each in replacing(rb'"output_index":\d,', b"")(events[:-1]) if b"output_item.done" in each),
        events[-1],
    ],
    "one place": replacing(rb'"output_index":\d', b'"output_index":0'),
    "one place, after searches": lambda events: [*SEARCHES, *replacing(rb'_index":\d', b'_index":0')(events)],
    "after an advisor's words": lambda events: [*ADVICE, *events],
    "no ends after a bare response": lambda events: [
        event("response.created", 0, object="response", id="resp_1"),
        *without(b"output_item.done")(events[1:]),
    ],
    "one id": replacing(rb'"(?:msg|fc)_\d"', b'"i_1"'),
    "places from one": replacing(rb'"output_index":(\d)', rb'"output_index":1\1'),
    "only the last": lambda events: [events[0], events[-1]],
    "no ends": without(b"output_item.done"),
    "no beginnings": without(b"output_item.added"),
    "whole items": without(b".delta"),
    "whole items after ends without arguments": lambda events: replacing(
        rb'(arguments.done",.*)"arguments":"(?:[^"\\]|\\.)*"', rb'\1"arguments":null'
    )(without(b".delta")(events)),
    "whole texts": lambda events: [
        *without(b".delta", b"output_item.done")(events[:-1]),
        event("response.completed", 9, response={**last_response(events[-1]), "output": []}),
    ],
    "pieces of texts only": without(b"output_item", b"function_call_arguments"),
    "half of the arguments before all": CUT,
    "half of the arguments, and the rest in the last event": lambda events: [
        *(each for each in without(b"arguments.done")(CUT(events[:-1])) if not CALL_END.search(each)),
        events[-1],
    ],
    "other ids of calls in the last event, as from vLLM": lambda events: [
        *events[:-1],
        *replacing(rb'"(fc|call)_(\d)"', rb'"\1_other\2"')(events[-1:]),
    ],
    "empty pieces": replacing(rb'"delta":"(?:[^"\\]|\\.)*"', b'"delta":""'),
    "beginnings again": twice(b"output_item.added"),
    "ends again": twice(b"output_item.done"),
    "usage next to the last response": lambda events: [*events[:-1], with_usage_outside(events[-1])],
    "usage before the end": lambda events: [
        event("response.in_progress", 1, response={"usage": spent()}),
        *replacing(rb'"usage":\{"input_tokens":9', b'"usage":{"input_tokens":0')(events),
    ],
    "the last response alone": lambda events: [
        *events[:-1],
        b"event: response.completed\ndata: " + dumps(last_response(events[-1])) + b"\n\n",
    ],
    "nothing in all other fields": lambda events: [
        *(
            each.replace(b"data: {", b'data: {"response":null,"item":null,"part":null,"delta":null,')
            for each in events[:-1]
        ),
        event("response.completed", 9, response={**last_response(events[-1]), "output": []}),
    ],
    "signs of life": lambda events: [sign for each in events for sign in (event("keepalive", 0), each)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_read_as_it_was_meant(kind: str) -> None:
    data = b"".join(KINDS[kind](events_of(response(message("Hello"), *CALLS))))
    whole = as_chat(ResponsesDialect()).whole(data, translated(), channel())
    told: Doc = json.loads(body_of(whole))["choices"][0]["message"]
    calls = [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in told["tool_calls"]]
    assert (told["content"], calls) == ("Hello", [("call_1", "f", "{}"), ("call_2", "g", '{"x":1}')])
    assert whole.state.reported is not None
    assert (whole.state.reported.input, whole.state.reported.output, whole.state.finish) == (9, 12, "tool_calls")


@pytest.mark.parametrize("name", ["reasoning_text", "reasoning", "reasoning_summary_text"])
@pytest.mark.parametrize(("end", "field"), [("delta", "delta"), ("done", "text")])
def test_reasoning_has_three_names(name: str, end: str, field: str) -> None:
    """The second form is from Open Responses."""
    events = events_of(response(message("Hello")))
    events.insert(2, event(f"response.{name}.{end}", 2, output_index=1, item_id="rs_1", **{field: "Hm"}))
    whole = as_chat(ResponsesDialect()).whole(b"".join(events), translated(), channel())
    assert json.loads(body_of(whole))["choices"][0]["message"]["reasoning_content"] == "Hm"


@pytest.mark.parametrize(
    ("comment", "answer", "told"),
    [
        ("I look.", "I look.", "I look."),
        ("I look.", "I look. Found.", "I look.\n\nI look. Found."),
        ("I look.", "I", "I look.\n\nI"),
        ("I look.", "Found.", "I look.\n\nFound."),
        ("", "Found.", "Found."),
        pytest.param("Look. " * 1000, "Look. " * 1000, "Look. " * 1000, id="long"),
    ],
)
@pytest.mark.parametrize("kind", ["all", "no ends", "only the last", "no places"])
def test_an_answer_that_is_the_commentary_again_is_told_once(kind: str, comment: str, answer: str, told: str) -> None:
    messages = {**message(comment), "phase": "commentary"}, {**message(answer, id="msg_2"), "phase": "final_answer"}
    data = b"".join(KINDS[kind](events_of(response(*messages))))
    whole = as_chat(ResponsesDialect()).whole(data, translated(), channel())
    assert json.loads(body_of(whole))["choices"][0]["message"]["content"] == told


PICTURE = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"}


@pytest.mark.parametrize("kind", ["all", "only the last", "no beginnings"])
@pytest.mark.parametrize(
    ("fields", "urls"),
    [
        ({}, ["data:image/png;base64,AAAA"]),
        ({"output_format": "webp"}, ["data:image/webp;base64,AAAA"]),
        ({"result": "https://h/a"}, ["https://h/a"]),
        ({"result": "data:image/gif;base64,AAAA"}, ["data:image/gif;base64,AAAA"]),
        ({"result": None}, []),
    ],
)
def test_a_picture_that_the_vendors_tool_made_is_an_image_of_the_answer(
    kind: str, fields: Doc, urls: list[str]
) -> None:
    data = b"".join(KINDS[kind](events_of(response({**PICTURE, **fields}, message("Here.")))))
    whole = as_chat(ResponsesDialect()).whole(data, translated(), channel())
    told: Doc = json.loads(body_of(whole))["choices"][0]["message"]
    assert (told["content"], [image["image_url"]["url"] for image in told.get("images", [])]) == ("Here.", urls)
    assert ("block_dropped" in whole.state.marks) == (not urls)


K = FailureKind


@pytest.mark.parametrize(
    ("kind", "meaning", "status"),
    [
        ("payment_required", K.QUOTA, 402),
        ("rate_limit_exceeded", K.RATE, 429),
        ("authentication", K.AUTH, 401),
        ("timeout", K.SLOW, 504),
        ("provider_overloaded", K.SERVER, 529),
        ("image_too_large", K.CLIENT, 400),
        ("string_too_long", K.CLIENT, 400),
        ("content_policy_violation", K.CLIENT, 400),
        ("previous_response_not_found", K.CLIENT, 400),
        ("DeploymentNotFound", K.MISSING, 404),
        ("slow_down", K.SERVER, 503),
        ("unmapped", K.SERVER, 500),
    ],
)
def test_a_type_next_to_a_vague_error_says_what_failed(kind: str, meaning: FailureKind, status: int) -> None:
    """As OpenRouter writes it."""
    error = {"code": "server_error", "message": "Provider returned error"}
    failed = event(
        "response.failed", 1, response={**response(), "status": "failed", "error": error, "error_type": kind}
    )
    with pytest.raises(AttemptFailed) as raised:
        as_chat(ResponsesDialect()).whole(failed, translated(), channel())
    failure = raised.value.failure
    assert (failure.kind, failure.status) == (meaning, status)


def test_an_image_that_ends_twice_is_told_once() -> None:
    picture = {"id": "ig_1", "type": "image_generation_call", "result": "aGk="}
    end = event("response.output_item.done", 0, output_index=0, item=picture)
    other = event("response.output_item.done", 0, output_index=0, item=message("Hello"))
    last = event("response.completed", 0, response=response(picture))
    told = as_chat(ResponsesDialect()).stream(translated(), channel()).feed(end + other + end + last)
    assert told.count(b"aGk=") == 1


def test_items_are_not_compared_with_all_earlier_ones() -> None:
    """The 20,000 items of 6 MB took five seconds, in which no other call went on."""
    ends = [
        event(f"response.output_item.{end}", 0, output_index=place, item={"id": f"ws_{place}", "type": "a_call"})
        for place in range(20_000)
        for end in ("added", "done")
    ]
    stream = as_chat(ResponsesDialect()).stream(translated(), channel())
    began = time.process_time()
    stream.feed(b"".join(ends))
    assert stream.events == 40_000
    assert time.process_time() - began < 3


def test_the_commentary_is_not_joined_for_each_piece_of_the_answer() -> None:
    """The 20,000 comments and pieces of 6 MB took five seconds."""
    comments = [{**message("a", f"msg_{place}"), "phase": "commentary"} for place in range(20_000)]
    ends = [event("response.output_item.done", 0, output_index=place, item=item) for place, item in enumerate(comments)]
    ends += [event("response.output_text.delta", 0, output_index=20_000, item_id="msg", delta="a") for _ in comments]
    stream = as_chat(ResponsesDialect()).stream(translated(), channel())
    began = time.process_time()
    told = stream.feed(b"".join(ends))
    assert told.count(b'"content":"a"') == 20_000
    assert time.process_time() - began < 3
