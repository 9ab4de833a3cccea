"""Estimates are near the truth, linear, and never fooled by what is not text."""

import json
import time
from typing import Any

import msgspec
import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.estimate import (
    BOUND_FETCHED_TOKENS,
    BOUND_MEDIA_TOKENS,
    BOUND_TOOL_TOKENS,
    BOUND_TOOLS_TOKENS,
    IMAGE_TOKENS,
    SAMPLES,
    WINDOW,
    Calibration,
    estimate,
    plain_escapes,
    prompt_bound,
    prompt_tokens,
    refuse_repeated,
    tool_calls_bound,
)
from gateway.domain.long_strings import STEP

ENGLISH = (
    "The quick brown fox jumps over the lazy dog. Reading a ledger takes patience, and writing one takes more: every"
    " number has a place, and every place has a reason. When the bridge fell, nobody asked who had laughed."
)
IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 500_000


def _fields(**body: Any) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(json.dumps(body).encode(), type=dict[str, msgspec.Raw])


def _user(content: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": content}]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (ENGLISH, 41),
        ('{"name": "toll", "value": [1, 2, 3], "ok": true}', 18),
        ("def f(x: int) -> int:\n    return x + 1\n", 15),
        ("Die Brücke über den Fluss war gefallen, und niemand lachte mehr.", 13),
        ("桥在冬天倒塌了", 4),
        ("мост упал зимой", 5),
    ],
)
def test_keeps_its_calibration(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


@pytest.mark.parametrize(("text", "tokens"), [("", 0), (" ", 1), ("a", 1), ("\n", 2), ("🙂", 1), ("\ud83d", 1)])
def test_small_texts(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


def test_a_long_text_is_sampled_and_about_the_same() -> None:
    text = ENGLISH * (4 * WINDOW * SAMPLES // len(ENGLISH))
    assert abs(estimate(text) / (estimate(ENGLISH) * len(text) / len(ENGLISH)) - 1) < 0.03


def test_a_prompt_is_its_texts_and_a_little_for_each_message() -> None:
    assert prompt_tokens(_fields(messages=_user(ENGLISH))) == estimate(ENGLISH) + 4 + 3


def test_parts_names_calls_and_tools_are_counted() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"query":"bridge"}'}}
    small = prompt_tokens(_fields(messages=_user([{"type": "text", "text": "Hi"}])))
    with_call = prompt_tokens(
        _fields(messages=[*_user("Hi"), {"role": "assistant", "content": None, "tool_calls": [call]}])
    )
    with_tools = prompt_tokens(
        _fields(messages=_user("Hi"), tools=[{"type": "function", "function": {"name": "find"}}])
    )
    assert small < with_call
    assert small < with_tools


@pytest.mark.parametrize("url", [IMAGE, "https://example.test/a.png"])
def test_an_image_is_flat(url: str) -> None:
    parts = [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": url, "detail": "high"}}]
    began = time.perf_counter()
    tokens = prompt_tokens(_fields(messages=_user(parts)))
    assert tokens == 1 + IMAGE_TOKENS + 4 + 3
    assert time.perf_counter() - began < 1


def test_audio_and_documents_count_by_their_size() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "A" * 10_000, "format": "wav"}}
    file = {"type": "file", "file": {"file_data": "data:application/pdf;base64," + "A" * 10_000, "filename": "a.pdf"}}
    assert 100 <= prompt_tokens(_fields(messages=_user([audio]))) - 7 <= 110
    assert 100 <= prompt_tokens(_fields(messages=_user([file]))) - 7 <= 110


def test_text_that_mentions_data_is_text() -> None:
    text = "data: the plural of datum; " * 50
    assert prompt_tokens(_fields(messages=_user(text))) > 250


def test_the_bound_is_a_third_of_the_bytes() -> None:
    text = "x" * 9_000
    assert 3_000 < prompt_bound(_fields(messages=_user(text))) < 3_030


def test_the_bound_is_above_the_estimate_for_ordinary_texts() -> None:
    fields = _fields(messages=_user(ENGLISH * 20), tools=[{"x": ENGLISH}])
    assert prompt_bound(fields) > prompt_tokens(fields)


def test_the_bound_of_media_is_flat() -> None:
    parts = [{"type": "image_url", "image_url": {"url": IMAGE}}, {"type": "text", "text": "x" * 300}]
    flat = 100 + BOUND_MEDIA_TOKENS + 4 + 3
    assert flat <= prompt_bound(_fields(messages=_user(parts))) <= flat + 40


IMAGE_PART = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}'


@pytest.mark.parametrize(
    "content",
    [
        b'"content":[{"type":"text","text":"first","text":"last"},%b]',
        b'"content":"first","content":[%b]',
        b'"content":[%b],"content":"last"',
        rb'"content":[%b],"c\u006fntent":"last"',
    ],
)
def test_names_that_come_twice_among_media_are_refused(content: bytes) -> None:
    """One upstream reads the first, another the last: their lengths cannot both be bounded by reading one."""
    fields = {"messages": msgspec.Raw(b'[{"role":"user",%b}]' % (content % IMAGE_PART))}
    with pytest.raises(BadRequest, match="twice"):
        prompt_bound(fields)


def test_of_texts_alone_both_are_bounded() -> None:
    fields = {"messages": msgspec.Raw(b'[{"role":"user","content":"%b","content":"x"}]' % (b"x" * 9000))}
    assert prompt_bound(fields) > 3000


@pytest.mark.parametrize("name", [b"type", b"image_url", b"url", b"data", b"content"])
def test_media_are_found_however_their_names_are_written(name: bytes) -> None:
    messages = b'[{"role":"user","content":[%b]}]' % IMAGE_PART
    escaped = messages.replace(name, rb"\u%04x" % name[0] + name[1:])
    assert escaped != messages
    assert prompt_bound({"messages": msgspec.Raw(escaped)}) > BOUND_MEDIA_TOKENS


