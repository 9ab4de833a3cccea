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
"""Our preset for each of LiteLLM's providers; empty for OpenAI's dialect at the address in the file."""

_BARE = (("gpt-", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"), ("chatgpt", "openai"))
_FAMILIES = (*_BARE, ("claude", "anthropic"), ("gemini", "gemini"))
"""Providers by how a model's name begins, for names without a provider."""

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
    """Returns our document, and notes on what has no counterpart."""
    config = ImportedConfig()
    channels_by_shape: dict[str, str] = {}
    for number, entry in enumerate(_as_list(source.get("model_list"))):
        _add_deployment(config, table(entry), f"model_list[{number}]", channels_by_shape)
    _add_routing(config, table(source.get("litellm_settings")), table(source.get("router_settings")))
    _note_other_sections(config, source)
    return config


def _add_deployment(
    config: ImportedConfig, entry: Mapping[str, Any], where: str, channels_by_shape: dict[str, str]
) -> None:
    params, info = table(entry.get("litellm_params")), table(entry.get("model_info"))
    params = {**{name: entry[name] for name in LIMITS if name in entry}, **params}
    public = model_name(entry.get("model_name"))
    if not public:
        config.note("not imported: a deployment without a model_name that could be shown", where)
        return
    if info.get("mode", "chat") not in ("chat", "responses"):
        config.note(
            f"not imported: a deployment of mode '{plain(str(info['mode']), 40)}'; only chat is supported", where
        )
        return
    provider, upstream = _provider_and_model(params)
    if provider not in PROVIDERS:
        config.note(f"not imported: provider '{plain(provider or '(none named)', 40)}' is unknown", where)
        return
    channel = _channel_fields(config, PROVIDERS[provider], params, where)
    if channel is None:
        return
    config.note_fields(set(params) - _KNOWN_PARAMS, where, "litellm_params.")
    config.note_fields(set(info) - _KNOWN_INFO, where, "model_info.")
    _add_model(config, channel, public, upstream, channels_by_shape, info)
    config.add_price(public, {ours: params.get(theirs, info.get(theirs)) for theirs, ours in RATES.items()}, where)


def _provider_and_model(params: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the provider, and the provider's name for the model."""
    model = str(params.get("model", "")).strip()
    first, slash, model_part = model.partition("/")
    if named := str(params.get("custom_llm_provider") or ""):
        return named, model_part if slash and first == named else model
    if slash and (first in PROVIDERS or not params.get("api_base")):
        return first, model_part
    family = next((provider for start, provider in _FAMILIES if model.startswith(start)), "")
    return family or ("openai_like" if params.get("api_base") else ""), model


def _channel_fields(
    config: ImportedConfig, preset: str, params: Mapping[str, Any], where: str
) -> dict[str, Any] | None:
    """Returns the channel's fields without its models. If there is no address, adds a note and returns None."""
    url = _base_url(preset, str(params.get("api_base") or params.get("base_url") or ""))
    row = PRESETS.get(preset)
    if preset == "openai" and row and url not in ("", row.base_url):  # another server with the same API
        preset, row = "", None
    if not url and not (row and row.base_url):
        config.note("not imported: a deployment without an api_base", where)
        return None
    if url.startswith(ENVIRONMENT):
        config.note("not imported: an api_base from an environment variable; write the address into the file", where)
        return None
    fields: dict[str, Any] = {"dialect": row.dialect.value if row else "openai"}
    fields |= {"preset": preset} if preset else {}
    fields |= {"base_url": url} if url else {}
    if key := _key(params.get("api_key"), row.key_variable if row else ""):
        fields["key"] = key
    fields |= dict(_optional_fields(config, params, where))
    if "api_version" in params:
        config.note("not imported: api_version; Azure's v1 address does not need it", where)
    return fields


def _base_url(preset: str, url: str) -> str:
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


def _optional_fields(config: ImportedConfig, params: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    headers = {str(name): str(value) for name, value in table(params.get("extra_headers")).items()}
    if organization := params.get("organization"):
        headers["OpenAI-Organization"] = str(organization)
    if headers:
        yield "headers", {name: _key(value, "") for name, value in headers.items()}
    yield from _number_fields(config, params, where)
    if params.get("drop_params") is False:
        yield "strict", True
    if defaults := {name: params[name] for name in DEFAULTS if params.get(name) is not None}:
        yield "overrides", {"default": defaults}


def _number_fields(config: ImportedConfig, params: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Yields limits, timeouts, weight and priority. A higher order is tried later, a higher priority earlier."""
    for name, target, fields in (("limits", int, LIMITS), ("timeouts", float, TIMEOUTS)):
        values = {ours: target(n) for theirs, ours in fields.items() if (n := whole(params.get(theirs), 1)) is not None}
        if values:
            yield name, values
        for theirs in set(params) & set(fields):
            if fields[theirs] not in values and params[theirs] is not None:
                config.note(f"not imported: litellm_params.{theirs} = {plain(str(params[theirs]), 40)}", where)
    if (weight := whole(params.get("weight"))) is not None:
        yield "weight", weight
    if (order := whole(params.get("order"))) is not None:
        yield "priority", -order


def _add_model(
    config: ImportedConfig,
    fields: dict[str, Any],
    public: str,
    upstream: str,
    channels_by_shape: dict[str, str],
    info: Mapping[str, Any],
) -> None:
    """Add the model to the channel with the same fields, or to a new channel."""
    own = public if "limits" in fields or "weight" in fields else ""
    shape = repr((sorted(fields.items(), key=str), own))
    name = channels_by_shape.get(shape, "")
    if not name or any(model["name"] == public for model in config.channels[name]["models"]):
        name = channels_by_shape[shape] = config.channel_name(
            f"litellm-{fields.get('preset') or _host(str(fields.get('base_url', '')))}"
        )
        config.channels[name] = {**fields, "models": []}
    channel = config.channels[name]
    if "*" in public:
        channel.setdefault("patterns", []).append(upstream if "*" in upstream else public)
        if public not in ("*", upstream):
            config.note(
                f"models that match '{plain(public, 60)}' are offered under the upstream's names, without a prefix"
            )
        return
    model: dict[str, Any] = {"name": public}
    if upstream != public:
        model["upstream"] = upstream
    if (context := whole(info.get("max_input_tokens"), 1)) is not None:
        model["context"] = context
    channel["models"].append(model)


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].replace(":", "-")


def _add_routing(config: ImportedConfig, settings: Mapping[str, Any], router: Mapping[str, Any]) -> None:
    """Add fallbacks, aliases and the strategy to the group ``default``."""
    if fallbacks := list(_fallbacks(config, settings, router)):
        config.groups["default"]["fallbacks"] = fallbacks
    for alias, target in table(router.get("model_group_alias")).items():
        _add_alias(config, str(alias), str(target.get("model", "") if isinstance(target, Mapping) else target))
    strategy = str(router.get("routing_strategy", "simple-shuffle"))
    if strategy not in POLICIES:
        config.note(f"not imported: routing_strategy '{plain(strategy, 40)}'; see 'tollkeeper group edit --policy'")
    elif POLICIES[strategy] != "priority":
        config.groups["default"]["policy"] = POLICIES[strategy]
    if settings.get("drop_params") is False:
        for channel in config.channels.values():
            channel["strict"] = True
    config.note_fields(set(settings) - {"fallbacks", "default_fallbacks", "drop_params"}, "", "litellm_settings.")
    read = {"fallbacks", "default_fallbacks", "model_group_alias", "routing_strategy"}
    config.note_fields(set(router) - read, "", "router_settings.")


def _fallbacks(
    config: ImportedConfig, settings: Mapping[str, Any], router: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    entries = [*_as_list(settings.get("fallbacks")), *_as_list(router.get("fallbacks"))]
    pairs = [(str(model), _as_list(to)) for entry in entries for model, to in table(entry).items()]
    if others := settings.get("default_fallbacks") or router.get("default_fallbacks"):
        pairs.append(("*", _as_list(others)))
    for model, to in pairs:
        names = [name for name in to if model_name(name)]
        if len(names) < len(to):
            config.note("not imported: fallbacks with settings of their own", model)
        if names and model_name(model):
            yield {"model": model, "to": names}


def _add_alias(config: ImportedConfig, alias: str, target: str) -> None:
    """Add another name for a model, wherever it is served."""
    for channel in config.channels.values():
        for model in [model for model in channel["models"] if model["name"] == target]:
            channel["models"].append({**model, "name": alias, "upstream": model.get("upstream", target)})
            break
    if target in config.prices:
        config.prices.setdefault(alias, config.prices[target])


def _note_other_sections(config: ImportedConfig, source: Mapping[str, Any]) -> None:
    if variables := table(source.get("environment_variables")):
        names = ", ".join(plain(str(name), 60) for name in sorted(map(str, variables)))
        config.note(f"set these variables where the server runs: {names}")
    if general := table(source.get("general_settings")):
        config.note_fields(set(general), "", "general_settings.")
        if "master_key" in general:
            config.note("clients need tokens of this gateway: 'tollkeeper token add NAME'")
    known = {"model_list", "litellm_settings", "router_settings", "general_settings", "environment_variables"}
    config.note_fields(set(source) - known, "")
