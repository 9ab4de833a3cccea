"""Translates the parameters of a Messages request to those of chat completions."""

import hashlib
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import read_typed
from gateway.domain.rawjson import NULL, Fields, is_nothing
from gateway.inbound.json_body import unread_names

PARAMETERS = frozenset(
    {
        *("max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "thinking", "output_config"),
        *("output_format", "metadata", "service_tier"),
    }
)
_PARAM_NAMES = {
    "max_completion_tokens": "max_tokens",
    "stop": "stop_sequences",
    "reasoning_effort": "thinking",
    "response_format": "output_config.format",
    "safety_identifier": "metadata",
    "service_tier": "service_tier",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}
"""The client's names of parameters, by those of chat completions."""
_READ_MEMBERS = {
    "thinking": {"type", "budget_tokens"},
    "output_config": {"effort", "format"},
    "tool_choice": {"type", "name", "disable_parallel_tool_use"},
}
"""What is read of fields that are objects."""
_EFFORTS = {"xhigh": "high", "max": "high"}
"""Replaces efforts that many models behind OpenAI's API do not know."""
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_TIERS = {"auto": "auto", "standard_only": "default"}


def translate_parameters(request: Fields) -> tuple[Fields, dict[str, str], list[str]]:
    """Returns the parameters by the names of chat completions, the client's names by these, and those of what is lost.

    Raises BadRequest.
    """
    fields: Fields = {"max_completion_tokens": rawjson.raw(max(1, rawjson.value(request["max_tokens"])))}
    for name in ("temperature", "top_p", "top_k"):
        if not rawjson.is_null(request.get(name)):
            fields[name] = request[name]
    stops = request.get("stop_sequences", NULL)
    if not is_nothing(stops) and read_typed(_LIST, stops, "stop_sequences"):
        fields["stop"] = stops
    names = dict(_PARAM_NAMES)
    if (effort := _effort(request)) is not None:
        fields["reasoning_effort"] = rawjson.raw(_EFFORTS.get(effort, effort))
        if rawjson.is_null(request.get("thinking")):
            names["reasoning_effort"] = "output_config.effort"
    if (schema := _schema(request)) is not None:
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        fields["response_format"] = rawjson.raw(form)
    dropped = [name for holder, members in _READ_MEMBERS.items() for name in unread_names(request, holder, members)]
    _add_account(request, fields, dropped)
    return fields, names, dropped


def _effort(request: Fields) -> str | None:
    """Returns the effort as a word; None if the client does not set it."""
    thinking = rawjson.maybe(request.get("thinking"))
    kind = rawjson.at(thinking, "type")
    if kind == "disabled":
        return "none"
    if kind == "enabled":
        budget = thinking.get("budget_tokens") or 0
        if not isinstance(budget, int):
            raise BadRequest("thinking.budget_tokens must be an integer", param="thinking.budget_tokens")
        return "low" if budget < 2048 else "medium" if budget < 8192 else "high"
    return rawjson.text_at(request.get("output_config"), "effort") or None


def _schema(request: Fields) -> Any:
    """Returns the JSON schema of the answer; None if there is none."""
    form = rawjson.at(request.get("output_config"), "format") or rawjson.maybe(request.get("output_format"))
    return rawjson.at(form, "schema") if rawjson.at(form, "type") == "json_schema" else None


def _add_account(request: Fields, fields: Fields, dropped: list[str]) -> None:
    """Add the user's name, as a digest, and the service tier."""
    metadata = rawjson.maybe(request.get("metadata"))
    if user := rawjson.text_at(metadata, "user_id"):  # it may contain ids of devices, and is too long there
        digest = hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()[:32]
        fields["safety_identifier"] = rawjson.raw(digest)
    if metadata and not (isinstance(metadata, dict) and metadata.keys() <= {"user_id"}):
        dropped.append("metadata")
    tier = rawjson.maybe(request.get("service_tier"))
    if isinstance(tier, str) and tier in _TIERS:
        fields["service_tier"] = rawjson.raw(_TIERS[tier])
    elif tier:
        dropped.append("service_tier")
