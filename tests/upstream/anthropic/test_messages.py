"""A conversation keeps the API's rules: taking turns, results first, nothing empty, thoughts where they were."""

import json
from typing import Any

import msgspec

from gateway.upstream import rawjson
from gateway.upstream.anthropic.messages import Dialogue, dialogue
from gateway.upstream.translate.conversation import read_turns
from gateway.upstream.translate.request import read_request
from gateway.upstream.translate.tool_names import Signatures
from tests.cases.conversations import PIXEL, TOOLS_AND_IMAGE, call
from tests.upstream.makers import order

THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "S"}
LOOK = {"role": "assistant", "content": "I look.", "tool_calls": [call("t1", "f", "{}"), call("t2", "f", "{}")]}
RESULTS = [{"role": "tool", "tool_call_id": id, "content": id} for id in ("t1", "t2")]


def _dialogue(*messages: Any, signatures: Signatures | None = None, inside: bool = False) -> Dialogue:
    turns = read_turns(read_request(order({"messages": messages}).fields).messages)
    return dialogue(turns, signatures or Signatures(), system_inside=inside)


def _messages(*messages: Any, **more: Any) -> Any:
    return json.loads(rawjson.encode(_dialogue(*messages, **more).messages))


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _result(id: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": [_text(text)]}


def _kinds(message: Any) -> list[str]:
    return [block["type"] for block in message["content"]]


def test_a_whole_conversation() -> None:
    found = _dialogue(*TOOLS_AND_IMAGE["messages"])
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    uses = [
        {"type": "tool_use", "id": "call_1", "name": "locate", "input": {"hint": "sea"}},
        {"type": "tool_use", "id": "call_2", "name": "weather", "input": {"city": "Oslo"}},
    ]
    results = [_result("call_1", "Oslo harbour"), _result("call_2", '{"celsius": 4}')]
    assert json.loads(rawjson.encode(found.system)) == [_text("Be brief."), _text("Use the tools.")]
    assert json.loads(rawjson.encode(found.messages)) == [
        {"role": "user", "content": [_text("Where is this, and how warm?"), image]},
        {"role": "assistant", "content": uses},
        {"role": "user", "content": [*results, _text("And tomorrow?")]},
    ]


def test_one_role_speaks_once_and_results_come_first() -> None:
    found = _messages(
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        LOOK,
        RESULTS[0],
        {"role": "user", "content": "c"},
        RESULTS[1],
    )
    assert [message["role"] for message in found] == ["user", "assistant", "user"]
    assert found[2]["content"] == [_result("t1", "t1"), _result("t2", "t2"), _text("c")]


def test_what_is_empty_is_filled_or_left_out() -> None:
    found = _messages(
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "So: \n"},
    )
    assert found == [
        {"role": "user", "content": [_text(".")]},
        {"role": "assistant", "content": [_text("Hello")]},
        {"role": "user", "content": [_text(".")]},
        {"role": "assistant", "content": [_text("So:")]},
    ]


def test_system_words_alone_are_followed_by_a_user() -> None:
    assert _messages({"role": "system", "content": "S"}) == [{"role": "user", "content": [_text(".")]}]


def test_later_system_words_go_to_the_top() -> None:
    found = _dialogue({"role": "user", "content": "a"}, {"role": "system", "content": "S"})
    assert (len(found.system), len(found.messages)) == (1, 1)


def test_or_stay_after_the_user_where_the_model_takes_them() -> None:
    talk = [
        {"role": "user", "content": "a"},
        {"role": "system", "content": "S"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
        {"role": "system", "content": "T"},
    ]
    found = _dialogue(*talk, inside=True)
    assert json.loads(rawjson.encode(found.messages)) == [
        {"role": "user", "content": [_text("a"), _text("b")]},
        {"role": "system", "content": [_text("S")]},
        {"role": "assistant", "content": [_text("c")]},
    ]
    assert json.loads(rawjson.encode(found.system)) == [_text("T")]


def test_thoughts_sent_back_go_first_and_untouched() -> None:
    found = _messages({"role": "user", "content": "a"}, {**LOOK, "thinking_blocks": [THOUGHT, {"type": "odd"}]})
    assert found[1]["content"][0] == THOUGHT
    assert _kinds(found[1]) == ["thinking", "text", "tool_use", "tool_use"]


def test_thoughts_not_sent_back_are_recalled_for_the_running_loop() -> None:
    signatures = Signatures()
    signatures.remember("t1", msgspec.json.encode([THOUGHT]))
    signatures.remember("t2", msgspec.json.encode([THOUGHT, THOUGHT]))
    talk = [{"role": "user", "content": "a"}, LOOK, *RESULTS]
    kinds = ["thinking", "text", "tool_use", "thinking", "thinking", "tool_use"]
    assert _kinds(_messages(*talk, signatures=signatures)[1]) == kinds
    later = _messages(*talk, {"role": "user", "content": "b"}, signatures=signatures)
    assert _kinds(later[1]) == ["text", "tool_use", "tool_use"]


def test_lost_thoughts_are_told() -> None:
    talk = [{"role": "user", "content": "a"}, LOOK, *RESULTS]
    assert _dialogue(*talk).thoughtless
    assert not _dialogue(*talk, {"role": "user", "content": "b"}).thoughtless
    assert not _dialogue(talk[0], {**LOOK, "thinking_blocks": [THOUGHT]}, *RESULTS).thoughtless


def test_ids_and_names_that_do_not_fit_are_changed_on_both_sides() -> None:
    talk = [{"role": "assistant", "tool_calls": [call("a|b", "x.y", "{}")]}, {"role": "tool", "tool_call_id": "a|b"}]
    found = _messages({"role": "user", "content": "a"}, *talk)
    use, result = found[1]["content"][0], found[2]["content"][0]
    assert use["id"] == result["tool_use_id"]
    assert (use["id"][:4], use["name"][:4]) == ("a_b_", "x_y_")


def test_texts_keep_their_escapes() -> None:
    body = '{"messages":[{"role":"user","content":"\\ue83d \\u00e9"}]}'
    turns = read_turns(read_request(order(body).fields).messages)
    assert b"\\ue83d \\u00e9" in rawjson.encode(dialogue(turns, Signatures(), system_inside=False).messages)