def test_calls_of_tools_are_found_however_their_names_are_written() -> None:
    call = rb'[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}]'
    for messages in (
        call,
        call.replace(b"tool_calls", rb"tool\u005Fcalls").replace(b"name", rb"n\u0061me"),
        rb'[{"role":"assistant","function_call":{"name":"f"}}]',
    ):
        assert tool_calls_bound({"messages": msgspec.Raw(messages)}) == BOUND_TOOLS_TOKENS + BOUND_TOOL_TOKENS
    assert tool_calls_bound(_fields(messages=_user("Hi"))) == 0


def test_escapes_of_quotes_stay_as_they_are() -> None:
    assert plain_escapes(rb'"\u0022\u005c\u0041\u000a\u00e4"') == rb'"\u0022\u005cA\u000a\u00e4"'


def test_the_bound_has_a_least_value() -> None:
    assert (prompt_bound({}), prompt_bound(_fields(messages=[]))) == (16, 16)


def test_odd_messages_do_no_harm() -> None:
    odd: list[object] = ["x", None, [1, None, [[]]], [{"content": {"a": [{"b": 1}]}}]]
    for messages in odd:
        assert prompt_tokens(_fields(messages=messages)) >= 3


def test_a_lone_surrogate_is_counted() -> None:
    fields = {"messages": msgspec.Raw(b'[{"role":"user","content":"\\ud83d"}]')}
    assert prompt_tokens(fields) == 1 + 4 + 3


def test_deep_nesting_does_no_harm() -> None:
    fields = {"messages": msgspec.Raw(b'[{"role":"user","content":' + b"[" * 50_000 + b"]" * 50_000 + b"}]")}
    assert prompt_tokens(fields) == 3


def test_calibration_follows_the_truth_slowly() -> None:
    calibration = Calibration()
    for _ in range(50):
        calibration.learn("ch", "m", reported=130, estimated=100)
    assert 128 <= calibration.apply("ch", "m", 100) <= 131
    assert calibration.apply("ch", "other", 100) == 100


def test_calibration_is_bounded_and_ignores_trifles() -> None:
    calibration = Calibration()
    for _ in range(100):
        calibration.learn("ch", "m", reported=10_000, estimated=100)
        calibration.learn("ch", "n", reported=5, estimated=1)
    assert (calibration.apply("ch", "m", 100), calibration.apply("ch", "n", 100)) == (200, 100)


def test_calibration_can_be_forgotten() -> None:
    calibration = Calibration()
    calibration.learn("ch", "m", reported=200, estimated=100)
    calibration.forget("ch")
    assert calibration.apply("ch", "m", 100) == 100


def _document(kind: str, data: str) -> dict[str, object]:
    return {"type": "file", "file": {"file_data": f"data:{kind};base64,{data}", "filename": "a"}}


def test_the_bound_of_documents_and_audio_grows_with_their_size() -> None:
    for part in (
        _document("application/pdf", "A" * 640_000),
        {"type": "input_audio", "input_audio": {"data": "A" * 640_000}},
    ):
        assert 10_000 <= prompt_bound(_fields(messages=_user([part]))) <= 10_060


def test_the_bound_of_an_embedded_text_is_that_of_the_text() -> None:
    assert prompt_bound(_fields(messages=_user([_document("text/plain", "A" * 40_000)]))) > 10_000


def test_a_text_where_media_would_be_is_a_text() -> None:
    part = {"type": "file", "file": {"file_data": "Once upon a time " * 1000}}
    assert prompt_bound(_fields(messages=_user([part]))) > 5_000


def test_the_bound_holds_what_vendors_say_of_tools() -> None:
    plain = prompt_bound(_fields(messages=_user("Hi")))
    for name in ("tools", "functions", "response_format"):
        assert prompt_bound(_fields(messages=_user("Hi"), **{name: {}})) >= plain + BOUND_TOOLS_TOKENS - 10


def test_other_fields_may_be_shown_to_the_model() -> None:
    fields = _fields(messages=_user("Hi" * 30), documents="x" * 2998, seed=1)
    assert prompt_bound(fields, ["documents"]) == 1000 + prompt_bound(_fields(messages=_user("Hi" * 30)))


@pytest.mark.parametrize("shift", range(8))
def test_escapes_of_a_large_text_are_read_wherever_it_is_looked_through_in_steps(shift: int) -> None:
    text = b"x" * (STEP - shift) + b"\\u0022\\u0061" * 3 + b"\\u006" + b"y" * STEP + b"\\u0062\\\\"
    assert plain_escapes(text) == text.replace(b"\\u0061", b"a").replace(b"\\u0062", b"b")


@pytest.mark.parametrize("shift", range(6))
def test_names_in_a_large_text_are_counted_wherever_it_is_looked_through_in_steps(shift: int) -> None:
    text = b'{"a":"' + b"x" * (STEP - 8 - shift) + b'\\\\\\":","b":{"c:":["\\\\",{"d":' + b" " * STEP + b"1}]}}"
    refuse_repeated(4, text)
    with pytest.raises(BadRequest, match="twice"):
        refuse_repeated(3, text)


def test_a_document_that_the_vendor_has_stored_may_be_long() -> None:
    part = {"type": "file", "file": {"file_id": "file-1"}}
    assert prompt_bound(_fields(messages=_user([part]))) > BOUND_FETCHED_TOKENS
    assert prompt_bound(_fields(messages=_user([{"type": "text", "text": json.dumps(part)}]))) < 2000
