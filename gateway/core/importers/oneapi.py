"""One-api and new-api: converts their list of channels into our document, and notes what has no counterpart.

Both programs number the kinds of channels, but many numbers differ.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from gateway.core.importers.base import ImportedConfig, model_name, table, whole, with_version, without_empty
from gateway.domain.errors import BadRequest
from gateway.domain.text import plain
from gateway.domain.urls import checked_base_url, parse_proxy
from gateway.upstream.vendors import PRESETS


class ChannelKind(NamedTuple):
    """A kind of channel in one-api or new-api."""

    preset: str = ""
    root: str = ""
    """The address of channels of this kind that have none of their own."""
    version: str = "/v1"
    """The version that one-api and new-api put between an address and the path of a call."""
    dialect: str = "openai"


_COMPATIBLE = ChannelKind()
_COHERE = ChannelKind(root="https://api.cohere.ai", version="/compatibility/v1")
_MINIMAX = ChannelKind(root="https://api.minimax.chat")
_BOTH = {
    1: ChannelKind("openai"),
    **dict.fromkeys((6, 7, 8, 9, 10, 12, 13, 22), _COMPATIBLE),
    3: ChannelKind("azure", version="/openai/v1"),
    14: ChannelKind("anthropic", version="", dialect="anthropic"),
    16: ChannelKind(root="https://open.bigmodel.cn", version="/api/paas/v4"),
    17: ChannelKind(root="https://dashscope.aliyuncs.com", version="/compatible-mode/v1"),
    20: ChannelKind("openrouter"),
    24: ChannelKind("gemini", version="", dialect="gemini"),
    25: ChannelKind(root="https://api.moonshot.cn"),
    31: ChannelKind(root="https://api.lingyiwanwu.com"),
}
ONE_API: Mapping[int, ChannelKind] = _BOTH | {
    **dict.fromkeys((2, 4, 5, 43), _COMPATIBLE),
    26: ChannelKind(root="https://api.baichuan-ai.com"),
    27: _MINIMAX,
    28: ChannelKind("mistral"),
    29: ChannelKind("groq"),
    30: ChannelKind("ollama"),
    32: ChannelKind(root="https://api.stepfun.com"),
    35: _COHERE,
    36: ChannelKind("deepseek"),
    39: ChannelKind("together"),
    40: ChannelKind(root="https://ark.cn-beijing.volces.com", version="/api/v3"),
    44: ChannelKind(root="https://api.siliconflow.cn"),
    45: ChannelKind("xai"),
    47: ChannelKind(root="https://qianfan.baidubce.com", version="/v2"),
    49: ChannelKind(root="https://dashscope.aliyuncs.com", version="/compatible-mode/v1"),
    50: ChannelKind(version=""),
    51: ChannelKind("gemini-openai", version=""),
}
NEW_API: Mapping[int, ChannelKind] = _BOTH | {
    4: ChannelKind("ollama"),
    26: ChannelKind(root="https://open.bigmodel.cn", version="/api/paas/v4"),
    27: ChannelKind(root="https://api.perplexity.ai", version=""),
    34: _COHERE,
    35: _MINIMAX,
    40: ChannelKind(root="https://api.siliconflow.cn"),
    42: ChannelKind("mistral"),
    43: ChannelKind("deepseek"),
    45: ChannelKind(root="https://ark.cn-beijing.volces.com", version="/api/v3"),
    46: ChannelKind(root="https://qianfan.baidubce.com", version="/v2"),
    47: _COMPATIBLE,
    48: ChannelKind("xai"),
    53: ChannelKind(root="https://llm.submodel.ai"),
}

_KNOWN_FIELDS = {
    *("type", "name", "key", "base_url", "models", "model_mapping", "group", "priority", "weight", "status"),
    *("openai_organization", "header_override", "param_override", "setting", "system_prompt", "channel_info"),
    *("remark", "tag", "id", "created_time", "test_time", "response_time", "balance", "balance_updated_time"),
    *("used_quota", "other_info", "test_model"),
}
"""Fields that are converted, and fields with statistics and results, which are not settings."""
_EMPTY_VALUES: tuple[object, ...] = (None, "", "{}", "[]", "null", 0, {}, [])
_DEFAULTS: Mapping[str, tuple[object, ...]] = {"auto_ban": (1,)}
"""Fields whose default is not empty, and that default."""


def convert(source: Any, kinds: Mapping[int, ChannelKind]) -> ImportedConfig:
    """Returns our document, and notes on what has no counterpart. Raises BadRequest without a list of channels."""
    config = ImportedConfig()
    for number, channel in enumerate(_channels(source)):
        place = f"channel {plain(str(channel.get('name') or number), 60)}"
        with config.without_invalid(place):
            _ChannelImport(config, channel, place).add(kinds)
    if config.channels:
        config.note("not imported: ids, dates, balances and counters")
    return config


def _channels(source: Any) -> list[Mapping[str, Any]]:
    """Returns the list of channels, which may be wrapped in the API's answer. Raises BadRequest if it is missing."""
    for name in ("data", "items", "channels", "channel"):
        if isinstance(source, Mapping) and name in source:
            source = source[name]
    channels = [source] if isinstance(source, Mapping) and "type" in source else source
    is_list = isinstance(channels, list)
    if not is_list or not all(isinstance(channel, Mapping) and "type" in channel for channel in channels):
        raise BadRequest("the file has no list of channels: [{ type, name, key, ... }]", code="bad_configuration")
    return channels


