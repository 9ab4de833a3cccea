"""Coding agents: how to point coding agents and editors at the gateway."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from gateway.client.app import (
    CLAUDE,
    HOME_NOTE,
    KEY_VARIABLE,
    App,
    AppTarget,
    Launch,
    Snippet,
    file_part,
    json_text,
    key_part,
    openai_variables,
    shell_part,
)
from gateway.client.connect_card import quote
from gateway.domain.patterns import is_embedding_model
from gateway.domain.text import word

CLAUDE_NAMES = frozenset({"best", "default", "haiku", "opus", "opusplan", "sonnet"})
"""Names that Claude Code replaces by Anthropic's models."""


TOOL_SEARCH = {"ENABLE_TOOL_SEARCH": "true"}
"""Without it, older versions of Claude Code send all tools in each call to any address but Anthropic's."""


def _claude_variables(target: AppTarget) -> dict[str, str]:
    variables = {
        "ANTHROPIC_BASE_URL": target.root,
        "ANTHROPIC_AUTH_TOKEN": target.secret,
        "ANTHROPIC_API_KEY": "",
        "ANTHROPIC_MODEL": target.model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": target.model_with("opus"),
        "ANTHROPIC_DEFAULT_SONNET_MODEL": target.model_with("sonnet"),
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": target.model_with("haiku"),
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    if "claude" not in target.model:
        variables["CLAUDE_CODE_ATTRIBUTION_HEADER"] = "0"  # only Anthropic removes this header from the prompt
        if context := target.models.get(target.model):
            variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(context)
            variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(min(32_000, context // 4))
    return variables


def _claude(target: AppTarget) -> Sequence[Snippet]:
    variables = {**_claude_variables(target), **TOOL_SEARCH}
    return (
        shell_part(variables),
        file_part(f"or, to keep it: ~/.claude/settings.json ({HOME_NOTE})", json_text({"env": variables})),
    )


def _claude_launch(target: AppTarget, folder: Path) -> Launch:
    # Variables in the user's settings file take precedence over the environment, but not over this file.
    variables = _claude_variables(target)
    file = {"settings.json": json_text({"env": variables})}
    return Launch(
        variables=variables,
        defaults=TOOL_SEARCH,
        files=file,
        arguments=("--settings", str(folder / "settings.json")),
        warning=f"Claude Code replaces the name '{target.model}' by one of Anthropic's models; give yours another name"
        if target.model in CLAUDE_NAMES
        else "",
        note="The settings file has been deleted. To resume the session: tollkeeper run -- claude --resume ID",
    )


def _codex_provider(target: AppTarget) -> dict[str, str]:
    return {
        "name": '"Tollkeeper"',
        "base_url": quote(target.base_url),
        "env_key": f'"{KEY_VARIABLE}"',
        "wire_api": '"responses"',
        "request_max_retries": "0",
        "stream_max_retries": "1",
        "supports_websockets": "true",  # if the connection has no WebSockets, Codex falls back to POST
    }


def _codex_settings(target: AppTarget) -> dict[str, str]:
    settings = {"model": quote(target.model), "model_provider": '"tollkeeper"'}
    context = target.models.get(target.model)
    return settings | ({"model_context_window": str(context)} if context else {})


def _codex(target: AppTarget) -> Sequence[Snippet]:
    settings = [f"{name} = {value}" for name, value in _codex_settings(target).items()]
    table = [f"{name} = {value}" for name, value in _codex_provider(target).items()]
    text = "\n".join([*settings, "", "[model_providers.tollkeeper]", *table])
    return file_part(f"~/.codex/config.toml ({HOME_NOTE})", text), key_part(target)


def _codex_launch(target: AppTarget, _: Path) -> Launch:
    table = {f"model_providers.tollkeeper.{name}": value for name, value in _codex_provider(target).items()}
    settings = {**_codex_settings(target), **table, "analytics.enabled": "false"}
    pairs = [f"{name}={value}" for name, value in settings.items()]
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
    return file_part(where, json_text(_opencode_config(target))), key_part(target)


def _opencode_launch(target: AppTarget, _: Path) -> Launch:
    config = msgspec.json.encode(_opencode_config(target)).decode()
    return Launch(variables={KEY_VARIABLE: target.secret, "OPENCODE_CONFIG_CONTENT": config})


def _qwen_variables(target: AppTarget) -> dict[str, str]:
    return {**openai_variables(target), "OPENAI_MODEL": target.model}


def _qwen(target: AppTarget) -> Sequence[Snippet]:
    where = "then, if it was signed in elsewhere before, start it with"
    return shell_part(_qwen_variables(target)), Snippet(where=where, text="qwen --auth-type openai")


def _qwen_launch(target: AppTarget, folder: Path) -> Launch:
    settings = {"security": {"auth": {"selectedType": "openai"}}, "privacy": {"usageStatisticsEnabled": False}}
    path = {"QWEN_CODE_SYSTEM_SETTINGS_PATH": str(folder / "settings.json")}
    return Launch(variables={**_qwen_variables(target), **path}, files={"settings.json": json_text(settings)})


def _aider(target: AppTarget) -> Sequence[Snippet]:
    model = f"openai/{target.model}"
    lines = [f"openai-api-base: {quote(target.base_url)}", f"openai-api-key: {quote(target.secret)}"]
    # Unlike OPENAI_API_KEY, these take precedence over a key in a configuration file or a project's .env.
    variables = {
        "AIDER_OPENAI_API_BASE": target.base_url,
        "AIDER_OPENAI_API_KEY": target.secret,
        "AIDER_MODEL": model,
    }
    text = "\n".join([*lines, f"model: {quote(model)}"])
    return shell_part(variables), file_part(f"or, to keep it: ~/.aider.conf.yml ({HOME_NOTE})", text)


def _continue_config(target: AppTarget, key: str) -> str:
    head = "name: Tollkeeper\nversion: 1.0.0\nschema: v1\nmodels:\n"
    names = [target.model, *(name for name in target.models if name != target.model)]
    return head + "\n".join(
        f"  - name: {quote(name)}\n    provider: openai\n    model: {quote(name)}\n"
        f"    apiBase: {quote(target.base_url)}\n    apiKey: {key}\n"
        f"    roles: [{'embed' if is_embedding_model(name) else 'chat, edit, apply'}]\n"
        "    requestOptions:\n      headers:\n        X-App: Continue"
        for name in names
    )


def _continue(target: AppTarget) -> Sequence[Snippet]:
    text = _continue_config(target, quote(target.secret))
    return (file_part(f"~/.continue/config.yaml ({HOME_NOTE})", text),)


def _continue_launch(target: AppTarget, folder: Path) -> Launch:
    text = _continue_config(target, f"${{{{ secrets.{KEY_VARIABLE} }}}}")
    arguments = ("--config", str(folder / "config.yaml"))
    return Launch(variables={KEY_VARIABLE: target.secret}, files={"config.yaml": text}, arguments=arguments)


def _cline_settings(target: AppTarget) -> str:
    provider = "openai-compatible"
    settings = {"provider": provider, "apiKey": target.secret, "model": target.model, "baseUrl": target.base_url}
    entry = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    return json_text({"version": 1, "lastUsedProvider": provider, "modes": {}, "providers": {provider: entry}})


def _cline(target: AppTarget) -> Sequence[Snippet]:
    text = (
        f"API Provider: OpenAI Compatible\nBase URL: {target.base_url}\nAPI Key: {target.secret}\n"
        f"Model ID: {target.model}"
    )
    return (
        Snippet(where="Cline's or Roo Code's panel > the gear", text=text),
        file_part(
            f"for the command line: ~/.cline/data/settings/providers.json ({HOME_NOTE})", _cline_settings(target)
        ),
    )


def _cline_launch(target: AppTarget, folder: Path) -> Launch:
    path = {"CLINE_PROVIDER_SETTINGS_PATH": str(folder / "providers.json")}
    return Launch(variables=path, files={"providers.json": _cline_settings(target)})


def _pi_provider(target: AppTarget) -> dict[str, object]:
    no_cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
    shared = {"reasoning": False, "input": ["text", "image"], "cost": no_cost}
    models = [
        {"id": name, "name": name, **shared, "contextWindow": context, "maxTokens": min(32_000, context // 4)}
        for name, listed_context in target.chat_models.items()
        for context in (listed_context or 128_000,)
    ]
    endpoint = {"baseUrl": target.base_url, "apiKey": f"${KEY_VARIABLE}", "api": "openai-completions"}
    return {"name": "Tollkeeper", **endpoint, "models": models}


def _pi(target: AppTarget) -> Sequence[Snippet]:
    text = json_text({"providers": {"tollkeeper": _pi_provider(target)}})
    return (
        file_part(f"~/.pi/agent/models.json ({HOME_NOTE})", text),
        key_part(target),
        Snippet(where="then start it with", text=f"pi --model {word(f'tollkeeper/{target.model}')}"),
    )


def _pi_launch(target: AppTarget, folder: Path) -> Launch:
    provider = json_text(_pi_provider(target))
    extension = f'export default (pi) => pi.registerProvider("tollkeeper", {provider});\n'
    return Launch(
        variables={KEY_VARIABLE: target.secret},
        defaults={"PI_TELEMETRY": "0"},
        files={"tollkeeper.js": extension},
        arguments=("--extension", str(folder / "tollkeeper.js"), "--model", f"tollkeeper/{target.model}"),
    )


def _copilot(target: AppTarget) -> Sequence[Snippet]:
    variables = {
        "COPILOT_PROVIDER_BASE_URL": target.base_url,
        "COPILOT_PROVIDER_API_KEY": target.secret,
        "COPILOT_MODEL": target.model,
        "COPILOT_PROVIDER_HEADERS": "X-App: Copilot CLI",
    }
    if context := target.models.get(target.model):
        variables["COPILOT_PROVIDER_MAX_PROMPT_TOKENS"] = str(context * 3 // 4)
        variables["COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"] = str(min(32_000, context // 4))
    return (shell_part(variables),)


def _mini_swe_agent(target: AppTarget) -> Sequence[Snippet]:
    variables = {
        **openai_variables(target),
        "MSWEA_MODEL_NAME": f"openai/{target.model}",
        "MSWEA_CONFIGURED": "true",  # else it asks for a model and a key
        "MSWEA_COST_TRACKING": "ignore_errors",  # else it stops if it does not know the model's price
    }
    return (shell_part(variables),)


def _crush_config(target: AppTarget) -> str:
    models = [
        {"id": name, "name": name, "context_window": context or 128_000, "default_max_tokens": 16_000}
        for name, context in target.chat_models.items()
    ]
    endpoint = {"type": "openai-compat", "base_url": target.base_url, "api_key": f"${KEY_VARIABLE}"}
    provider = {"name": "Tollkeeper", **endpoint, "models": models}
    default = {"provider": "tollkeeper", "model": target.model}
    defaults = {"large": default, "small": default}
    return json_text(
        {"$schema": "https://charm.land/crush.json", "models": defaults, "providers": {"tollkeeper": provider}}
    )


def _crush(target: AppTarget) -> Sequence[Snippet]:
    where = r"~/.config/crush/crush.json (Windows: %LOCALAPPDATA%\crush\crush.json)"
    return file_part(where, _crush_config(target)), key_part(target)


def _crush_launch(target: AppTarget, _: Path) -> Launch:
    return Launch(
        variables={KEY_VARIABLE: target.secret},
        defaults={"CRUSH_DISABLE_METRICS": "1"},
        files={"crush.json": _crush_config(target)},
        folder_variable="CRUSH_GLOBAL_CONFIG",
        folder_default="crush",
    )


def _goose(target: AppTarget) -> Sequence[Snippet]:
    variables = {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": target.model,
        "OPENAI_HOST": target.root,
        "OPENAI_API_KEY": target.secret,
    }
    return (shell_part(variables),)


def _zed(target: AppTarget) -> Sequence[Snippet]:
    models = [
        {"name": name, "display_name": name, "max_tokens": context or 128_000}
        for name, context in target.chat_models.items()
    ]
    provider = {"api_url": target.base_url, "available_models": models}
    default = {"default_model": {"provider": "Tollkeeper", "model": target.model}}
    text = json_text({"language_models": {"openai_compatible": {"Tollkeeper": provider}}, "agent": default})
    return (
        file_part(r"~/.config/zed/settings.json (Windows: %APPDATA%\Zed\settings.json)", text),
        Snippet(where="the key: command palette > agent: open settings > LLM Providers", text=target.secret),
        shell_part({"TOLLKEEPER_API_KEY": target.secret}, "or, for the key, in the shell that starts it"),
    )


def _cursor(target: AppTarget) -> Sequence[Snippet]:
    text = (
        f"OpenAI API Key: {target.secret}\nOverride OpenAI Base URL: {target.base_url}\nAdd model: {target.model}\n"
        "Cursor's own servers make the calls, so this address must be reachable from the internet over https."
    )
    return (Snippet(where="Cursor Settings > Models", text=text),)


CODING_AGENTS: Mapping[str, App] = {
    "claude": App(title="Claude Code", guide=_claude, programs=("claude",), launch=_claude_launch, family=CLAUDE),
    "codex": App(title="Codex", guide=_codex, programs=("codex",), launch=_codex_launch, family=(r"gpt-\d",)),
    "opencode": App(title="opencode", guide=_opencode, programs=("opencode",), launch=_opencode_launch),
    "qwen-code": App(
        title="Qwen Code", guide=_qwen, programs=("qwen",), launch=_qwen_launch, family=("qwen.*coder", "qwen")
    ),
    "aider": App(title="aider", guide=_aider, programs=("aider",)),
    "continue": App(title="Continue", guide=_continue, programs=("cn",), launch=_continue_launch),
    "zed": App(title="Zed", guide=_zed, programs=("zed", "zeditor")),
    "cursor": App(title="Cursor", guide=_cursor, programs=("cursor",)),
    "cline": App(title="Cline, Roo Code", guide=_cline, programs=("cline",), launch=_cline_launch),
    "pi": App(title="pi", guide=_pi, programs=("pi",), launch=_pi_launch),
    "copilot": App(title="GitHub Copilot CLI", guide=_copilot, programs=("copilot",)),
    "mini-swe-agent": App(title="mini-swe-agent", guide=_mini_swe_agent, programs=("mini", "mini-swe-agent")),
    "crush": App(title="Crush", guide=_crush, programs=("crush",), launch=_crush_launch),
    "goose": App(title="goose", guide=_goose, programs=("goose",)),
}
