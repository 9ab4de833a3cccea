"""Chunks of one answer: one head for all, usage taken out, patterns only where nothing else happened."""

import json
from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.adapter import OutputCounter
from gateway.upstream.finish_words import is_broken
from gateway.upstream.openai import chunks
from gateway.upstream.openai.chunks import (
    CHUNK,
    ID_LIMIT,
    REASONS,
    Chunks,
    ChunkStep,
    StreamChoice,
    identity,
    native_reason,
    upstream_id,
)
from gateway.upstream.redaction.answers import NO_SCREEN
from tests.fakes.replies import chunk, delta, dumps, tool_call, usage
from tests.upstream.makers import order

ROLE = chunk(delta("", role="assistant"))


def _take(chunks: Chunks, doc: object) -> ChunkStep:
    return chunks.take(rawjson.fields(dumps(doc)))


def _begun() -> Chunks:
    chunks = Chunks(order(model="mine"))
    _take(chunks, ROLE)
    return chunks


def test_a_chunk_without_choices_is_nothing_for_the_client() -> None:
    chunks = Chunks(order())
    for doc in (chunk(), {"choices": None}, {}, chunk(usage=usage(9, 2))):
        assert _take(chunks, doc) == ChunkStep(b"", b"", turned=False, broken="")
    assert (chunks.begun, chunks.upstream_id) == (False, "chatcmpl-1")


def test_the_head_is_fixed_by_the_first_chunk() -> None:
    chunks = _begun()
    doc = json.loads(_take(chunks, chunk(delta("x"), id="other", model="other", created=5)).out)
    assert (doc["id"], doc["model"], doc["created"]) == ("chatcmpl-1", "mine", 1_763_500_000)


@pytest.mark.parametrize("more", [{"timings": {}}, {"x_groq": {}}, {"usage": usage(9, 2)}])
def test_a_chunk_with_figures_is_not_a_pattern(more: dict[str, Any]) -> None:
    step = _take(_begun(), chunk(delta("x"), **more))
    assert (bool(step.out), step.pattern) == (True, b"")
    assert b'"usage"' not in step.out


def test_a_chunk_of_one_text_is_one() -> None:
    assert _take(_begun(), chunk(delta("x"), usage=None)).pattern == b'"x"'


def test_a_chunk_of_two_choices_is_not() -> None:
    chunks = _begun()
    _take(chunks, chunk(delta("", index=1, role="assistant")))
    assert _take(chunks, chunk(delta("x"), delta("y", index=1))).pattern == b""


def test_complete_when_every_choice_has_ended() -> None:
    chunks = _begun()
    _take(chunks, chunk(delta("", index=1)))
    _take(chunks, chunk(delta(finish="length")))
    assert (chunks.complete, chunks.finish) == (False, "length")
    _take(chunks, chunk(delta(index=1, finish="stop")))
    assert chunks.complete


def test_a_failing_end_is_reported() -> None:
    assert _take(_begun(), chunk(delta(finish="error"))).broken == "error"


def test_cutting_short_ends_what_is_open() -> None:
    chunks = _begun()
    _take(chunks, chunk(delta("", index=1, finish="stop")))
    last = json.loads(chunks.end_with("length").removeprefix(b"data: "))
    assert (last["id"], last["choices"][0]["index"], last["choices"][0]["finish_reason"]) == ("chatcmpl-1", 0, "length")
    assert chunks.complete


def test_the_usage_chunk_has_the_same_head_and_the_upstreams_figures() -> None:
    chunks = _begun()
    _take(chunks, chunk(usage={**usage(9, 2), "odd": 1}))
    doc = json.loads(chunks.usage_chunk(Usage(source=UsageSource.REPORTED), estimated=False))
    assert (doc["id"], doc["choices"], doc["usage"]) == ("chatcmpl-1", [], {**usage(9, 2), "odd": 1})


def test_a_usage_chunk_can_come_alone() -> None:
    doc = json.loads(Chunks(order()).usage_chunk(Usage(input=1, output=2), estimated=True))
    assert (doc["id"], doc["created"], doc["usage"]["total_tokens"]) == ("chatcmpl-ours", 77, 3)


