"""Apps: every app by name, the look-up by name or program, and the apps other than coding agents."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from gateway.client.app import (
    CLAUDE,
    HOME_NOTE,
    KEY_VARIABLE,
    NO_TRACES,
    App,
    AppTarget,
    Launch,
    Setup,
    Snippet,
    anthropic_variables,
    file_snippet,
    json_text,
    openai_variables,
    sdk_variables,
    shell_snippet,
)
from gateway.client.coding_agents import CODING_AGENTS
from gateway.client.connect_card import curl, node, python, quote
from gateway.domain.errors import NotFound
from gateway.domain.patterns import is_embedding_model
from gateway.domain.text import plain, word
from gateway.domain.token import PREFIX
from gateway.domain.views import TokenView


def _llm(target: AppTarget) -> Setup:
    models = "\n".join(
        f"- model_id: {quote(name)}\n  model_name: {quote(name)}\n  api_base: {quote(target.base_url)}\n"
        "  api_key_name: tollkeeper\n  can_stream: true\n  supports_tools: true\n"
        "  supports_schema: true\n  vision: true"
        for name in target.chat_models
    )
    place = "extra-openai-models.yaml in the folder that 'dirname \"$(llm logs path)\"' prints"
    guide = (
        file_snippet(place, models),
        Snippet(place="in a shell; it asks for the key", text="llm keys set tollkeeper"),
        Snippet(place="then", text=f"llm -m {word(target.model)} 'Hello'"),
    )
    files = {
        "extra-openai-models.yaml": models + "\n",
        "keys.json": json_text({"tollkeeper": target.secret}),
        "default_model.txt": target.model,
    }
    return Setup(guide, Launch(files=files, folder_variable="LLM_USER_PATH", folder_default="io.datasette.llm"))


def _open_webui(target: AppTarget) -> Setup:
    variables = {"OPENAI_API_BASE_URL": target.base_url, "OPENAI_API_KEY": target.secret}
    if embedding := next(filter(is_embedding_model, (target.model, *target.models)), ""):
        variables |= {"RAG_EMBEDDING_ENGINE": "openai", "RAG_EMBEDDING_MODEL": embedding}
        variables |= {"RAG_OPENAI_API_BASE_URL": target.base_url, "RAG_OPENAI_API_KEY": target.secret}
    text = f"URL: {target.base_url}\nKey: {target.secret}"
    guide = (
        shell_snippet(variables, "in the environment of its first start; later starts read its database"),
        Snippet(place="or in the browser: Admin Panel > Settings > Connections > OpenAI API > +", text=text),
    )
    launch = Launch(
        # else it stores the address and the key in its database at its first start, but the key ends with this run
        variables={**variables, "ENABLE_PERSISTENT_CONFIG": "False"},
        warning="Open WebUI now takes its settings from the environment, and keeps no changes of its Admin Panel; to "
        "keep them, give it a permanent token: tollkeeper env --for open-webui",
    )
    return Setup(guide, launch)


def _shell_gpt(target: AppTarget) -> Setup:
    variables = {"API_BASE_URL": target.base_url, "OPENAI_API_KEY": target.secret, "DEFAULT_MODEL": target.model}
    text = "\n".join(f"{name}={value}" for name, value in variables.items())
    place = f"or, to keep it: these lines of ~/.config/shell_gpt/.sgptrc ({HOME_NOTE})"
    return Setup((shell_snippet(variables), file_snippet(place, text)))


def _ollama(target: AppTarget) -> Setup:
    url = f"{target.root}/k/{target.secret}"  # most of these programs cannot send a key
    place = "in the shell that starts a program that speaks Ollama's API"
    by_hand = Snippet(place="or in its settings, as Ollama's address", text=url)
    # oterm puts http:// before OLLAMA_HOST, but not before OLLAMA_URL
    return Setup((shell_snippet({"OLLAMA_HOST": url, "OLLAMA_URL": url}, place), by_hand))


_CHAT_APPS: Mapping[str, App] = {
    "llm": App(title="llm", setup=_llm, programs=("llm",)),
    "open-webui": App(title="Open WebUI", setup=_open_webui, programs=("open-webui",)),
    "gptme": App(
        title="gptme",
        setup=lambda target: Setup((shell_snippet({**openai_variables(target), "MODEL": f"local/{target.model}"}),)),
        programs=("gptme",),
    ),
    "shell-gpt": App(title="ShellGPT", setup=_shell_gpt, programs=("sgpt", "shell-gpt")),
    "ollama": App(title="Ollama clients", setup=_ollama, programs=("ollama", "oterm")),
}


def _openai(target: AppTarget) -> Setup:
    programs = (
        file_snippet("a program in Python", python(target.model)),
        file_snippet("a module for Node.js", node(target.model)),
    )
    return Setup((shell_snippet(openai_variables(target)), *programs))


def _anthropic(target: AppTarget) -> Setup:
    text = f"""\
