"""Requests: every parameter has its counterpart, is named as dropped, or is refused with its name."""

import json
from typing import Any

import pytest

from gateway.domain.channel import ServedModel
from gateway.domain.order import LearnedRefusals, PreparedRequest
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.learned_params import NOTHING
from tests.cases.conversations import call, function
from tests.refusals import refusal_of
from tests.upstream.makers import channel, translated

HI = [{"role": "user", "content": "Hi"}]
OLD, BUDGET, NEW = "claude-3-5-haiku-20241022", "claude-sonnet-4-5", "claude-opus-5-5"
THOUGHTLESS = [
    *HI,
    {"role": "assistant", "tool_calls": [call("t", "f", "{}")]},
    {"role": "tool", "tool_call_id": "t", "content": "x"},
]


def _prepared(
    model: str = BUDGET, learned: LearnedRefusals = NOTHING, base: str = "https://h", **fields: Any
) -> PreparedRequest:
    body = {"model": "m", "messages": HI, **fields}
    return AnthropicDialect().prepare(translated(body), channel(base), ServedModel(name="m", upstream=model), learned)


def _body(model: str = BUDGET, **fields: Any) -> Any:
    return json.loads(_prepared(model, **fields).body)


def _dropped(model: str = BUDGET, **fields: Any) -> tuple[str, ...]:
    return _prepared(model, **fields).dropped


def test_the_least_request() -> None:
    content = [{"type": "text", "text": "Hi"}]
    expected = {"model": BUDGET, "max_tokens": 32_000, "messages": [{"role": "user", "content": content}]}
    assert _body() == expected


@pytest.mark.parametrize("base", ["https://h", "https://h/", "https://h/v1", "https://h/v1/"])
def test_where_it_goes(base: str) -> None:
    prepared = _prepared(base=base)
    assert (prepared.url, prepared.headers["anthropic-version"]) == ("https://h/v1/messages", "2023-06-01")


def test_the_channels_version_wins() -> None:
    versioned = channel("https://h", headers={"Anthropic-Version": "2026-10-21"})
    prepared = AnthropicDialect().prepare(translated(), versioned, ServedModel(name="m"), NOTHING)
    assert "anthropic-version" not in prepared.headers


@pytest.mark.parametrize(
    ("fields", "tokens"), [({"max_tokens": 5}, 5), ({"max_completion_tokens": 7, "max_tokens": 5}, 7), ({}, 32_000)]
)
def test_an_output_limit_is_always_named(fields: dict[str, Any], tokens: int) -> None:
    assert (_body(**fields)["max_tokens"], _body(OLD)["max_tokens"], _body("x")["max_tokens"]) == (tokens, 8192, 8192)


@pytest.mark.parametrize(("stop", "sent"), [("a", ["a"]), (["a", " \n", "b"], ["a", "b"]), (" ", None), (None, None)])
def test_stop_sequences_are_a_list_without_blank_ones(stop: Any, sent: Any) -> None:
    assert _body(stop=stop).get("stop_sequences") == sent


@pytest.mark.parametrize(
    ("model", "fields", "sent", "dropped"),
    [
        (OLD, {"temperature": 1.7, "top_p": 0.5, "top_k": 3}, {"temperature": 1.0, "top_p": 0.5, "top_k": 3}, ()),
        (BUDGET, {"temperature": 0, "top_p": 0.5}, {"temperature": 0}, ("top_p",)),
        (BUDGET, {"top_p": 0.5}, {"top_p": 0.5}, ()),
        (BUDGET, {"temperature": 0.3, "reasoning_effort": "low"}, {}, ("temperature",)),
        (BUDGET, {"temperature": 0.3, "thinking": {"type": "enabled", "budget_tokens": 2000}}, {}, ("temperature",)),
        (NEW, {"temperature": 0.3, "top_k": 3}, {}, ("temperature", "top_k")),
    ],
)
def test_sampling_fits_the_model(
    model: str, fields: dict[str, Any], sent: dict[str, Any], dropped: tuple[str, ...]
) -> None:
    prepared = _prepared(model, **fields)
    found = {
        name: value for name, value in json.loads(prepared.body).items() if name in {"temperature", "top_p", "top_k"}
    }
    assert (found, prepared.dropped) == (sent, dropped)


@pytest.mark.parametrize(
    "fields", [{"messages": THOUGHTLESS}, {"tools": [function("f")], "tool_choice": "required"}, {"max_tokens": 1024}]
)
def test_a_budget_gives_way_to_what_it_does_not_allow(fields: dict[str, Any]) -> None:
    prepared = _prepared(reasoning_effort="high", **fields)
    assert (b"thinking" in prepared.body, prepared.dropped) == (False, ("reasoning_effort",))


