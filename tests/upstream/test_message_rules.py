"""A refusal says what a template or a model demands of messages."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.upstream.message_rules import NO_NULLS, RULES, object_text, with_rules
from gateway.upstream.request_rules import rules_in


@pytest.mark.parametrize(
    ("message", "rules"),
    [
        ("System message must be at the beginning.", ["messages[].role=system"]),
        ("Unexpected role 'user' after role 'tool'", ["messages[].role=assistant"]),
        ("The last message must have role `user`", ["messages[].role=user"]),
        ("gpt-oss-120b is not a multimodal model", ["messages[].image"]),
        ("Model does not support images. Please use a model that does.", ["messages[].image"]),
        ("grok-3 does not support image inputs (request id: 7)", ["messages[].image"]),
        ("This model does not support image input", ["messages[].image"]),
        ("This model does not support image URLs; send base64", []),
        ("unknown variant `image`, expected one of `text`, `tool_use`", ["messages[].image"]),
        ("unknown variant `image`, expected one of `text`, `image_url`", []),
        ("tools[0].type: unknown variant `image_generation`, expected `function`", []),
        ("It does not support images larger than 5 MB", []),
        ("does not support image/heic", []),
        ("messages must not be empty", []),
        ("Invalid request: the message at position 1 with role 'assistant' must not be empty", ["messages[].text"]),
        ("No user query found in messages.", ["messages[].role=user"]),
        ("Image URLs are only allowed for messages with role 'user', but this message", ["messages[].image=user"]),
    ],
)
def test_a_refusal_names_rules(message: str, rules: list[str]) -> None:
    assert rules_in(message) == rules


def test_an_image_is_base64_alone_for_glm() -> None:
    assert rules_in("图片输入格式/解析错误") == ["messages[].image=base64"]
    sent = [
        {"type": "image_url", "image_url": {"url": url}} for url in ("data:image/png;base64,AAAA", "https://x/a.png")
    ]
    message = {"role": rawjson.raw("user"), "content": rawjson.raw(sent)}
    (fitting,) = with_rules([message], ["messages[].image=base64"])
    assert [part["image_url"]["url"] for part in rawjson.value(fitting["content"])] == ["AAAA", "https://x/a.png"]


def test_images_of_results_become_the_users_after_all_results() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    results = [[{"type": "text", "text": "a"}, image], [image], "b"]
    sent = [{"role": "tool", "content": content} for content in results] + [{"role": "assistant", "content": "c"}]
    fitting = with_rules(
        [{name: rawjson.raw(each) for name, each in said.items()} for said in sent], ["messages[].image=user"]
    )
    assert [rawjson.value(rawjson.raw(said)) for said in fitting] == [
        {"role": "tool", "content": [{"type": "text", "text": "a"}]},
        {"role": "tool", "content": [{"type": "text", "text": "[image]"}]},
        {"role": "tool", "content": "b"},
        {"role": "user", "content": [image, image]},
        {"role": "assistant", "content": "c"},
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [({"a": 1}, '{"a":1}'), ('{"a": 1}', '{"a": 1}'), (None, "{}"), ("[1", '{"invalid_arguments":"[1"}')],
)
def test_arguments_become_the_text_of_an_object_and_lose_nothing(given: Any, text: str) -> None:
    assert object_text(given) == text


@pytest.mark.parametrize("odd", [None, 5, "", {}, [], [5], [None], ["x"], [[]], [{"extra_content": 5}, 5]])
def test_odd_calls_are_left_to_the_upstream(odd: Any) -> None:
    fields = {"role": "assistant", "content": odd, "tool_calls": odd}
    message = {name: rawjson.raw(value) for name, value in fields.items()}
    fitting = with_rules([message], RULES.keys() - {NO_NULLS})
    assert [said["tool_calls"] for said in fitting if "tool_calls" in said] == [message["tool_calls"]]
