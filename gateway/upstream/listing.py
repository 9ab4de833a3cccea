"""Listing: the models an upstream says it has, in any of the shapes of ``GET /models``."""

from typing import Any

from gateway.domain.channel import Served
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.upstream import rawjson

NAME_LIMIT = 200
MODELS_LIMIT = 5000

_CONTEXT = ("context_length", "max_model_len", "context_window", "max_context_length", "n_ctx_train", "n_ctx")
"""OpenRouter and Together, vLLM, Groq, LM Studio and Mistral, llama.cpp."""


def read_models(body: bytes) -> list[Served] | None:
    """The models in the order they are listed; None if the body is no list of models.

    Ollama sends ``data: null`` when it has none; llama.cpp has a parallel ``models``; Gemini's names begin with
    ``models/``, which is left out.
    """
    found = rawjson.maybe(body.strip())
    if isinstance(found, dict):
        if "data" not in found:
            return None
        found = [] if found["data"] is None else found["data"]
    if not isinstance(found, list):
        return None
    served = (_read_model(entry) for entry in found[:MODELS_LIMIT])
    return list({model.name: model for model in served if model}.values())


def _read_model(entry: Any) -> Served | None:
    name = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not name or name != plain(name, NAME_LIMIT):
        return None
    name = name.removeprefix("models/")
    created = entry.get("created")
    seconds = created if type(created) is int and 0 < created < 10_000_000_000 else 0
    return Served(name=name, created=Millis(seconds * 1000), context=_context(entry))


def _context(entry: dict[str, Any]) -> int | None:
    meta = entry.get("meta")
    for holder in (entry, meta if isinstance(meta, dict) else {}):
        for name in _CONTEXT:
            value = holder.get(name)
            if type(value) is int and 0 < value < 1_000_000_000:
                return value
    return None
