"""Libraries: the programs that ``tollkeeper env --for`` prints run as they are, and their tool loops end well."""

from pathlib import Path

import pytest

from gateway.client.apps import APPS, UNKNOWN_PROGRAM
from gateway.domain.call import Outcome
from gateway.domain.channel import Dialect
from tests.apps.installed import RUN_S, Driven, drive, driven, node_folder, program, target
from tests.apps.scripted_agent import INPUT, MODEL, OUTPUT, UPSTREAM_MODELS, ScriptedAgent, ToolUse, serve
from tests.conformance.test_embeddings import vectors
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider

ADD = """
def add_line(text: str) -> str:
    'Add a line.'
    with open("notes.txt", "a") as file:
        file.write(text + chr(10))
    return "added"
"""
STEPS = [ToolUse("add_line", {"text": f"line {number}"}) for number in range(5)]
PRINTED = ["openai-agents", "pydantic-ai", "langchain", "llama-index", "litellm", "ai-sdk"]


def openai_agents(setup: str) -> str:
    """A program of OpenAI's Agents SDK, which speaks Responses unless it is set up otherwise."""
    return f"""
from agents import Agent, Runner, function_tool, set_default_openai_api, set_default_openai_responses_transport
{ADD}
{setup}
agent = Agent(name="Writer", model="{MODEL}", tools=[function_tool(add_line)])
print(Runner.run_sync(agent, "Do it.", max_turns=20).final_output)
"""


def pydantic_ai(api: str) -> str:
    return f"""
from pydantic_ai import Agent
{ADD}
agent = Agent("{api}:{MODEL}", tools=[add_line])
print(agent.run_sync("Do it.").output)
"""


def langchain(model: str) -> str:
    return f"""
import os
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
{ADD}
writer = tool(add_line)
chat = {model}.bind_tools([writer])
messages = [HumanMessage("Do it.")]
while True:
    answer = chat.invoke(messages)
    messages.append(answer)
    if not answer.tool_calls:
        break
    messages += [writer.invoke(call) for call in answer.tool_calls]
print(answer.text)
"""


def ai_sdk(model: str) -> str:
    return f"""
import {{ appendFileSync }} from "node:fs";
import {{ anthropic }} from "@ai-sdk/anthropic";
import {{ openai }} from "@ai-sdk/openai";
import {{ createOpenAICompatible }} from "@ai-sdk/openai-compatible";
import {{ jsonSchema, stepCountIs, streamText, tool }} from "ai";

const compatible = createOpenAICompatible({{
  name: "tollkeeper", baseURL: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY, includeUsage: true,
}});
const inputSchema = jsonSchema({{ type: "object", properties: {{ text: {{ type: "string" }} }}, required: ["text"] }});
const execute = async ({{ text }}) => (appendFileSync("notes.txt", text + "\\n"), "added");
const answer = streamText({{
  model: {model}("{MODEL}"), prompt: "Do it.", stopWhen: stepCountIs(20),
  tools: {{ add_line: tool({{ description: "Add a line.", inputSchema, execute }}) }},
}});
for await (const text of answer.textStream) process.stdout.write(text);
"""


