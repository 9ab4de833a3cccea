"""What chunks carry: tool calls, and fields of all kinds."""

import json
from typing import Any

import pytest

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
async def test_tool_calls_come_out_whole(gateway: Gateway, provider: Provider, name: str) -> None:
    docs, wanted = TOOLS[name]
    answer = await streamed(gateway, provider, docs)
    assert stream_faults(answer.body) == []
    async with openai(gateway) as client, client.chat.completions.stream(model="m", messages=MESSAGES) as events:
        choice = (await events.get_final_completion()).choices[0]
    got = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls or []]
    assert got == wanted
    assert choice.finish_reason == "tool_calls"
