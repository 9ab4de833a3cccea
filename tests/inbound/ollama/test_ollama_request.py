"""Ollama's requests in the words of OpenAI's APIs."""

from typing import Any

import pytest

from gateway.domain.errors import BadRequest
from gateway.inbound.ollama.request import (
    GivenDoc,
    chat_request,
    completion_request,
    embedding_request,
    generate_request,
)

TURN = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("doc", "param"),
    [
        ({}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "content"),
        ({"messages": [TURN], "options": []}, "options"),
        ({"messages": [TURN], "format": "xml"}, "format"),
        ({"messages": [TURN], "think": "a lot"}, "think"),
        ({"messages": [{**TURN, "images": "x"}]}, "images"),
        ({"messages": [{**TURN, "images": ["?"]}]}, "images"),
    ],
)
def test_the_error_names_the_field_at_fault(doc: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        chat_request({"model": "m", **doc})
    assert caught.value.param == param


def test_options_have_their_names() -> None:
    options = {"temperature": 0, "repeat_penalty": 1.1, "num_predict": 5, "num_ctx": 9, "stop": ["x"], "top_p": None}
    found = chat_request({"model": "m", "messages": [TURN], "options": options})
    assert found == {
        "model": "m",
        "stream": True,
        "temperature": 0,
        "repeat_penalty": 1.1,
        "stop": ["x"],
        "max_tokens": 5,
        "messages": [TURN],
    }


def test_a_result_finds_its_call_by_id_by_name_or_by_order() -> None:
    calls = [{"id": "a", "function": {"name": "f"}}, {"function": {"name": "g"}}, {"function": {"name": "f"}}]
    results = [{"tool_name": "g"}, {"tool_call_id": "a"}, {}, {}]
    messages = [{"role": "assistant", "tool_calls": calls}, *({"role": "tool", **result} for result in results)]
    found = chat_request({"model": "m", "messages": messages})["messages"]
    assert [call["id"] for call in found[0]["tool_calls"]] == ["a", "call_2", "call_3"]
    assert [one["tool_call_id"] for one in found[1:]] == ["call_2", "a", "call_3", "call_0"]


def test_what_only_a_model_server_can_use_is_named() -> None:
    options = {"num_ctx": 9, "num_predict": 5, "top_p": 1}
    doc = GivenDoc({"model": "m", "messages": [TURN], "keep_alive": "5m", "truncate": False, "options": options})
    chat_request(doc)
    assert doc.unread == ("keep_alive", "options.num_ctx")


def test_a_prompt_is_a_chat_or_a_completion() -> None:
    doc = {"model": "m", "prompt": "p", "suffix": "s", "stream": False, "think": True, "template": "t", "context": [1]}
    assert generate_request(doc)["messages"] == [{"role": "user", "content": "p"}]
    assert completion_request(doc) == {"model": "m", "stream": False, "prompt": "p", "suffix": "s"}


def test_texts_to_embed() -> None:
    assert embedding_request({"model": "m", "input": ["a"], "dimensions": 8, "truncate": True}, single=False) == {
        "model": "m",
        "input": ["a"],
        "encoding_format": "float",
        "dimensions": 8,
    }
    with pytest.raises(BadRequest):
        embedding_request({"model": "m", "input": ["a"]}, single=True)