ANTHROPIC_SDK = f"""
import {{ appendFileSync }} from "node:fs";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic();
const schema = {{ type: "object", properties: {{ text: {{ type: "string" }} }}, required: ["text"] }};
const tools = [{{ name: "add_line", description: "Add a line.", input_schema: schema }}];
const messages = [{{ role: "user", content: "Do it." }}];
await client.messages.countTokens({{ model: "{MODEL}", tools, messages }});
for (let turn = 0; ; turn++) {{
  const request = {{ model: "{MODEL}", max_tokens: 1000, tools, messages }};
  const answer = await (turn % 2 ? client.messages.create(request) : client.messages.stream(request).finalMessage());
  messages.push({{ role: "assistant", content: answer.content }});
  if (answer.stop_reason !== "tool_use") {{
    console.log(answer.content.map((block) => block.text).join(""));
    break;
  }}
  const calls = answer.content.filter((block) => block.type === "tool_use");
  for (const call of calls) appendFileSync("notes.txt", call.input.text + "\\n");
  const done = calls.map((call) => ({{ type: "tool_result", tool_use_id: call.id, content: "added" }}));
  messages.push({{ role: "user", content: done }});
}}
"""
"""In TypeScript's language, every other turn streamed. The Python SDK is tested in ``tests/conformance``."""
CONNECTED = f"""
import json
from openai import OpenAI
{ADD}
schema = {{"type": "object", "properties": {{"text": {{"type": "string"}}}}, "required": ["text"]}}
tools = [{{"type": "function", "name": "add_line", "parameters": schema}}]
given, previous = [{{"type": "message", "role": "user", "content": "Do it."}}], {{}}
with OpenAI().responses.connect() as connection:
    while True:
        connection.response.create(model="{MODEL}", input=given, tools=tools, store=False, **previous)
        for event in connection:
            assert event.type not in ("error", "response.failed"), event
            if event.type == "response.completed":
                break
        calls = [item for item in event.response.output if item.type == "function_call"]
        if not calls:
            break
        previous, given = {{"previous_response_id": event.response.id}}, []
        for call in calls:
            done = add_line(**json.loads(call.arguments))
            given.append({{"type": "function_call_output", "call_id": call.call_id, "output": done}})
print(event.response.output[0].content[0].text)
"""
"""OpenAI's SDK over one WebSocket: each turn sends only what is new."""
IN_NODE = ("ai-sdk", "anthropic")
"""Apps whose programs are modules for Node.js."""
LOOPS = {
    "anthropic:messages": ANTHROPIC_SDK,
    "openai-agents:chat": openai_agents('set_default_openai_api("chat_completions")'),
    "openai-agents:responses": openai_agents(""),
    "openai-agents:websocket": openai_agents('set_default_openai_responses_transport("websocket")'),
    "openai-agents:connect": CONNECTED,
    "pydantic-ai:chat": pydantic_ai("openai-chat"),
    "pydantic-ai:responses": pydantic_ai("openai-responses"),
    "pydantic-ai:messages": pydantic_ai("anthropic"),
    "langchain:chat": langchain(f'ChatOpenAI(model="{MODEL}")'),
    "langchain:responses": langchain(f'ChatOpenAI(model="{MODEL}", use_responses_api=True)'),
    "langchain:messages": langchain(f'ChatAnthropic(model="{MODEL}", base_url=os.environ["ANTHROPIC_BASE_URL"])'),
    "llama-index:chat": f"""
import asyncio, os
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
{ADD}
llm = OpenAILike(
    model="{MODEL}",
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
    is_chat_model=True,
    is_function_calling_model=True,
)

async def main():
    print(await FunctionAgent(tools=[add_line], llm=llm).run("Do it."))

asyncio.run(main())
""",
    "litellm:chat": f"""
import json
import litellm
{ADD}
schema = {{"type": "object", "properties": {{"text": {{"type": "string"}}}}, "required": ["text"]}}
tools = [{{"type": "function", "function": {{"name": "add_line", "parameters": schema}}}}]
messages = [{{"role": "user", "content": "Do it."}}]
while True:
    message = litellm.completion(model="openai/{MODEL}", messages=messages, tools=tools).choices[0].message
    messages.append(message.model_dump())
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        done = add_line(**json.loads(call.function.arguments))
        messages.append({{"role": "tool", "tool_call_id": call.id, "content": done}})
print(message.content)
""",
    "litellm:responses": f"""
import json
import litellm
{ADD}
schema = {{"type": "object", "properties": {{"text": {{"type": "string"}}}}, "required": ["text"]}}
tools = [{{"type": "function", "name": "add_line", "parameters": schema}}]
items = [{{"role": "user", "content": "Do it."}}]
while True:
    answer = litellm.responses(model="openai/{MODEL}", input=items, tools=tools)
    calls = [item for item in answer.output if item.type == "function_call"]
    if not calls:
        break
    for call in calls:
        items.append(call.model_dump(exclude_none=True))
        done = add_line(**json.loads(call.arguments))
        items.append({{"type": "function_call_output", "call_id": call.call_id, "output": done}})
print(answer.output[0].content[0].text)
""",
    "ai-sdk:chat": ai_sdk("compatible"),
    "ai-sdk:responses": ai_sdk("openai"),
    "ai-sdk:messages": ai_sdk("anthropic"),
}
"""By app and API."""
PLAIN = {
    "llama-index:completions": f"""
import os
from llama_index.llms.openai_like import OpenAILike

llm = OpenAILike(model="{MODEL}", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
print(llm.complete("Hello"))
"""
}
"""Without tools."""
DIALECTS = pytest.mark.parametrize("dialect", UPSTREAM_MODELS)


DEFAULTS = {
    "llama-index": """
import os
from llama_index.llms.openai import OpenAI

llm = OpenAI(model="gpt-4o", api_base=os.environ["OPENAI_BASE_URL"])
print(llm.complete("Hello"), "".join(piece.delta for piece in llm.stream_complete("Hello")))
""",
    "litellm": """
import litellm

messages = [{"role": "user", "content": "Hello"}]
whole = litellm.completion(model="gpt-4o", messages=messages)
pieces = litellm.completion(model="gpt-4o", messages=messages, stream=True)
print(whole.choices[0].message.content, "".join(piece.choices[0].delta.content or "" for piece in pieces))
""",
}
"""As their own documentation begins: with a model's name, and all else from the environment."""
EMBEDDINGS = {
    "litellm": """
import litellm

answer = litellm.embedding(model="openai/embed-1", input=["a", "b"])
print([item["embedding"] for item in answer.data])
""",
    "llama-index": """
import os
from llama_index.embeddings.openai import OpenAIEmbedding

embed = OpenAIEmbedding(model_name="embed-1", api_base=os.environ["OPENAI_BASE_URL"])
print(embed.get_text_embedding_batch(["a", "b"]))
""",
}


