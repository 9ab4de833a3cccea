"""LiteLLM: converts its parsed ``config.yaml`` into our configuration document, and notes what has no counterpart.

Deployments that differ only in their model become one channel. Limits and weights belong to a deployment, so a
deployment with any of them becomes a channel of its own.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from gateway.core.importers.base import ImportedConfig, model_name, table, whole, with_version, without_empty
from gateway.domain.errors import BadRequest
from gateway.domain.text import REFERENCE, plain
from gateway.domain.urls import checked_base_url
from gateway.upstream.vendors import LOCAL, PRESETS

_REFERENCE = re.compile(r"(?:os\.environ/|\$\{)(\w+)\}?")
"""How a file names a variable: ``os.environ/NAME``, or ``${NAME}`` for a program that fills in the file."""

_FOREIGN = ("auto_router", "bedrock", "replicate", "sagemaker", "sagemaker_chat", "triton", "vertex_ai", "watsonx")
PROVIDERS = {
    **dict.fromkeys(_FOREIGN),
    **{name: name for name in ("openai", "azure", "anthropic", "gemini", "openrouter", "deepseek", "groq", "mistral")},
    **{name: name for name in ("xai", "cerebras", "huggingface", "moonshot", "deepinfra", "sambanova", "ollama")},
    "text-completion-openai": "openai",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "nvidia_nim": "nvidia",
    "ollama_chat": "ollama",
    "lm_studio": "lmstudio",
    **dict.fromkeys(("hosted_vllm", "vllm"), "vllm"),
    "llamafile": "llamacpp",
    "azure_ai": "azure",
    **dict.fromkeys(("openai_like", "custom_openai", "litellm_proxy", "databricks", "lemonade"), ""),
    **dict.fromkeys(("cohere", "cohere_chat"), "https://api.cohere.ai/compatibility/v1"),
    "dashscope": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    "github": "https://models.inference.ai.azure.com",
    "perplexity": "https://api.perplexity.ai",
    "volcengine": "https://ark.cn-beijing.volces.com/api/v3",
    "zai": "https://api.z.ai/api/paas/v4",
}
"""Our preset for each of LiteLLM's providers, or the address of its API in OpenAI's dialect, or an empty string if the
file has that; None if it has only an API of its own."""

_ROUTES = re.compile(r"^(responses|o_series|gpt5_series)/")
"""Matches what LiteLLM removes from the names of OpenAI's and Azure's models."""
_COLLECTIONS = {"fireworks_ai": "accounts/fireworks/models/", "openrouter": "openrouter/"}
"""What LiteLLM puts before names without a slash, by the provider."""
_OPENAI = ("gpt-", "o1", "o3", "o4", "chatgpt", "text-embedding")
_FAMILIES = (*((start, "openai") for start in _OPENAI), ("claude", "anthropic"), ("gemini", "gemini"))
"""Providers by how a model's name begins, for names without a provider."""

