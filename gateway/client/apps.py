"""Apps: how each client program is pointed at the gateway, one entry per program.

``guide`` is what a person does by hand: files, variables, menus. ``launch`` is how ``tollkeeper run`` starts the
program without touching any of its files; a program without one needs only the variables of its guide.

Long: one entry after another; what they share is at the top.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec

from gateway.client.connect_card import Shell, assign, curl, node, python
from gateway.client.model_choice import best_model
from gateway.domain.errors import NotFound
from gateway.domain.patterns import is_embedding_model
from gateway.domain.text import plain, word
from gateway.domain.token import PREFIX
from gateway.domain.views import ModelView, TokenView

PLACEHOLDER_KEY = "sk-tk-..."
KEY_VARIABLE = "TOLLKEEPER_TOKEN"
"""Holds the key for programs that let the user choose a variable; ``tollkeeper chat`` reads it, too."""
HOME_NOTE = "on Windows ~ is %USERPROFILE%"
CLAUDE = ("sonnet", "claude")


class AppTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What a program is pointed at."""

    base_url: str
    """Ends in ``/v1``."""
    model: str
    models: Mapping[str, int | None]
    """All model names that the token sees, with the size of their context if it is known."""
    key: str = ""
    """Empty: not known, a placeholder stands for it."""

    @property
    def root(self) -> str:
        """The address without ``/v1``, for programs that add it themselves."""
        return self.base_url.removesuffix("/v1")

    @property
    def secret(self) -> str:
        """The key or its placeholder."""
        return self.key or PLACEHOLDER_KEY

    @property
    def chat_models(self) -> Mapping[str, int | None]:
        """Those that can be chosen for a conversation: without the ones that make embeddings."""
        return {
            name: context for name, context in self.models.items() if name == self.model or not is_embedding_model(name)
        }

    @property
    def embedding_model(self) -> str:
        """The first one that makes embeddings; empty if there is none."""
        return next(filter(is_embedding_model, (self.model, *self.models)), "")

    @classmethod
    def of(cls, base_url: str, models: Iterable[ModelView], *, model: str = "", key: str = "") -> "AppTarget":
        """With these models, of which the best one is chosen if none is named; harmless on any screen."""
        seen = {plain(view.name, 1_000): view.context for view in models}
        return cls(base_url=base_url, model=plain(model, 1_000) or best_model(seen), models=seen, key=key)

    def like(self, part: str) -> str:
        """The first model with this in its name, else the chosen one."""
        return self.model if part in self.model else next((name for name in self.models if part in name), self.model)


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to paste: a text, or variables, which are written as the shell wants them."""

    where: str
    """Where it goes: a path, a menu, a shell."""
    text: str = ""
    variables: Mapping[str, str] = {}
    is_file: bool = False
    """The text is a whole file, or what to put into one."""

    def lines(self, shell: Shell) -> str:
        """The text to paste."""
        return self.text or "\n".join(assign(name, value, shell) for name, value in self.variables.items())


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How ``tollkeeper run`` starts a program."""

    variables: Mapping[str, str] = {}
    """An empty value removes the variable."""
    arguments: Sequence[str] = ()
    """Put before those that the user gave. Never the key: everyone on the machine can read them."""
    files: Mapping[str, str] = {}
    """Files of ours, by their name in the temporary folder."""
    folder_variable: str = ""
    """Names the program's settings folder; the temporary one then has links to all else that is in the real one."""
    folder_default: str = ""
    """The real one's name among the user's folders for settings, if that variable is not set."""
    warning: str = ""
    """What a person has to know before the program starts."""
    note: str = ""
    """What a person has to know when the program has ended and called a model."""


class App(msgspec.Struct, frozen=True, kw_only=True):
    """A program that people connect."""

    title: str
    guide: Callable[[AppTarget], Sequence[Snippet]]
    programs: Sequence[str] = ()
    """Names of its executables, by which ``tollkeeper run`` recognizes it."""
    family: Sequence[str] = ()
    """Expressions for the models that its vendor made it for, the most suitable ones first; empty: for any."""
    launch: Callable[[AppTarget, Path], Launch] | None = None
    """The path is the temporary folder's."""

    def launched(self, target: AppTarget, folder: Path) -> Launch:
        """How to start it."""
        if self.launch is not None:
            return self.launch(target, folder)
        variables = {name: value for snippet in self.guide(target) for name, value in snippet.variables.items()}
        return Launch(variables=variables if self.programs else {**_generic_variables(target), **variables})


