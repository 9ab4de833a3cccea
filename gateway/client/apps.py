"""Apps: all apps by name, how to find the one that a name or an executable means, and the chat programs among them."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from gateway.client.app import (
    HOME_NOTE,
    KEY_VARIABLE,
    NO_TRACES,
    App,
    AppTarget,
    Launch,
    Snippet,
    file_part,
    generic_variables,
    json_text,
    openai_variables,
    shell_part,
)
from gateway.client.coding_agents import CODING_AGENTS
from gateway.client.connect_card import quote
from gateway.client.libraries import LIBRARIES
from gateway.domain.errors import NotFound
from gateway.domain.text import plain, word
from gateway.domain.token import PREFIX
from gateway.domain.views import TokenView


def _llm_models(target: AppTarget) -> str:
    return "\n".join(
        f"- model_id: {quote(name)}\n  model_name: {quote(name)}\n  api_base: {quote(target.base_url)}\n"
        "  api_key_name: tollkeeper\n  can_stream: true\n  supports_tools: true"
        for name in target.chat_models
    )


def _llm(target: AppTarget) -> Sequence[Snippet]:
    where = "extra-openai-models.yaml in the folder that 'dirname \"$(llm logs path)\"' prints"
    return (
        file_part(where, _llm_models(target)),
        Snippet(where="in a shell; it asks for the key", text="llm keys set tollkeeper"),
        Snippet(where="then", text=f"llm -m {word(target.model)} 'Hello'"),
    )


def _llm_launch(target: AppTarget, _: Path) -> Launch:
    files = {
        "extra-openai-models.yaml": _llm_models(target) + "\n",
        "keys.json": json_text({"tollkeeper": target.secret}),
        "default_model.txt": target.model,
    }
    return Launch(files=files, folder_variable="LLM_USER_PATH", folder_default="io.datasette.llm")


def _open_webui_variables(target: AppTarget) -> dict[str, str]:
    variables = {"OPENAI_API_BASE_URL": target.base_url, "OPENAI_API_KEY": target.secret}
    if embedding := target.embedding_model:
        variables |= {"RAG_EMBEDDING_ENGINE": "openai", "RAG_EMBEDDING_MODEL": embedding}
        variables |= {"RAG_OPENAI_API_BASE_URL": target.base_url, "RAG_OPENAI_API_KEY": target.secret}
    return variables


def _open_webui_launch(target: AppTarget, _: Path) -> Launch:
    # Otherwise it stores the address and the key in its database at its first start, but the key ends with this run.
    return Launch(
        variables={**_open_webui_variables(target), "ENABLE_PERSISTENT_CONFIG": "False"},
        warning="Open WebUI now takes its settings from the environment, and keeps no changes of its Admin Panel; to "
        "keep them, give it a permanent token: tollkeeper env --for open-webui",
    )


def _open_webui(target: AppTarget) -> Sequence[Snippet]:
    variables = _open_webui_variables(target)
    text = f"URL: {target.base_url}\nKey: {target.secret}"
    return (
        shell_part(variables, "in the environment of its first start; later starts read its database"),
        Snippet(where="or in the browser: Admin Panel > Settings > Connections > OpenAI API > +", text=text),
    )


def _shell_gpt(target: AppTarget) -> Sequence[Snippet]:
    variables = {"API_BASE_URL": target.base_url, "OPENAI_API_KEY": target.secret, "DEFAULT_MODEL": target.model}
    text = "\n".join(f"{name}={value}" for name, value in variables.items())
    where = f"or, to keep it: these lines of ~/.config/shell_gpt/.sgptrc ({HOME_NOTE})"
    return shell_part(variables), file_part(where, text)


def _ollama(target: AppTarget) -> Sequence[Snippet]:
    url = f"{target.root}/k/{target.secret}"  # most of these programs cannot send a key
    where = "in the shell that starts a program that speaks Ollama's API"
    return shell_part({"OLLAMA_HOST": url}, where), Snippet(where="or in its settings, as Ollama's address", text=url)


_CHAT_APPS: Mapping[str, App] = {
    "llm": App(title="llm", guide=_llm, programs=("llm",), launch=_llm_launch),
    "open-webui": App(title="Open WebUI", guide=_open_webui, programs=("open-webui",), launch=_open_webui_launch),
    "gptme": App(
        title="gptme",
        guide=lambda target: (shell_part({**openai_variables(target), "MODEL": f"local/{target.model}"}),),
        programs=("gptme",),
    ),
    "shell-gpt": App(title="ShellGPT", guide=_shell_gpt, programs=("sgpt",)),
    "ollama": App(title="Ollama clients", guide=_ollama, programs=("ollama",)),
}

APPS: Mapping[str, App] = {**CODING_AGENTS, **_CHAT_APPS, **LIBRARIES}

GEMINI = (
    "Gemini CLI speaks only Gemini's API, which this gateway does not offer to programs, so it would call Google. "
    "Qwen Code, which is derived from it, works: tollkeeper run -- qwen"
)
GENAI = (
    "Google's Gen AI SDK speaks only Gemini's API, which this gateway does not offer to programs. "
    "OpenAI's SDK can call the same models here: tollkeeper env --for openai"
)
OTHER_APIS: Mapping[str, str] = {
    **dict.fromkeys(("gemini", "gemini-cli"), GEMINI),
    **dict.fromkeys(("genai", "google-genai", "google-generativeai"), GENAI),
}
"""Why a program cannot use the gateway, by the name of the program or its executable."""


def find_app(name: str) -> App:
    """Returns the app with this name or executable. Raises NotFound with a suggestion and the names of all apps."""
    require_api(name)
    app = APPS.get(name.casefold()) or APPS.get(app_of_program(name))
    if app is None:
        keys = {word: key for key, other in APPS.items() for word in (*other.programs, key)}
        near = get_close_matches(name.casefold(), keys, n=1)
        suggestion = f". Did you mean '{keys[near[0]]}'? The apps are" if near else "; the apps are"
        raise NotFound(f"unknown app '{plain(name)}'{suggestion}: {', '.join(APPS)}")
    return app


def app_of_program(program: str) -> str:
    """Returns the name of the app with this executable; empty if there is none."""
    return next((name for name, app in APPS.items() if _stem(program) in app.programs), "")


def require_api(program: str) -> None:
    """Raise NotFound for a program that speaks none of the gateway's APIs, because it would bypass the gateway."""
    if reason := OTHER_APIS.get(_stem(program)):
        raise NotFound(reason)


def _stem(program: str) -> str:
    """Returns the name of an executable without folder and suffix, in lower case."""
    return Path(program).name.casefold().removesuffix(".exe").removesuffix(".cmd")


def last_used_token(tokens: Sequence[TokenView]) -> TokenView:
    """Returns the token to use if none is named: the one of the newest call, else the oldest one."""
    return max(tokens, key=lambda token: (token.last_used_ms or 0, -token.created_ms))


def key_in(environ: Mapping[str, str]) -> str:
    """Returns the key or name of a token in the environment; empty if there is none."""
    openai_key = environ.get("OPENAI_API_KEY", "")
    return environ.get(KEY_VARIABLE, "") or (openai_key if openai_key.startswith(PREFIX) else "")


def generic_launch(target: AppTarget) -> Launch:
    """Returns how to start an unknown program: with the variables that SDKs read."""
    return Launch(variables=generic_variables(target), defaults=NO_TRACES)