def test_thinking_without_a_budget_is_of_a_medium_effort() -> None:
    """DeepSeek, Zhipu and Moonshot write it so; Anthropic requires the budget."""
    assert _body(thinking={"type": "enabled"})["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    high = _body(thinking={"type": "enabled"}, reasoning_effort="high")
    assert high["thinking"] == {"type": "enabled", "budget_tokens": 4096}
    own = {"type": "enabled", "budget_tokens": 1500}
    assert _body(thinking=own)["thinking"] == own
    zhipus = _prepared(thinking={"clear_thinking": False})
    assert (b"thinking" in zhipus.body, zhipus.dropped) == (False, ("thinking",))


def test_anthropics_own_words_win() -> None:
    own = {"thinking": {"type": "disabled"}, "output_config": {"effort": "max"}, "cache_control": {"type": "ephemeral"}}
    body = _body(NEW, reasoning_effort="low", metadata={"user_id": "u"}, **own)
    assert {name: body[name] for name in (*own, "metadata")} == {**own, "metadata": {"user_id": "u"}}


def _form(**schema: Any) -> Any:
    return {"type": "json_schema", "json_schema": {"schema": {"type": "object", **schema}}}


def test_a_schema_is_an_output_format_or_else_a_tool() -> None:
    body = _body(NEW, response_format=_form(properties={}), reasoning_effort="high")
    closed = {"type": "object", "properties": {}, "additionalProperties": False}
    assert body["output_config"] == {"effort": "high", "format": {"type": "json_schema", "schema": closed}}
    assert _body(OLD, response_format=_form())["tool_choice"] == {"type": "tool", "name": "json_response"}


def test_a_schema_that_claude_does_not_compile_is_a_tool() -> None:
    body = _body(response_format=_form(additionalProperties={"type": "string"}))
    (tool,) = body["tools"]
    assert (tool["name"], tool["input_schema"]["additionalProperties"]) == ("json_response", {"type": "string"})
    assert (body["tool_choice"]["name"], "output_config" in body) == ("json_response", False)


def test_refused_strict_schemas_are_not_strict() -> None:
    strict = function("f")
    strict["function"]["strict"] = True
    asked: dict[str, Any] = {"tools": [strict], "response_format": _form(properties={})}
    assert (b'"strict":true' in (sent := _prepared(**asked)).body, sent.dropped) == (True, ())
    sent = _prepared(learned=LearnedRefusals(dropped=("tools[].strict",)), **asked)
    assert [tool["name"] for tool in json.loads(sent.body)["tools"]] == ["f", "json_response"]
    assert (b"strict" in sent.body, sent.dropped) == (False, ("tools[].strict",))


@pytest.mark.parametrize("form", ["json_object", "json_schema"])
def test_some_json_is_requested_after_the_system_prompt(form: str) -> None:
    messages = [{"role": "system", "content": "S"}, *HI]
    system = _body(messages=messages, response_format={"type": form})["system"]
    assert [block["text"] for block in system] == ["S", "Reply with one JSON object and nothing else."]


@pytest.mark.parametrize(
    ("fields", "metadata", "dropped"),
    [
        ({"user": "u1"}, {"user_id": "u1"}, ()),
        ({"user": "u1", "safety_identifier": "s1"}, {"user_id": "s1"}, ()),
        ({"user": "me@home.net"}, None, ("user",)),
        ({"safety_identifier": "+49 (30) 1234567"}, None, ("safety_identifier",)),
        ({"metadata": {"topic": "x"}}, None, ("metadata",)),
        ({"metadata": {"topic": "x", "user_id": "u"}}, {"user_id": "u"}, ("metadata",)),
    ],
)
def test_personal_names_of_users_are_dropped(fields: dict[str, Any], metadata: Any, dropped: tuple[str, ...]) -> None:
    prepared = _prepared(**fields)
    assert (json.loads(prepared.body).get("metadata"), prepared.dropped) == (metadata, dropped)


@pytest.mark.parametrize(
    ("tier", "sent", "dropped"),
    [("auto", "auto", ()), ("default", "standard_only", ()), ("flex", None, ("service_tier",))],
)
def test_other_service_tiers_are_dropped(tier: str, sent: str | None, dropped: tuple[str, ...]) -> None:
    prepared = _prepared(service_tier=tier)
    assert (json.loads(prepared.body).get("service_tier"), prepared.dropped) == (sent, dropped)


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"n": 2}, "n"), ({"modalities": ["text", "audio"]}, "modalities"), ({"logprobs": True}, "logprobs")],
)
def test_what_would_be_another_answer_is_refused(fields: dict[str, Any], param: str) -> None:
    error = refusal_of(_prepared, **fields)
    assert (error.code, error.param) == ("unsupported_parameter", param)


