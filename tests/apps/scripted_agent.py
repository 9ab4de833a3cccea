"""Scripted agent: an upstream that leads a real program through a task, in any dialect.

It answers by what the request shows: as many tool results as the conversation holds, so many steps are done. A request
without tools (a title, a summary) gets a line of text, however often and whenever it comes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.domain.channel import Dialect
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.fakes import messages, responses
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Bill, Exchange, Provider
from tests.fakes.replies import DONE, choice, chunk, delta, dumps, in_steps, story, tool_call, usage, whole

INPUT, OUTPUT = 900, 12
"""What every answer bills."""
MODEL = "agent-1"
"""The public name that programs ask for."""
SEALED = "gAAAA-of-the-upstream"
"""What an upstream with the Responses API makes of a conversation that it is to compact."""
UPSTREAM_MODELS = {Dialect.OPENAI: "gpt-4o", Dialect.ANTHROPIC: "claude-sonnet-4-5", Dialect.GEMINI: "gemini-3.8-flash"}

Json = Mapping[str, Any]


@dataclass(frozen=True)
class ToolUse:
    """A step: the tool that is called, with its arguments."""

    name: str
    arguments: Json


@dataclass
class ScriptedAgent:
    """Calls the tools of ``steps`` one after the other, then says ``final``."""

    steps: Sequence[ToolUse]
    final: str = "All is done."
    responses: bool = False
    """It has the Responses API, too; else that address is as unknown to it as any other."""
    input: int = INPUT
    """Tokens of input that each answer bills."""
    thought: str = ""
    """The reasoning before each streamed answer of the three dialects, if there is any."""
    asked: list[int] = field(default_factory=list)
    """For each request with tools, how many results it showed."""

    def next_step(self, results: int, *, tools: bool) -> ToolUse | str:
        """What a conversation with so many tool results is answered with."""
        if not tools:
            return self.final
        self.asked.append(results)
        return self.steps[results] if results < len(self.steps) else self.final

    async def __call__(self, exchange: Exchange) -> None:
        """A provider's script."""
        if exchange.path.partition("?")[0].endswith("/count_tokens"):
            await exchange.answer(dumps({"input_tokens": self.input}))
            return
        for part, reply in _DIALECTS.items():
            if part in exchange.path and (self.responses or part != "/responses"):
                await reply(self, exchange)
                exchange.bill = Bill(f"answer-{exchange.number}", self.input, OUTPUT)
                return
        await exchange.answer(b'{"detail":"Not Found"}', status=404)


def serve(
    gateway: Gateway, provider: Provider, dialect: Dialect, agent: ScriptedAgent, model: str = MODEL, preset: str = ""
) -> None:
    """Put the agent behind the gateway's only channel, under that public name."""
    served = f"{model}={UPSTREAM_MODELS[dialect]}"
    gateway.channel(provider.root(dialect), served, dialect=dialect, preset=preset)
    gateway.price(model)
    provider.other = agent


def _may_call(asked: Json) -> bool:
    """Whether the request offers tools and does not forbid them, in any dialect."""
    mode = asked.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode")
    return bool(asked.get("tools")) and asked.get("tool_choice") not in ("none", {"type": "none"}) and mode != "NONE"


def transports(gateway: Gateway, provider: Provider) -> set[type]:
    """Of the calls that the provider's script will see: filled while they run."""
    seen, script = set[type](), provider.other
    assert script is not None

    async def watched(exchange: Exchange) -> None:
        seen.update(type(call.context.client) for call in gateway.engine.live.calls.values())
        await script(exchange)

    provider.other = watched
    return seen


async def _openai(agent: ScriptedAgent, exchange: Exchange) -> None:
    asked = exchange.json
    results = sum(message["role"] in ("tool", "function") for message in asked["messages"])
    step = agent.next_step(results, tools=_may_call(asked))
    id, model, spent = f"answer-{exchange.number}", asked["model"], usage(agent.input, OUTPUT)
    call = {} if isinstance(step, str) else tool_call(0, f"call_{results}", step.name, json.dumps(step.arguments))
    if not asked.get("stream"):
        message = choice(None, finish="tool_calls", tool_calls=[_without_index(call)])
        message = choice(step) if isinstance(step, str) else message
        await exchange.answer(dumps(whole(model, message, id=id, spent=spent)))
        return
    if isinstance(step, str):
        docs = story(step, id=id, model=model)
    else:
        first = chunk(delta("", role="assistant"), id=id, model=model)
        docs = [first, chunk(delta(tool_calls=[call]), id=id, model=model)]
        docs.append(chunk(delta(finish="tool_calls"), id=id, model=model))
    thought = [chunk(delta(reasoning_content=agent.thought), id=id, model=model)] if agent.thought else []
    docs = [docs[0], *thought, *docs[1:], chunk(id=id, model=model, usage=spent)]
    await in_steps(*docs, DONE)(exchange)


