"""Chat apps: how to point chat programs, and commands for single questions, at the gateway."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gateway.client.app import (
    HOME_NOTE,
    App,
    AppTarget,
    Launch,
    Snippet,
    file_part,
    json_text,
    openai_variables,
    quote,
    shell_part,
)
from gateway.domain.text import word


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


CHAT_APPS: Mapping[str, App] = {
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
