"""Ollama's requests: parameters in the words of chat completions, and messages as a conversation."""

import json
from typing import Any

import msgspec
import pytest

from gateway.domain.answer import SealKind
from gateway.domain.conversation import CallPart, MediaPart, ResultPart, TextPart, ThoughtPart
from gateway.domain.errors import BadRequest
from gateway.domain.media_size import PromptMedia
from gateway.domain.order import Order
from gateway.domain.units import CallId, Millis
from gateway.inbound.api import HttpRequest, InboundRequest
from gateway.inbound.ollama import api
from tests.refusals import refusal_of

TURN = {"role": "user", "content": "Hi"}
PNG = "iVBORw0KGgoAAAAN"


def asked(doc: dict[str, Any]) -> HttpRequest:
    return HttpRequest(body=json.dumps({"model": "m", **doc}).encode(), target="/", headers={})


def chat(doc: dict[str, Any]) -> InboundRequest:
    return api.OLLAMA_CHAT.parse(asked(doc))


def values(request: InboundRequest) -> dict[str, Any]:
    return {name: msgspec.json.decode(raw) for name, raw in request.fields.items()}


def translated(request: InboundRequest) -> Order:
    return api.translate_ollama(api.OLLAMA_CHAT.order(request, CallId("req_0123456789abcdef01234567"), Millis(0)))


@pytest.mark.parametrize(
    ("doc", "param"),
    [
        ({}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{**TURN, "role": "queen"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "content"),
        ({"messages": [TURN], "options": []}, "options"),
        ({"messages": [TURN], "options": {"num_predict": "5"}}, "options.num_predict"),
        ({"messages": [TURN], "format": "xml"}, "format"),
        ({"messages": [TURN], "think": 5}, "think"),
        ({"messages": [{**TURN, "images": "x"}]}, "messages[0].images"),
        ({"messages": [{**TURN, "images": ["?"]}]}, "images"),
        ({"messages": [{**TURN, "images": ["é"]}]}, "images"),
    ],
)
def test_the_error_names_the_field_at_fault(doc: dict[str, Any], param: str) -> None:
    assert refusal_of(chat, doc).param == param


def test_options_have_their_names() -> None:
    options = {"temperature": 0, "repeat_penalty": 1.1, "num_predict": 5, "num_ctx": 9, "stop": ["x"], "top_p": None}
    found = chat({"messages": [TURN], "options": options})
    assert values(found) == {
        "model": "m",
        "stream": True,
        "temperature": 0,
        "repeat_penalty": 1.1,
        "stop": ["x"],
        "max_tokens": 5,
        "messages": [TURN],
    }
    assert (found.stream, found.output_cap) == (True, 5)


@pytest.mark.parametrize(("limit", "cap"), [(5, 5), (5.0, 5), (-1, None), (0, None), (None, None)])
def test_the_output_limit_is_any_number(limit: float | None, cap: int | None) -> None:
    assert chat({"messages": [TURN], "options": {"num_predict": limit}}).output_cap == cap


def test_a_result_finds_its_call_by_id_by_name_or_by_order() -> None:
    calls = [{"id": "a", "function": {"name": "f"}}, {"function": {"name": "g"}}, {"function": {"name": "f"}}]
    results = [{"tool_name": "g"}, {"tool_call_id": "a"}, {"tool_name": "unknown"}]
    messages = [
        {"role": "assistant", "tool_calls": calls},
        *({"role": "tool", **result, "content": str(number)} for number, result in enumerate(results)),
    ]
    order = translated(chat({"messages": messages}))
    assert order.conversation is not None
    turns = order.conversation.turns
    assert [call.id for call in turns[0].calls] == ["a", "unnamed_call_1", "unnamed_call_2"]
    found = [block for block in turns[1].blocks if isinstance(block, ResultPart)]
    assert [(one.call_id, [bytes(part.raw) for part in one.parts if isinstance(part, TextPart)]) for one in found] == [
        ("a", [b'"1"']),
        ("unnamed_call_1", [b'"0"']),
        ("unnamed_call_2", [b'"2"']),
    ]


def test_a_message_becomes_the_blocks_of_a_turn() -> None:
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    messages = [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "What is it?", "images": [PNG]},
        {"role": "assistant", "content": "", "thinking": "Hm", "tool_calls": [call]},
    ]
    order = translated(chat({"messages": messages}))
    assert order.conversation is not None
    assert [turn.role for turn in order.conversation.turns] == ["system", "user", "assistant", "tool"]
    _, user, assistant, _ = order.conversation.turns
    assert user.blocks == (
        TextPart(raw=msgspec.Raw(b'"What is it?"')),
        MediaPart(type="image/png", data=PNG, param="images"),
    )
    assert assistant.blocks == (
        ThoughtPart(text=msgspec.Raw(b'"Hm"'), maker=SealKind.PLAIN, name="messages[].thinking"),
        TextPart(raw=msgspec.Raw(b'""')),
        CallPart(id="unnamed_call_1", name="f", arguments=msgspec.Raw(b'{"a": 1}')),
    )


def test_an_image_is_held_for_as_a_picture() -> None:
    image = PNG * 4000
    found = chat({"messages": [{**TURN, "images": [image]}]})
    assert found.bound.media == PromptMedia(pictures=1, picture_bytes=len(image))
    assert found.bound.tokens < 100
    assert found.prompt_tokens < 1000


def test_roles_may_be_in_capitals() -> None:
    order = translated(chat({"messages": [{"role": "User", "content": "Hi"}]}))
    assert order.conversation is not None
    assert [turn.role for turn in order.conversation.turns] == ["user"]


def test_what_only_a_model_server_can_use_is_named() -> None:
    options = {"num_ctx": 9, "num_predict": 5, "top_p": 1}
    doc = {"messages": [{**TURN, "mood": "good"}], "keep_alive": "5m", "truncate": False, "options": options}
    assert chat(doc).removed == ("keep_alive", "options.num_ctx", "messages[].mood")


def test_a_prompt_is_a_chat_or_a_completion() -> None:
    doc = {"prompt": "p", "stream": False, "think": True, "template": "t", "context": [1]}
    as_chat = api.OLLAMA_GENERATE.parse(asked(doc))
    assert values(as_chat)["messages"] == [{"role": "user", "content": "p", "images": None}]
    assert as_chat.removed == ("template", "context")
    as_completion = api.OLLAMA_GENERATE.parse(asked({**doc, "suffix": "s"}))
    sent = {"model": "m", "stream": False, "prompt": "p", "suffix": "s", "max_tokens": 4096}
    assert (values(as_completion), as_completion.removed) == (sent, ("think", "template", "context"))
    as_completion = api.OLLAMA_GENERATE.parse(asked({"prompt": "p", "raw": True, "system": "s", "logprobs": True}))
    assert as_completion.removed == ("system", "logprobs")


def test_texts_to_embed() -> None:
    doc = {"input": ["a"], "dimensions": 8, "truncate": True, "keep_alive": "5m", "options": {"num_ctx": 9}}
    found = api.OLLAMA_EMBED.parse(asked(doc))
    assert values(found) == {"model": "m", "input": ["a"], "encoding_format": "float", "dimensions": 8}
    assert found.removed == ("keep_alive", "options.num_ctx")
    with pytest.raises(BadRequest):
        api.OLLAMA_EMBEDDINGS.parse(asked({"input": ["a"]}))
