"""One-api and new-api: converts their list of channels into a document of ours, and notes what has no counterpart.
Pure.

Both programs identify the kinds of channels by numbers, many of which differ.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gateway.core.importers.base import ImportedConfig, model_name, table, whole, with_version
from gateway.domain.errors import BadRequest
from gateway.domain.text import plain
from gateway.domain.urls import parse_proxy
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
    28: ChannelKind("mistral"),
    29: ChannelKind("groq"),
    30: ChannelKind("ollama"),
    32: ChannelKind(root="https://api.stepfun.com"),
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
    *("remark", "tag"),
}
_STATISTICS = {
    *("id", "created_time", "test_time", "response_time", "balance", "balance_updated_time", "used_quota"),
    *("other_info", "test_model"),
}
"""Fields with statistics and results, which are not settings."""
_EMPTY_VALUES: tuple[object, ...] = (None, "", "{}", "[]", "null", 0, {}, [])
_DEFAULTS = {"auto_ban": 1}
"""Fields whose default is not empty, and that default."""


def convert(source: Any, kinds: Mapping[int, ChannelKind]) -> ImportedConfig:
    """Returns our document, and notes on what has no counterpart. Raises BadRequest without a list of channels."""
    config = ImportedConfig()
    for number, channel in enumerate(_channels(source)):
        _add_channel(config, channel, f"channel {plain(str(channel.get('name') or number), 60)}", kinds)
    if config.channels:
        config.note("not imported: ids, dates, balances and counters")
    return config


def _channels(source: Any) -> list[Mapping[str, Any]]:
    """Returns the list of channels, which may be wrapped in the API's answer. Raises BadRequest without one."""
    for name in ("data", "items", "channels"):
        if isinstance(source, Mapping) and name in source:
            source = source[name]
    channels = [source] if isinstance(source, Mapping) and "type" in source else source
    if not isinstance(channels, list) or not all(
        isinstance(channel, Mapping) and "type" in channel for channel in channels
    ):
        raise BadRequest("the file has no list of channels: [{ type, name, key, ... }]", code="bad_configuration")
    return channels


def _add_channel(
    config: ImportedConfig, channel: Mapping[str, Any], where: str, kinds: Mapping[int, ChannelKind]
) -> None:
    kind = kinds.get(whole(channel["type"]) or 0)
    if kind is None:
        config.note(f"not imported: a channel of type {plain(str(channel['type']), 20)}, which is not supported", where)
        return
    url = _address(kind, channel)
    row = PRESETS.get(kind.preset)
    if not url and not (row and row.base_url):
        config.note("not imported: a channel without a base_url", where)
        return
    fields: dict[str, Any] = {"dialect": kind.dialect}
    fields |= {"preset": kind.preset} if kind.preset else {}
    fields |= {"base_url": url} if url else {}
    groups = [name.strip() for name in str(channel.get("group") or "default").split(",") if name.strip()]
    for group in groups:
        config.groups.setdefault(group, {})
    fields |= {"models": _models(config, channel, where), "groups": groups}
    fields |= dict(_keys(config, channel, where))
    fields |= dict(_order(config, channel, where))
    fields |= dict(_changes(config, channel, where))
    config.channels[config.channel_name(str(channel.get("name") or f"type-{channel['type']}"))] = fields
    config.note_fields(
        {name for name in set(channel) - _KNOWN_FIELDS - _STATISTICS if not _has_default(name, channel[name])}, where
    )


def _has_default(name: str, value: object) -> bool:
    return value == _DEFAULTS[name] if name in _DEFAULTS else value in _EMPTY_VALUES


def _address(kind: ChannelKind, channel: Mapping[str, Any]) -> str:
    """Returns the base URL with its version, which theirs lacks; a URL with the whole path is cut."""
    url = str(channel.get("base_url") or "").strip().rstrip("/") or kind.root
    if url.endswith("/chat/completions"):
        return url.removesuffix("/chat/completions")
    return with_version(url, kind.version) if kind.version else url


def _models(config: ImportedConfig, channel: Mapping[str, Any], where: str) -> list[dict[str, str]]:
    mapping = {
        str(public): str(upstream) for public, upstream in _json(config, channel, "model_mapping", where).items()
    }
    listed = str(channel.get("models") or "").split(",")
    names = list(dict.fromkeys(name for text in listed if (name := model_name(text))))
    if hidden := sorted(set(mapping) - set(names)):
        config.note(f"not imported: model_mapping of models that are not offered: {', '.join(hidden)}", where)
    return [{"name": n, "upstream": mapping[n]} if mapping.get(n, n) != n else {"name": n} for n in names]


def _keys(config: ImportedConfig, channel: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    states = table(_json(config, channel, "channel_info", where).get("multi_key_status_list"))
    keys = [key.strip() for key in str(channel.get("key") or "").split("\n")]
    usable = [key for number, key in enumerate(keys) if key and states.get(str(number), 1) == 1]
    if len(usable) < sum(map(bool, keys)):
        config.note("not imported: disabled keys", where)
    if usable:
        yield "key", usable[0]
        yield "keys", usable[1:]
    else:
        config.note("there is no key in the file: 'tollkeeper channel edit NAME --key KEY'", where)


def _order(config: ImportedConfig, channel: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    priority, weight = whole(channel.get("priority"), -(10**9)), whole(channel.get("weight"), 1)
    if priority:
        yield "priority", priority
    if weight:  # without any weight all channels are equal, as with our default of 1
        yield "weight", weight
    status = channel.get("status", 1)
    if status != 1:
        yield "enabled", False
    if status not in (1, 2):
        config.note("it had been disabled automatically: 'tollkeeper channel enable NAME' enables it", where)
    note = " ".join(str(channel[name]) for name in ("tag", "remark") if channel.get(name))
    if note:
        yield "note", plain(note, 500)


def _changes(config: ImportedConfig, channel: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Yields headers, parameters, system prompt and proxy."""
    headers = {str(name): str(value) for name, value in _json(config, channel, "header_override", where).items()}
    if organization := channel.get("openai_organization"):
        headers["OpenAI-Organization"] = str(organization)
    if headers:
        yield "headers", headers
    setting = _json(config, channel, "setting", where)
    overrides: dict[str, Any] = {}
    params = _json(config, channel, "param_override", where)
    if "operations" in params:
        config.note("not imported: param_override with operations", where)
    elif params:
        overrides["set"] = dict(params)
    if system := channel.get("system_prompt") or setting.get("system_prompt"):
        overrides["system"] = str(system)
    if overrides:
        yield "overrides", overrides
    if proxy := str(setting.get("proxy") or ""):
        try:
            parse_proxy(proxy)
            yield "proxy", proxy
        except BadRequest:
            config.note("not imported: a proxy that is not http://", where)
    config.note_fields({n for n in set(setting) - {"proxy", "system_prompt"} if setting[n]}, where, "setting.")


def _json(config: ImportedConfig, channel: Mapping[str, Any], field: str, where: str) -> Mapping[str, Any]:
    """Returns a field that holds JSON, as a text or already parsed."""
    value = channel.get(field)
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except ValueError:
            config.note(f"not imported: {field}, which is not valid JSON", where)
    return table(value)
