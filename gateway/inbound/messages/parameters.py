"""Parameters of a Messages request as those of a chat completion: sampling, stops, thinking, the form of the answer."""

import hashlib
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.rawjson import NULL, Fields, is_nothing
from gateway.inbound.json_body import read_typed

PARAMETERS = frozenset(
    {
        *("max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "thinking", "output_config"),
        *("output_format", "metadata", "service_tier"),
    }
)
"""Fields that are read here."""
_WORDS = {
    "max_completion_tokens": "max_tokens",
    "stop": "stop_sequences",
    "reasoning_effort": "thinking",
    "response_format": "output_config.format",
    "safety_identifier": "metadata",
    "service_tier": "service_tier",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}
"""The client's names, by those of chat completions."""
_EFFORTS = {"xhigh": "high", "max": "high"}
"""Efforts that many models with OpenAI's words do not know."""
LOW_BUDGET, MEDIUM_BUDGET = 2048, 8192
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_TIERS = {"auto": "auto", "standard_only": "default"}


class TranslatedParameters(msgspec.Struct, frozen=True):
    """What goes into the request."""

    fields: Fields
    words: dict[str, str]
    dropped: tuple[str, ...]
    """The client's names of what is lost."""


def translate_parameters(given: Fields) -> TranslatedParameters:
    """The parameters in the words of chat completions. Raises BadRequest."""
    out: Fields = {"max_completion_tokens": rawjson.raw(max(1, rawjson.value(given["max_tokens"])))}
    out |= {name: given[name] for name in ("temperature", "top_p", "top_k") if not rawjson.is_null(given.get(name))}
    if not is_nothing(stops := given.get("stop_sequences", NULL)) and read_typed(_LIST, stops, "stop_sequences"):
        out["stop"] = stops
    words = dict(_WORDS)
    if (effort := _effort(given)) is not None:
        out["reasoning_effort"] = rawjson.raw(_EFFORTS.get(effort, effort))
        if rawjson.is_null(given.get("thinking")):
            words["reasoning_effort"] = "output_config.effort"
    if (schema := _schema(given)) is not None:
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        out["response_format"] = rawjson.raw(form)
    dropped = _add_account(given, out)
    return TranslatedParameters(out, words, dropped)


def _effort(given: Fields) -> str | None:
    """How hard to think, in a word; None if the client does not say."""
    thinking, config = rawjson.maybe(given.get("thinking")), rawjson.maybe(given.get("output_config"))
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    word = config.get("effort") if isinstance(config, dict) else None
    if kind == "disabled":
        return "none"
    if kind == "enabled":
        budget = thinking.get("budget_tokens") or 0
        if not isinstance(budget, int):
            raise BadRequest("thinking.budget_tokens must be an integer", param="thinking.budget_tokens")
        return "low" if budget < LOW_BUDGET else "medium" if budget < MEDIUM_BUDGET else "high"
    return word if isinstance(word, str) else None


def _schema(fields: Fields) -> Any:
    """The schema that the answer must have."""
    config = rawjson.maybe(fields.get("output_config"))
    form = config.get("format") if isinstance(config, dict) else None
    form = form or rawjson.maybe(fields.get("output_format"))
    return form.get("schema") if isinstance(form, dict) and form.get("type") == "json_schema" else None


def _add_account(given: Fields, out: Fields) -> tuple[str, ...]:
    """Puts in what names the user, and the service tier; returns what cannot be expressed."""
    dropped = []
    metadata = rawjson.maybe(given.get("metadata"))
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if isinstance(user, str) and user:  # it may hold ids of devices, and is too long there
        out["safety_identifier"] = rawjson.raw(hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()[:32])
    elif metadata:
        dropped.append("metadata")
    tier = rawjson.maybe(given.get("service_tier"))
    if isinstance(tier, str) and tier in _TIERS:
        out["service_tier"] = rawjson.raw(_TIERS[tier])
    elif tier:
        dropped.append("service_tier")
    return tuple(dropped)
