"""One choice of a stream: what happened in a chunk, and whether the next ones may be handled like it."""

from typing import Any

import pytest

from gateway.upstream import rawjson
from gateway.upstream.openai.chunks import StreamChoice
from gateway.upstream.output_counter import OutputCounter
from tests.fakes.replies import delta, dumps, tool_call


def _take(choice: StreamChoice, doc: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    fields = rawjson.fields(dumps(doc))
    left = choice.take(fields, OutputCounter())
    return left, rawjson.value(rawjson.encode(fields))


def _begun() -> StreamChoice:
    choice = StreamChoice("seed")
    _take(choice, delta("", role="assistant"))
    return choice


def test_the_first_chunk_turns_and_teaches_nothing() -> None:
    choice = StreamChoice("seed")
    left, doc = _take(choice, delta("Hi"))
    assert (left, doc["delta"]) == (True, {"content": "Hi", "role": "assistant"})
    assert (choice.turned, choice.pattern) == (True, None)


@pytest.mark.parametrize("name", ["content", "reasoning", "reasoning_content", "refusal"])
def test_a_chunk_of_one_text_is_a_pattern(name: str) -> None:
    choice = _begun()
    _take(choice, {"delta": {name: "Hi"}})
    assert choice.pattern is not None
    assert (bytes(choice.pattern), choice.turned) == (b'"Hi"', False)


@pytest.mark.parametrize("more", [{"content": ""}, {"content": None}, {"content": "a", "reasoning": "b"}, {}])
def test_no_text_or_two_are_none(more: dict[str, Any]) -> None:
    choice = _begun()
    _take(choice, delta(**more))
    assert choice.pattern is None


def test_arguments_are_a_pattern_once_the_call_was_opened() -> None:
    choice = _begun()
    _take(choice, delta(tool_calls=[tool_call(0, "a", "f", "{")]))
    assert (choice.pattern, choice.turned) == (None, True)
    _take(choice, delta(tool_calls=[{"index": 0, "function": {"arguments": "}"}}]))
    assert choice.pattern is not None
    assert (bytes(choice.pattern), choice.turned) == (b'"}"', False)


def test_the_end_turns() -> None:
    choice = _begun()
    _, doc = _take(choice, delta("Hi", finish="length"))
    assert (doc["finish_reason"], choice.finish, choice.turned, choice.pattern) == ("length", "length", True, None)


def test_an_end_that_means_failure_is_told() -> None:
    choice = _begun()
    left, _ = _take(choice, delta(finish="network_error"))
    assert (left, choice.broken, choice.finish) == (False, "network_error", "")


def test_text_after_the_end_is_passed_and_teaches_nothing() -> None:
    choice = _begun()
    _take(choice, delta(finish="stop"))
    assert _take(choice, delta("more"))[0]
    assert choice.pattern is None
    assert not _take(choice, delta(""))[0]


def test_a_legacy_call_passes() -> None:
    choice, tally = _begun(), OutputCounter()
    fields = rawjson.fields(dumps(delta(function_call={"name": "f", "arguments": "{}"})))
    assert choice.take(fields, tally)
    assert (tally.empty, choice.pattern) == (False, None)


@pytest.mark.parametrize("doc", [{"delta": 5}, {"delta": {"content": 5}}, {"delta": {"tool_calls": {}}}, {"delta": []}])
def test_an_odd_chunk_is_refused(doc: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        _take(_begun(), doc)