from anthropic import Anthropic

client = Anthropic()
messages = [{{"role": "user", "content": "Hello"}}]
answer = client.messages.create(model={quote(target.model)}, max_tokens=1024, messages=messages)
print("".join(block.text for block in answer.content if block.type == "text"))"""
    return Setup((shell_snippet(anthropic_variables(target)), file_snippet("a program in Python", text)))


def _openai_agents(target: AppTarget) -> Setup:
    variables = {**openai_variables(target), "OPENAI_DEFAULT_MODEL": target.model, **NO_TRACES}
    text = f"""\
from agents import Agent, Runner

agent = Agent(name="Assistant", model={quote(target.model)})
print(Runner.run_sync(agent, "Hello").final_output)"""
    return Setup((shell_snippet(variables), file_snippet("a program", text)))


def _ai_sdk(target: AppTarget) -> Setup:
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
    place = "openai() and anthropic() of @ai-sdk/openai and @ai-sdk/anthropic read these"
    anthropic = {"ANTHROPIC_BASE_URL": target.base_url, "ANTHROPIC_API_KEY": target.secret}
    return Setup((shell_snippet({**openai_variables(target), **anthropic}, place), file_snippet("a module", text)))


def _pydantic_ai(target: AppTarget) -> Setup:
    text = f"""\
from pydantic_ai import Agent

agent = Agent({quote("openai-chat:" + target.model)})
print(agent.run_sync("Hello").output)"""
    return Setup((shell_snippet(sdk_variables(target)), file_snippet("a program", text)))


def _langchain(target: AppTarget) -> Setup:
    text = f"""\
from langchain_openai import ChatOpenAI

llm = ChatOpenAI(model={quote(target.model)})
print(llm.invoke("Hello").content)"""
    return Setup((shell_snippet(sdk_variables(target)), file_snippet("a program", text)))


def _llama_index(target: AppTarget) -> Setup:
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
    return Setup((shell_snippet(openai_variables(target)), file_snippet("a program", text)))


def _litellm(target: AppTarget) -> Setup:
    text = f"""\
import litellm