@pytest.mark.parametrize("doc", [{"choices": 5}, {"choices": [1]}, {"choices": [{"delta": 1}]}])
def test_what_is_not_a_chunk_is_refused(doc: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        _take(_begun(), doc)


def _take_choice(choice: StreamChoice, doc: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    fields = rawjson.fields(dumps(doc))
    left = choice.take(fields, OutputCounter())
    return left, rawjson.value(rawjson.encode(fields))


def _begun_choice() -> StreamChoice:
    choice = StreamChoice("seed")
    _take_choice(choice, delta("", role="assistant"))
    return choice


def test_the_first_chunk_turns_and_teaches_nothing() -> None:
    choice = StreamChoice("seed")
    left, doc = _take_choice(choice, delta("Hi"))
    assert (left, doc["delta"]) == (True, {"content": "Hi", "role": "assistant"})
    assert (choice.turned, choice.pattern) == (True, None)


@pytest.mark.parametrize("name", ["content", "reasoning", "reasoning_content", "refusal"])
def test_a_chunk_of_one_text_is_a_pattern(name: str) -> None:
    choice = _begun_choice()
    _take_choice(choice, {"delta": {name: "Hi"}})
    assert choice.pattern is not None
    assert (bytes(choice.pattern), choice.turned) == (b'"Hi"', False)


@pytest.mark.parametrize("more", [{"content": ""}, {"content": None}, {"content": "a", "reasoning": "b"}, {}])
def test_no_text_or_two_are_none(more: dict[str, Any]) -> None:
    choice = _begun_choice()
    _take_choice(choice, delta(**more))
    assert choice.pattern is None


def test_arguments_are_a_pattern_once_the_call_was_opened() -> None:
    choice = _begun_choice()
    _take_choice(choice, delta(tool_calls=[tool_call(0, "a", "f", "{")]))
    assert (choice.pattern, choice.turned) == (None, True)
    _take_choice(choice, delta(tool_calls=[{"index": 0, "function": {"arguments": "}"}}]))
    assert choice.pattern is not None
    assert (bytes(choice.pattern), choice.turned) == (b'"}"', False)


def test_the_end_turns() -> None:
    choice = _begun_choice()
    _, doc = _take_choice(choice, delta("Hi", finish="length"))
    assert (doc["finish_reason"], choice.finish, choice.turned, choice.pattern) == ("length", "length", True, None)


def test_an_end_that_means_failure_is_reported() -> None:
    choice = _begun_choice()
    left, _ = _take_choice(choice, delta(finish="network_error"))
    assert (left, choice.broken, choice.finish) == (False, "network_error", "")


def test_text_after_the_end_is_passed_and_teaches_nothing() -> None:
    choice = _begun_choice()
    _take_choice(choice, delta(finish="stop"))
    assert _take_choice(choice, delta("more"))[0]
    assert choice.pattern is None
    assert not _take_choice(choice, delta(""))[0]


def test_a_legacy_call_passes() -> None:
    choice, tally = _begun_choice(), OutputCounter()
    fields = rawjson.fields(dumps(delta(function_call={"name": "f", "arguments": "{}"})))
    assert choice.take(fields, tally)
    assert (tally.empty, choice.pattern) == (False, None)


@pytest.mark.parametrize("doc", [{"delta": 5}, {"delta": {"content": 5}}, {"delta": {"tool_calls": {}}}, {"delta": []}])
def test_an_odd_chunk_is_refused(doc: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        _take_choice(_begun_choice(), doc)


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
TEXT = {"type": "text", "text": "Hi"}


def _even(doc: dict[str, Any]) -> dict[str, Any]:
    fields = rawjson.fields(dumps(doc))
    chunks.normalize_texts(fields)
    found = rawjson.value(rawjson.encode(fields))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("doc", "evened"),
    [
        ({"content": "Hi"}, {"content": "Hi"}),
        ({"content": None}, {"content": None}),
        ({"content": [TEXT, TEXT]}, {"content": "HiHi"}),
        ({"content": [THOUGHT, TEXT]}, {"content": "Hi", "reasoning_content": "hm"}),
        ({"content": [THOUGHT]}, {"content": None, "reasoning_content": "hm"}),
        ({"content": [{"type": "thinking", "thinking": "hm"}]}, {"content": None, "reasoning_content": "hm"}),
        ({"content": []}, {"content": ""}),
        ({"content": ["Hi", 5, None, {"type": "image"}]}, {"content": "Hi"}),
        ({"reasoning": "a", "reasoning_content": "a"}, {"reasoning_content": "a"}),
        ({"reasoning": "a", "reasoning_content": None}, {"reasoning": "a", "reasoning_content": None}),
    ],
)
def test_content_is_text_and_reasoning_has_one_name(doc: dict[str, Any], evened: dict[str, Any]) -> None:
    assert _even(doc) == evened


def test_texts_are_counted_and_found() -> None:
    tally = OutputCounter()
    fields = rawjson.fields(dumps({"content": "Hello", "refusal": None, "reasoning": "", "role": "assistant"}))
    assert [bytes(text) for text in chunks.count_texts(fields, tally)] == [b'"Hello"']
    assert tally.chars == 5


@pytest.mark.parametrize("doc", [{"content": 5}, {"reasoning": {}}, {"refusal": ["x"]}])
def test_a_text_that_is_none_is_refused(doc: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        chunks.count_texts(rawjson.fields(dumps(doc)), OutputCounter())


@pytest.mark.parametrize(
    ("word", "tools", "reason"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        ("eos", True, "tool_calls"),
        ("end_turn", False, "stop"),
        ("", False, "stop"),
        ("max_tokens", False, "length"),
        ("model_length", True, "length"),
        ("content_filter", True, "content_filter"),
        ("function_call", False, "function_call"),
        ("tool_calls", False, "tool_calls"),
    ],
)
def test_words(word: str, reason: str, *, tools: bool) -> None:
    assert native_reason(word, tools=tools) == reason


def test_a_failure_is_not_an_end() -> None:
    assert not any(map(is_broken, REASONS))


def _identity(doc: object) -> dict[str, object]:
    fields = rawjson.fields(dumps(doc))
    found = identity(fields, upstream_id(fields, NO_SCREEN), order(model="mine"), CHUNK)
    return {name: rawjson.value(value) for name, value in found.items()}


def test_good_ones_are_kept() -> None:
    assert _identity({"id": "x", "created": 5, "model": "theirs"}) == {
        "id": "x", "object": "chat.completion.chunk", "created": 5, "model": "mine"
    }  # fmt: skip


@pytest.mark.parametrize("id", [None, "", 5, "x" * ID_LIMIT, "x" * 1_000_000, []])
def test_an_id_that_is_none_is_made(id: object) -> None:
    assert _identity({"id": id})["id"] == "chatcmpl-ours"


@pytest.mark.parametrize("created", [None, 0, -1, True, "5", 1.5])
def test_a_time_that_is_none_is_made(created: object) -> None:
    assert _identity({"created": created})["created"] == 77


def test_the_upstreams_id_is_harmless() -> None:
    assert "\x1b" not in upstream_id(rawjson.fields(dumps({"id": "a\x1b[31m"})), NO_SCREEN)
