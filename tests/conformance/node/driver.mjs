// Driver: calls a gateway with JavaScript SDKs as their users do, and prints what they made of it.
// Reads {baseURL, key, jobs: [{do, model, ...}]} on stdin; writes one JSON result per job, in order.
import OpenAI from "openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";

const input = JSON.parse(await new Response(process.stdin).text());
const openai = new OpenAI({ baseURL: input.baseURL, apiKey: input.key });
const provider = createOpenAICompatible({
  name: "gateway", baseURL: input.baseURL, apiKey: input.key, includeUsage: true,
});
const messages = [{ role: "user", content: "Say hello." }];
const tools = { f: probe(), g: probe() };

function probe() {
  return tool({ description: "a probe", inputSchema: jsonSchema({ type: "object", properties: {}, additionalProperties: true }) });
}

const jobs = {
  models: async () => ({ ids: (await openai.models.list()).data.map((model) => model.id) }),
  retrieve: async ({ model }) => ({ id: (await openai.models.retrieve(model)).id }),
  create: async ({ model }) => {
    const answer = await openai.chat.completions.create({ model, messages });
    return { text: answer.choices[0].message.content, usage: answer.usage, id: answer._request_id };
  },
  embed: async ({ model, input, encoding_format }) => {
    const answer = await openai.embeddings.create({ model, input, encoding_format });
    return { vectors: answer.data.map((one) => Array.from(one.embedding)), usage: answer.usage };
  },
  complete: async ({ model }) => {
    let text = "";
    for await (const chunk of await openai.completions.create({ model, prompt: "Once", max_tokens: 8, stream: true })) {
      text += chunk.choices[0].text;
    }
    return { text };
  },
  iterate: async ({ model }) => {
    let text = "";
    for await (const chunk of await openai.chat.completions.create({ model, messages, stream: true })) {
      text += chunk.choices[0].delta.content ?? "";
    }
    return { text };
  },
  stream: async ({ model }) => {
    const run = openai.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
    const answer = await run.finalChatCompletion();
    const { message, finish_reason } = answer.choices[0];
    const calls = (message.tool_calls ?? []).map((c) => [c.id, c.function.name, JSON.parse(c.function.arguments)]);
    return { text: message.content, role: message.role, finish: finish_reason, calls, usage: answer.usage };
  },
  generateText: async ({ model }) => {
    const answer = await generateText({ model: provider(model), prompt: "Say hello." });
    return { text: answer.text, finish: answer.finishReason, usage: answer.usage };
  },
  streamText: async ({ model, maxRetries }) => {
    const errors = [];
    const answer = streamText({
      model: provider(model), prompt: "Say hello.", tools, maxRetries, onError: ({ error }) => errors.push(fault(error)),
    });
    let text = "";
    for await (const part of answer.textStream) text += part;
    if (errors.length) return { text, errors };
    const calls = (await answer.toolCalls).map((c) => [c.toolCallId, c.toolName, c.input]);
    return { text, calls, finish: await answer.finishReason, usage: await answer.usage };
  },
};

function fault(error) {
  const last = error.lastError ?? error;
  return { error: last.constructor.name, status: last.status ?? last.statusCode, code: last.code ?? null, message: last.message };
}

const results = await Promise.all(
  input.jobs.map((job) => jobs[job.do](job).catch((error) => fault(error))),
);
process.stdout.write(JSON.stringify(results));
