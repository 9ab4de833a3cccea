"""The state of an answer: what parts mean to a renderer, whatever order the upstream sent them in."""

import json
import tracemalloc
from typing import Any
from unittest.mock import patch

import pytest

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    AnswerPart,
    BlockEnded,
    BlockKind,
    Piece,
    Seal,
    SealKind,
    ToolCallBegan,
    ToolCallPart,
    join_strings,
)
from gateway.domain.sse import SSEEvent
from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.answer_state import AnswerState
from gateway.upstream.openai.reader import ChatReader
from tests.fakes.replies import chunk, delta, dumps, tool_call, usage
from tests.upstream.makers import channel, order

Chunk = dict[str, Any]


def events_of(*parts: AnswerPart, end: bool = True) -> list[AnswerEvent]:
    """The events after the first."""
    state = AnswerState(order())
    found = [each for part in parts for each in state.add(part)]
    return (found + list(state.conclude()) if end else found)[1:]


def read(*chunks: Chunk) -> list[AnswerEvent]:
    """The events of chunks of chat completions, after the first; with the end if the last one has it."""
    reader = ChatReader(order(), channel())
    parts = [part for each in chunks for part in reader.read(SSEEvent(dumps(each)))]
    return events_of(*parts, end=any(isinstance(part, AnswerFinished) for part in parts))


def said(text: str) -> bytes:
    return json.dumps(text).encode()


def arguments(number: int, piece: str) -> Chunk:
    return chunk(delta(tool_calls=[{"index": number, "function": {"arguments": piece}}]))


def call(number: int, piece: str = "", **more: Any) -> Chunk:
    return chunk(delta(tool_calls=[{**tool_call(number, f"c{number}", f"f{number}", piece), **more}]))


TEXT, REASONING, CALL = BlockKind.TEXT, BlockKind.REASONING, BlockKind.TOOL_CALL
STOP = chunk(delta(finish="stop"))


def test_the_first_event_has_the_answers_names_and_what_is_reported() -> None:
    reader, state = ChatReader(order(), channel()), AnswerState(order())
    parts = list(reader.read(SSEEvent(dumps(chunk(delta("", role="assistant"), usage=usage(9, 2))))))
    first = next(each for part in parts for each in state.add(part))
    assert first == AnswerBegan("chatcmpl-1", Usage(input=9, output=2, source=UsageSource.REPORTED))


def test_each_kind_of_piece_has_a_block_of_its_own_in_the_order_they_came() -> None:
    found = read(
        chunk(delta(reasoning_content="Hm")),
        chunk(delta("Hi")),
        chunk(delta(refusal="No")),
        chunk(delta(reasoning="?")),
    )
    assert found == [
        Piece(REASONING, said("Hm")),
        BlockEnded(REASONING),
        Piece(TEXT, said("Hi")),
        BlockEnded(TEXT),
        Piece(BlockKind.REFUSAL, said("No")),
        BlockEnded(BlockKind.REFUSAL),
        Piece(REASONING, said("?")),
    ]


def test_interleaved_calls_are_put_one_after_another() -> None:
    found = read(
        call(0), call(1), arguments(1, '{"b"'), arguments(0, '{"a":1'), chunk(delta("so")), arguments(0, "}"),
        arguments(1, ":2}"), STOP,
    )  # fmt: skip
    assert found == [
        ToolCallBegan(0, "c0", "f0"),
        Piece(CALL, said('{"a":1'), 0),
        Piece(CALL, said("}"), 0),
        BlockEnded(CALL, 0),
        ToolCallBegan(1, "c1", "f1"),
        Piece(CALL, said('{"b"'), 1),
        Piece(CALL, said(":2}"), 1),
        BlockEnded(CALL, 1),
        Piece(TEXT, said("so")),
        BlockEnded(TEXT),
        AnswerFinished("tool_calls"),
    ]


THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "s"}


def thought(text: str, signature: str = "", **more: Any) -> dict[str, Any]:
    return chunk(delta(thinking_blocks=[{**THOUGHT, "index": 0, "thinking": text, "signature": signature}], **more))


def reasoning_in(events: list[AnswerEvent]) -> str:
    return "".join(
        json.loads(bytes(each.piece)) for each in events if isinstance(each, Piece) and each.kind is REASONING
    )


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([chunk(delta(reasoning_content="Hm")), thought("Hm", "s")], id="text, then all of the thought"),
        pytest.param([thought("Hm", reasoning_content="Hm"), thought("", "s")], id="both, then the signature"),
        pytest.param([thought("Hm", reasoning_content="Hm"), thought("Hm", "s")], id="both, then all of the thought"),
        pytest.param([thought("H"), thought("m"), thought("", "s")], id="the thought in pieces alone"),
        pytest.param([thought("Hm", "s")], id="the thought alone"),
    ],
)
def test_a_seal_ends_the_reasoning_before_it(chunks: list[dict[str, Any]]) -> None:
    found = read(*chunks, chunk(delta("Hi")))
    seal = Seal(SealKind.ANTHROPIC, dumps([THOUGHT]))
    assert reasoning_in(found) == "Hm"
    rest = [each for each in found if not (isinstance(each, Piece) and each.kind is REASONING)]
    assert rest == [seal, BlockEnded(REASONING), Piece(TEXT, said("Hi"))]


