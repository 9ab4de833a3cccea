"""A history goes to every vendor: one result for each call, in order, behind it; arguments are an object."""

import time
from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.domain.conversation import Block, CallPart, MediaPart, ResultPart, TextPart, ThoughtPart, Turn
from gateway.domain.transcript import Transcript


def _said(text: str) -> TextPart:
    return TextPart(raw=rawjson.raw(text))


def _call(id: str, name: str = "f") -> CallPart:
    return CallPart(id=id, name=name, arguments=rawjson.raw({}))


def _result(id: str, text: str = "", name: str = "", **more: Any) -> ResultPart:
    return ResultPart(call_id=id, name=name, parts=(_said(text or id),), **more)


def _shown(block: Block) -> str:
    match block:
        case TextPart():
            return rawjson.text(block.raw)
        case CallPart():
            return f"{block.id}!"
        case ResultPart():
            return f"{block.call_id}={'+'.join(map(_shown, block.parts))}"
        case MediaPart():
            return block.type
    return "?"


_Said = tuple[str, tuple[Block, ...]]


def _turns(*turns: _Said) -> tuple[list[str], tuple[str, ...]]:
    transcript = Transcript()
    for role, blocks in turns:
        transcript.add(role, blocks)
    found = [f"{turn.role}: {' '.join(map(_shown, turn.blocks))}" for turn in transcript.turns]
    return found, transcript.marks


CALLS = ("assistant", (_call("a", "f"), _call("b", "g")))


@pytest.mark.parametrize(
    ("turns", "found"),
    [
        ([("tool", (_result("b"),)), ("tool", (_result("a"),))], ["tool: a=a b=b"]),
        ([("user", (_result("b"), _result("a")))], ["tool: a=a b=b"]),
        ([("user", (_said("so"), _result("b"), _result("a")))], ["tool: a=a b=b", "user: so"]),
        ([("user", (_result("a"),)), ("user", (_said("x"), _result("b")))], ["tool: a=a b=b", "user: x"]),
        ([("user", (_said("x"),)), ("tool", (_result("b"),)), ("tool", (_result("a"),))], ["tool: a=a b=b", "user: x"]),
        ([("system", (_said("s"),)), ("user", (_result("a"), _result("b")))], ["tool: a=a b=b", "system: s"]),
        ([("assistant", (_said("hm"),)), ("tool", (_result("a"),)), ("tool", (_result("b"),))], ["tool: a=a b=b"]),
    ],
)
def test_results_follow_their_calls_in_their_order(turns: list[Any], found: list[str]) -> None:
    said = "assistant: a! b! hm" if turns[0][0] == "assistant" else "assistant: a! b!"
    assert _turns(CALLS, *turns) == ([said, *found], ())


@pytest.mark.parametrize(
    ("results", "found"),
    [
        ([], ["tool: a=[no output] b=[no output]"]),
        ([_result("b")], ["tool: a=[no output] b=b"]),
        ([_result("a"), _result("b"), _result("c")], ["tool: a=a b=b", "user: [result of tool call c] c"]),
        ([_result("a", "1"), _result("b"), _result("a", "2")], ["tool: a=1+2 b=b"]),
        ([_result("a", "1"), _result("b"), _result("a", "1")], ["tool: a=1 b=b"]),
    ],
)
def test_what_is_missing_or_too_much_is_put_right_and_marked(results: list[ResultPart], found: list[str]) -> None:
    said = _turns(CALLS, ("user", tuple(results))) if results else _turns(CALLS)
    assert said == (["assistant: a! b!", *found], ("tool_results_repaired",))


def test_a_result_is_found_by_the_name_of_its_tool_or_by_its_order() -> None:
    by_name = _turns(CALLS, ("tool", (_result("", "G", "g"),)), ("tool", (_result("x9", "F", "f"),)))
    assert by_name == (["assistant: a! b!", "tool: a=F b=G"], ())
    by_order = _turns(CALLS, ("tool", tuple(_result("", number) for number in "123")))
    assert by_order[0] == ["assistant: a! b!", "tool: a=1 b=2", "user: [tool result] 3"]


def test_the_same_id_in_two_turns_keeps_its_results_apart() -> None:
    again: list[_Said] = [("assistant", (_call("a"),)), ("tool", (_result("a", "2"),))]
    found, marks = _turns(("assistant", (_call("a"),)), ("tool", (_result("a", "1"),)), *again)
    assert (found, marks) == (["assistant: a!", "tool: a=1", "assistant: a_1!", "tool: a_1=2"], ())


