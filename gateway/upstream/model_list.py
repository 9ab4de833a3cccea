"""Model lists: reads one page of the models that an upstream offers, in any known form of ``GET /models``."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import ServedModel
from gateway.domain.json_text import count_elements
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.upstream.listed_prices import listed_prices, live_providers

LIST_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate"}
MODELS_LIMIT = 5000
_MAX_ELEMENTS = 50 * MODELS_LIMIT

_CONTEXT = (
    *("context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens", "inputTokenLimit"),
    *("n_ctx", "n_ctx_train", "context_size", "availableContextTokens", "max_context_window_tokens", "max_context"),
)
"""Fields with a model's context length at OpenRouter, Together, vLLM, Groq, LM Studio, Mistral, Anthropic, Google,
llama.cpp (as it was started, then as it was trained), Novita, Venice, GitHub Copilot and ArliAI."""
_MAX_OUTPUT = ("max_completion_tokens", "max_output_tokens", "outputTokenLimit", "maxCompletionTokens")
"""Fields with a model's output limit at Groq, relays, Google and Venice."""
_HOLDERS = (("meta",), ("metadata",), ("model_spec",), ("capabilities", "limits"), ("context_window",))
"""Objects in an entry that may have such fields, as at llama.cpp, DeepInfra, Venice, GitHub Copilot and Poe. OpenRouter
has the output limit in ``top_provider``, with the context of that provider alone."""

_NAMES = ("id", "model", "slug", "name")
"""Fields with a model's name at OpenAI and most others, at Perplexity, at relays of Codex, at Ollama and Google."""


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list."""

    models: list[ServedModel]
    after: str = ""
    """The cursor of the next page; empty if this is the last one."""
    unreadable: int = 0
    """The number of entries left out: they have no name, or one that is too long or has control characters."""


def read_models(body: bytes) -> ModelPage | None:
    """Returns the models in the order of the list, without retired ones; None if the body is not a list of models.

    Ollama sends ``data: null`` if it has none. llama.cpp has ``models`` next to ``data``. The prefix ``models/`` of
    Gemini's names is removed.
    """
    is_too_large = count_elements(body, _MAX_ELEMENTS) > _MAX_ELEMENTS  # decoded, it could take a gigabyte
    decoded, after = None if is_too_large else rawjson.maybe(body.strip()), None
    entries = decoded
    if isinstance(decoded, dict):
        after = decoded.get("last_id") if decoded.get("has_more") else decoded.get("nextPageToken")
        entries = decoded["data"] if "data" in decoded else decoded.get("models", decoded)
        entries = [] if entries is None else entries
    if not isinstance(entries, list):
        return None
    served = [_read_model(entry) for entry in entries[:MODELS_LIMIT] if _is_offered(entry)]
    models = {model.name: model for model in served if model}
    return ModelPage(
        models=list(models.values()),
        after=after if isinstance(after, str) else "",
        unreadable=served.count(None) + len(entries[MODELS_LIMIT:]),
    )


def _is_offered(entry: Any) -> bool:
    """Returns whether the model is neither retired nor of another kind, such as one for speech."""
    methods = rawjson.at(entry, "supportedGenerationMethods")
    is_usable = not isinstance(methods, list) or "generateContent" in methods or "embedContent" in methods
    return is_usable and rawjson.at(entry, "lifecycle") != "retired"


def _read_model(entry: Any) -> ServedModel | None:
    """Returns the model of an entry; None if it has no usable name."""
    entry = {"id": entry} if isinstance(entry, str) else entry
    name = _model_name(entry) if isinstance(entry, dict) else ""
    if not name or name != plain(name, 200):  # too long, or with control characters
        return None
    holders = (entry, *(rawjson.at(entry, *place) for place in _HOLDERS))
    contexts = [_token_count((provider,), _CONTEXT) for provider in live_providers(entry)]
    # Anthropic's and Vercel's; for others it is the context
    own_limit = ("max_tokens",) if entry.get("type") in ("model", "language") else ()
    return ServedModel(
        name=name.removeprefix("models/"),
        created=_creation_time(entry),
        context=_token_count(holders, _CONTEXT) or min(filter(None, contexts), default=None),
        max_output=_token_count((*holders, entry.get("top_provider")), (*_MAX_OUTPUT, *own_limit)),
        published=listed_prices(entry),
    )


def _creation_time(entry: dict[str, Any]) -> Millis:
    """Returns when the model was made, from seconds or an RFC 3339 time (in UTC without a zone); 0 if unknown."""
    seconds: Any = entry.get("created") or entry.get("created_at")
    with suppress(TypeError, ValueError):
        moment = datetime.fromisoformat(seconds)
        seconds = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    return Millis(seconds * 1000 if type(seconds) is int and 0 < seconds < 10_000_000_000 else 0)


def _model_name(entry: dict[str, Any]) -> str:
    """Returns the name to request the model by; empty if the entry has none. A ``name`` with spaces is for people."""
    values = (entry.get(field) for field in _NAMES if field != "name" or " " not in str(entry.get(field)))
    return next((value for value in values if isinstance(value, str) and value), "")


def _token_count(holders: Sequence[Any], names: Sequence[str]) -> int | None:
    """Returns the first plausible number of tokens in fields of these names, or None."""
    values = (rawjson.at(holder, name) for holder in holders for name in names)
    return next((value for value in values if type(value) is int and 0 < value < 1_000_000_000), None)