def test_a_thought_that_is_never_signed_is_not_lost() -> None:
    assert reasoning_in(read(thought("ha"), thought("ha"), thought("!"), chunk(delta("Hi")))) == "haha!"


def test_equal_pieces_of_a_thought_are_all_in_what_is_signed() -> None:
    found = read(thought("ha"), thought("ha"), thought("", "s"))
    assert Seal(SealKind.ANTHROPIC, dumps([{**THOUGHT, "thinking": "haha"}])) in found


def test_a_googles_signature_comes_before_its_call() -> None:
    found = read(call(0, "{}", extra_content={"google": {"thought_signature": "sig"}}))
    seal = Seal(SealKind.GEMINI, dumps({"c0": "sig"}))
    assert found[:3] == [seal, BlockEnded(REASONING), ToolCallBegan(0, "c0", "f0", signature="sig")]


def test_other_choices_are_left_out() -> None:
    assert events_of(Piece(TEXT, said("Hi")), Piece(TEXT, said("Ho"), choice=1), end=False) == [Piece(TEXT, said("Hi"))]


def test_pieces_join_to_one_json_string() -> None:
    assert json.loads(join_strings([b'"a\\n"', b'"\\ud83d"', b'"\\ude00"'])) == "a\n\U0001f600"


def test_a_call_that_never_ends_is_not_read_again_with_each_of_its_pieces() -> None:
    """The time is linear in the bytes, whatever waits behind the call."""
    state = AnswerState(order())
    for number in range(2):
        list(state.add(ToolCallPart(number, f"c{number}", "f", b'"{\\"a\\": \\""')))
    piece = ToolCallPart(0, piece=said("}" * 50))
    with patch("gateway.domain.rawjson.text", side_effect=rawjson.text) as opened:
        for _ in range(2000):
            list(state.add(piece))
    assert sum(len(each.args[0]) for each in opened.call_args_list) < 3 * 2000 * 54


def test_the_text_of_arguments_is_not_kept() -> None:
    state = AnswerState(order())
    list(state.add(ToolCallPart(0, "c", "f", b'"{\\"a\\": \\""')))
    piece = ToolCallPart(0, piece=said("x" * 20_000))
    tracemalloc.start()
    try:
        for _ in range(200):
            list(state.add(piece))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1_000_000


def made(*parts: ToolCallPart) -> list[tuple[str, str, str]]:
    """The calls that parts become: id, name, arguments."""
    found = events_of(*parts, AnswerFinished("stop"))
    began = [each for each in found if isinstance(each, ToolCallBegan)]
    pieces = {each.number: "" for each in began}
    for each in found:
        if isinstance(each, Piece):
            pieces[each.number] += json.loads(each.piece)
    return [(each.id, each.name, pieces[each.number]) for each in began]


A, B = '{"a":1}', '{"b":2}'
ONE, BOTH = [("x", "f", A)], [("x", "f", A), ("y", "g", B)]


def part(index: int | None, id: str, name: str, piece: str = "") -> ToolCallPart:
    return ToolCallPart(index, id, name, said(piece) if piece else b"")