async def run_code(app: str, code: str, gateway: Gateway, folder: Path) -> Driven:
    """Run a program in the language of the app, beside its installed packages."""
    work, more = folder / "work", UNKNOWN_PROGRAM.launch_for(target(gateway), folder).variables
    work.mkdir()
    if app in IN_NODE:
        (work / "node_modules").symlink_to(node_folder(app) / "node_modules")
        (work / "main.mjs").write_text(code)
        return await drive(app, gateway, ["node", "main.mjs"], folder, more=more)
    (work / "main.py").write_text(code)
    return await drive(app, gateway, [program(app, "python"), "main.py"], folder, more=more)


@driven
@pytest.mark.timeout(RUN_S + 60)
@DIALECTS
@pytest.mark.parametrize("app", PRINTED)
async def test_printed_programs_run(
    gateway: Gateway, provider: Provider, tmp_path: Path, app: str, dialect: Dialect
) -> None:
    serve(gateway, provider, dialect, ScriptedAgent([], final="The answer is 42."))
    (code,) = [snippet.text for snippet in APPS[app].setup(target(gateway)).guide if snippet.is_file]
    ended = await run_code(app, code, gateway, tmp_path)
    assert (ended.code, "The answer is 42." in ended.out) == (0, True), ended.out[-3000:]


@driven
@pytest.mark.timeout(RUN_S + 60)
@DIALECTS
@pytest.mark.parametrize("app", LOOPS)
async def test_a_tool_loop_ends_well(
    gateway: Gateway, provider: Provider, tmp_path: Path, app: str, dialect: Dialect
) -> None:
    serve(gateway, provider, dialect, ScriptedAgent(STEPS))
    ended = await run_code(app.partition(":")[0], LOOPS[app], gateway, tmp_path)
    assert (ended.code, "All is done." in ended.out) == (0, True), ended.out[-3000:]
    assert (tmp_path / "work" / "notes.txt").read_text().splitlines() == [f"line {number}" for number in range(5)]
    records = await gateway.settled(len(STEPS) + 1)
    assert [(record.outcome, record.input, record.output) for record in records] == [(Outcome.DONE, INPUT, OUTPUT)] * (
        len(STEPS) + 1
    )


@driven
@pytest.mark.timeout(RUN_S + 60)
@DIALECTS
@pytest.mark.parametrize("app", PLAIN)
async def test_an_answer_without_tools(
    gateway: Gateway, provider: Provider, tmp_path: Path, app: str, dialect: Dialect
) -> None:
    serve(gateway, provider, dialect, ScriptedAgent([], final="The answer is 42."))
    ended = await run_code(app.partition(":")[0], PLAIN[app], gateway, tmp_path)
    assert (ended.code, "The answer is 42." in ended.out) == (0, True), ended.out[-3000:]


@driven
@pytest.mark.timeout(RUN_S + 60)
@DIALECTS
@pytest.mark.parametrize("app", DEFAULTS)
async def test_the_defaults_of_a_library(
    gateway: Gateway, provider: Provider, tmp_path: Path, app: str, dialect: Dialect
) -> None:
    serve(gateway, provider, dialect, ScriptedAgent([], final="The answer is 42."), "gpt-4o")
    ended = await run_code(app, DEFAULTS[app], gateway, tmp_path)
    assert (ended.code, ended.out.count("The answer is 42.")) == (0, 2), ended.out[-3000:]
    records = await gateway.settled(2)
    assert [(record.outcome, record.input, record.output) for record in records] == [(Outcome.DONE, INPUT, OUTPUT)] * 2


@driven
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize("app", EMBEDDINGS)
async def test_embeddings_come_in_order(gateway: Gateway, provider: Provider, tmp_path: Path, app: str) -> None:
    gateway.channel(provider.base_url, "embed-1")
    gateway.price("embed-1")
    provider.on("embed-1", vectors(0.5, 0.25, used=INPUT))
    ended = await run_code(app, EMBEDDINGS[app], gateway, tmp_path)
    assert (ended.code, "[[0.0, 0.5, 0.25], [1.0, 0.5, 0.25]]" in ended.out) == (0, True), ended.out[-3000:]
    (record,) = await gateway.settled(1)
    assert (record.api, record.outcome, record.input, record.output) == ("embeddings", Outcome.DONE, INPUT, 0)
