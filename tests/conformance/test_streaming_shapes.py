"""Cases 34 to 38: what chunks carry: tool calls, finish reasons, several choices, fields of all kinds."""

import json
from typing import Any

import pytest

from gateway.domain.usage import UsageSource
from tests.conformance.sdk import MESSAGES, openai
from tests.conformance.shapes import stream_faults
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc, chunk, delta, stream, tool_call

ROLE = chunk(delta("", role="assistant"))


def calls(*deltas: Doc, finish: str = "tool_calls", text: str = "") -> list[Doc]:
    """A stream that makes tool calls, one delta a chunk."""
    said = [chunk(delta(text))] if text else []
    return [ROLE, *said, *(chunk(delta(tool_calls=[call])) for call in deltas), chunk(delta(finish=finish))]


def more(index: int, arguments: str, **again: object) -> Doc:
    """A later delta of a tool call."""
    return {"index": index, **again, "function": {"arguments": arguments}}


def without(key: str, call: Doc) -> Doc:
    return {name: value for name, value in call.items() if name != key}


F = tool_call(0, "call_a", "f", "")
WHOLE_F, WHOLE_G = tool_call(0, "call_a", "f", '{"x":1}'), tool_call(1, "call_b", "g", '{"y":2}')
BOTH = [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]

TOOLS = {
    "split arguments": (calls(F, more(0, '{"x"'), more(0, ":1}")), BOTH[:1]),
    "two in parallel": (calls(WHOLE_F, WHOLE_G), BOTH),
    "two in one delta": ([ROLE, chunk(delta(tool_calls=[WHOLE_F, WHOLE_G])), chunk(delta(finish="tool_calls"))], BOTH),
    "text first": (calls(WHOLE_F, WHOLE_G, text="Let me see."), BOTH),
    "no index": (calls(without("index", WHOLE_F), without("index", WHOLE_G)), BOTH),
    "no index, split": (calls(without("index", F), {"function": {"arguments": '{"x":1}'}}), BOTH[:1]),
    "index from 1": (calls({**WHOLE_F, "index": 1}, {**WHOLE_G, "index": 2}), BOTH),
    "all index 0": (calls(WHOLE_F, {**WHOLE_G, "index": 0}), BOTH),
    "id and name again": (
        calls(F, more(0, '{"x"', id="call_a", type="function"), {**F, "function": {"name": "f", "arguments": ":1}"}}),
        BOTH[:1],
    ),
    "id and name null": (
        calls(F, {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": '{"x":1}'}}),
        BOTH[:1],
    ),
    "id and name empty": (
        calls(F, {"index": 0, "id": "", "type": "", "function": {"name": "", "arguments": '{"x":1}'}}),
        BOTH[:1],
    ),
    "finish stop": (calls(WHOLE_F, WHOLE_G, finish="stop"), BOTH),
}


async def streamed(gateway: Gateway, provider: Provider, docs: list[Doc], **fields: Any) -> Answer:
    provider.on("m", stream(*docs))
    return await gateway.client.chat(stream=True, **fields)


@pytest.mark.parametrize("name", TOOLS)
async def test_34_tool_calls_come_out_whole(gateway: Gateway, provider: Provider, name: str) -> None:
    docs, wanted = TOOLS[name]
    answer = await streamed(gateway, provider, docs)
    assert stream_faults(answer.body) == []
    async with openai(gateway) as client, client.chat.completions.stream(model="m", messages=MESSAGES) as events:
        choice = (await events.get_final_completion()).choices[0]
    got = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls or []]
    assert got == wanted
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("eos_token", "stop"),
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("model_length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("something_new", "stop"),
    ],
)
async def test_35_finish_reasons_are_translated(gateway: Gateway, provider: Provider, sent: str, told: str) -> None:
    answer = await streamed(gateway, provider, [ROLE, chunk(delta("a")), chunk(delta(finish=sent))])
    assert stream_faults(answer.body) == []
    assert answer.chunks[-1]["choices"][0]["finish_reason"] == told


