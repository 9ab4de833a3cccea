"""Whatever API a request is of, the same rules change it."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.upstream.request_rules import fit_request, rules_in
from tests.upstream.makers import order


@pytest.mark.parametrize(
    ("rule", "sent", "changed"),
    [
        ("reasoning_effort in low,high", {"reasoning_effort": "max"}, ["reasoning_effort"]),
        ("reasoning_effort in low,high", {"reasoning": {"effort": "max"}}, ["reasoning.effort"]),
        ("reasoning_effort in low,high", {"output_config": {"effort": "max"}}, ["output_config.effort"]),
        ("range of temperature 0.01 1", {"temperature": 2}, ["temperature"]),
        ("messages[].image", {"messages": [{"content": [{"type": "image"}]}]}, ["messages[].image"]),
        ("thinking=adaptive", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, ["thinking.budget_tokens"]),
        ("thinking=enabled", {"thinking": {"type": "adaptive"}}, []),
        ("thinking=enabled", {"thinking": {"type": "adaptive"}, "max_tokens": 1024}, ["thinking"]),
        ("messages[].tool_call_id=short", {"messages": [{"tool_call_id": "call_1"}]}, []),
        ("null", {"tools": []}, []),
        ("messages[].role", {"messages": [{"role": "developer"}]}, []),
        ("tools[].input_schema=2020-12", {"tools": [{"input_schema": {"type": "any"}}]}, []),
    ],
)
def test_a_rule_changes_what_it_is_about(rule: str, sent: dict[str, Any], changed: list[str]) -> None:
    fields, names = fit_request(order(sent).fields, [rule])
    assert names == changed
    assert fields != order(sent).fields
    others = {"model": rawjson.raw("m"), "tools": rawjson.raw([{"type": "function"}])}
    assert fit_request(others, [rule]) == (others, [])


@pytest.mark.parametrize(
    ("rule", "sent", "thinking", "effort"),
    [
        ("thinking=adaptive", {"type": "enabled", "budget_tokens": 4096}, {"type": "adaptive"}, "medium"),
        ("thinking=enabled", {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 4096}, None),
        ("thinking=enabled", {"type": "disabled"}, {"type": "disabled"}, None),
    ],
)
def test_a_model_thinks_in_the_form_that_it_takes(rule: str, sent: Any, thinking: Any, effort: str | None) -> None:
    fields, _ = fit_request(order({"thinking": sent, "max_tokens": 32_000}).fields, [rule])
    assert rawjson.value(fields["thinking"]) == thinking
    assert rawjson.at(fields.get("output_config"), "effort") == effort


@pytest.mark.parametrize(
    ("message", "rules"),
    [
        (
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive"',
            ["thinking=adaptive"],
        ),
        ("thinking: Input tag 'adaptive' found using 'type' does not match any of the expected", ["thinking=enabled"]),
        ("adaptive thinking is not supported on this model", ["thinking=enabled"]),
        ("Stream must be set to true", ["stream=true"]),
        ("parameter.enable_thinking must be set to false for non-streaming calls", ["stream=true"]),
        ("This model only support stream mode, please enable the stream parameter", ["stream=true"]),
        ("Your organization must be verified to stream this model.", ["stream=false"]),
        ("This server does not support streaming.", ["stream=false"]),
        ("It does not support stream_options", []),
        ("Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", ["messages[].tool_call_id=short"]),
        ("Invalid 'messages[1].tool_calls[0].id': string too long.", ["messages[].tool_call_id=short"]),
        ("Invalid 'input[1].call_id': string too long.", ["messages[].tool_call_id=short"]),
        ("messages.1.content.0.tool_use.id: String should match pattern", ["messages[].tool_call_id=short"]),
        ("'messages.2.member.toolUse.toolUseId' failed to satisfy constraint", ["messages[].tool_call_id=short"]),
    ],
)
def test_a_refusal_names_the_rule(message: str, rules: list[str]) -> None:
    assert rules_in(message) == rules


@pytest.mark.parametrize(("rule", "stream"), [("stream=true", True), ("stream=false", False)])
def test_a_server_that_answers_in_one_form_alone_gets_requests_for_it(rule: str, *, stream: bool) -> None:
    fields, changed = fit_request(order({"stream": not stream}).fields, [rule])
    assert (rawjson.value(fields["stream"]), changed) == (stream, [])


@pytest.mark.parametrize(
    ("rule", "sent", "kept"),
    [
        (
            "messages[].tool_calls[].index",
            {"messages": [{"tool_calls": [{"id": "c", "index": 0}, {"id": "d"}]}, {"content": "index"}]},
            {"messages": [{"tool_calls": [{"id": "c"}, {"id": "d"}]}, {"content": "index"}]},
        ),
        (
            "messages[].content[].cache_control",
            {
                "messages": [
                    {"content": [{"text": "a", "cache_control": {}}]},
                    {"content": ["odd", {"cache_control": 1}]},
                ]
            },
            {"messages": [{"content": [{"text": "a"}]}, {"content": ["odd", {"cache_control": 1}]}]},
        ),
        (
            "tools[].strict",
            {"tools": [{"strict": True, "function": {"name": "f", "strict": None}}]},
            {"tools": [{"function": {"name": "f"}}]},
        ),
        ("tools[].strict", {"tools": [{"function": "odd"}], "messages": []}, None),
        ("tools[].strict", {"messages": []}, None),
        ("output_config.effort", {"output_config": {"effort": "low"}}, {}),
        ("seed", {"seed": 1, "n": 1}, {"n": 1}),
    ],
)
def test_the_field_is_left_out(rule: str, sent: dict[str, Any], kept: dict[str, Any] | None) -> None:
    fields, lost = fit_request({name: rawjson.raw(value) for name, value in sent.items()}, ("user", rule))
    assert lost == ([] if kept is None else [rule])
    assert {name: rawjson.value(raw) for name, raw in fields.items()} == (sent if kept is None else kept)
