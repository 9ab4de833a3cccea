"""Chats become as simple as a model's template demands, and lose no text."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.upstream.message_rules import ALTERNATION, NO_SYSTEM, TEXTS, with_rules
from gateway.upstream.request_rules import rules_in

IMAGE = {"type": "image_url", "image_url": {"url": "https://x/a.png"}}


def _said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def _part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("messages[0].content must be a string", TEXTS),
        ("'messages.0' : for 'role:system' ... [('messages.0.content' : value must be a string)]", TEXTS),
        ("messages[1]: invalid type: sequence, expected a string at line 1", TEXTS),
        ("Invalid type for 'messages[0].content': expected a string, but got an array instead.", TEXTS),
        ('can only concatenate str (not "list") to str', TEXTS),
        ("System role not supported", NO_SYSTEM),
        ("Developer instruction is not enabled for models/gemma-3-27b-it", NO_SYSTEM),
        ("Conversation roles must alternate user/assistant/user/assistant/...", ALTERNATION),
        ("After the optional system message, conversation roles must alternate", ALTERNATION),
    ],
)
def test_a_refusal_names_the_shape(message: str, rule: str) -> None:
    assert rule in rules_in(message)


@pytest.mark.parametrize(
    ("rule", "sent", "kept"),
    [
        (TEXTS, [_said("user", [_part("a"), _part("b")])], [_said("user", "a\n\nb")]),
        (TEXTS, [_said("user", [_part("a"), IMAGE])], [_said("user", [_part("a"), IMAGE])]),
        (TEXTS, [_said("user", "a"), _said("user", []), _said("user", [_part(5)])], None),  # type: ignore[arg-type]
        (
            NO_SYSTEM,
            [_said("system", "s"), _said("user", "u"), _said("developer", "d")],
            [_said("user", "s\n\nd\n\nu")],
        ),
        (NO_SYSTEM, [_said("system", "s")], [_said("user", "s")]),
        (NO_SYSTEM, [_said("system", "s"), _said("user", [IMAGE])], [_said("user", [_part("s"), IMAGE])]),
        (NO_SYSTEM, [_said("assistant", "a"), _said("user", "u")], None),
        (
            ALTERNATION,
            [_said("system", "s"), _said("user", "a"), _said("user", [_part("b")]), _said("assistant", "c")],
            [_said("system", "s"), _said("user", [_part("a"), _part("b")]), _said("assistant", "c")],
        ),
        (
            ALTERNATION,
            [_said("assistant", "a"), _said("assistant", "b")],
            [_said("user", "."), _said("assistant", "a\n\nb")],
        ),
        (
            ALTERNATION,
            [_said("user", "u"), _said("assistant", None, tool_calls=[1]), _said("assistant", None, tool_calls=[2])],
            None,
        ),
    ],
)
def test_messages_get_the_shape(rule: str, sent: list[Any], kept: list[Any] | None) -> None:
    messages = [{name: rawjson.raw(value) for name, value in message.items()} for message in sent]
    fitting = [{name: rawjson.value(raw) for name, raw in message.items()} for message in with_rules(messages, [rule])]
    assert fitting == (sent if kept is None else kept)