@pytest.mark.parametrize(
    ("parts", "calls"),
    [
        pytest.param([part(0, "x", "f", '{"a"'), part(0, "", "", ":1}")], ONE, id="as the reference has it"),
        pytest.param([part(0, "x", "f", '{"a"'), part(0, "z", "", ":1}")], ONE, id="another id later, no name"),
        pytest.param([part(0, "x", "f", '{"a"'), part(1, "x", "", ":1}")], ONE, id="the id at another index"),
        pytest.param([part(0, "x", "f", '{"a"'), part(5, "", "", ":1}")], ONE, id="another index, no id"),
        pytest.param([part(0, "x", "f", '{"a"'), part(None, "", "", ":1}")], ONE, id="no index, no id"),
        pytest.param([part(0, "x", "f", '{"a"'), part(0, "x", "f", ":1}")], ONE, id="id and name in each piece"),
        pytest.param([part(0, "x", "f", A), part(0, "x", "f", A)], ONE, id="the whole call twice"),
        pytest.param([part(0, "x", "f", A), part(1, "x", "f", A)], ONE, id="twice, at another index"),
        pytest.param([part(0, "x", "f", A), part(0, "", "f", A)], ONE, id="twice, the second without an id"),
        pytest.param([part(0, "x", "", ""), part(0, "", "f", A)], ONE, id="the name comes after the id"),
        pytest.param([part(0, "x", "", '{"a"'), part(0, "x", "f", ":1}")], ONE, id="arguments before the name"),
        pytest.param([part(0, "x", "f", A), part(1, "y", "g", B)], BOTH, id="two at two indices"),
        pytest.param([part(0, "x", "f", A), part(0, "y", "g", B)], BOTH, id="two at one index"),
        pytest.param([part(None, "x", "f", A), part(None, "y", "g", B)], BOTH, id="two without indices"),
        pytest.param([part(1, "x", "f", A), part(2, "y", "g", B)], BOTH, id="counted from one"),
        pytest.param([part(0, "x", "f", "{}"), part(0, "", "", '{"a"'), part(0, "", "", ":1}")], ONE, id="after {}"),
        pytest.param([part(0, "x", "f", "{}"), part(0, "x", "f", A)], ONE, id="{}, then the whole call"),
        pytest.param([part(0, "x", "f", "{}"), part(0, "x", "f", "{}")], [("x", "f", "{}")], id="{} twice"),
        pytest.param([part(0, "x", "f", "{}"), part(0, "y", "g", B)], [("x", "f", "{}"), BOTH[1]], id="{} and another"),
        pytest.param(
            [part(0, "x", "f", '{"a":'), part(0, "z", "f", '{"b"'), part(0, "w", "f", ":2}}")],
            [("x", "f", '{"a":{"b":2}}')],
            id="another id at an object inside",
        ),
    ],
)
def test_a_piece_belongs_to_its_call(parts: list[ToolCallPart], calls: list[tuple[str, str, str]]) -> None:
    assert made(*parts) == calls


@pytest.mark.parametrize(
    ("parts", "calls"),
    [
        pytest.param([part(0, "", "f", A), part(0, "", "g", B)], [("f", A), ("g", B)], id="another name"),
        pytest.param([part(0, "", "f", A), part(0, "", "f", B)], [("f", A), ("f", B)], id="other arguments"),
        pytest.param([part(0, "", "f", A), part(0, "", "f", A)], [("f", A)], id="the same once more"),
        pytest.param([part(None, "", "f", A), part(None, "", "g", B)], [("f", A), ("g", B)], id="no index"),
        pytest.param([part(0, "x", "f", A), part(1, "x", "f", B)], [("f", A), ("f", B)], id="one id for two calls"),
    ],
)
def test_calls_without_ids_are_distinguished(parts: list[ToolCallPart], calls: list[tuple[str, str]]) -> None:
    found = made(*parts)
    assert [call[1:] for call in found] == calls
    assert len({call[0] for call in found}) == len(calls)


def test_a_piece_whose_call_never_gets_a_name_opens_none_and_is_noted() -> None:
    state = AnswerState(order())
    list(state.add(part(0, "x", "", "{}")))
    assert (state.marks, state.fault) == (("nameless_call",), "a tool call has no name, or did not come")


@pytest.mark.parametrize(
    ("word", "reason", "marks"),
    [
        ("MAX_TOKENS", "length", ()),
        ("max_tokens", "length", ()),
        ("SAFETY", "content_filter", ()),
        ("Refusal", "content_filter", ()),
        ("FINISH_REASON_MAX_TOKENS", "length", ()),
        ("end_turn", "stop", ()),
        ("tool_use", "stop", ()),
        ("something else", "stop", ("unknown_finish_reason",)),
    ],
)
def test_each_word_has_its_meaning(word: str, reason: str, marks: tuple[str, ...]) -> None:
    state = AnswerState(order())
    list(state.add(Piece(TEXT, said("Hi"))))
    list(state.add(AnswerFinished(word)))
    assert (state.finish, state.marks) == (reason, marks)


@pytest.mark.parametrize(
    ("piece", "reason"),
    [
        *((piece, "length") for piece in ("{", '{"a": "b', '{"a": [1]', '{"a": "}')),
        *((piece, "tool_calls") for piece in ('{"a": 1}', "", " ", "null", "[]", '"x"', "{}{}")),
    ],
)
def test_a_call_without_its_end_was_cut_if_there_is_no_finish_reason(piece: str, reason: str) -> None:
    state, reader = AnswerState(order()), ChatReader(order(), channel())
    for part in reader.read(SSEEvent(dumps(call(0, piece)))):
        state.add(part)
    assert state.conclude("stop")[-1] == AnswerFinished(reason)


@pytest.mark.parametrize("word", ["error", "abort", "ABORT", "insufficient_system_resource"])
def test_a_failure_is_not_a_good_end(word: str) -> None:
    state = AnswerState(order())
    list(state.add(AnswerFinished(word)))
    assert (state.broken, state.complete) == (word, False)
