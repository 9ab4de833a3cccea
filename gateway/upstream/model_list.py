"""The models an upstream says it has: one page of its list, in any of the shapes of ``GET /models``."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import ServedModel
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.upstream.listed_prices import listed_prices

LIST_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate"}
MODELS_LIMIT = 5000

_CONTEXT = (
    *("context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens", "inputTokenLimit"),
    *("n_ctx_train", "n_ctx"),
)
"""The fields of a model's context: OpenRouter and Together, vLLM, Groq, LM Studio and Mistral, Anthropic, Google,
llama.cpp."""
_MAX_OUTPUT = ("max_completion_tokens", "max_output_tokens", "outputTokenLimit")
"""The fields of an output limit: Groq, relays, Google; OpenRouter has it in ``top_provider``."""

_NAMES = ("id", "model", "name")
"""The fields of a name: OpenAI and most; Perplexity and others; Ollama and Google. A name with spaces is for people."""
_METHODS = frozenset({"generateContent", "embedContent"})
"""Google's words for what a model must be able to do, to be useful here."""


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list."""

    models: list[ServedModel]
    after: str = ""
    """The cursor of the next page; empty: this is the last one."""
    unreadable: int = 0
    """How many entries were left out: without a name, or with one that is too long or has control characters."""


def read_models(body: bytes) -> ModelPage | None:
    """Returns the models in the order of the list, without retired ones; None if the body is not a list of models.

    Ollama sends ``data: null`` when it has none; llama.cpp has a parallel ``models``; Gemini's names begin with
    ``models/``, which is left out.
    """
    listed, after = rawjson.maybe(body.strip()), None
    if isinstance(listed, dict):
        names = [name for name in ("data", "models") if name in listed]
        if not names:
            return None
        after = listed.get("last_id") if listed.get("has_more") else listed.get("nextPageToken")
        listed = [] if listed[names[0]] is None else listed[names[0]]
    if not isinstance(listed, list):
        return None
    served = [_read_model(entry) for entry in listed[:MODELS_LIMIT] if _is_offered(entry)]
    models = {model.name: model for model in served if model}
    return ModelPage(
        models=list(models.values()),
        after=after if isinstance(after, str) else "",
        unreadable=served.count(None) + len(listed[MODELS_LIMIT:]),
    )


def _is_offered(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return True
    methods = entry.get("supportedGenerationMethods")
    usable = not isinstance(methods, list) or any(method in _METHODS for method in methods if isinstance(method, str))
    return usable and entry.get("lifecycle") != "retired"


def _read_model(entry: Any) -> ServedModel | None:
    entry = {"id": entry} if isinstance(entry, str) else entry
    name = _name_of(entry) if isinstance(entry, dict) else ""
    if not name or name != plain(name, 200):  # too long, or with control characters
        return None
    meta, provider = (value if isinstance(value := entry.get(name), dict) else {} for name in ("meta", "top_provider"))
    own_limit = ("max_tokens",) if entry.get("type") == "model" else ()  # Anthropic's; for others it is the context
    return ServedModel(
        name=name.removeprefix("models/"),
        created=_creation_time(entry),
        context=_size((entry, meta), _CONTEXT),
        max_output=_size((entry, provider), (*_MAX_OUTPUT, *own_limit)),
        told=listed_prices(entry),
    )


def _creation_time(entry: dict[str, Any]) -> Millis:
    """Returns when it was made, from seconds or RFC 3339, in UTC without a zone; 0 for anything else."""
    seconds: Any = entry.get("created")
    if "created_at" in entry and seconds is None:
        try:
            moment = datetime.fromisoformat(str(entry["created_at"]))
            seconds = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
        except (ValueError, OverflowError):
            return Millis(0)
    return Millis(seconds * 1000 if type(seconds) is int and 0 < seconds < 10_000_000_000 else 0)


def _name_of(entry: dict[str, Any]) -> str:
    """Returns the name to request the model by; empty if the entry has none."""
    for field in _NAMES:
        value = entry.get(field)
        if isinstance(value, str) and value and (field != "name" or " " not in value):
            return value
    return ""


def _size(holders: Sequence[dict[str, Any]], names: Sequence[str]) -> int | None:
    """Returns the first sensible number of tokens."""
    values = (holder.get(name) for holder in holders for name in names)
    return next((value for value in values if type(value) is int and 0 < value < 1_000_000_000), None)
