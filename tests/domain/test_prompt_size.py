"""The size of a prompt: media and seals are recognized by the objects they are in, and nowhere else."""

import base64
import json
import time
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from gateway.domain.errors import BadRequest
from gateway.domain.estimate import estimate
from gateway.domain.json_elements import elements_of
from gateway.domain.prompt_size import PromptParts, bound_of, prompt_tokens

ENGLISH = (
    "The quick brown fox jumps over the lazy dog. Reading a ledger takes patience, and writing one takes more: every"
    " number has a place, and every place has a reason. When the bridge fell, nobody asked who had laughed."
)
IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 500_000


def total(values: list[msgspec.Raw], schemas: Iterable[msgspec.Raw] = (), model: str = "gpt-4o") -> int:
    """Tokens of texts and media."""
    found = bound_of({str(i): value for i, value in enumerate(values)}, schemas)
    return found.tokens + found.media.bound(model)


def chat_bound(fields: dict[str, msgspec.Raw], others: Iterable[str] = (), model: str = "gpt-4o") -> int:
    """Tokens of a chat's texts and media."""
    schemas = [fields[name] for name in ("tools", "functions", "response_format") if name in fields]
    messages = {name: raw for name, raw in fields.items() if name == "messages"}
    found = bound_of(messages, schemas, {name: fields[name] for name in others})
    return found.tokens + found.media.bound(model)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value, separators=(",", ":")).encode())


def bound(block: object) -> int:
    """Of one block, beyond that of none."""
    return total([raw([block, "x" * 48])]) - total([raw(["x" * 48])])


LONG = "A" * 24_000


def image(media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": LONG}}


URL = "data:image/png;base64," + LONG
SIZES: dict[str, tuple[dict[str, Any], int]] = {
    "a text counts a third of its bytes": ({"type": "text", "text": LONG}, 8000),
    "an image counts the same": (image(), 1500),
    "an image in a URL": ({"type": "input_image", "image_url": URL}, 1500),
    "an image of a chat": ({"type": "image_url", "image_url": {"url": URL}}, 1500),
    "what is beside a medium is text": ({**image(), "title": LONG}, 9500),
    "a text in a source is text": (image("text/plain"), 8000),
    "sealed reasoning counts an eighth": ({"type": "thinking", "thinking": "", "signature": LONG}, 3000),
    "redacted thinking": ({"type": "redacted_thinking", "data": LONG}, 3000),
    "encrypted reasoning": ({"type": "reasoning", "encrypted_content": LONG}, 3000),
    "a text like a medium is text": ({"type": "text", "text": URL}, 8000),
    "output like a medium": ({"type": "function_call_output", "output": URL}, 8000),
    "reasoning like a medium": ({"role": "assistant", "reasoning_content": URL}, 8000),
    "a document of text": (
        {"type": "document", "source": {"type": "text", "media_type": "image/png", "data": LONG}},
        8000,
    ),
    "a sound counts by its size": ({"type": "input_audio", "input_audio": {"data": LONG, "format": "mp3"}}, 750),
    "an embedded text": ({"type": "file", "file": {"file_data": "data:text/plain;base64," + LONG}}, 8000),
    "a text that may be an address": ({"type": "file", "file": {"file_data": "Once upon a time " * 1000}}, 105_667),
    "arguments like a medium": ({"type": "function_call", "arguments": {"image_url": URL}}, 8000),
    "inputs like media": ({"type": "tool_use", "input": {"x": image(), "type": "thinking", "signature": LONG}}, 16_040),
    "an action like a medium": ({"type": "local_shell_call", "action": {"url": URL}}, 8000),
    "a summary of the gateway": ({"type": "compaction", "encrypted_content": "tk1.c." + LONG}, 8000),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_block_counts_as_what_it_is(name: str) -> None:
    block, tokens = SIZES[name]
    assert bound(block) == pytest.approx(tokens, abs=40)


def test_a_repeated_key_may_not_hide_text_behind_an_image() -> None:
    twice = b'[{"type":"base64","media_type":"image/png","data":"QUJD","data":"QUJD"}]'
    with pytest.raises(BadRequest, match="twice"):
        bound_of({"messages": msgspec.Raw(twice)})


def test_tools_cost_a_flat_amount_as_well() -> None:
    tools = raw([{"name": "f"}])
    assert total([raw("x" * 300)], [tools]) - total([raw("x" * 300)]) > 600


@pytest.mark.parametrize("tools", [[], None])
def test_no_tools_cost_nothing(tools: object) -> None:
    assert total([raw("x" * 300)], [raw(tools), raw(None)]) == total([raw("x" * 300)])


def test_a_tool_whose_description_the_vendor_adds_costs_more() -> None:
    tools = raw([{"type": "computer_20250124", "name": "computer"}])
    assert total([raw("Hi")], [tools]) > 600 + 1_200


def test_the_estimate_is_below_the_bound() -> None:
    values = [raw([{"type": "text", "text": "How far is the Moon from here? " * 40}, image()])]
    assert 0 < prompt_tokens({"messages": values[0]}) < total(values)


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "user", "content": ENGLISH}], "tools": [{"name": "f"}]},
        {"messages": [{"role": "user", "content": []}], "system": ENGLISH, "tools": [{"name": "f"}]},
        {"input": [{"role": "user", "content": ENGLISH}], "tools": [{"name": "f"}]},
        {"input": [{"role": "user", "content": []}], "instructions": ENGLISH, "text": [{"name": "f"}]},
        {"messages": [{"role": "user", "content": ENGLISH}], "output_config": [{"name": "f"}]},
    ],
)
def test_requests_of_every_api_are_estimated_alike(fields: dict[str, Any]) -> None:
    assert prompt_tokens(fields_of(**fields)) == estimate(ENGLISH + '\n[{"name": "f"}]') + 4 + 3