class _ChannelImport:
    def __init__(self, config: ImportedConfig, source: Mapping[str, Any], place: str) -> None:
        self._config = config
        self._source = source
        self._place = place
        self._note = partial(config.note, place=place)

    def add(self, kinds: Mapping[int, ChannelKind]) -> None:
        """Add the channel and its groups to the document. Raises BadRequest if its kind or its address is unknown."""
        type_number = self._source["type"]
        kind = kinds.get(whole(type_number) or 0)
        if kind is None:
            raise BadRequest(f"a channel of type {plain(str(type_number), 20)}, which is not supported")
        url = _base_url(kind, str(self._source.get("base_url") or ""))
        preset = PRESETS.get(kind.preset)
        if not url and not (preset and preset.base_url):
            raise BadRequest("a channel without a base_url")
        if url:
            checked_base_url(url)
        group_names = [name.strip() for name in str(self._source.get("group") or "default").split(",")]
        groups = [name for name in group_names if name]
        for group in groups:
            self._config.groups.setdefault(group, {})
        fields = without_empty(dialect=kind.dialect, preset=kind.preset, base_url=url)
        fields |= {"models": self._convert_models(), "groups": groups}
        fields |= self._convert_keys() | self._convert_routing() | self._convert_request_changes()
        name = self._config.channel_name(str(self._source.get("name") or f"type-{type_number}"))
        self._config.channels[name] = fields
        unknown = set(self._source) - _KNOWN_FIELDS
        changed = {field for field in unknown if self._source[field] not in _DEFAULTS.get(field, _EMPTY_VALUES)}
        self._config.note_fields(changed, self._place)

    def _convert_models(self) -> list[dict[str, Any]]:
        """Returns the models that the channel offers. Notes mapped names that it does not offer."""
        mapping = {str(public): str(upstream) for public, upstream in self._parse_json("model_mapping").items()}
        listed = str(self._source.get("models") or "").split(",")
        names = list(dict.fromkeys(name for text in listed if (name := model_name(text))))
        if hidden := sorted(set(mapping) - set(names)):
            self._note(f"not imported: model_mapping of models that are not offered: {', '.join(hidden)}")
        return [
            without_empty(name=name, upstream=mapping.get(name) if mapping.get(name) != name else None)
            for name in names
        ]

    def _convert_keys(self) -> dict[str, Any]:
        """Returns the fields with the enabled keys. Notes that there are disabled keys, or none."""
        states = table(self._parse_json("channel_info").get("multi_key_status_list"))
        keys = [key.strip() for key in str(self._source.get("key") or "").split("\n")]
        enabled = [key for number, key in enumerate(keys) if key and states.get(str(number), 1) == 1]
        if len(enabled) < sum(map(bool, keys)):
            self._note("not imported: disabled keys")
        if not enabled:
            self._note("the file has no key: 'tollkeeper channel edit NAME --key -'")
            return {}
        return {"key": enabled[0], "keys": enabled[1:]}

    def _convert_routing(self) -> dict[str, Any]:
        """Returns priority, weight, status and note. Notes that the other program had disabled the channel."""
        status = whole(self._source.get("status", 1))
        if status not in (1, 2):
            self._note("it had been disabled automatically: 'tollkeeper channel enable NAME' enables it")
        remarks = " ".join(str(self._source[name]) for name in ("tag", "remark") if self._source.get(name))
        return without_empty(
            priority=whole(self._source.get("priority"), -(10**9)) or None,
            weight=whole(self._source.get("weight"), 1),  # without any weight all are equal, as with our default of 1
            enabled=None if status == 1 else False,
            note=plain(remarks, 500),
        )

    def _convert_request_changes(self) -> dict[str, Any]:
        """Returns headers, parameters, system prompt and proxy. Notes what else would change requests."""
        headers = {str(name): str(value) for name, value in self._parse_json("header_override").items()}
        if organization := self._source.get("openai_organization"):
            headers["OpenAI-Organization"] = str(organization)
        setting = self._parse_json("setting")
        changes: dict[str, object] = {"headers": headers, "overrides": self._convert_overrides(setting)}
        if proxy := str(setting.get("proxy") or ""):
            with self._config.without_invalid(self._place):
                parse_proxy(proxy)
                changes["proxy"] = proxy
        unknown = {name for name in set(setting) - {"proxy", "system_prompt"} if setting[name]}
        self._config.note_fields(unknown, self._place, "setting.")
        return without_empty(**changes)

    def _convert_overrides(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the overrides of parameters and of the system prompt, which may be in the channel's ``setting``."""
        parameters = self._parse_json("param_override")
        if "operations" in parameters:
            self._note("not imported: param_override with operations")
            parameters = {}
        system = str(self._source.get("system_prompt") or setting.get("system_prompt") or "")
        return self._config.overrides(self._place, parameters, system=system)

    def _parse_json(self, field: str) -> Mapping[str, Any]:
        """Returns a field that holds JSON, as a text or already parsed. Notes invalid JSON."""
        value = self._source.get(field)
        if isinstance(value, str) and value.strip():
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                self._note(f"not imported: {field}, which is not valid JSON")
        return table(value)


def _base_url(kind: ChannelKind, address: str) -> str:
    """Returns the base URL with its version, which theirs lacks. The path of a call is removed."""
    url = address.strip().rstrip("/") or kind.root
    if url.endswith("/chat/completions"):
        return url.removesuffix("/chat/completions")
    return with_version(url, kind.version) if kind.version else url
