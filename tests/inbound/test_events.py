"""Events: what chunks mean to a renderer, whatever order the upstream sent them in."""

import json
from typing import Any
from unittest.mock import patch

import pytest

from gateway.domain.usage import Usage
from gateway.inbound.events import (
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    ArgumentsPiece,
    BlockEnded,
    BlockKind,
    ChatReader,
    ReasoningPiece,
    ReasoningSeal,
    RefusalPiece,
    TextPiece,
    ToolCallBegan,
    join_strings,
)
from gateway.inbound.sealed import Seal, SealKind
from gateway.upstream import rawjson
from tests.fakes.replies import choice, chunk, delta, dumps, event, tool_call, whole
from tests.upstream.makers import order

Chunk = dict[str, Any]


def read(*chunks: Chunk) -> list[AnswerEvent]:
    """The events after the first."""
    reader = ChatReader(order())
    return [found for each in chunks for found in reader.read(event(each))][1:]


def said(text: str) -> bytes:
    return json.dumps(text).encode()


def arguments(number: int, piece: str) -> Chunk:
    return chunk(delta(tool_calls=[{"index": number, "function": {"arguments": piece}}]))


def call(number: int, piece: str = "", **more: Any) -> Chunk:
    return chunk(delta(tool_calls=[{**tool_call(number, f"c{number}", f"f{number}", piece), **more}]))


TEXT, REASONING, CALL = BlockKind.TEXT, BlockKind.REASONING, BlockKind.TOOL_CALL
STOP = chunk(delta(finish="stop"))


def test_the_first_event_has_the_answers_names_and_what_is_reported() -> None:
    usage = Usage(input=9)
    first = next(ChatReader(order()).read(event(chunk(delta("", role="assistant"))), usage))
    assert first == AnswerBegan("chatcmpl-1", "m", usage)


def test_text_is_one_block_that_ends_with_the_answer() -> None:
    found = read(chunk(delta("Hi")), chunk(delta(" there")), STOP)
    pieces = [TextPiece(said("Hi")), TextPiece(said(" there"))]
    assert found == [*pieces, BlockEnded(TEXT), AnswerFinished("stop")]


def test_each_kind_of_piece_has_a_block_of_its_own_in_the_order_they_came() -> None:
    found = read(
        chunk(delta(reasoning_content="Hm")),
        chunk(delta("Hi")),
        chunk(delta(refusal="No")),
        chunk(delta(reasoning="?")),
    )
    assert found == [
        ReasoningPiece(said("Hm")),
        BlockEnded(REASONING),
        TextPiece(said("Hi")),
        BlockEnded(TEXT),
        RefusalPiece(said("No")),
        BlockEnded(BlockKind.REFUSAL),
        ReasoningPiece(said("?")),
    ]


def test_calls_come_one_after_another() -> None:
    found = read(call(0), arguments(0, '{"a"'), arguments(0, ":1}"), call(1, "{}"), chunk(delta(finish="tool_calls")))
    assert found == [
        ToolCallBegan(0, "c0", "f0"),
        ArgumentsPiece(0, said('{"a"')),
        ArgumentsPiece(0, said(":1}")),
        BlockEnded(CALL, 0),
        ToolCallBegan(1, "c1", "f1"),
        ArgumentsPiece(1, said("{}")),
        BlockEnded(CALL, 1),
        AnswerFinished("tool_calls"),
    ]


def test_in42_interleaved_calls_are_put_one_after_another() -> None:
    found = read(
        call(0), call(1), arguments(1, '{"b"'), arguments(0, '{"a":1'), chunk(delta("so")), arguments(0, "}"),
        arguments(1, ":2}"), STOP,
    )  # fmt: skip
    assert found == [
        ToolCallBegan(0, "c0", "f0"),
        ArgumentsPiece(0, said('{"a":1')),
        ArgumentsPiece(0, said("}")),
        BlockEnded(CALL, 0),
        ToolCallBegan(1, "c1", "f1"),
        ArgumentsPiece(1, said('{"b"')),
        ArgumentsPiece(1, said(":2}")),
        BlockEnded(CALL, 1),
        TextPiece(said("so")),
        BlockEnded(TEXT),
        AnswerFinished("stop"),
    ]


