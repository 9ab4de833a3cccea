"""A whole answer, told as a stream, says the same."""

import json

from gateway.upstream.openai.chunks import Chunks
from gateway.upstream.openai.replay import chunks_of
from tests.cases.answers import Answer, said_in
from tests.fakes.replies import choice, dumps, tool_call, usage, whole
from tests.upstream.makers import order

CALL = {name: value for name, value in tool_call(0, "a", "f", '{"x":1}').items() if name != "index"}


def _told(answer: object) -> tuple[Answer, Chunks]:
    chunks = Chunks(order())
    out = [chunks.take(chunk).out for chunk in chunks_of(dumps(answer))]
    return said_in(b"".join(b"data: " + chunk + b"\n\n" for chunk in out)), chunks


def test_text_calls_and_end() -> None:
    said, chunks = _told(whole("m", choice("Hi", reasoning_content="hm", tool_calls=[CALL], finish="tool_calls")))
    assert said == Answer({0: "Hi"}, {0: "hm"}, {0: [("a", "f", '{"x":1}')]}, {0: "tool_calls"})
    assert chunks.complete


def test_several_choices_and_usage() -> None:
    said, chunks = _told(whole("m", choice("a"), choice("b", index=1, finish="length"), spent=usage(9, 2)))
    assert (said.text, said.finish) == ({0: "a", 1: "b"}, {0: "stop", 1: "length"})
    reported = chunks.reports.usage(chunks.tally)
    assert (reported and reported.total) == 11


def test_unknown_fields_come_along() -> None:
    first = chunks_of(dumps(whole("m", {**choice("a", odd=1), "logprobs": {"content": []}}, service_tier="x")))[0]
    (told,) = json.loads(bytes(first["choices"]))
    assert (bytes(first["service_tier"]), told["delta"]["odd"], told["logprobs"]) == (b'"x"', 1, {"content": []})