def test_a_document_that_the_vendor_fetches_may_be_long() -> None:
    item = {"type": "input_file", "filename": "a.pdf", "file_data": "https://h/a.pdf?signature=" + "a" * 300}
    assert total([raw([item])]) > 99_000
    assert total([raw([{"type": "tool_use", "input": item}])]) < 1000


def fields_of(**body: Any) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(json.dumps(body).encode(), type=dict[str, msgspec.Raw])


def user(content: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": content}]


def test_a_prompt_is_its_texts_and_a_little_for_each_message() -> None:
    assert prompt_tokens(fields_of(messages=user(ENGLISH))) == estimate(ENGLISH) + 4 + 3


def test_parts_names_calls_and_tools_are_counted() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"query":"bridge"}'}}
    small = prompt_tokens(fields_of(messages=user([{"type": "text", "text": "Hi"}])))
    with_call = prompt_tokens(
        fields_of(messages=[*user("Hi"), {"role": "assistant", "content": None, "tool_calls": [call]}])
    )
    with_tools = prompt_tokens(
        fields_of(messages=user("Hi"), tools=[{"type": "function", "function": {"name": "find"}}])
    )
    assert small < with_call
    assert small < with_tools


@pytest.mark.parametrize("url", [IMAGE, "https://example.test/a.png"])
def test_an_image_is_flat(url: str) -> None:
    parts = [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": url, "detail": "high"}}]
    began = time.perf_counter()
    tokens = prompt_tokens(fields_of(messages=user(parts)))
    assert tokens == 1 + 800 + 4 + 3
    assert time.perf_counter() - began < 1


def test_audio_and_documents_count_by_their_size() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "A" * 10_000, "format": "wav"}}
    file = {"type": "file", "file": {"file_data": "data:application/pdf;base64," + "A" * 10_000, "filename": "a.pdf"}}
    assert 100 <= prompt_tokens(fields_of(messages=user([audio]))) - 7 <= 110
    assert 100 <= prompt_tokens(fields_of(messages=user([file]))) - 7 <= 110