def find_app(name: str) -> App:
    """The app of that name, or of that program. Raises NotFound, naming all there are."""
    found = APPS.get(name.casefold()) or APPS.get(app_of_program(name))
    if found is None:
        words = {word: key for key, app in APPS.items() for word in (*app.programs, key)}
        near = get_close_matches(name.casefold(), words, n=1)
        meant = f". Did you mean '{words[near[0]]}'? Known apps" if near else "; known"
        raise NotFound(f"unknown app '{plain(name)}'{meant}: {', '.join(APPS)}")
    return found


def app_of_program(program: str) -> str:
    """The name of the app that this executable is; empty if it is none of them."""
    stem = Path(program).name.casefold().removesuffix(".exe").removesuffix(".cmd")
    return next((name for name, app in APPS.items() if stem in app.programs), "")


def used_last(tokens: Sequence[TokenView]) -> TokenView:
    """The token to take if none is named: the one that made the newest call, else the oldest one."""
    return max(tokens, key=lambda token: (token.last_used_ms or 0, -token.created_ms))


def key_in(environ: Mapping[str, str]) -> str:
    """The key or name of a token that the environment gives to ``env`` and ``doctor``; empty if it gives none."""
    own = environ.get("OPENAI_API_KEY", "")
    return environ.get(KEY_VARIABLE, "") or (own if own.startswith(PREFIX) else "")


def generic_launch(target: AppTarget) -> Launch:
    """For a program that is in no table: the variables that SDKs read."""
    return Launch(variables=_generic_variables(target))


def _shell(variables: Mapping[str, str], where: str = "in the shell that starts it") -> Snippet:
    return Snippet(where=where, variables=variables)


def _file(where: str, text: str) -> Snippet:
    return Snippet(where=where, text=text, is_file=True)


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _quote(text: str) -> str:
    """A string in JSON, TOML, YAML, Python and JavaScript alike."""
    return msgspec.json.encode(plain(text, limit=1_000)).decode()


def _openai_variables(target: AppTarget) -> dict[str, str]:
    return {"OPENAI_BASE_URL": target.base_url, "OPENAI_API_KEY": target.secret}


def _anthropic_sdk(target: AppTarget) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": target.root, "ANTHROPIC_API_KEY": target.secret, "ANTHROPIC_AUTH_TOKEN": ""}


def _sdk_variables(target: AppTarget) -> dict[str, str]:
    return {**_openai_variables(target), **_anthropic_sdk(target)}


def _generic_variables(target: AppTarget) -> dict[str, str]:
    return {**_sdk_variables(target), "OPENAI_API_BASE": target.base_url}


def _own_key(target: AppTarget) -> Snippet:
    return _shell({KEY_VARIABLE: target.secret})


CLAUDE_NAMES = frozenset({"best", "default", "haiku", "opus", "opusplan", "sonnet"})
"""Claude Code has models of its own by these names, and does not send them."""


