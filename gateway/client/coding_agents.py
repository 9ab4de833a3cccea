"""Coding agents: how to point coding agents and editors at the gateway."""

from collections.abc import Mapping
from functools import partial

import msgspec

from gateway.client.app import (
    CLAUDE,
    FOLDER,
    HOME_NOTE,
    KEY_VARIABLE,
    App,
    AppTarget,
    Launch,
    Setup,
    Snippet,
    file_snippet,
    json_text,
    key_snippet,
    openai_variables,
    shell_snippet,
)
from gateway.client.connect_card import quote
from gateway.domain.patterns import is_embedding_model
from gateway.domain.text import word

CLAUDE_NAMES = frozenset({"best", "default", "haiku", "opus", "opusplan", "sonnet"})
"""Names that Claude Code replaces by Anthropic's models."""

CLOUDS = ("BEDROCK", "VERTEX", "FOUNDRY", "MANTLE", "ANTHROPIC_AWS", "ANTHROPIC_GOOGLE_CLOUD")
"""Clouds that Claude Code calls instead of the address, if ``CLAUDE_CODE_USE_...`` is set for one of them."""


def _claude(target: AppTarget) -> Setup:
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
    defaults = {"ENABLE_TOOL_SEARCH": "true"}  # else older versions send all tools to any address but Anthropic's
    if "claude" not in target.model:
        variables["CLAUDE_CODE_ATTRIBUTION_HEADER"] = "0"  # only Anthropic removes this header from the prompt
        published = target.models.get(target.model)
        context = published or 128_000  # else Claude Code assumes a million
        limits = variables if published else defaults
        limits["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(context)
        limits["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(min(32_000, context // 4))
    kept = {**variables, **defaults}
    place = f"or, to keep it: ~/.claude/settings.json ({HOME_NOTE})"
    replaced = f"Claude Code replaces the name '{target.model}' by one of Anthropic's models; give yours another name"
    forced = {**variables, **{f"CLAUDE_CODE_USE_{cloud}": "" for cloud in CLOUDS}}
    launch = Launch(
        variables=forced,
        defaults=defaults,
        # variables in the user's settings file take precedence over the environment, but not over this file
        files={"settings.json": json_text({"env": forced})},
        arguments=("--settings", f"{FOLDER}/settings.json"),
        warning=replaced if target.model in CLAUDE_NAMES else "",
        resume="claude --resume ID",
    )
    return Setup((shell_snippet(kept), file_snippet(place, json_text({"env": kept}))), launch)


def _codex(target: AppTarget) -> Setup:
    provider = {
        "name": '"Tollkeeper"',
        "base_url": quote(target.base_url),
        "env_key": f'"{KEY_VARIABLE}"',
        "wire_api": '"responses"',
        "request_max_retries": "0",
        "stream_max_retries": "1",
        "supports_websockets": "true",  # if the connection has no WebSockets, Codex falls back to POST
    }
    settings = {"model": quote(target.model), "model_provider": '"tollkeeper"'}
    if context := target.models.get(target.model):
        settings["model_context_window"] = str(context)
    lines = [f"{name} = {value}" for name, value in settings.items()]
    lines += ["", "[model_providers.tollkeeper]", *(f"{name} = {value}" for name, value in provider.items())]
    settings |= {f"model_providers.tollkeeper.{name}": value for name, value in provider.items()}
    settings["analytics.enabled"] = "false"
    arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    launch = Launch(arguments=arguments, resume="codex resume ID")
    return Setup((file_snippet(f"~/.codex/config.toml ({HOME_NOTE})", "\n".join(lines)), key_snippet(target)), launch)


def _opencode(
    target: AppTarget, name: str = "opencode", schema: str = "https://opencode.ai/config.json", **defaults: str
) -> Setup:
    """Returns the setup of opencode, or of a program that is made from it."""
    images = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    models: dict[str, dict[str, object]] = {}
    for listed, context in target.chat_models.items():
        models[listed] = {"name": listed, **images}
        if context:
            models[listed]["limit"] = {"context": context, "output": min(32_000, context // 2)}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Tollkeeper",
        "options": {"baseURL": target.base_url, "apiKey": f"{{env:{KEY_VARIABLE}}}"},
        "models": models,
    }
    model = f"tollkeeper/{target.model}"
    config = {"$schema": schema, "model": model, "small_model": model, "provider": {"tollkeeper": provider}}
    place = f"~/.config/{name}/{name}.json, or {name}.json in a project ({HOME_NOTE})"
    content = msgspec.json.encode(config).decode()
    launch = Launch(variables={f"{name.upper()}_CONFIG_CONTENT": content}, defaults=defaults)
    return Setup((file_snippet(place, json_text(config)), key_snippet(target)), launch)


def _qwen(target: AppTarget) -> Setup:
    variables = {**openai_variables(target), "OPENAI_MODEL": target.model}
    place = "then, if it was used with another account or model before, start it with"
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "model": {"name": target.model},  # otherwise the one of the user's settings
        "privacy": {"usageStatisticsEnabled": False},
    }
    launch = Launch(
        variables={**variables, "QWEN_CODE_SYSTEM_SETTINGS_PATH": f"{FOLDER}/settings.json"},
        files={"settings.json": json_text(settings)},
    )
    text = f"qwen --auth-type openai --model {word(target.model)}"
    return Setup((shell_snippet(variables), Snippet(place=place, text=text)), launch)


def _aider(target: AppTarget) -> Setup:
    # Unlike OPENAI_API_KEY, these take precedence over a key in a configuration file or a project's .env.
    variables = {
        "AIDER_OPENAI_API_BASE": target.base_url,
        "AIDER_OPENAI_API_KEY": target.secret,
        "AIDER_MODEL": f"openai/{target.model}",
    }
    options = {name.removeprefix("AIDER_").lower().replace("_", "-"): value for name, value in variables.items()}
    text = "\n".join(f"{name}: {quote(value)}" for name, value in options.items())
    # the file of this option wins over a project's .env, whose address would win over the options
    forced = {**variables, "OPENAI_BASE_URL": target.base_url}
    env = "\n".join(f"{name}={quote(value)}" for name, value in forced.items())
    launch = Launch(variables=variables, files={"aider.env": env}, arguments=("--env-file", f"{FOLDER}/aider.env"))
    guide = (shell_snippet(variables), file_snippet(f"or, to keep it: ~/.aider.conf.yml ({HOME_NOTE})", text))
    return Setup(guide, launch)


_CONTINUE_ROLES = "[chat, edit, apply]\n    capabilities: [tool_use, image_input]"
"""Continue knows only by the names of some models what they can do."""


def _continue(target: AppTarget) -> Setup:
    key, secret = quote(target.secret), f"${{{{ secrets.{KEY_VARIABLE} }}}}"
    names = [target.model, *(name for name in target.models if name != target.model)]
    text = "name: Tollkeeper\nversion: 1.0.0\nschema: v1\nmodels:\n" + "\n".join(
        f"  - name: {quote(name)}\n    provider: openai\n    model: {quote(name)}\n"
        f"    apiBase: {quote(target.base_url)}\n    apiKey: {key}\n"
        f"    roles: {'[embed]' if is_embedding_model(name) else _CONTINUE_ROLES}\n"
        "    requestOptions:\n      headers:\n        X-App: Continue"
        for name in names
    )
    file = text.replace(f"apiKey: {key}\n", f"apiKey: {secret}\n")
    launch = Launch(files={"config.yaml": file}, arguments=("--config", f"{FOLDER}/config.yaml"))
    return Setup((file_snippet(f"~/.continue/config.yaml ({HOME_NOTE})", text),), launch)


def _cline(target: AppTarget) -> Setup:
    provider = "openai-compatible"
    settings = {"provider": provider, "apiKey": target.secret, "model": target.model, "baseUrl": target.base_url}
    entry = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    file = json_text({"version": 1, "lastUsedProvider": provider, "modes": {}, "providers": {provider: entry}})
    place = f"for the command line: ~/.cline/data/settings/providers.json ({HOME_NOTE})"
    endpoint = f"Base URL: {target.base_url}\nAPI Key: {target.secret}\nModel ID: {target.model}"
    text = f"API Provider: OpenAI Compatible\n{endpoint}"
    variables = {
        "CLINE_PROVIDER_SETTINGS_PATH": f"{FOLDER}/providers.json",
        "CLINE_SESSION_BACKEND_MODE": "local",  # else a hub that an earlier run left makes the calls, with its settings
        "CLINE_HUB_DISCOVERY_PATH": f"{FOLDER}/hub.json",  # a Cline of your own does not use the hub of a run either
    }
    launch = Launch(variables=variables, files={"providers.json": file})
    panel = Snippet(place="Cline's or Roo Code's panel > the gear", text=text)
    return Setup((panel, file_snippet(place, file)), launch)


def _pi_provider(target: AppTarget, key: str) -> Mapping[str, object]:
    no_cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
    shared = {"reasoning": False, "input": ["text", "image"], "cost": no_cost}
    contexts = {name: context or 128_000 for name, context in target.chat_models.items()}
    models = [
        {"id": name, "name": name, **shared, "contextWindow": context, "maxTokens": min(32_000, context // 4)}
        for name, context in contexts.items()
    ]
    return {"baseUrl": target.base_url, "apiKey": key, "api": "openai-completions", "models": models}


def _pi(target: AppTarget) -> Setup:
    provider = {"name": "Tollkeeper", **_pi_provider(target, f"${KEY_VARIABLE}")}
    model = f"tollkeeper/{target.model}"
    guide = (
        file_snippet(f"~/.pi/agent/models.json ({HOME_NOTE})", json_text({"providers": {"tollkeeper": provider}})),
        key_snippet(target),
        Snippet(place="then start it with", text=f"pi --model {word(model)}"),
    )
    fields = f"...{json_text(provider)}, apiKey: process.env.{KEY_VARIABLE}"  # pi 0.74, for Node.js 20, lacks "$NAME"
    extension = f'export default (pi) => pi.registerProvider("tollkeeper", {{{fields}}});\n'
    launch = Launch(
        defaults={"PI_TELEMETRY": "0"},
        files={"tollkeeper.js": extension},
        arguments=("--extension", f"{FOLDER}/tollkeeper.js", "--model", model),
    )
    return Setup(guide, launch)


def _openclaw(target: AppTarget) -> Setup:
    """Returns settings whose key is a variable, so that ``tollkeeper run`` can put another one in its place."""
    provider = {**_pi_provider(target, f"${{{KEY_VARIABLE}}}"), "headers": {"X-App": "OpenClaw"}}
    models = {"providers": {"tollkeeper": provider}}
    default = {"defaults": {"model": {"primary": f"tollkeeper/{target.model}"}}}
    guide = (
        file_snippet(f"~/.openclaw/openclaw.json ({HOME_NOTE})", json_text({"models": models, "agents": default})),
        file_snippet("~/.openclaw/.env", f"{KEY_VARIABLE}={target.secret}"),
    )
    warning = "OpenClaw knows the gateway by its own settings only: tollkeeper env --for openclaw"
    return Setup(guide, Launch(warning=warning))


def _kimi(target: AppTarget) -> Setup:
    context = target.models.get(target.model) or 128_000
    variables = {
        "KIMI_MODEL_PROVIDER_TYPE": "openai",
        "KIMI_MODEL_BASE_URL": target.base_url,
        "KIMI_MODEL_API_KEY": target.secret,
        "KIMI_MODEL_NAME": target.model,
        "KIMI_MODEL_MAX_CONTEXT_SIZE": str(context),
        "KIMI_MODEL_MAX_OUTPUT_SIZE": str(min(32_000, context // 4)),  # else each call holds for all of the context
    }
    launch = Launch(variables=variables, defaults={"KIMI_DISABLE_TELEMETRY": "1"}, resume="kimi -r ID")
    return Setup((shell_snippet(variables),), launch)


def _copilot(target: AppTarget) -> Setup:
    variables = {
        "COPILOT_PROVIDER_BASE_URL": target.base_url,
        "COPILOT_PROVIDER_API_KEY": target.secret,
        "COPILOT_MODEL": target.model,
        "COPILOT_PROVIDER_HEADERS": "X-App: Copilot CLI",
    }
    if context := target.models.get(target.model):
        variables["COPILOT_PROVIDER_MAX_PROMPT_TOKENS"] = str(context * 3 // 4)
        variables["COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"] = str(min(32_000, context // 4))
    # variables of the user that would win over the key and the model
    others = {f"COPILOT_PROVIDER_{name}": "" for name in ("BEARER_TOKEN", "API_KEY_COMMAND", "WIRE_MODEL")}
    return Setup((shell_snippet(variables),), Launch(variables={**variables, **others}, resume="copilot --resume=ID"))


def _mini_swe_agent(target: AppTarget) -> Setup:
    variables = {
        **openai_variables(target),
        "MSWEA_MODEL_NAME": f"openai/{target.model}",
        "MSWEA_CONFIGURED": "true",  # else it asks for a model and a key
        "MSWEA_COST_TRACKING": "ignore_errors",  # else it stops if it does not know the model's price
    }
    return Setup((shell_snippet(variables),))


def _crush(target: AppTarget) -> Setup:
    shared = {"default_max_tokens": 16_000, "supports_attachments": True}
    models = [
        {"id": name, "name": name, "context_window": context or 128_000, **shared}
        for name, context in target.chat_models.items()
    ]
    endpoint = {"type": "openai-compat", "base_url": target.base_url, "api_key": f"${KEY_VARIABLE}"}
    provider = {"name": "Tollkeeper", **endpoint, "models": models}
    defaults = {size: {"provider": "tollkeeper", "model": target.model} for size in ("large", "small")}
    settings = {"$schema": "https://charm.land/crush.json", "models": defaults, "providers": {"tollkeeper": provider}}
    place = r"~/.config/crush/crush.json (Windows: %LOCALAPPDATA%\crush\crush.json)"
    launch = Launch(
        # the folder of its state, in which it keeps the model that was last chosen, wins over the user's settings
        variables={"CRUSH_GLOBAL_DATA": FOLDER},
        defaults={"CRUSH_DISABLE_METRICS": "1"},
        files={"crush.json": json_text(settings)},
    )
    return Setup((file_snippet(place, json_text(settings)), key_snippet(target)), launch)


def _goose(target: AppTarget) -> Setup:
    variables = {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": target.model}
    # the settings of goose may have the path of another server
    address = {"OPENAI_HOST": target.root, "OPENAI_BASE_PATH": "v1/chat/completions", "OPENAI_API_KEY": target.secret}
    return Setup((shell_snippet({**variables, **address}),))


def _droid(target: AppTarget) -> Setup:
    shared = {"provider": "generic-chat-completion-api", "baseUrl": target.base_url, "apiKey": f"${{{KEY_VARIABLE}}}"}
    models = [
        {"model": name, "displayName": name, **shared, "maxOutputTokens": min(32_000, (context or 128_000) // 4)}
        for name, context in target.chat_models.items()
    ]
    text = json_text({"customModels": models, "sessionDefaultSettings": {"model": f"custom:{target.model}"}})
    variables = {"FACTORY_RUNTIME_SETTINGS_PATH": f"{FOLDER}/settings.json"}
    launch = Launch(variables=variables, files={"settings.json": text})
    return Setup((file_snippet(f"~/.factory/settings.json ({HOME_NOTE})", text), key_snippet(target)), launch)


def _vibe(target: AppTarget) -> Setup:
    endpoint = {"name": "tollkeeper", "api_base": target.base_url, "api_key_env_var": KEY_VARIABLE}
    provider = {**endpoint, "extra_headers": {"X-App": "Mistral Vibe"}}
    models = [
        {"name": name, "alias": name, "provider": "tollkeeper", "supports_images": True, "max_context_length": context}
        for name, context in target.chat_models.items()
    ]
    variables = {
        KEY_VARIABLE: target.secret,
        "VIBE_PROVIDERS": msgspec.json.encode([provider]).decode(),
        "VIBE_MODELS": msgspec.json.encode(models).decode(),
        "VIBE_ACTIVE_MODEL": target.model,
        "VIBE_ENABLE_TELEMETRY": "false",
    }
    return Setup((shell_snippet(variables),))


def _grok(target: AppTarget) -> Setup:
    variables = {"GROK_BASE_URL": target.base_url, "GROK_API_KEY": target.secret, "GROK_MODEL": target.model}
    return Setup((shell_snippet(variables),))


def _openhands(target: AppTarget) -> Setup:
    variables = {"LLM_BASE_URL": target.base_url, "LLM_API_KEY": target.secret, "LLM_MODEL": f"openai/{target.model}"}
    option = "--override-with-envs"  # else it ignores them
    start = Snippet(place="then start it with", text=f"openhands {option}")
    return Setup((shell_snippet(variables), start), Launch(variables=variables, arguments=(option,)))


def _zed(target: AppTarget) -> Setup:
    capabilities = {"tools": True, "images": True, "parallel_tool_calls": False, "prompt_cache_key": False}
    models = [
        {"name": name, "display_name": name, "max_tokens": context or 128_000, "capabilities": capabilities}
        for name, context in target.chat_models.items()
    ]
    provider = {"api_url": target.base_url, "available_models": models}
    default = {"default_model": {"provider": "Tollkeeper", "model": target.model}}
    text = json_text({"language_models": {"openai_compatible": {"Tollkeeper": provider}}, "agent": default})
    guide = (
        file_snippet(r"~/.config/zed/settings.json (Windows: %APPDATA%\Zed\settings.json)", text),
        Snippet(place="the key: command palette > agent: open settings > LLM Providers", text=target.secret),
        shell_snippet({"TOLLKEEPER_API_KEY": target.secret}, "or, for the key, in the shell that starts it"),
    )
    return Setup(guide)


def _cursor(target: AppTarget) -> Setup:
    text = f"OpenAI API Key: {target.secret}\nOverride OpenAI Base URL: {target.base_url}\nAdd model: {target.model}"
    text += "\nCursor's own servers make the calls, so this address must be reachable from the internet over https."
    return Setup((Snippet(place="Cursor Settings > Models", text=text),))


CODING_AGENTS: Mapping[str, App] = {
    "claude": App(title="Claude Code", setup=_claude, programs=("claude", "claude-code"), family=CLAUDE),
    "codex": App(title="Codex", setup=_codex, programs=("codex",), family=(r"gpt-\d",)),
    "opencode": App(title="opencode", setup=_opencode, programs=("opencode", "opencode-ai")),
    "kilo": App(
        title="Kilo Code CLI",
        setup=partial(_opencode, name="kilo", schema="https://app.kilo.ai/config.json", KILO_TELEMETRY_LEVEL="off"),
        programs=("kilo", "kilocode"),
    ),
    "qwen-code": App(title="Qwen Code", setup=_qwen, programs=("qwen", "qwen-code"), family=("qwen.*coder", "qwen")),
    "aider": App(title="aider", setup=_aider, programs=("aider", "aider-chat")),
    "continue": App(title="Continue", setup=_continue, programs=("cn", "continuedev")),
    "zed": App(title="Zed", setup=_zed, programs=("zed", "zeditor")),
    "cursor": App(title="Cursor", setup=_cursor, programs=("cursor",)),
    "cline": App(title="Cline, Roo Code", setup=_cline, programs=("cline",)),
    "pi": App(title="pi", setup=_pi, programs=("pi", "pi-coding-agent")),
    "copilot": App(title="GitHub Copilot CLI", setup=_copilot, programs=("copilot",)),
    "mini-swe-agent": App(title="mini-swe-agent", setup=_mini_swe_agent, programs=("mini", "mini-swe-agent")),
    "crush": App(title="Crush", setup=_crush, programs=("crush",)),
    "goose": App(title="goose", setup=_goose, programs=("goose",)),
    "droid": App(title="droid", setup=_droid, programs=("droid",)),
    "mistral-vibe": App(title="Mistral Vibe", setup=_vibe, programs=("vibe", "mistral-vibe")),
    "openhands": App(title="OpenHands CLI", setup=_openhands, programs=("openhands",)),
    "kimi": App(title="Kimi Code CLI", setup=_kimi, programs=("kimi", "kimi-code"), family=("kimi",)),
    "openclaw": App(title="OpenClaw", setup=_openclaw, programs=("openclaw",)),
    "grok": App(title="Grok CLI", setup=_grok, programs=("grok", "grok-cli")),
}