def test_what_waits_behind_a_call_that_is_never_complete_comes_at_the_end() -> None:
    found = read(call(0, '{"a'), call(1, "{}"), chunk(delta(finish="length")))
    assert [type(each) for each in found] == [
        *(ToolCallBegan, ArgumentsPiece, BlockEnded, ToolCallBegan, ArgumentsPiece, BlockEnded, AnswerFinished)
    ]


def test_a_seal_ends_the_reasoning_before_it() -> None:
    block = {"type": "thinking", "thinking": "Hm", "signature": "s"}
    found = read(chunk(delta(reasoning_content="Hm")), chunk(delta(thinking_blocks=[block])), chunk(delta("Hi")))
    seal = ReasoningSeal(Seal(SealKind.ANTHROPIC, dumps([block])))
    assert found == [ReasoningPiece(said("Hm")), seal, BlockEnded(REASONING), TextPiece(said("Hi"))]


def test_a_googles_signature_comes_before_its_call() -> None:
    found = read(call(0, "{}", extra_content={"google": {"thought_signature": "sig"}}))
    seal = ReasoningSeal(Seal(SealKind.GEMINI, dumps({"c0": "sig"})))
    assert found[:3] == [seal, BlockEnded(REASONING), ToolCallBegan(0, "c0", "f0")]


def test_a_lone_surrogate_stays_as_it_came() -> None:
    reader = ChatReader(order())
    data = b'data: {"id":"i","choices":[{"index":0,"delta":{"content":"\\ud83d"},"finish_reason":null}]}\n\n'
    assert list(reader.read(data))[1:] == [TextPiece(b'"\\ud83d"')]


def test_other_choices_are_left_out() -> None:
    assert read(chunk(delta("Hi"), delta("Ho", index=1))) == [TextPiece(said("Hi"))]


def test_a_whole_answer_means_the_same_as_its_stream() -> None:
    body = dumps(whole("m", choice("Hi", reasoning_content="Hm", tool_calls=[tool_call(0, "c0", "f0", "{}")])))
    found = list(ChatReader(order()).read_whole(body))
    streamed = read(chunk(delta(reasoning_content="Hm")), chunk(delta("Hi")), call(0, "{}"), STOP)
    assert found[1:] == streamed


def test_pieces_join_to_one_json_string() -> None:
    assert json.loads(join_strings([b'"a\\n"', b'"\\ud83d"', b'"\\ude00"'])) == "a\n\U0001f600"


def test_a_regular_chunk_is_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow way is for what is odd. It costs several times as much."""
    monkeypatch.setattr("gateway.inbound.events._choice_of", lambda _: pytest.fail("decoded a second time"))
    chunk = b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\n'
    events = list(ChatReader(order()).read(chunk))
    assert events[1] == TextPiece(b'"Hi"')


def test_a_call_that_never_ends_is_not_read_again_with_each_of_its_pieces() -> None:
    """The time is linear in the bytes, whatever waits behind the call."""
    reader = ChatReader(order())
    for number in range(2):
        list(reader.read(event(call(number, '{"a": "'))))
    piece = event(arguments(0, "}" * 50))
    with patch("gateway.upstream.rawjson.text", side_effect=rawjson.text) as opened:
        for _ in range(2000):
            list(reader.read(piece))
    assert sum(len(each.args[0]) for each in opened.call_args_list) < 3 * 2000 * 50


@pytest.mark.parametrize("odd", [b'{"choices":[{"delta":{"content":"\\ud83d"}}]}', b'{"id":7,"choices":[]}', b"7"])
def test_an_odd_chunk_changes_nothing_of_those_that_are_read_with_it(odd: bytes) -> None:
    parts = [event(chunk(delta("a"))), event(chunk(delta("b"))), b"data: " + odd + b"\n\n", event(chunk(delta("c")))]
    one_by_one, together = ChatReader(order()), ChatReader(order())
    assert list(together.read(b"".join(parts))) == [found for part in parts for found in one_by_one.read(part)]