def _without_index(call: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in call.items() if name != "index"}


async def _responses(agent: ScriptedAgent, exchange: Exchange) -> None:
    asked = exchange.json
    results = sum(item.get("type", "").endswith("_call_output") for item in asked["input"])
    compacts = asked["input"][-1].get("type") == "compaction_trigger"
    step = agent.next_step(results, tools=_may_call(asked) and not compacts)
    if compacts:
        item = {"id": "cmp_1", "type": "compaction", "encrypted_content": SEALED}
    else:
        item = _responses_item(results, step, asked["tools"] if asked.get("tools") else [])
    answer = responses.response(item, model=asked["model"], usage=responses.spent(agent.input, OUTPUT))
    await in_steps(*responses.events_of({**answer, "id": f"answer-{exchange.number}"}))(exchange)


def _responses_item(results: int, step: ToolUse | str, tools: Sequence[Json]) -> dict[str, Any]:
    if isinstance(step, str):
        return responses.message(step)
    call = {"call_id": f"call_{results}", "name": step.name, "status": "completed"}
    if any(tool["type"] == "custom" and tool["name"] == step.name for tool in tools):
        return {"id": f"ctc_{results}", "type": "custom_tool_call", **call, "input": step.arguments["input"]}
    return {"id": f"fc_{results}", "type": "function_call", **call, "arguments": json.dumps(step.arguments)}


async def _anthropic(agent: ScriptedAgent, exchange: Exchange) -> None:
    asked = exchange.json
    blocks = [block for message in asked["messages"] for block in message["content"] if isinstance(block, dict)]
    results = sum(block["type"] == "tool_result" for block in blocks)
    step = agent.next_step(results, tools=_may_call(asked))
    id, counts = f"answer-{exchange.number}", {"input_tokens": agent.input, "output_tokens": OUTPUT}
    reason = "end_turn" if isinstance(step, str) else "tool_use"
    if asked.get("stream"):
        thought = anthropic.thinking(agent.thought, "SIG") if agent.thought else b""
        index = 1 if thought else 0
        body = anthropic.text(step, index=index) if isinstance(step, str) else _anthropic_call(results, step, index)
        begin = anthropic.start({**counts, "output_tokens": 1}, id=id)
        await in_steps(begin, thought, body, anthropic.end(reason, output_tokens=OUTPUT))(exchange)
        return
    block = messages.text_block(step) if isinstance(step, str) else _anthropic_use(results, step)
    answer = messages.message(block, model=asked["model"], stop=reason, spent=counts)
    await exchange.answer(dumps({**answer, "id": id}))


def _anthropic_use(results: int, step: ToolUse) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{results}", "name": step.name, "input": step.arguments}


def _anthropic_call(results: int, step: ToolUse, index: int) -> bytes:
    return anthropic.tool(f"toolu_{results}", step.name, json.dumps(step.arguments), index=index)


async def _gemini(agent: ScriptedAgent, exchange: Exchange) -> None:
    asked = exchange.json
    results = sum("functionResponse" in part for content in asked["contents"] for part in content["parts"])
    step = agent.next_step(results, tools=_may_call(asked))
    part = gemini.say(step) if isinstance(step, str) else gemini.use(step.name, dict(step.arguments), f"fc_{results}")
    thought = [gemini.think(agent.thought)] if agent.thought else []
    doc = gemini.response(*thought, part, finish="STOP", **gemini.spent(agent.input, OUTPUT))
    doc["responseId"] = f"answer-{exchange.number}"
    if "streamGenerateContent" in exchange.path:
        await in_steps(gemini.event(doc))(exchange)
    else:
        await exchange.answer(dumps(doc))


_DIALECTS: Mapping[str, Callable[..., Any]] = {
    "/chat/completions": _openai,
    "/responses": _responses,
    "/v1/messages": _anthropic,
    "enerateContent": _gemini,
}
