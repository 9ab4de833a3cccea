"""Requests for completions, checked before anything is sent; how they are bounded; and streams at every split."""

import json
from typing import Any

import msgspec
import pytest

from gateway.domain.channel import Dialect, ServedModel
from gateway.domain.screen import Screen
from gateway.domain.secret_search import needles
from gateway.domain.usage import Usage, UsageSource
from gateway.inbound.chat.native import NativeChat
from gateway.inbound.completions.api import COMPLETIONS, CompletionEditor, WholeCompletionRenderer
from gateway.upstream.dialects import new_adapter
from gateway.upstream.openai.completions import CompletionsDialect
from tests.cases.answers import chunks_in
from tests.fakes.replies import DONE, choice, chunk, delta, dumps, event, whole
from tests.refusals import refusal_of
from tests.upstream.makers import body_of, channel, order, order_of, request_of

SERVED = ServedModel(name="m")
USAGE = Usage(input=2, output=3, source=UsageSource.REPORTED)
STREAM = b"".join(
    b"data: "
    + json.dumps({"id": "c1", "object": "text_completion", "created": 5, "model": "other", **doc}).encode()
    + end
    for doc, end in (
        ({"choices": [{"index": 0, "text": "a\u00e9", "logprobs": None, "finish_reason": None}]}, b"\n\n"),
        ({"choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}]}, b"\r\n\r\n"),
        ({"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}}, b"\n\n"),
    )
)


def _relay() -> NativeChat:
    return NativeChat(CompletionsDialect(), CompletionEditor, WholeCompletionRenderer)


def parsed(**fields: Any) -> Any:
    return request_of(COMPLETIONS, {"prompt": "p", **fields})


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", 1]}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"model": None}, "model"),
        ({"n": 0}, "n"),
        ({"best_of": "2"}, "best_of"),
        ({"suffix": [[1, 2]]}, "suffix"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {}}, "stream_options"),
    ],
)
def test_the_error_names_the_field_at_fault(fields: dict[str, Any], param: str) -> None:
    assert (refusal_of(parsed, **fields).param or "").partition("[")[0] == param


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({}, 16),
        ({"max_tokens": None}, 16),
        ({"max_tokens": 100}, 100),
        ({"n": 2}, 32),
        ({"n": 2, "best_of": 5}, 160),
        ({"prompt": ["a", "b", "c"], "n": 2, "max_tokens": 10}, 60),
        ({"prompt": [[1], [2]], "max_tokens": 10}, 20),
        ({"prompt": [1, 2]}, 16),
    ],
)
def test_every_prompt_has_its_answers(fields: dict[str, Any], most: int) -> None:
    request = parsed(**fields)
    assert request.output_rule(request.fields, channel(), SERVED).total == most


@pytest.mark.parametrize(("dialect", "limit"), [(Dialect.OPENAI, 0), (Dialect.ANTHROPIC, 1)])
def test_no_output_is_a_limit_that_only_completions_have(dialect: Dialect, limit: int) -> None:
    made = order_of(COMPLETIONS, {"prompt": "p", "max_tokens": 0, "echo": dialect is Dialect.OPENAI})
    sent = COMPLETIONS.plan(made, channel(dialect=dialect), new_adapter(dialect), lacks_api=False).order
    assert bytes(sent.fields["max_tokens"]) == str(limit).encode()


def test_prompt_and_suffix_are_the_input() -> None:
    assert parsed().bound.tokens == 16 + 4
    assert parsed(prompt="x" * 298, suffix="y" * 298).bound.tokens == 204
    assert parsed(prompt=["x", "x", "x"], suffix="y" * 298).bound.tokens == 309
    assert parsed(prompt=[7] * 90).bound.tokens == 90 + 16 + 4


@pytest.mark.parametrize("done", [b"", b"data: [DONE]\n\n"])
def test_a_stream_is_the_same_at_every_split(done: bytes) -> None:
    found = set()
    for size in (1, 2, 3, 7, 64, 10_000):
        stream = _relay().stream(order({"model": "m", "prompt": "p", "stream": True}), channel())
        data = STREAM + done
        out = b"".join(stream.feed(data[start : start + size]) for start in range(0, len(data), size)) + stream.end()
        assert (stream.finished, stream.failure, stream.state.finish, stream.state.upstream_id) == (
            True,
            None,
            "stop",
            "c1",
        )
        assert stream.state.reported == USAGE
        found.add(out + stream.tail(USAGE))
    (out,) = found
    docs = [json.loads(part.removeprefix(b"data: ")) for part in out.split(b"\n\n")[:-2]]
    assert [(doc["model"], doc["choices"][0]["text"]) for doc in docs] == [("m", "a\u00e9"), ("m", "")]
    assert out.endswith(b"data: [DONE]\n\n")