DEFAULTS = frozenset(
    {
        *("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "presence_penalty"),
        *("frequency_penalty", "logit_bias", "reasoning_effort", "response_format", "service_tier", "user", "n"),
        *("top_k", "min_p", "repetition_penalty", "thinking"),
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
    *("api_version", "order", "drop_params", "extra_body"),
    *(*DEFAULTS, *RATES, *LIMITS, *TIMEOUTS),
}
_KNOWN_INFO = {"mode", "max_input_tokens", "id", *RATES}


def convert(source: Mapping[str, Any], environ: Mapping[str, str]) -> ImportedConfig:
    """Returns our document, and notes on what has no counterpart. ``environ`` has the variables that the file names."""
    config = ImportedConfig()
    channels = _SharedChannels(config)
    variables = {**environ, **table(source.get("environment_variables"))}
    credentials = {
        str(credential.get("credential_name")): table(credential.get("credential_values"))
        for credential in map(table, _as_list(source.get("credential_list")))
    }
    first: dict[str, int] = {}
    for number, entry in enumerate(_as_list(source.get("model_list"))):
        if first.setdefault(repr(entry), number) == number:  # the same deployment twice is one for LiteLLM too
            deployment = _with_credential(table(entry), credentials)
            place = f"model_list[{number}]"
            with config.without_invalid(place):
                _DeploymentImport(config, deployment, variables, place).add(channels)
    _add_routing(config, table(source.get("litellm_settings")), table(source.get("router_settings")))
    _note_other_sections(config, source)
    return config


def _with_credential(entry: Mapping[str, Any], credentials: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the deployment with what the credential that it names gives. Its own parameters come first."""
    params = dict(table(entry.get("litellm_params")))
    name = str(params.get("litellm_credential_name"))
    if name not in credentials:
        return entry
    del params["litellm_credential_name"]
    return {**entry, "litellm_params": {**credentials[name], **params}}


class _SharedChannels:
    """The channels of the document, each shared by the deployments with its fields."""

    def __init__(self, config: ImportedConfig) -> None:
        self._config = config
        self._by_fields: dict[str, list[dict[str, Any]]] = {}
        """The channels with these fields, which are written as a text."""

    def channel_for(self, fields: dict[str, Any], model: str) -> dict[str, Any]:
        """Returns the channel with these fields, for the model to be added to. Adds one if it is missing."""
        is_own = "limits" in fields or "weight" in fields
        fields_text = repr((sorted(fields.items(), key=str), model if is_own else ""))
        channels = self._by_fields.setdefault(fields_text, [])
        for channel in channels:
            if all(offered["name"] != model for offered in channel["models"]):
                return channel
        preferred = f"litellm-{fields.get('preset') or urlsplit(fields['base_url']).netloc.replace(':', '-')}"
        channels.append({**fields, "models": []})
        self._config.channels[self._config.channel_name(preferred)] = channels[-1]
        return channels[-1]


class _DeploymentImport:
    """Converts one deployment of ``model_list``. Its references to variables are replaced by their values."""

    def __init__(
        self, config: ImportedConfig, entry: Mapping[str, Any], environ: Mapping[str, Any], place: str
    ) -> None:
        self._config = config
        self._place = place
        self._note = partial(config.note, place=place)
        self._public = model_name(entry.get("model_name"))
        self._info = table(entry.get("model_info"))
        limits = {name: entry[name] for name in LIMITS if name in entry}
        self._params: dict[str, Any] = {**limits, **table(entry.get("litellm_params"))}
        for name, value in self._params.items():
            if isinstance(value, str) and name not in ("api_key", "organization"):
                self._params[name] = _REFERENCE.sub(lambda found: str(environ.get(found[1], found[0])), value)

    def add(self, channels: _SharedChannels) -> None:
        """Add the deployment's model and price to the document. Raises BadRequest if it cannot be used here."""
        if not self._public:
            raise BadRequest("a deployment without a model_name that could be shown")
        mode = self._info.get("mode", "chat")
        if mode not in ("chat", "responses", "completion", "embedding", "embeddings"):
            raise BadRequest(f"a deployment of mode '{plain(str(mode), 40)}', which is not supported")
        for name in ("model", "api_base", "base_url"):
            if reference := _REFERENCE.search(str(self._params.get(name))):
                raise BadRequest(f"{name} is in {reference[1]}, which is not set where the server runs")
        provider, upstream = _provider_and_model(self._params)
        if (preset := PROVIDERS.get(provider)) is None:
            raise BadRequest(f"provider '{plain(provider or '(none named)', 40)}' is not supported")
        fields = self._convert_channel(preset, provider)
        self._config.note_fields(set(self._params) - _KNOWN_PARAMS, self._place, "litellm_params.")
        self._config.note_fields(set(self._info) - _KNOWN_INFO, self._place, "model_info.")
        self._add_model(channels.channel_for(fields, self._public), upstream)
        rates = {ours: self._params.get(theirs, self._info.get(theirs)) for theirs, ours in RATES.items()}
        self._config.add_price(self._public, rates, self._place)

    def _add_model(self, channel: dict[str, Any], upstream: str) -> None:
        """Add the model to the channel, or a pattern if its name has a wildcard."""
        public = self._public
        if "*" in public:
            channel.setdefault("patterns", []).append(upstream if "*" in upstream else public)
            if public not in ("*", upstream):
                effect = "are offered under the upstream's names, without a prefix"
                self._config.note(f"models that match '{plain(public, 60)}' {effect}")
            return
        context = whole(self._info.get("max_input_tokens"), 1)
        other_name = upstream if upstream != public else ""
        channel["models"].append(without_empty(name=public, upstream=other_name, context=context))

    def _convert_channel(self, preset: str, provider: str) -> dict[str, Any]:
        """Returns the channel's fields without its models. Raises BadRequest without a valid address."""
        params = self._params
        row = PRESETS.get(preset)
        usual_url = row.base_url if row else preset
        url = _base_url(preset, str(params.get("api_base") or params.get("base_url") or ""))
        if not row or (preset == "openai" and url not in ("", usual_url)):  # another server with the same API
            preset, row, url = "", None, url or usual_url
        if not url and not usual_url:
            raise BadRequest("a deployment without an api_base")
        if url:
            checked_base_url(url)
        has_key = preset not in LOCAL and (preset or url == usual_url)
        variable = row.key_variable if row and row.key_variable else f"{provider.upper()}_API_KEY"
        extra = table(params.get("extra_body"))
        defaults = {name: params[name] for name in DEFAULTS - set(extra) if params.get(name) is not None}
        fields = without_empty(
            dialect=row.dialect.value if row else "openai",
            preset=preset,
            base_url=url,
            key=_key(params.get("api_key"), variable if has_key else ""),
            headers=self._convert_headers(),
            strict=True if params.get("drop_params") is False else None,
            overrides=self._config.overrides(self._place, extra, defaults),
            **self._convert_numbers(),
        )
        if "api_version" in params:
            self._note("not imported: api_version; Azure's v1 address does not need it")
        return fields

    def _convert_headers(self) -> dict[str, str]:
        headers = {str(name): str(value) for name, value in table(self._params.get("extra_headers")).items()}
        if organization := self._params.get("organization"):
            headers["OpenAI-Organization"] = str(organization)
        return {name: _key(value, "") for name, value in headers.items()}

    def _convert_numbers(self) -> dict[str, Any]:
        """Returns limits, timeouts, weight and priority. Notes numbers that are not valid."""
        params = self._params
        order = whole(params.get("order"))
        limits = {ours: whole(params.get(theirs), 1) for theirs, ours in LIMITS.items()}
        timeouts = {ours: whole(params.get(theirs), 1) for theirs, ours in TIMEOUTS.items()}
        for theirs, ours in (LIMITS | TIMEOUTS).items():
            if params.get(theirs) is not None and (limits | timeouts)[ours] is None:
                self._note(f"not imported: litellm_params.{theirs} = {plain(str(params[theirs]), 40)}")
        return without_empty(
            limits=without_empty(**limits),
            timeouts={name: float(seconds) for name, seconds in timeouts.items() if seconds is not None},
            weight=whole(params.get("weight")),
            priority=None if order is None else -order,  # a higher order is tried later, a higher priority earlier
        )


def _provider_and_model(params: Mapping[str, Any]) -> tuple[str, str]:
    """Returns LiteLLM's name of the provider, empty if it is unknown, and the provider's name of the model."""
    model = str(params.get("model", "")).strip()
    first, slash, model_part = model.partition("/")
    if named := str(params.get("custom_llm_provider") or ""):
        provider, upstream = named, model.removeprefix(f"{named}/")
    elif slash and (first in PROVIDERS or not params.get("api_base")):
        provider, upstream = first, model_part
    elif "vertex_project" in params:
        provider, upstream = "vertex_ai", model
    else:
        family = next((family for start, family in _FAMILIES if model.startswith(start)), "")
        provider, upstream = family or ("openai_like" if params.get("api_base") else ""), model
    if provider in ("openai", "azure"):
        upstream = _ROUTES.sub("", upstream)
    if "/" not in upstream and "*" not in upstream:
        upstream = _COLLECTIONS.get(provider, "") + upstream
    return provider, upstream


def _base_url(preset: str, url: str) -> str:
    """Returns the base URL. LiteLLM adds the version for some vendors; our base URLs contain it."""
    bare = url.strip().replace("://0.0.0.0", "://127.0.0.1").rstrip("/")
    if preset == "ollama":
        return with_version(bare, "/v1")
    if preset == "azure":
        return with_version(f"{bare}/".partition("/openai/")[0].rstrip("/").removesuffix("/models"), "/openai/v1")
    return bare.partition("/models/")[0] if preset == "gemini" else bare


def _key(value: object, variable: str) -> str:
    """Returns the key, or a reference to a variable: without a key, the vendor's usual one, as in LiteLLM."""
    text = str(value).strip() if value else ""
    if reference := _REFERENCE.fullmatch(text):
        return REFERENCE + reference[1]
    return text or (f"{REFERENCE}{variable}" if variable else "")


def _as_list(value: object) -> list[Any]:
    """Returns a list: empty for None, and of one item for another value that is not a list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _add_routing(config: ImportedConfig, settings: Mapping[str, Any], router: Mapping[str, Any]) -> None:
    if fallbacks := _convert_fallbacks(config, settings, router):
        config.groups["default"]["fallbacks"] = fallbacks
    _add_aliases(config, table(router.get("model_group_alias")))
    strategy = str(router.get("routing_strategy", "simple-shuffle"))
    if strategy not in POLICIES:
        config.note(f"not imported: routing_strategy '{plain(strategy, 40)}'; see 'tollkeeper group edit --policy'")
    elif POLICIES[strategy] != "priority":
        config.groups["default"]["policy"] = POLICIES[strategy]
    timeout = whole(router.get("timeout") or settings.get("request_timeout"), 1)
    for channel in config.channels.values():
        if settings.get("drop_params") is False:
            channel["strict"] = True
        if timeout:
            channel["timeouts"] = {"total": min(float(timeout), 86_400.0), **channel.get("timeouts", {})}
    known = {"fallbacks", "default_fallbacks", "drop_params", "request_timeout"}
    config.note_fields(set(settings) - known, "", "litellm_settings.")
    known = {"fallbacks", "default_fallbacks", "model_group_alias", "routing_strategy", "timeout"}
    config.note_fields(set(router) - known, "", "router_settings.")


def _convert_fallbacks(
    config: ImportedConfig, settings: Mapping[str, Any], router: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Returns the group's fallbacks. Notes those that are not only names of models."""
    entries = [*_as_list(settings.get("fallbacks")), *_as_list(router.get("fallbacks"))]
    pairs = [(str(model), _as_list(targets)) for entry in entries for model, targets in table(entry).items()]
    if defaults := settings.get("default_fallbacks") or router.get("default_fallbacks"):
        pairs.append(("*", _as_list(defaults)))
    fallbacks = []
    for model, targets in pairs:
        names = [target for target in targets if model_name(target)]
        if len(names) < len(targets):
            config.note("not imported: fallbacks with settings of their own", model)
        if names and model_name(model):
            fallbacks.append({"model": model, "to": names})
    return fallbacks


def _add_aliases(config: ImportedConfig, aliases: Mapping[str, Any]) -> None:
    """Add each alias at each channel that has its target. Notes one without a target, or with the name of a model."""
    offered: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for channel in config.channels.values():
        for model in channel["models"]:
            offered.setdefault(model["name"], []).append((channel, model))
    for alias, entry in aliases.items():
        target = str(entry.get("model") if isinstance(entry, Mapping) else entry)
        if target not in offered or alias in offered:
            msg = "not imported: a model_group_alias of a model that is not imported, or with a name in use"
            config.note(msg, alias)
            continue
        offered[alias] = [
            (channel, {**model, "name": alias, "upstream": model.get("upstream", target)})
            for channel, model in offered[target]
        ]
        for channel, model in offered[alias]:
            channel["models"].append(model)
        if target in config.prices:
            config.prices.setdefault(alias, config.prices[target])


def _note_other_sections(config: ImportedConfig, source: Mapping[str, Any]) -> None:
    if variables := table(source.get("environment_variables")):
        config.note(f"set these variables where the server runs: {', '.join(sorted(map(str, variables)))}")
    general = table(source.get("general_settings"))
    config.note_fields(set(general) - {"master_key"}, "", "general_settings.")
    if "master_key" in general:
        config.note("clients need tokens of this gateway: 'tollkeeper token add NAME'")
    if "include" in source:
        config.note("not imported: include; import the files that it names too")
    known = {"model_list", "litellm_settings", "router_settings", "general_settings", "environment_variables"}
    config.note_fields(set(source) - known - {"credential_list", "include"}, "")
