"""A conversation keeps the API's rules: taking turns, results first, nothing empty, thoughts where they were."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.domain.conversation import MediaPart, ResultPart, TextPart, Turn
from gateway.upstream.anthropic.messages import Dialogue, blocks_of, result_block
from gateway.upstream.translation import conversation_of
from tests.cases.conversations import PIXEL, TOOLS_AND_IMAGE, call
from tests.refusals import refusal_of
from tests.upstream.makers import recall_of, translated

THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "S"}
LOOK = {"role": "assistant", "content": "I look.", "tool_calls": [call("t1", "f", "{}"), call("t2", "f", "{}")]}
DONE = {"role": "assistant", "content": "done"}
RESULTS = [{"role": "tool", "tool_call_id": id, "content": id} for id in ("t1", "t2")]


def _turns(body: object) -> tuple[Turn, ...]:
    return conversation_of(translated(body)).turns


def _dialogue(*messages: Any, kept: Mapping[str, bytes] = {}, inside: bool = False) -> Dialogue:
    turns = _turns({"messages": messages})
    return Dialogue(turns, recall_of(kept), system_messages=inside)


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
    kept = {"t1": msgspec.json.encode([THOUGHT]), "t2": msgspec.json.encode([THOUGHT, THOUGHT])}
    talk = [{"role": "user", "content": "a"}, LOOK, *RESULTS]
    kinds = ["thinking", "text", "tool_use", "thinking", "thinking", "tool_use"]
    assert _kinds(_messages(*talk, kept=kept)[1]) == kinds
    assert _kinds(_messages(*talk, {"role": "user", "content": "a reminder"}, kept=kept)[1]) == kinds
    later = _messages(*talk, DONE, {"role": "user", "content": "b"}, kept=kept)
    assert _kinds(later[1]) == ["text", "tool_use", "tool_use"]


def test_lost_thoughts_are_reported() -> None:
    talk = [{"role": "user", "content": "a"}, LOOK, *RESULTS]
    assert _dialogue(*talk).thoughtless
    assert _dialogue(*talk, {"role": "user", "content": "a reminder"}).thoughtless
    assert not _dialogue(*talk, DONE, {"role": "user", "content": "b"}).thoughtless
    begun = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert _dialogue(*begun).thoughtless
    assert not _dialogue(begun[0], {**begun[1], "thinking_blocks": [THOUGHT]}).thoughtless
    assert not _dialogue(talk[0], {**LOOK, "thinking_blocks": [THOUGHT]}, *RESULTS).thoughtless


def test_a_loop_that_began_with_a_thought_goes_on_thinking() -> None:
    """A model that thinks once a turn calls more tools without another thought."""
    kept = {"t1": msgspec.json.encode([THOUGHT])}
    more = [
        {"role": "assistant", "tool_calls": [call("t3", "look", "{}")]},
        {"role": "tool", "tool_call_id": "t3", "content": "c"},
    ]
    talk = [{"role": "user", "content": "a"}, LOOK, *RESULTS, *more, *more]
    assert not _dialogue(*talk, kept=kept).thoughtless
    assert not _dialogue(talk[0], {**LOOK, "thinking_blocks": [THOUGHT]}, *RESULTS, *more).thoughtless


def test_a_loop_that_began_without_a_thought_stays_without() -> None:
    kept = {"t3": msgspec.json.encode([THOUGHT])}
    more = [{"role": "assistant", "tool_calls": [call("t3", "look", "{}")]}, {"role": "tool", "tool_call_id": "t3"}]
    assert _dialogue({"role": "user", "content": "a"}, LOOK, *RESULTS, *more, kept=kept).thoughtless


def test_the_result_of_a_failed_tool_is_marked() -> None:
    assert result_block(_tool_result(_block_text("no such file"), failed=True))["is_error"] is True
    assert "is_error" not in result_block(_tool_result(_block_text("Error: no such file")))


def test_ids_and_names_that_do_not_fit_are_changed_on_both_sides() -> None:
    talk = [{"role": "assistant", "tool_calls": [call("a|b", "x.y", "{}")]}, {"role": "tool", "tool_call_id": "a|b"}]
    found = _messages({"role": "user", "content": "a"}, *talk)
    use, result = found[1]["content"][0], found[2]["content"][0]
    assert use["id"] == result["tool_use_id"]
    assert (use["id"][:4], use["name"][:4]) == ("a_b_", "x_y_")


def test_texts_keep_their_escapes() -> None:
    body = '{"messages":[{"role":"user","content":"\\ue83d \\u00e9"}]}'
    assert b"\\ue83d \\u00e9" in rawjson.encode(Dialogue(_turns(body), recall_of(), system_messages=False).messages)


CACHE = msgspec.Raw(b'{"type":"ephemeral"}')


def _block_text(text: str, cache: msgspec.Raw = rawjson.NULL) -> TextPart:
    return TextPart(raw=rawjson.raw(text), cache=cache)


def _tool_result(*parts: TextPart, failed: bool = False) -> ResultPart:
    return ResultPart(call_id="t", parts=parts, failed=failed)


def _plain(value: object) -> object:
    return msgspec.json.decode(rawjson.encode(value))


def test_texts_keep_their_breakpoint_and_blank_ones_are_left_out() -> None:
    found = _plain(blocks_of((_block_text("a", CACHE), _block_text(""), _block_text(" \n"))))
    assert found == [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]


@pytest.mark.parametrize("kind", ["image/jpeg", "image/png", "image/gif", "image/webp"])
def test_an_image_becomes_a_block_with_its_type(kind: str) -> None:
    source = {"type": "base64", "media_type": kind, "data": "AA"}
    assert _plain(blocks_of((MediaPart(type=kind, data="AA", param="x"),))) == [{"type": "image", "source": source}]


def test_an_image_on_the_web_is_fetched_by_anthropic() -> None:
    found = _plain(blocks_of((MediaPart(url="https://h/i.png", param="x", cache=CACHE),)))
    source = {"type": "url", "url": "https://h/i.png"}
    assert found == [{"type": "image", "source": source, "cache_control": {"type": "ephemeral"}}]


def test_documents_become_blocks_by_data_text_or_url() -> None:
    pdf, text = MediaPart(type="application/pdf", data="AA", param="x"), base64.b64encode("né".encode()).decode()
    link = MediaPart(type="application/pdf", url="https://h/a.pdf", param="x")
    found = _plain(blocks_of((pdf, MediaPart(type="text/markdown", data=text, param="x"), link)))
    assert found == [
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "né"}},
        {"type": "document", "source": {"type": "url", "url": "https://h/a.pdf"}},
    ]


def test_what_the_assistant_showed_is_shown_by_the_user() -> None:
    picture, source = MediaPart(type="image/png", data="AA", param="x"), {"type": "base64", "media_type": "image/png"}
    shown = {"type": "image", "source": {**source, "data": "AA"}}
    made = Turn(role="assistant", blocks=(_block_text("a"), picture))
    asked = Turn(role="user", blocks=(_block_text("b"),))
    for turns, roles in (
        ([asked, made, asked], ["user", "assistant", "user"]),
        ([made], ["user", "assistant", "user"]),
    ):
        found = json.loads(rawjson.encode(Dialogue(turns, recall_of(), system_messages=False).messages))
        assert [message["role"] for message in found] == roles
        assert found[2]["content"][0] == shown


@pytest.mark.parametrize(
    ("media", "code"),
    [
        (MediaPart(type="audio/wav", data="AA", param="messages[0].content[1]"), "unsupported_parameter"),
        (MediaPart(type="image/bmp", data="AA", param="messages[0].content[1]"), "unsupported_parameter"),
        (MediaPart(type="video/*", url="https://h/a", param="messages[0].content[1]"), "unsupported_parameter"),
        (MediaPart(type="text/plain", data="/w==", param="messages[0].content[1]"), "invalid_value"),
        (MediaPart(type="text/plain", data="é", param="messages[0].content[1]"), "invalid_value"),
    ],
)
def test_refused_media_are_named(media: MediaPart, code: str) -> None:
    error = refusal_of(blocks_of, (media,))
    assert (error.code, error.param) == (code, "messages[0].content[1]")


def test_a_result_has_its_breakpoint_at_its_end() -> None:
    found = _plain(result_block(_tool_result(_block_text("a", CACHE), _block_text("b"))))
    content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    expected = {"type": "tool_result", "tool_use_id": "t", "content": content, "cache_control": {"type": "ephemeral"}}
    assert found == expected


@pytest.mark.parametrize("text", ["\u00a0", "\u3000 \u2003", "\u2028\f", "\u1680\u205f\u0085", "\u200b", "\u00a0a"])
@pytest.mark.parametrize("escaped", [False, True])
def test_whitespace_of_all_scripts_is_blank(text: str, escaped: bool) -> None:
    raw = msgspec.Raw(json.dumps(text, ensure_ascii=escaped).encode())
    assert bool(blocks_of([TextPart(raw=raw)])) is bool(text.strip())


def test_an_empty_result_has_no_content() -> None:
    assert result_block(_tool_result(_block_text(""))) == {"type": "tool_result", "tool_use_id": "t"}


@pytest.mark.parametrize("last", [{"role": "assistant", "content": "So far "}, LOOK])
def test_a_model_that_continues_no_message_is_told_to_go_on(last: Any) -> None:
    turns = _turns({"messages": [{"role": "user", "content": "a"}, last]})
    found = [
        json.loads(rawjson.encode(Dialogue(turns, recall_of(), system_messages=False, prefill=prefill).messages))[-1]
        for prefill in (False, True)
    ]
    if last is LOOK:  # its results are the user's
        assert found[0] == found[1]
    else:
        assert found == [
            {"role": "user", "content": [_text("Continue.")]},
            {"role": "assistant", "content": [_text("So far")]},
        ]
