"""LiteLLM: converts its parsed ``config.yaml`` into our configuration document, and notes what has no counterpart.

Deployments that differ only in their model become one channel. Limits and weights belong to a deployment, so a
deployment with any of them becomes a channel of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.core.importers.base import ImportedConfig, model_name, table, whole, with_version
from gateway.domain.text import REFERENCE, plain
from gateway.upstream.vendors import PRESETS

ENVIRONMENT = "os.environ/"

PROVIDERS = {
    **{name: name for name in ("openai", "azure", "anthropic", "gemini", "openrouter", "deepseek", "groq", "mistral")},
    **{name: name for name in ("xai", "cerebras", "huggingface", "moonshot", "deepinfra", "sambanova", "ollama")},
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "nvidia_nim": "nvidia",
    "ollama_chat": "ollama",
    "lm_studio": "lmstudio",
    "hosted_vllm": "vllm",
    "vllm": "vllm",
    "llamafile": "llamacpp",
    "openai_like": "",
    "custom_openai": "",
    "litellm_proxy": "",
    "azure_ai": "azure",
}
"""Our preset for each provider, the prefix of a model's name; empty means OpenAI's dialect at the given address."""

_BARE = (("gpt-", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"), ("chatgpt", "openai"))
_FAMILIES = (*_BARE, ("claude", "anthropic"), ("gemini", "gemini"))
"""Providers by the start of a model's name, for names without a provider."""

DEFAULTS = frozenset(
    {
        *("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "presence_penalty"),
        *("frequency_penalty", "logit_bias", "reasoning_effort", "response_format", "service_tier", "user", "n"),
    }
)
"""Parameters of a deployment that apply if the client gives none; here they become default overrides."""

RATES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cached_input",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_long",
}
LIMITS = {"rpm": "rpm", "tpm": "tpm", "max_parallel_requests": "concurrent"}
TIMEOUTS = {"timeout": "total", "stream_timeout": "head"}
POLICIES = {"cost-based-routing": "cheapest", "latency-based-routing": "fastest", "simple-shuffle": "priority"}

_KNOWN_PARAMS = {
    *("model", "api_base", "base_url", "api_key", "custom_llm_provider", "organization", "extra_headers", "weight"),
    *("api_version", "order", "drop_params", *DEFAULTS, *RATES, *LIMITS, *TIMEOUTS),
}
_KNOWN_INFO = {"mode", "max_input_tokens", "id", *RATES}


def convert(source: Mapping[str, Any]) -> ImportedConfig:
    """Returns the document and the notes."""
    out = ImportedConfig()
    shapes: dict[str, str] = {}
    for number, entry in enumerate(_list(source.get("model_list"))):
        _add_deployment(out, table(entry), f"model_list[{number}]", shapes)
    _add_routing(out, table(source.get("litellm_settings")), table(source.get("router_settings")))
    _note_other_sections(out, source)
    return out


def _add_deployment(out: ImportedConfig, entry: Mapping[str, Any], where: str, shapes: dict[str, str]) -> None:
    params, info = table(entry.get("litellm_params")), table(entry.get("model_info"))
    params = {**{name: entry[name] for name in LIMITS if name in entry}, **params}
    public = model_name(entry.get("model_name"))
    if not public:
        out.left("not imported: a deployment without a model_name that could be shown", where)
        return
    if info.get("mode", "chat") not in ("chat", "responses"):
        out.left(f"not imported: a deployment of mode '{plain(str(info['mode']), 40)}'; only chat is supported", where)
        return
    provider, upstream = _provider(params)
    if provider not in PROVIDERS:
        out.left(f"not imported: provider '{plain(provider or '(none named)', 40)}' is unknown", where)
        return
    channel = _channel_fields(out, PROVIDERS[provider], params, where)
    if channel is None:
        return
    out.ignored(set(params) - _KNOWN_PARAMS, where, "litellm_params.")
    out.ignored(set(info) - _KNOWN_INFO, where, "model_info.")
    _add_model(out, channel, public, upstream, shapes, info)
    out.price(public, {ours: params.get(theirs, info.get(theirs)) for theirs, ours in RATES.items()}, where)