def test_a_text_document_that_begins_with_its_address_is_text() -> None:
    source = {
        "type": "text",
        "media_type": "text/plain",
        "data": "https://h.example/page\n" + "How far is the Moon? " * 99,
    }
    assert prompt_tokens(fields_of(messages=user([{"type": "document", "source": source}]))) > 500


def test_text_that_mentions_data_is_text() -> None:
    text = "data: the plural of datum; " * 50
    assert prompt_tokens(fields_of(messages=user(text))) > 250


def test_the_bound_is_above_the_estimate_for_ordinary_texts() -> None:
    fields = fields_of(messages=user(ENGLISH * 20), tools=[{"x": ENGLISH}])
    assert chat_bound(fields) > prompt_tokens(fields)


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
        chat_bound(fields)


def test_both_texts_of_a_repeated_field_are_bounded() -> None:
    fields = {"messages": msgspec.Raw(b'[{"role":"user","content":"%b","content":"x"}]' % (b"x" * 9000))}
    assert chat_bound(fields) > 3000


@pytest.mark.parametrize(
    "text",
    [
        rb'[{"role":"user","content":[{"text":"caf\u00e9","detail":{"type":"image"}}]}]',
        b'{"format" : {"schema" : {"properties" : {"url" : {}, "data" : {}}}}}',
    ],
)
def test_objects_that_no_model_reads_repeat_no_key_however_they_are_written(text: bytes) -> None:
    assert bound_of({}, others={"x": msgspec.Raw(text)}).tokens >= 16


def test_a_key_that_comes_twice_in_an_object_that_no_model_reads_is_refused_among_media() -> None:
    with pytest.raises(BadRequest, match="twice"):
        bound_of({}, others={"x": msgspec.Raw(b'{"format":{"url":1,"url":2}}')})


@pytest.mark.parametrize("comma", [b",", b", "])
def test_a_message_whose_content_is_an_object_may_have_media(comma: bytes) -> None:
    message = b'{"role":"user","content":"Hi"}'
    image = message.replace(b'"Hi"', IMAGE_PART)
    for messages in ([image], [message, image], [image, message]):
        media = bound_of({"messages": msgspec.Raw(b"[" + comma.join(messages) + b"]")}).media
        assert media.pictures == 1


@pytest.mark.parametrize("name", [b"type", b"image_url", b"url", b"data", b"content"])
def test_media_are_found_however_their_names_are_written(name: bytes) -> None:
    messages = b'[{"role":"user","content":[%b]}]' % IMAGE_PART
    escaped = messages.replace(name, rb"\u%04x" % name[0] + name[1:])
    assert escaped != messages
    assert chat_bound({"messages": msgspec.Raw(escaped)}) > 1500


def test_calls_of_tools_are_found_however_their_names_are_written() -> None:
    call = rb'[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}]'
    for messages in (
        call,
        call.replace(b"tool_calls", rb"tool\u005Fcalls").replace(b"name", rb"n\u0061me"),
        rb'[{"role":"assistant","function_call":{"name":"f"}}]',
        rb'[{"role":"assistant","content":"","\u0066unction_call":{"name":"f"}}]',
        rb'[{"type":"custom_tool_call","name":"f"}]',
        rb'[{"type":"shell_call","action":{}}]',
        rb'[{"role":"assistant","tool_calls":[{"type":"function","function":{}}]}]',
        rb'[{"role":"assistant","content":[{"type":"tool_use"}]}]',
    ):
        assert bound_of({"messages": msgspec.Raw(messages)}).calls == 1
    assert bound_of({"messages": raw(user("Hi"))}).calls == 0