@pytest.mark.parametrize("id", ["a", ""])
def test_parallel_calls_with_one_id_or_none_get_the_results_in_their_order(id: str) -> None:
    made: list[_Said] = [("assistant", (_call(id, "f"), _call(id, "g"), _call(id, "f")))]
    found, marks = _turns(*made, ("tool", tuple(_result(id, number) for number in "123")))
    ids = ["a", "a_1", "a_2"] if id else [f"unnamed_call_{number}" for number in (1, 2, 3)]
    calls = " ".join(f"{call}!" for call in ids)
    results = " ".join(f"{call}={number}" for call, number in zip(ids, "123", strict=True))
    assert (found, marks) == ([f"assistant: {calls}", f"tool: {results}"], ())


def test_a_result_without_an_id_belongs_to_the_last_turn_with_an_open_call() -> None:
    interrupted: list[_Said] = [("assistant", (_call(""),)), ("user", (_said("go on"),)), ("assistant", (_call(""),))]
    found, _ = _turns(*interrupted, ("tool", (_result("", "r"),)))
    assert found[1] == "tool: unnamed_call_1=[no output]"
    assert found[-1] == "tool: unnamed_call_2=r"


def test_no_two_calls_get_one_id() -> None:
    found, _ = _turns(("assistant", (_call("a_1"), _call("a"), _call("a"), _call("unnamed_call_1"), _call(""))))
    assert found[0] == "assistant: a_1! a! a_2! unnamed_call_1! unnamed_call_2!"


@pytest.mark.parametrize("id", ["a", ""])
def test_many_calls_and_results_take_linear_time(id: str) -> None:
    began, count = time.process_time(), 20_000
    made: list[_Said] = [("assistant", (_call(id, f"f{number}"),)) for number in range(count)]
    results: list[_Said] = [("tool", (_result(id, "x", f"f{number}"),)) for number in reversed(range(count))]
    found, _ = _turns(*made, *results)
    assert len(found) == 2
    assert time.process_time() - began < 5


def test_calls_in_two_messages_one_after_the_other_are_parallel() -> None:
    made: list[_Said] = [("assistant", (_said("x"),)), ("assistant", (_call("a"),)), ("assistant", (_call("b"),))]
    found, _ = _turns(*made, ("tool", (_result("a"),)), ("tool", (_result("b"),)))
    assert found == ["assistant: x a! b!", "tool: a=a b=b"]


def test_a_signed_thought_begins_a_turn_of_its_own() -> None:
    signed = ThoughtPart(name="t", signed=(rawjson.raw({}),))
    found, _ = _turns(("assistant", (_call("a"),)), ("assistant", (signed, _call("b"))))
    assert found == ["assistant: a!", "tool: a=[no output]", "assistant: ? b!", "tool: b=[no output]"]


def test_a_result_keeps_its_images_and_whether_the_tool_failed() -> None:
    transcript = Transcript()
    transcript.add("assistant", [_call("a")])
    image = MediaPart(type="image/png", data="AA", param="x")
    transcript.add("user", [ResultPart(call_id="a", parts=(image,), failed=True)])
    expected = ResultPart(call_id="a", name="f", parts=(image,), failed=True)
    assert transcript.turns[1] == Turn(role="tool", blocks=(expected,))


@pytest.mark.parametrize(
    ("given", "found"), [('{"a": 1.0}', '{"a": 1.0}'), (' {"a":1}\n', '{"a":1}'), ("", "{}"), ("  ", "{}")]
)
def test_good_arguments_keep_their_bytes(given: str, found: str) -> None:
    transcript = Transcript()
    assert bytes(transcript.arguments(given.encode())) == found.encode()
    assert transcript.marks == ()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ('{"path": "a.txt", "content": "abc', {"invalid_arguments": '{"path": "a.txt", "content": "abc'}),
        ("null", {}),
        ("[]", {}),
        ('"x"', {"invalid_arguments": '"x"'}),
        ('{"a":1}{"b":2}', {"invalid_arguments": '{"a":1}{"b":2}'}),
        ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ("[1]", {"invalid_arguments": "[1]"}),
        ("3", {"invalid_arguments": "3"}),
        ("true", {"invalid_arguments": "true"}),
        ("{'a': 1}", {"invalid_arguments": "{'a': 1}"}),
        ('```json\n{"a": 1}\n```', {"invalid_arguments": '```json\n{"a": 1}\n```'}),
        ('{"a": NaN}', {"a": None}),
        ('{"a": 1,}', {"invalid_arguments": '{"a": 1,}'}),
        ("{" * 100_000, {"invalid_arguments": "{" * 100_000}),
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
        ('"{\\"a\\": \\"\\\\ud83d\\"}"', {"a": "\ufffd"}),
        ('{"a": "\n' + "x" * 2**20 + '"}', {"invalid_arguments": '{"a": "\n' + "x" * 2**20 + '"}'}),
    ],
)
def test_other_arguments_become_an_object_that_says_the_same(given: str, found: Any) -> None:
    transcript = Transcript()
    assert rawjson.value(transcript.arguments(given.encode())) == found
    assert transcript.marks == ("tool_arguments_repaired",)