def test_dropped_parameters_are_named() -> None:
    fields: dict[str, Any] = {
        "seed": 1,
        "logit_bias": {"1": 1},
        "store": False,
        "verbosity": None,
        "frequency_penalty": 0.1,
        "x": {},
    }
    assert _dropped(**fields) == ("seed", "logit_bias", "frequency_penalty", "x")


def test_learned_refusals_are_left_out() -> None:
    prepared = _prepared(learned=LearnedRefusals(dropped=("top_k", "seed")), top_k=3)
    assert ("top_k" in json.loads(prepared.body), prepared.dropped) == (False, ("top_k",))


def test_arguments_that_are_not_an_object_go_as_the_text_they_are() -> None:
    messages = [*HI, {"role": "assistant", "tool_calls": [call("a", "f", ""), call("b", "f", "{")]}]
    made = _body(messages=messages)["messages"][1]["content"]
    assert [block["input"] for block in made] == [{}, {"invalid_arguments": "{"}]


def test_a_stream_is_requested() -> None:
    prepared = _prepared(stream=True, stream_options={"include_usage": True})
    assert (json.loads(prepared.body)["stream"], prepared.dropped) == (True, ())
    assert prepared.headers["Accept"] == "text/event-stream"


@pytest.mark.parametrize(
    ("fields", "limit", "sent", "lowered"),
    [
        ({"max_tokens": 90}, 70, 70, 70),
        ({"max_completion_tokens": 50, "max_tokens": 90}, 70, 50, None),
        ({}, 70, 70, None),
        ({}, None, 32_000, None),
        ({"max_tokens": 90}, None, 90, None),
    ],
)
def test_a_limit_above_the_models_own_is_lowered(
    fields: dict[str, Any], limit: int | None, sent: int, lowered: int | None
) -> None:
    served = ServedModel(name="m", upstream=BUDGET, max_output=limit)
    prepared = AnthropicDialect().prepare(translated({"messages": HI, **fields}), channel(), served, NOTHING)
    assert (json.loads(prepared.body)["max_tokens"], prepared.lowered_cap) == (sent, lowered)
    learned = _prepared(learned=LearnedRefusals(max_output=limit), **fields)
    assert (json.loads(learned.body)["max_tokens"], learned.lowered_cap) == (sent, lowered)


def test_a_thinking_budget_stays_below_the_lowered_limit() -> None:
    served = ServedModel(name="m", upstream=BUDGET, max_output=2000)
    asked = translated({"messages": HI, "max_tokens": 90_000, "reasoning_effort": "high"})
    body = json.loads(AnthropicDialect().prepare(asked, channel(), served, NOTHING).body)
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (2000, 1999)


@pytest.mark.parametrize(
    ("effort", "word", "tokens"),
    [
        ("minimal", "low", 1024),
        ("low", "low", 1024),
        ("medium", "medium", 2048),
        ("high", "high", 4096),
        ("xhigh", "xhigh", 8192),
        ("max", "max", 16_384),
    ],
)
def test_an_effort_is_a_word_or_a_budget(effort: str, word: str, tokens: int) -> None:
    body = _body(NEW, reasoning_effort=effort)
    assert (body["output_config"], body["thinking"]) == (
        {"effort": word},
        {"type": "adaptive", "display": "summarized"},
    )
    assert _body(reasoning_effort=effort)["thinking"] == {"type": "enabled", "budget_tokens": tokens}


def test_an_effort_that_a_model_does_not_know_is_the_next_weaker_one_or_dropped() -> None:
    assert _body("claude-opus-4-6", reasoning_effort="xhigh")["output_config"] == {"effort": "high"}
    assert _dropped(NEW, reasoning_effort="enormous") == ("reasoning_effort",)
    assert "thinking" not in _body(OLD, reasoning_effort="high")
    assert _dropped(OLD, reasoning_effort="high") == ("reasoning_effort",)


def test_adaptive_thinking_needs_no_budget() -> None:
    forced = {"tools": [function("f")], "tool_choice": "required", "max_tokens": 1024}
    assert _body("claude-opus-5", reasoning_effort="high", **forced)["thinking"]["type"] == "adaptive"


def test_models_before_opus_4_8_do_not_think_if_a_call_is_demanded() -> None:
    forced: dict[str, Any] = {"tools": [function("f")], "tool_choice": "required"}
    for model in ("claude-opus-4-7", "claude-sonnet-4-6", BUDGET):
        prepared = _prepared(model, reasoning_effort="high", **forced)
        assert (b"thinking" in prepared.body, prepared.dropped) == (False, ("reasoning_effort",))


def test_thinking_is_switched_off_where_it_is_on_by_default() -> None:
    found = [_body(model, reasoning_effort="none").get("thinking") for model in ("claude-opus-5", NEW, BUDGET, OLD)]
    assert found == [{"type": "disabled"}, None, None, None]
