"""The AI SDK, which checks each part of an answer against a schema, decodes every answer that is translated."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.installed import RUN_S, driven, node_folder
from tests.cases.vendor_answers import ROWS, Row
from tests.conformance.test_sdk_decoders import OFFICIAL, is_typed
from tests.fakes.replies import dumps
from tests.inbound.test_vendor_answers import SPENT, fed, planned
from tests.upstream.makers import body_of, channel

DECODE = """
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";
import { readFileSync } from "node:fs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const offered = tool({ inputSchema: jsonSchema({ type: "object" }) });
const tools = Object.fromEntries(["f", "g"].map((name) => [name, offered]));
let decoded = 0;
for (const { api, row, streamed, body } of JSON.parse(readFileSync("answers.json"))) {
  const headers = { "content-type": streamed ? "text/event-stream" : "application/json" };
  const options = { apiKey: "k", baseURL: "http://gateway/v1", fetch: async () => new Response(body, { headers }) };
  const models = {
    chat: () => [createOpenAI(options).chat("m"), createOpenAICompatible({ name: "c", ...options })("m")],
    responses: () => [createOpenAI(options)("gpt-5")],
    messages: () => [createAnthropic(options)("m")],
  };
  for (const model of models[api]()) {
    const request = { model, prompt: "Hi", tools, maxRetries: 0 };
    try {
      if (!streamed) await generateText(request);
      else {
        const answer = streamText({ ...request, onError: () => {} });
        for await (const part of answer.fullStream) if (part.type === "error") throw part.error;
      }
      decoded++;
    } catch (error) {
      console.log(model.provider, row, streamed, String(error).slice(0, 300));
    }
  }
}
console.log("decoded", decoded);
"""


def answers(row: Row, api: str) -> Iterator[tuple[bool, bytes]]:
    """A row as a client gets it, streamed and plain, wherever the gateway writes the answer."""
    if row.stream:
        stream, out, native = fed(row, api)
        if not native:
            yield True, out + stream.tail(stream.state.reported or SPENT)
    if row.plain:
        plan = planned(api, row.dialect, stream=False)
        if api == "chat" or not plan.native:
            yield False, body_of(plan.adapter.whole(dumps(row.plain), plan.order, channel(dialect=row.dialect)))


@driven
@pytest.mark.timeout(RUN_S + 60)
async def test_the_ai_sdk_decodes_all_answers(tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(node_folder("ai-sdk") / "node_modules")
    (tmp_path / "main.mjs").write_text(DECODE)
    docs = [
        {"api": api, "row": row.name, "streamed": streamed, "body": body.decode("utf-8", "replace")}
        for api in OFFICIAL
        for row in ROWS
        if not row.error and is_typed(row, api)
        for streamed, body in answers(row, api)
    ]
    (tmp_path / "answers.json").write_text(json.dumps(docs))
    process = await asyncio.create_subprocess_exec(
        "node", "main.mjs", cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    out, _ = await process.communicate()
    count = len(docs) + sum(doc["api"] == "chat" for doc in docs)
    assert (count > 200, out.decode().splitlines()) == (True, [f"decoded {count}"])