_NAMES = ("content", "text", "tool_calls", "function_call", "input", "arguments", "signature", "source", "data", "url")
_SCALARS = st.sampled_from(["hi", "a{b", "x" * 60, "é" * 50, "https://h/a", None, 1])
_LABELED = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "tool_use", "thinking", "reasoning", "custom_tool_call", "image", None]),
        "role": st.sampled_from(["tool", "user"]),
        "call_id": _SCALARS,
    },
)
_VALUES = st.recursive(
    _SCALARS | _LABELED,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(dict.__or__, _LABELED, st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3))
    ),
)


@example([{"arguments": {"call_id": "x" * 60}}], (",", ":"))
@example([{"input": {"type": "tool_use", "tool_calls": [{}]}}], (",", ":"))
@example([{"type": "image", "address": "https://h/a"}], (",", ":"))
@given(_VALUES, st.sampled_from([(",", ":"), (", ", ": ")]))
def test_values_without_media_are_counted_like_all_others(value: object, separators: tuple[str, str]) -> None:
    counted, all_parts = PromptParts(), PromptParts()
    if counted.add_without_media(msgspec.Raw(json.dumps(value, separators=separators).encode()), elements_of(value)):
        all_parts.add([value])
        all_parts.texts = []
    assert counted == all_parts


def test_an_agent_s_conversation_is_counted_without_a_look_at_each_value() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"url":"https://h/a"}'}}
    use = {"type": "tool_use", "id": "2", "name": "f", "input": {"url": "https://h/a", "images": [{"data": "x"}]}}
    thinking = {"type": "thinking", "thinking": "", "signature": LONG}
    messages = [{"role": "assistant", "content": [thinking, use]}, {"role": "assistant", "tool_calls": [call]}]
    assert PromptParts().add_without_media(raw(messages), elements_of(messages))


def test_arguments_within_arguments_are_not_examined_again_for_each() -> None:
    value: object = [{}] * 100
    for _ in range(50):
        value = {"input": value}
    assert not PromptParts().add_without_media(raw(value), elements_of(value))


@pytest.mark.parametrize(
    "call", [b'{"name":"f{"}', rb'{"name":"f\u007b"}', '{"name":"é{"}'.encode(), '{"name":"→{"}'.encode()]
)
def test_an_object_that_comes_twice_is_found_beside_texts_with_braces(call: bytes) -> None:
    message = b'{"content":{"a":1},"content":"","tool_calls":[%b]}' % call
    assert not PromptParts().add_without_media(msgspec.Raw(message), elements_of(msgspec.json.decode(message)))


def test_the_bound_has_a_least_value() -> None:
    assert (chat_bound({}), chat_bound(fields_of(messages=[]))) == (16, 16)


def test_odd_messages_do_no_harm() -> None:
    odd: list[object] = ["x", None, [1, None, [[]]], [{"content": {"a": [{"b": 1}]}}]]
    for messages in odd:
        assert prompt_tokens(fields_of(messages=messages)) >= 3


def test_a_lone_surrogate_is_counted() -> None:
    fields = {"messages": msgspec.Raw(b'[{"role":"user","content":"\\ud83d"}]')}
    assert prompt_tokens(fields) == 1 + 4 + 3


def test_deep_nesting_does_no_harm() -> None:
    fields = {"messages": msgspec.Raw(b'[{"role":"user","content":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}]")}
    assert prompt_tokens(fields) == 3


def test_a_document_among_the_images_of_ollamas_clients_counts_by_its_pages() -> None:
    document = base64.b64encode(b"%PDF" + b"/Type /Page " * 100).decode()
    message = {"role": "user", "content": "", "images": ["data:application/pdf;base64," + document]}
    assert chat_bound(fields_of(messages=[message])) > 100 * 3000
    message["images"] = ["data:text/plain;base64," + "A" * 40_000]
    assert chat_bound(fields_of(messages=[message])) > 10_000


def test_other_fields_may_be_shown_to_the_model() -> None:
    fields = fields_of(messages=user("Hi" * 30), documents="x" * 2998, seed=1)
    assert chat_bound(fields, ["documents"]) == 1000 + chat_bound(fields_of(messages=user("Hi" * 30)))
