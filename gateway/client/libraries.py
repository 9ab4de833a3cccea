"""Libraries: how to point programs that use an SDK or framework at the gateway, with the smallest such program."""

from collections.abc import Mapping, Sequence

from gateway.client.app import (
    CLAUDE,
    NO_TRACES,
    App,
    AppTarget,
    Snippet,
    anthropic_variables,
    file_part,
    openai_variables,
    sdk_variables,
    shell_part,
)
from gateway.client.connect_card import curl, node, python, quote


def _openai(target: AppTarget) -> Sequence[Snippet]:
    return (
        shell_part(openai_variables(target)),
        file_part("a program in Python", python(target.model)),
        file_part("a module for Node.js", node(target.model)),
    )


def _anthropic(target: AppTarget) -> Sequence[Snippet]:
    text = f"""\
from anthropic import Anthropic

client = Anthropic()
messages = [{{"role": "user", "content": "Hello"}}]
answer = client.messages.create(model={quote(target.model)}, max_tokens=1024, messages=messages)
print(answer.content[0].text)"""
    return shell_part(anthropic_variables(target)), file_part("a program in Python", text)


def _openai_agents(target: AppTarget) -> Sequence[Snippet]:
    variables = {**openai_variables(target), "OPENAI_DEFAULT_MODEL": target.model, **NO_TRACES}
    text = f"""\
from agents import Agent, Runner

agent = Agent(name="Assistant", model={quote(target.model)})
print(Runner.run_sync(agent, "Hello").final_output)"""
    return shell_part(variables), file_part("a program", text)


def _ai_sdk(target: AppTarget) -> Sequence[Snippet]:
    text = f"""\
import {{ createOpenAICompatible }} from "@ai-sdk/openai-compatible";
import {{ generateText }} from "ai";

const tollkeeper = createOpenAICompatible({{
  name: "tollkeeper",
  baseURL: process.env.OPENAI_BASE_URL,
  apiKey: process.env.OPENAI_API_KEY,
  includeUsage: true,
}});
const {{ text }} = await generateText({{ model: tollkeeper({quote(target.model)}), prompt: "Hello" }});
console.log(text);"""
    where = "openai() and anthropic() of @ai-sdk/openai and @ai-sdk/anthropic read these"
    anthropic = {"ANTHROPIC_BASE_URL": target.base_url, "ANTHROPIC_API_KEY": target.secret}
    return shell_part({**openai_variables(target), **anthropic}, where), file_part("a module", text)


def _pydantic_ai(target: AppTarget) -> Sequence[Snippet]:
    text = f"""\
from pydantic_ai import Agent

agent = Agent({quote("openai-chat:" + target.model)})
print(agent.run_sync("Hello").output)"""
    return shell_part(sdk_variables(target)), file_part("a program", text)


def _langchain(target: AppTarget) -> Sequence[Snippet]:
    text = f"""\
from langchain_openai import ChatOpenAI

llm = ChatOpenAI(model={quote(target.model)})
print(llm.invoke("Hello").content)"""
    return shell_part(sdk_variables(target)), file_part("a program", text)


def _llama_index(target: AppTarget) -> Sequence[Snippet]:
    context = target.models.get(target.model) or 128_000
    text = f"""\
import os

from llama_index.llms.openai_like import OpenAILike

llm = OpenAILike(
    model={quote(target.model)},
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
    is_chat_model=True,
    is_function_calling_model=True,
    context_window={context},
)
print(llm.complete("Hello"))"""
    return shell_part(openai_variables(target)), file_part("a program", text)


def _litellm(target: AppTarget) -> Sequence[Snippet]:
    text = f"""\
import litellm

messages = [{{"role": "user", "content": "Hello"}}]
answer = litellm.completion(model={quote("openai/" + target.model)}, messages=messages)
print(answer.choices[0].message.content)"""
    return shell_part(openai_variables(target)), file_part("a program", text)


def _curl(target: AppTarget) -> Sequence[Snippet]:
    where = "in a shell"
    return shell_part(openai_variables(target), where), Snippet(where="then", text=curl(target.base_url, target.model))


LIBRARIES: Mapping[str, App] = {
    "openai": App(title="OpenAI SDKs", guide=_openai),
    "anthropic": App(title="Anthropic SDKs", guide=_anthropic, family=CLAUDE),
    "openai-agents": App(title="OpenAI Agents SDK", guide=_openai_agents),
    "ai-sdk": App(title="AI SDK (Vercel)", guide=_ai_sdk),
    "pydantic-ai": App(title="Pydantic AI", guide=_pydantic_ai),
    "langchain": App(title="LangChain", guide=_langchain),
    "llama-index": App(title="LlamaIndex", guide=_llama_index),
    "litellm": App(title="LiteLLM", guide=_litellm),
    "curl": App(title="curl", guide=_curl),
}