def test_a_chat_that_comes_instead_is_a_completion() -> None:
    relay, asked = _relay(), order({"model": "m", "prompt": "p"})
    stream = relay.stream(asked, channel())
    end = event(chunk(delta(finish="length")))
    out = stream.feed(event(chunk(delta("text"))) + end + end + event(chunk(delta("more"))) + DONE)
    choices = [json.loads(part.partition(b"data: ")[2])["choices"] for part in out.split(b"\n\n")[:-1]]
    said = [("text", None), ("", "length"), ("more", None)]
    shared = {"index": 0, "logprobs": None}
    assert choices == [[{**shared, "text": text, "finish_reason": reason}] for text, reason in said]
    answer = relay.whole(dumps(whole("m", choice("Hi"))), asked, channel())
    assert json.loads(body_of(answer))["choices"] == [{**shared, "text": "Hi", "finish_reason": "stop"}]


def test_a_whole_completion_becomes_a_stream_with_its_text_once() -> None:
    probabilities = {"tokens": ["Hi"]}
    choices = [
        {"index": index, "text": text, "finish_reason": "length", "logprobs": probabilities, "of_vendor": 1}
        for index, text in enumerate(("Hi" * 40_000, ""))
    ]
    stream = _relay().stream(order({"model": "m", "prompt": "p", "n": 2}), channel())
    out = stream.feed(dumps({"id": "c", "object": "text_completion", "choices": choices})) + stream.end()
    found = [chunk["choices"][0] for chunk in chunks_in(out)]
    assert max(map(len, out.split(b"\n\n"))) < 40_000
    for sent in choices:
        *pieces, last = [each for each in found if each["index"] == sent["index"]]
        assert "".join(each["text"] for each in (*pieces, last)) == sent["text"]
        assert {each["finish_reason"] for each in pieces} <= {None}
        assert last == {**sent, "text": ""}


@pytest.mark.parametrize("used", [False, True])
def test_a_stream_with_usage_and_without_a_finish_reason_stops(*, used: bool) -> None:
    """As a chat does. Without usage it may have been cut."""
    stream = _relay().stream(order({"model": "m", "prompt": "p", "stream": True}), channel())
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}}\n\n'
    out = stream.feed(STREAM.split(b"\n\n")[0] + b"\n\n" + (usage if used else b"") + DONE) + stream.end()
    assert (stream.finished, stream.state.finish, stream.failure is None) == (used, "stop" if used else "", used)
    assert out.count(b'"finish_reason":"stop"') == used


def test_an_answer_that_is_cut_short_ends_at_its_limit() -> None:
    stream = _relay().stream(order({"model": "m", "prompt": "p", "stream": True}), channel())
    stream.feed(STREAM.split(b"\n\n")[0] + b"\n\n")
    last = stream.cut_short() + stream.tail(USAGE)
    assert b'"finish_reason":"length"' in last
    assert last.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("name", ["id", "object", "created", "x", "canary-0123456789"])
def test_what_surrounds_the_text_shows_no_secret(name: str) -> None:
    screen = Screen(needles(["canary-0123456789"]))
    asked = msgspec.structs.replace(order({"model": "m", "prompt": "p"}), screen=screen)
    choices = [{"index": 0, "text": "Hi", "finish_reason": "stop", "y": "canary-0123456789", name: 1}]
    sent = {"id": "c1", "choices": choices, name: "canary-0123456789"}
    out = _relay().stream(asked, channel()).feed(event(sent))
    for body in (out.removeprefix(b"data: "), body_of(_relay().whole(dumps(sent), asked, channel()))):
        assert b"canary" not in body
        assert json.loads(body)["choices"][0]["text"] == "Hi"


def test_an_answer_inside_of_another_object_is_read() -> None:
    answer = {"result": {"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}]}}
    assert _relay().whole(dumps(answer), order({"model": "m", "prompt": "p"}), channel()).state.tally.chars == 2