@pytest.mark.parametrize("last", [chunk(delta("b", finish="")), chunk(delta("b"))])
async def test_35_an_answer_without_a_finish_reason_is_truncated(
    gateway: Gateway, provider: Provider, last: Doc
) -> None:
    answer = await streamed(gateway, provider, [ROLE, chunk(delta("a")), last])
    assert stream_faults(answer.body, error=True) == []
    assert answer.chunks[-1]["error"]["code"] == "upstream_stream_truncated"
    assert gateway.record.source is UsageSource.ESTIMATED


@pytest.mark.parametrize("reason", ["error", "network_error", "insufficient_system_resource"])
async def test_35_a_finish_reason_that_is_a_failure_is_an_error(
    gateway: Gateway, provider: Provider, reason: str
) -> None:
    answer = await streamed(gateway, provider, [ROLE, chunk(delta("a")), chunk(delta(finish=reason))])
    assert stream_faults(answer.body, error=True) == []


async def test_35_what_follows_a_finish_reason_is_left_out(gateway: Gateway, provider: Provider) -> None:
    docs = [ROLE, chunk(delta("a")), chunk(delta(finish="stop")), chunk(delta("")), chunk(delta(finish="stop"))]
    answer = await streamed(gateway, provider, docs)
    assert stream_faults(answer.body) == []


async def test_36_choices_that_interleave_stay_apart(gateway: Gateway, provider: Provider) -> None:
    docs = [
        chunk(delta("a", role="assistant")),
        chunk(delta("x", index=1, role="assistant")),
        chunk(delta("b"), delta("y", index=1)),
        chunk(delta(index=1, finish="length")),
        chunk(delta("c")),
        chunk(delta(finish="stop")),
    ]
    answer = await streamed(gateway, provider, docs, n=2)
    assert stream_faults(answer.body) == []
    said = [(c["index"], c["delta"].get("content") or "") for doc in answer.chunks for c in doc["choices"]]
    assert ["".join(text for index, text in said if index == n) for n in (0, 1)] == ["abc", "xy"]
    ends = {c["index"]: c["finish_reason"] for doc in answer.chunks for c in doc["choices"] if c["finish_reason"]}
    assert ends == {0: "stop", 1: "length"}


LOGPROBS: Doc = {"content": [{"token": "a", "logprob": -0.5, "bytes": None, "top_logprobs": []}], "refusal": None}


@pytest.mark.parametrize(
    "said",
    [
        delta("a") | {"logprobs": LOGPROBS},
        delta(content=None) | {"delta": {"content": None}},
        delta(reasoning_content="hm"),
        delta(reasoning="hm"),
        delta("a", obfuscation="zzz", annotations=[{"x": 1}]),
        delta(refusal="no"),
        delta("a") | {"content_filter_results": {"hate": {"filtered": False}}},
    ],
)
async def test_37_fields_of_all_kinds_pass(gateway: Gateway, provider: Provider, said: Doc) -> None:
    answer = await streamed(
        gateway, provider, [ROLE, chunk(said, x_new={"a": 1.5}), chunk(delta("end", finish="stop"))]
    )
    assert stream_faults(answer.body) == []
    (passed,) = [doc for doc in answer.chunks if "x_new" in doc]
    assert passed["x_new"] == {"a": 1.5}
    assert passed["choices"][0] == said


@pytest.mark.parametrize("empty", [{}, None])
async def test_37_empty_deltas_break_nothing(gateway: Gateway, provider: Provider, empty: Doc | None) -> None:
    odd = {"index": 0, "delta": empty, "finish_reason": None}
    answer = await streamed(gateway, provider, [ROLE, chunk(odd), chunk(delta("a")), chunk(delta(finish="stop"))])
    assert stream_faults(answer.body) == []
    assert answer.text == "a"


async def test_38_parts_become_text_and_reasoning(gateway: Gateway, provider: Provider) -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    docs = [
        ROLE,
        chunk({"index": 0, "delta": {"content": [thinking]}, "finish_reason": None}),
        chunk({"index": 0, "delta": {"content": [{"type": "text", "text": "He"}]}, "finish_reason": None}),
        chunk(delta("llo", finish="stop")),
    ]
    answer = await streamed(gateway, provider, docs)
    assert stream_faults(answer.body) == []
    assert answer.text == "Hello"
    thought = [c["delta"].get("reasoning_content") for doc in answer.chunks for c in doc["choices"]]
    assert "".join(filter(None, thought)) == "hm"