messages = [{{"role": "user", "content": "Hello"}}]
answer = litellm.completion(model={quote("openai/" + target.model)}, messages=messages)
print(answer.choices[0].message.content)"""
    return Setup((shell_snippet(openai_variables(target)), file_snippet("a program", text)))


def _curl(target: AppTarget) -> Setup:
    command = Snippet(place="then", text=curl(target.base_url, target.model))
    return Setup((shell_snippet(openai_variables(target), "in a shell"), command))


_LIBRARIES: Mapping[str, App] = {
    "openai": App(title="OpenAI SDKs", setup=_openai),
    "anthropic": App(title="Anthropic SDKs", setup=_anthropic, family=CLAUDE),
    "claude-agent-sdk": App(
        title="Claude Agent SDK",  # it starts its own Claude Code
        setup=lambda target: Setup(CODING_AGENTS["claude"].setup(target).guide[:1]),
        family=CLAUDE,
    ),
    "openai-agents": App(title="OpenAI Agents SDK", setup=_openai_agents),
    "ai-sdk": App(title="AI SDK (Vercel)", setup=_ai_sdk),
    "pydantic-ai": App(title="Pydantic AI", setup=_pydantic_ai),
    "langchain": App(title="LangChain", setup=_langchain),
    "llama-index": App(title="LlamaIndex", setup=_llama_index),
    "litellm": App(title="LiteLLM", setup=_litellm),
    "curl": App(title="curl", setup=_curl),
}

UNKNOWN_PROGRAM = App(title="an unknown program", setup=lambda _: Setup(()))

APPS: Mapping[str, App] = {**CODING_AGENTS, **_CHAT_APPS, **_LIBRARIES}

GEMINI = (
    "Gemini CLI speaks only Gemini's API, which this gateway does not offer to programs, so it would call Google. "
    "Qwen Code, which is derived from it, works: tollkeeper run -- qwen"
)
GENAI = (
    "Google's Gen AI SDK speaks only Gemini's API, which this gateway does not offer to programs. "
    "OpenAI's SDK can call the same models here: tollkeeper env --for openai"
)
VENDORS_OWN = "this program calls only the servers of its vendor, with an account there, so it would bypass the gateway"
OTHER_APIS: Mapping[str, str] = {
    **dict.fromkeys(("amp", "auggie", "cursor-agent"), VENDORS_OWN),
    **dict.fromkeys(("gemini", "gemini-cli"), GEMINI),
    **dict.fromkeys(("genai", "google-genai", "google-generativeai"), GENAI),
}
"""Why a program cannot use the gateway, by the name of the program or its executable."""


def find_app(name: str) -> App:
    """Returns the app with this name or executable. Raises NotFound with a suggestion and the names of all apps."""
    require_api(name)
    app = APPS.get(name.casefold()) or APPS.get(app_of_program(name))
    if app is None:
        keys = {alias: key for key, other in APPS.items() for alias in (*other.programs, key)}
        near = get_close_matches(name.casefold(), keys, n=1)
        suggestion = f". Did you mean '{keys[near[0]]}'? The apps are" if near else "; the apps are"
        raise NotFound(f"unknown app '{plain(name)}'{suggestion}: {', '.join(APPS)}")
    return app


def app_of_program(program: str) -> str:
    """Returns the name of the app with this executable, or an empty string."""
    return next((name for name, app in APPS.items() if program_stem(program) in app.programs), "")


def require_api(program: str) -> None:
    """Raise NotFound for a program that would bypass the gateway, because it speaks other APIs."""
    if reason := OTHER_APIS.get(program_stem(program)):
        raise NotFound(reason)


def names_program(argument: str) -> bool:
    """Returns whether an argument names an app's program, or a program in ``OTHER_APIS``."""
    return bool(app_of_program(argument)) or program_stem(argument) in OTHER_APIS


def program_stem(program: str) -> str:
    """Returns the name of an executable or package without folder, scope, version and suffix, in lower case.

    For a package called cli, such as @kilocode/cli, it returns the scope.
    """
    *folders, name = Path(program.casefold()).parts or ("",)
    name = name.partition("@")[0].removesuffix(".exe").removesuffix(".cmd")
    return folders[-1].removeprefix("@") if folders and name == "cli" else name


def last_used_token(tokens: Sequence[TokenView]) -> TokenView:
    """Returns the token to use by default: the one used last, or the oldest one if none was used."""
    return max(tokens, key=lambda token: (token.last_used_ms or 0, -token.created_ms))


def key_in(environ: Mapping[str, str]) -> str:
    """Returns the key or name of a token in the environment, or an empty string."""
    openai_key = environ.get("OPENAI_API_KEY", "")
    return environ.get(KEY_VARIABLE, "") or (openai_key if openai_key.startswith(PREFIX) else "")
