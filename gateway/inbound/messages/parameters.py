"""Parameters of a Messages request as those of a chat completion: sampling, stops, thinking, the form of the answer."""

import hashlib
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.inbound.messages.blocks import items_of
from gateway.upstream import rawjson
from gateway.upstream.rawjson import Fields
from gateway.upstream.vendors import OPENAI, Vendor

_WORDS = {"xhigh": "high", "max": "high"}
"""Efforts that many models with OpenAI's words do not know."""
MOST_STOPS = 4
"""OpenAI's limit of stop sequences."""
LOW_BUDGET, MEDIUM_BUDGET = 2048, 8192
_TIERS = {"auto": "auto", "standard_only": "default"}


class TranslatedParameters(msgspec.Struct, frozen=True):
    """What goes into the request."""

    fields: Fields
    dropped: tuple[str, ...]
    """The client's names of what is lost."""


def translate_parameters(given: Fields, vendor: Vendor, *, gemini: bool) -> TranslatedParameters:
    """The parameters as this vendor takes them. Raises BadRequest."""
    out: Fields = {}
    dropped: list[str] = []
    for name in ("temperature", "top_p", "top_k"):
        if rawjson.is_null(given.get(name)):
            continue
        if name == "top_k" and vendor is OPENAI:
            dropped.append(name)
        else:
            out[name] = given[name]
    if not rawjson.is_null(given.get("stop_sequences")):
        stops = items_of(given["stop_sequences"], "stop_sequences")
        if vendor is OPENAI and len(stops) > MOST_STOPS:
            dropped.append("stop_sequences")
            stops = stops[:MOST_STOPS]
        out |= {"stop": rawjson.raw(stops)} if stops else {}
    if (effort := _effort(given)) is not None:
        out["reasoning_effort"] = rawjson.raw(effort if gemini else _WORDS.get(effort, effort))
    if (schema := _schema(given)) is not None:
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        out["response_format"] = rawjson.raw(form)
    if vendor is OPENAI:
        out |= _account(given)
    return TranslatedParameters(out, tuple(dropped))


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


def _account(given: Fields) -> Fields:
    """What names the user, and the service tier."""
    out: Fields = {}
    metadata = rawjson.maybe(given.get("metadata"))
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if isinstance(user, str) and user:  # it may hold ids of devices, and is too long there
        out["safety_identifier"] = rawjson.raw(hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()[:32])
    tier = rawjson.maybe(given.get("service_tier"))
    if isinstance(tier, str) and tier in _TIERS:
        out["service_tier"] = rawjson.raw(_TIERS[tier])
    return out