def _provider(params: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the provider, and its name for the model."""
    model = str(params.get("model", "")).strip()
    first, slash, rest = model.partition("/")
    if named := str(params.get("custom_llm_provider") or ""):
        return named, rest if slash and first == named else model
    if slash and (first in PROVIDERS or not params.get("api_base")):
        return first, rest
    family = next((provider for start, provider in _FAMILIES if model.startswith(start)), "")
    return family or ("openai_like" if params.get("api_base") else ""), model


def _channel_fields(out: ImportedConfig, preset: str, params: Mapping[str, Any], where: str) -> dict[str, Any] | None:
    """Returns the channel's fields without its models. Without an address, adds a note and returns None."""
    url = _address(preset, str(params.get("api_base") or params.get("base_url") or ""))
    row = PRESETS.get(preset)
    if preset == "openai" and row and url not in ("", row.base_url):  # another server with the same API
        preset, row = "", None
    if not url and not (row and row.base_url):
        out.left("not imported: a deployment without an api_base", where)
        return None
    if url.startswith(ENVIRONMENT):
        out.left("not imported: an api_base from an environment variable; write the address into the file", where)
        return None
    fields: dict[str, Any] = {"dialect": row.dialect.value if row else "openai"}
    fields |= {"preset": preset} if preset else {}
    fields |= {"base_url": url} if url else {}
    if key := _key(params.get("api_key"), row.key_variable if row else ""):
        fields["key"] = key
    fields |= dict(_optional_fields(out, params, where))
    if "api_version" in params:
        out.left("not imported: api_version; Azure's v1 address does not need it", where)
    return fields


def _address(preset: str, url: str) -> str:
    """Returns the base URL. LiteLLM adds the version for some vendors; our base URLs contain it."""
    if preset == "ollama":
        return with_version(url, "/v1")
    return with_version(url, "/openai/v1") if preset == "azure" else url.strip().rstrip("/")


def _key(value: object, variable: str) -> str:
    """Returns the key, or a reference to a variable: without a key, the vendor's usual one, as in LiteLLM."""
    text = str(value).strip() if value else ""
    if text.startswith(ENVIRONMENT):
        return REFERENCE + text.removeprefix(ENVIRONMENT)
    return text or (f"env:{variable}" if variable else "")


def _optional_fields(out: ImportedConfig, params: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    headers = {str(name): str(value) for name, value in table(params.get("extra_headers")).items()}
    if organization := params.get("organization"):
        headers["OpenAI-Organization"] = str(organization)
    if headers:
        yield "headers", {name: _key(value, "") for name, value in headers.items()}
    yield from _numbers(out, params, where)
    if params.get("drop_params") is False:
        yield "strict", True
    if defaults := {name: params[name] for name in DEFAULTS if params.get(name) is not None}:
        yield "overrides", {"default": defaults}


def _numbers(out: ImportedConfig, params: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Yields limits, timeouts, weight and priority. A higher order is tried later, a higher priority earlier."""
    for name, target, fields in (("limits", int, LIMITS), ("timeouts", float, TIMEOUTS)):
        values = {ours: target(n) for theirs, ours in fields.items() if (n := whole(params.get(theirs), 1)) is not None}
        if values:
            yield name, values
        for theirs in set(params) & set(fields):
            if fields[theirs] not in values and params[theirs] is not None:
                out.left(f"not imported: litellm_params.{theirs} = {plain(str(params[theirs]), 40)}", where)
    if (weight := whole(params.get("weight"))) is not None:
        yield "weight", weight
    if (order := whole(params.get("order"))) is not None:
        yield "priority", -order


def _add_model(
    out: ImportedConfig,
    fields: dict[str, Any],
    public: str,
    upstream: str,
    shapes: dict[str, str],
    info: Mapping[str, Any],
) -> None:
    """Add the model to the channel with the same fields, or to a new channel."""
    own = public if "limits" in fields or "weight" in fields else ""
    shape = repr((sorted(fields.items(), key=str), own))
    name = shapes.get(shape, "")
    if not name or any(model["name"] == public for model in out.channels[name]["models"]):
        name = shapes[shape] = out.name(f"litellm-{fields.get('preset') or _host(str(fields.get('base_url', '')))}")
        out.channels[name] = {**fields, "models": []}
    channel = out.channels[name]
    if "*" in public:
        channel.setdefault("patterns", []).append(upstream if "*" in upstream else public)
        if public not in ("*", upstream):
            out.left(
                f"models that match '{plain(public, 60)}' are offered under the upstream's names, without a prefix"
            )
        return
    model: dict[str, Any] = {"name": public}
    if upstream != public:
        model["upstream"] = upstream
    if (context := whole(info.get("max_input_tokens"), 1)) is not None:
        model["context"] = context
    channel["models"].append(model)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].replace(":", "-")


def _add_routing(out: ImportedConfig, settings: Mapping[str, Any], router: Mapping[str, Any]) -> None:
    """Add fallbacks, aliases and the strategy to the group ``default``."""
    if fallbacks := list(_fallbacks(out, settings, router)):
        out.groups["default"]["fallbacks"] = fallbacks
    for alias, target in table(router.get("model_group_alias")).items():
        _add_alias(out, str(alias), str(target.get("model", "") if isinstance(target, Mapping) else target))
    strategy = str(router.get("routing_strategy", "simple-shuffle"))
    if strategy not in POLICIES:
        out.left(f"not imported: routing_strategy '{plain(strategy, 40)}'; see 'tollkeeper group edit --policy'")
    elif POLICIES[strategy] != "priority":
        out.groups["default"]["policy"] = POLICIES[strategy]
    if settings.get("drop_params") is False:
        for channel in out.channels.values():
            channel["strict"] = True
    out.ignored(set(settings) - {"fallbacks", "default_fallbacks", "drop_params"}, "", "litellm_settings.")
    read = {"fallbacks", "default_fallbacks", "model_group_alias", "routing_strategy"}
    out.ignored(set(router) - read, "", "router_settings.")


def _fallbacks(out: ImportedConfig, settings: Mapping[str, Any], router: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    entries = [*_list(settings.get("fallbacks")), *_list(router.get("fallbacks"))]
    pairs = [(str(model), _list(to)) for entry in entries for model, to in table(entry).items()]
    if others := settings.get("default_fallbacks") or router.get("default_fallbacks"):
        pairs.append(("*", _list(others)))
    for model, to in pairs:
        names = [name for name in to if model_name(name)]
        if len(names) < len(to):
            out.left("not imported: fallbacks with settings of their own", model)
        if names and model_name(model):
            yield {"model": model, "to": names}


def _add_alias(out: ImportedConfig, alias: str, target: str) -> None:
    """Add another name for a model, wherever it is served."""
    for channel in out.channels.values():
        for model in [model for model in channel["models"] if model["name"] == target]:
            channel["models"].append({**model, "name": alias, "upstream": model.get("upstream", target)})
            break
    if target in out.prices:
        out.prices.setdefault(alias, out.prices[target])


def _note_other_sections(out: ImportedConfig, source: Mapping[str, Any]) -> None:
    if variables := table(source.get("environment_variables")):
        names = ", ".join(plain(str(name), 60) for name in sorted(map(str, variables)))
        out.left(f"set these variables where the server runs: {names}")
    if general := table(source.get("general_settings")):
        out.ignored(set(general), "", "general_settings.")
        if "master_key" in general:
            out.left("clients need tokens of this gateway: 'tollkeeper token add NAME'")
    known = {"model_list", "litellm_settings", "router_settings", "general_settings", "environment_variables"}
    out.ignored(set(source) - known, "")
