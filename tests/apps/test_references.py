"""Vercel's AI SDK refers to what the model said instead of repeating it, and repeats all of it when that is gone."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.client.apps import UNKNOWN_PROGRAM
from gateway.domain.channel import Dialect
from tests.apps.installed import RUN_S, Driven, drive, driven, node_folder, target
from tests.apps.scripted_agent import MODEL, UPSTREAM_MODELS, ScriptedAgent, ToolUse, serve
from tests.fakes.audit import verify
from tests.fakes.gateway import Gateway, running
from tests.fakes.provider import Provider

QUESTIONS = 10
TALK = f"""
import {{ openai }} from "@ai-sdk/openai";
import {{ appendFileSync, existsSync, readFileSync, writeFileSync }} from "node:fs";
import {{ jsonSchema, stepCountIs, streamText, tool }} from "ai";

const inputSchema = jsonSchema({{ type: "object", properties: {{ text: {{ type: "string" }} }}, required: ["text"] }});
const execute = async ({{ text }}) => (appendFileSync("notes.txt", text + "\\n"), "added " + text);
const tools = {{ add_line: tool({{ description: "Add a line.", inputSchema, execute }}) }};
const messages = existsSync("talk.json") ? JSON.parse(readFileSync("talk.json")) : [];
const store = process.env.STORE === "false" ? {{ store: false }} : {{}};

async function ask(options) {{
  const providerOptions = {{ openai: {{ forceReasoning: true, reasoningSummary: "auto", ...options }} }};
  const request = {{ model: openai("{MODEL}"), messages, tools, providerOptions, maxRetries: 0 }};
  const answer = streamText({{ ...request, stopWhen: stepCountIs(5), onError: () => {{}} }});
  for await (const part of answer.fullStream) if (part.type === "error") throw part.error;
  messages.push(...(await answer.responseMessages));
  console.log(await answer.text);
}}

for (let turn = 0; turn < +process.env.QUESTIONS; turn++) {{
  messages.push({{ role: "user", content: "Question " + turn }});
  try {{
    await ask(store);
  }} catch (error) {{
    console.log(error.statusCode, error.data?.error?.code);
    await ask({{ store: false }});
  }}
}}
writeFileSync("talk.json", JSON.stringify(messages));
"""


@dataclass
class Talker(ScriptedAgent):
    """Answers each question with a tool call, and its result with a text."""

    thought: str = "I shall add a line."

    def next_step(self, results: int, *, tools: bool) -> ToolUse | str:
        self.asked.append(results)
        calls = len(self.asked) % 2
        return ToolUse("add_line", {"text": f"line {results:02}"}) if calls else f"Answer {results:02}."


async def talk(gateway: Gateway, folder: Path, questions: int, store: str = "") -> Driven:
    (folder / "main.mjs").write_text(TALK)
    more = {
        **UNKNOWN_PROGRAM.launch_for(target(gateway), folder).variables,
        "QUESTIONS": str(questions),
        "STORE": store,
    }
    return await drive("ai-sdk", gateway, ["node", "main.mjs"], folder.parent, more=more)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with the SDK in it."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "node_modules").symlink_to(node_folder("ai-sdk") / "node_modules")
    return work


@driven
@pytest.mark.timeout(2 * RUN_S + 60)
@pytest.mark.parametrize("dialect", UPSTREAM_MODELS)
@pytest.mark.parametrize("store", ["", "false"])
async def test_ten_questions_and_two_more_after_a_restart(
    provider: Provider, tmp_path: Path, work: Path, store: str, dialect: Dialect
) -> None:
    home, agent = tmp_path / "home", Talker([])
    async with running(home) as gateway:
        serve(gateway, provider, dialect, agent)
        ended = await talk(gateway, work, QUESTIONS, store)
        said = [f"Answer {turn + 1:02}." for turn in range(QUESTIONS)]
        assert (ended.code, ended.out.splitlines()) == (0, said), ended.out[-3000:]
        await gateway.settled(2 * QUESTIONS)
        assert verify(gateway.engine.store).equal
    async with running(home) as gateway:
        serve(gateway, provider, dialect, agent)
        ended = await talk(gateway, work, 2, store)
        gone = [] if store else ["400 previous_response_not_found"]
        assert ended.code == 0
        assert [line for line in ended.out.splitlines() if line[0] in "4A"] == [
            *gone,
            "Answer 11.",
            *gone,
            "Answer 12.",
        ]
        assert verify(gateway.engine.store).equal
    assert agent.asked == sorted([*range(QUESTIONS + 2), *range(1, QUESTIONS + 3)])
    sent = provider.last.body.decode()
    assert [sent.count(f"added line {turn:02}") for turn in range(QUESTIONS + 2)] == [1] * (QUESTIONS + 2)
    assert [sent.count(f"Answer {turn + 1:02}.") for turn in range(QUESTIONS + 1)] == [1] * (QUESTIONS + 1)