def _claude_variables(target: AppTarget) -> dict[str, str]:
    variables = {
        "ANTHROPIC_BASE_URL": target.root,
        "ANTHROPIC_AUTH_TOKEN": target.secret,
        "ANTHROPIC_API_KEY": "",
        "ANTHROPIC_MODEL": target.model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": target.like("opus"),
        "ANTHROPIC_DEFAULT_SONNET_MODEL": target.like("sonnet"),
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": target.like("haiku"),
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    if "claude" not in target.model:
        variables["CLAUDE_CODE_ATTRIBUTION_HEADER"] = "0"  # only Anthropic keeps it out of the prompt and of its cache
        if context := target.models.get(target.model):
            variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(context)
            variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(min(32_000, context // 4))
    return variables


def _claude(target: AppTarget) -> Sequence[Snippet]:
    variables = _claude_variables(target)
    return (
        _shell(variables),
        _file(f"or, to keep it: ~/.claude/settings.json ({HOME_NOTE})", _json({"env": variables})),
    )


def _claude_launch(target: AppTarget, folder: Path) -> Launch:
    # Variables of the user's own settings file would win over those of the environment, but not over this file's.
    variables = _claude_variables(target)
    file = {"settings.json": _json({"env": variables})}
    return Launch(
        variables=variables,
        files=file,
        arguments=("--settings", str(folder / "settings.json")),
        warning=f"Claude Code has a model of its own called '{target.model}' and calls that; give yours another name"
        if target.model in CLAUDE_NAMES
        else "",
        note="That settings file is deleted now. To resume the session: tollkeeper run -- claude --resume ID",
    )


def _codex_provider(target: AppTarget) -> dict[str, str]:
    return {
        "name": '"Tollkeeper"',
        "base_url": _quote(target.base_url),
        "env_key": f'"{KEY_VARIABLE}"',
        "wire_api": '"responses"',
        "request_max_retries": "0",
        "stream_max_retries": "1",
    }


def _codex_settings(target: AppTarget) -> dict[str, str]:
    settings = {"model": _quote(target.model), "model_provider": '"tollkeeper"'}
    context = target.models.get(target.model)
    return settings | ({"model_context_window": str(context)} if context else {})


def _codex(target: AppTarget) -> Sequence[Snippet]:
    top = [f"{name} = {value}" for name, value in _codex_settings(target).items()]
    table = [f"{name} = {value}" for name, value in _codex_provider(target).items()]
    text = "\n".join([*top, "", "[model_providers.tollkeeper]", *table])
    return _file(f"~/.codex/config.toml ({HOME_NOTE})", text), _own_key(target)


def _codex_launch(target: AppTarget, _: Path) -> Launch:
    table = {f"model_providers.tollkeeper.{name}": value for name, value in _codex_provider(target).items()}
    pairs = [f"{name}={value}" for name, value in {**_codex_settings(target), **table}.items()]
    return Launch(variables={KEY_VARIABLE: target.secret}, arguments=[part for pair in pairs for part in ("-c", pair)])


def _opencode_config(target: AppTarget) -> dict[str, object]:
    models: dict[str, object] = {
        name: {"name": name} | ({"limit": {"context": context, "output": min(32_000, context // 2)}} if context else {})
        for name, context in target.chat_models.items()
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Tollkeeper",
        "options": {"baseURL": target.base_url, "apiKey": f"{{env:{KEY_VARIABLE}}}"},
        "models": models,
    }
    schema, model = "https://opencode.ai/config.json", f"tollkeeper/{target.model}"
    return {"$schema": schema, "model": model, "small_model": model, "provider": {"tollkeeper": provider}}


def _opencode(target: AppTarget) -> Sequence[Snippet]:
    where = f"~/.config/opencode/opencode.json, or opencode.json in a project ({HOME_NOTE})"
    return _file(where, _json(_opencode_config(target))), _own_key(target)


def _opencode_launch(target: AppTarget, _: Path) -> Launch:
    config = msgspec.json.encode(_opencode_config(target)).decode()
    return Launch(variables={KEY_VARIABLE: target.secret, "OPENCODE_CONFIG_CONTENT": config})


def _qwen_variables(target: AppTarget) -> dict[str, str]:
    return {**_openai_variables(target), "OPENAI_MODEL": target.model}


def _qwen(target: AppTarget) -> Sequence[Snippet]:
    where = "then, if it was signed in elsewhere before, start it with"
    return _shell(_qwen_variables(target)), Snippet(where=where, text="qwen --auth-type openai")


def _qwen_launch(target: AppTarget, folder: Path) -> Launch:
    settings = {"security": {"auth": {"selectedType": "openai"}}}
    path = {"QWEN_CODE_SYSTEM_SETTINGS_PATH": str(folder / "settings.json")}
    return Launch(variables={**_qwen_variables(target), **path}, files={"settings.json": _json(settings)})


def _aider(target: AppTarget) -> Sequence[Snippet]:
    model = f"openai/{target.model}"
    lines = [f"openai-api-base: {_quote(target.base_url)}", f"openai-api-key: {_quote(target.secret)}"]
    # These also win over a key in a configuration file or in a project's .env, which OPENAI_API_KEY would not.
    variables = {
        "AIDER_OPENAI_API_BASE": target.base_url,
        "AIDER_OPENAI_API_KEY": target.secret,
        "AIDER_MODEL": model,
    }
    text = "\n".join([*lines, f"model: {_quote(model)}"])
    return _shell(variables), _file(f"or, to keep it: ~/.aider.conf.yml ({HOME_NOTE})", text)


def _llm_models(target: AppTarget) -> str:
    return "\n".join(
        f"- model_id: {_quote(name)}\n  model_name: {_quote(name)}\n  api_base: {_quote(target.base_url)}\n"
        "  api_key_name: tollkeeper\n  can_stream: true\n  supports_tools: true"
        for name in target.chat_models
    )


def _llm(target: AppTarget) -> Sequence[Snippet]:
    where = "extra-openai-models.yaml in the folder that 'dirname \"$(llm logs path)\"' prints"
    return (
        _file(where, _llm_models(target)),
        Snippet(where="in a shell; it asks for the key", text="llm keys set tollkeeper"),
        Snippet(where="then", text=f"llm -m {word(target.model)} 'Hello'"),
    )


def _llm_launch(target: AppTarget, _: Path) -> Launch:
    files = {
        "extra-openai-models.yaml": _llm_models(target) + "\n",
        "keys.json": _json({"tollkeeper": target.secret}),
        "default_model.txt": target.model,
    }
    return Launch(files=files, folder_variable="LLM_USER_PATH", folder_default="io.datasette.llm")


def _continue_config(target: AppTarget, key: str) -> str:
    head = "name: Tollkeeper\nversion: 1.0.0\nschema: v1\nmodels:\n"
    names = [target.model, *(name for name in target.models if name != target.model)]
    return head + "\n".join(
        f"  - name: {_quote(name)}\n    provider: openai\n    model: {_quote(name)}\n"
        f"    apiBase: {_quote(target.base_url)}\n    apiKey: {key}\n    roles: [{_continue_roles(name)}]"
        for name in names
    )


def _continue_roles(name: str) -> str:
    return "embed" if is_embedding_model(name) else "chat, edit, apply"


def _continue(target: AppTarget) -> Sequence[Snippet]:
    text = _continue_config(target, _quote(target.secret))
    return (_file(f"~/.continue/config.yaml ({HOME_NOTE})", text),)


def _continue_launch(target: AppTarget, folder: Path) -> Launch:
    text = _continue_config(target, f"${{{{ secrets.{KEY_VARIABLE} }}}}")
    arguments = ("--config", str(folder / "config.yaml"))
    return Launch(variables={KEY_VARIABLE: target.secret}, files={"config.yaml": text}, arguments=arguments)


def _open_webui_variables(target: AppTarget) -> dict[str, str]:
    variables = {"OPENAI_API_BASE_URL": target.base_url, "OPENAI_API_KEY": target.secret}
    if embedding := target.embedding_model:
        variables |= {"RAG_EMBEDDING_ENGINE": "openai", "RAG_EMBEDDING_MODEL": embedding}
        variables |= {"RAG_OPENAI_API_BASE_URL": target.base_url, "RAG_OPENAI_API_KEY": target.secret}
    return variables


def _open_webui_launch(target: AppTarget, _: Path) -> Launch:
    # Else it would keep the address and the key of its first start in its database, and the key ends with that start.
    return Launch(
        variables={**_open_webui_variables(target), "ENABLE_PERSISTENT_CONFIG": "False"},
        warning="Open WebUI takes its settings from the environment now and keeps no change of its Admin Panel; with a "
        "token of its own it does: tollkeeper env --for open-webui",
    )


def _open_webui(target: AppTarget) -> Sequence[Snippet]:
    variables = _open_webui_variables(target)
    text = f"URL: {target.base_url}\nKey: {target.secret}"
    return (
        _shell(variables, "in the environment of its first start; later starts read its database"),
        Snippet(where="or in the browser: Admin Panel > Settings > Connections > OpenAI API > +", text=text),
    )


def _openai_agents(target: AppTarget) -> Sequence[Snippet]:
    # Traces would go to OpenAI with the key of this gateway.
    variables = {
        **_openai_variables(target),
        "OPENAI_DEFAULT_MODEL": target.model,
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }
    text = f"""\
from agents import Agent, Runner

agent = Agent(name="Assistant", model={_quote(target.model)})
print(Runner.run_sync(agent, "Hello").final_output)"""
    return _shell(variables), _file("a program", text)


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
const {{ text }} = await generateText({{ model: tollkeeper({_quote(target.model)}), prompt: "Hello" }});
console.log(text);"""
    where = "openai() and anthropic() of @ai-sdk/openai and @ai-sdk/anthropic read these"
    anthropic = {"ANTHROPIC_BASE_URL": target.base_url, "ANTHROPIC_API_KEY": target.secret}
    return _shell({**_openai_variables(target), **anthropic}, where), _file("a module", text)


def _gptme(target: AppTarget) -> Sequence[Snippet]:
    return (_shell({**_openai_variables(target), "MODEL": f"local/{target.model}"}),)


def _shell_gpt(target: AppTarget) -> Sequence[Snippet]:
    variables = {"API_BASE_URL": target.base_url, "OPENAI_API_KEY": target.secret, "DEFAULT_MODEL": target.model}
    text = "\n".join(f"{name}={value}" for name, value in variables.items())
    where = f"or, to keep it: these lines of ~/.config/shell_gpt/.sgptrc ({HOME_NOTE})"
    return _shell(variables), _file(where, text)


def _zed(target: AppTarget) -> Sequence[Snippet]:
    models = [
        {"name": name, "display_name": name, "max_tokens": context or 128_000}
        for name, context in target.chat_models.items()
    ]
    provider = {"api_url": target.base_url, "available_models": models}
    default = {"default_model": {"provider": "Tollkeeper", "model": target.model}}
    text = _json({"language_models": {"openai_compatible": {"Tollkeeper": provider}}, "agent": default})
    return (
        _file(r"~/.config/zed/settings.json (Windows: %APPDATA%\Zed\settings.json)", text),
        Snippet(where="the key: command palette > agent: open settings > LLM Providers", text=target.secret),
        _shell({"TOLLKEEPER_API_KEY": target.secret}, "or, for the key, in the shell that starts it"),
    )


def _cursor(target: AppTarget) -> Sequence[Snippet]:
    text = (
        f"OpenAI API Key: {target.secret}\nOverride OpenAI Base URL: {target.base_url}\nAdd model: {target.model}\n"
        "Cursor's own servers make the calls, so this address must be reachable from the internet over https."
    )
    return (Snippet(where="Cursor Settings > Models", text=text),)


def _cline(target: AppTarget) -> Sequence[Snippet]:
    text = (
        f"API Provider: OpenAI Compatible\nBase URL: {target.base_url}\nAPI Key: {target.secret}\n"
        f"Model ID: {target.model}"
    )
    return (Snippet(where="Cline's or Roo Code's panel > the gear", text=text),)


def _pydantic_ai(target: AppTarget) -> Sequence[Snippet]:
    text = f"""\
from pydantic_ai import Agent

agent = Agent({_quote("openai-chat:" + target.model)})
print(agent.run_sync("Hello").output)"""
    return _shell(_sdk_variables(target)), _file("a program", text)


def _langchain(target: AppTarget) -> Sequence[Snippet]:
    text = f"""\
from langchain_openai import ChatOpenAI

llm = ChatOpenAI(model={_quote(target.model)})
print(llm.invoke("Hello").content)"""
    return _shell(_sdk_variables(target)), _file("a program", text)


def _llama_index(target: AppTarget) -> Sequence[Snippet]:
    context = target.models.get(target.model) or 128_000
    text = f"""\
import os

from llama_index.llms.openai_like import OpenAILike

llm = OpenAILike(
    model={_quote(target.model)},
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
    is_chat_model=True,
    is_function_calling_model=True,
    context_window={context},
)
print(llm.complete("Hello"))"""
    return _shell(_openai_variables(target)), _file("a program", text)


def _litellm(target: AppTarget) -> Sequence[Snippet]:
    text = f"""\
import litellm

messages = [{{"role": "user", "content": "Hello"}}]
answer = litellm.completion(model={_quote("openai/" + target.model)}, messages=messages)
print(answer.choices[0].message.content)"""
    return _shell(_openai_variables(target)), _file("a program", text)


def _ollama(target: AppTarget) -> Sequence[Snippet]:
    url = f"{target.root}/k/{target.secret}"  # most of these programs can send no key
    where = "in the shell that starts a program that speaks Ollama's API"
    return _shell({"OLLAMA_HOST": url}, where), Snippet(where="or in its settings, as Ollama's address", text=url)


def _openai(target: AppTarget) -> Sequence[Snippet]:
    return (
        _shell(_openai_variables(target)),
        _file("a program in Python", python(target.model)),
        _file("a module for Node.js", node(target.model)),
    )


def _anthropic(target: AppTarget) -> Sequence[Snippet]:
    text = f"""\
from anthropic import Anthropic

client = Anthropic()
messages = [{{"role": "user", "content": "Hello"}}]
answer = client.messages.create(model={_quote(target.model)}, max_tokens=1024, messages=messages)
print(answer.content[0].text)"""
    return _shell(_anthropic_sdk(target)), _file("a program in Python", text)


def _curl(target: AppTarget) -> Sequence[Snippet]:
    where = "in a shell"
    return _shell(_openai_variables(target), where), Snippet(where="then", text=curl(target.base_url, target.model))


APPS: Mapping[str, App] = {
    "claude": App(title="Claude Code", guide=_claude, programs=("claude",), launch=_claude_launch, family=CLAUDE),
    "codex": App(title="Codex", guide=_codex, programs=("codex",), launch=_codex_launch, family=(r"gpt-\d",)),
    "opencode": App(title="opencode", guide=_opencode, programs=("opencode",), launch=_opencode_launch),
    "qwen-code": App(
        title="Qwen Code", guide=_qwen, programs=("qwen",), launch=_qwen_launch, family=("qwen.*coder", "qwen")
    ),
    "aider": App(title="aider", guide=_aider, programs=("aider",)),
    "llm": App(title="llm", guide=_llm, programs=("llm",), launch=_llm_launch),
    "continue": App(title="Continue", guide=_continue, programs=("cn",), launch=_continue_launch),
    "open-webui": App(title="Open WebUI", guide=_open_webui, programs=("open-webui",), launch=_open_webui_launch),
    "gptme": App(title="gptme", guide=_gptme, programs=("gptme",)),
    "shell-gpt": App(title="ShellGPT", guide=_shell_gpt, programs=("sgpt",)),
    "zed": App(title="Zed", guide=_zed, programs=("zed", "zeditor")),
    "cursor": App(title="Cursor", guide=_cursor, programs=("cursor",)),
    "cline": App(title="Cline, Roo Code", guide=_cline),
    "openai": App(title="OpenAI SDKs", guide=_openai),
    "anthropic": App(title="Anthropic SDKs", guide=_anthropic, family=CLAUDE),
    "ollama": App(title="Ollama clients", guide=_ollama, programs=("ollama",)),
    "openai-agents": App(title="OpenAI Agents SDK", guide=_openai_agents),
    "ai-sdk": App(title="AI SDK (Vercel)", guide=_ai_sdk),
    "pydantic-ai": App(title="Pydantic AI", guide=_pydantic_ai),
    "langchain": App(title="LangChain", guide=_langchain),
    "llama-index": App(title="LlamaIndex", guide=_llama_index),
    "litellm": App(title="LiteLLM", guide=_litellm),
    "curl": App(title="curl", guide=_curl),
}
