"""The models an upstream says it has: asked for page by page, read in any of the shapes of ``GET /models``."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.order import PreparedRequest
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.upstream.listed_prices import listed_prices

NAME_LIMIT = 200
MODELS_LIMIT = 5000

_CONTEXT = ("context_length", "max_model_len", "context_window", "max_context_length", "n_ctx_train", "n_ctx")
"""OpenRouter and Together, vLLM, Groq, LM Studio and Mistral, llama.cpp."""
_MAX_OUTPUT = ("max_completion_tokens", "max_output_tokens")
"""Groq, relays; OpenRouter has it in ``top_provider``."""

_NAMES = ("id", "model", "name")
"""OpenAI and most; Perplexity and others; Ollama. A name with spaces is one for people."""


def read_models(body: bytes) -> "ModelPage | None":
    """The models in the order they are listed; None if the body is not a list of models.

    Ollama sends ``data: null`` when it has none; llama.cpp has a parallel ``models``; Gemini's names begin with
    ``models/``, which is left out.
    """
    found = rawjson.maybe(body.strip())
    if isinstance(found, dict):
        names = [name for name in ("data", "models") if name in found]
        if not names:
            return None
        found = [] if found[names[0]] is None else found[names[0]]
    if not isinstance(found, list):
        return None
    served = [_read_model(entry) for entry in found[:MODELS_LIMIT]]
    models = {model.name: model for model in served if model}
    return ModelPage(models=list(models.values()), unreadable=served.count(None) + len(found[MODELS_LIMIT:]))


def _read_model(entry: Any) -> ServedModel | None:
    entry = {"id": entry} if isinstance(entry, str) else entry
    name = _name_of(entry) if isinstance(entry, dict) else ""
    if not name or name != plain(name, NAME_LIMIT):
        return None
    name = name.removeprefix("models/")
    created = entry.get("created")
    seconds = created if type(created) is int and 0 < created < 10_000_000_000 else 0
    meta, provider = (found if isinstance(found := entry.get(name), dict) else {} for name in ("meta", "top_provider"))
    return ServedModel(
        name=name,
        created=Millis(seconds * 1000),
        context=_size((entry, meta), _CONTEXT),
        max_output=_size((entry, provider), _MAX_OUTPUT),
        told=listed_prices(entry),
    )


def _name_of(entry: dict[str, Any]) -> str:
    """What to ask for the model with; empty: the entry does not say it."""
    for field in _NAMES:
        value = entry.get(field)
        if isinstance(value, str) and value and (field != "name" or " " not in value):
            return value
    return ""


def _size(holders: Sequence[dict[str, Any]], names: Sequence[str]) -> int | None:
    """The first number of tokens that makes sense."""
    found = (holder.get(name) for holder in holders for name in names)
    return next((value for value in found if type(value) is int and 0 < value < 1_000_000_000), None)


HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate"}


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list."""

    models: list[ServedModel]
    after: str = ""
    """What to ask for the next page with; empty: this is the last one."""
    unreadable: int = 0
    """Entries that were left out: without a name, or with one that is too long or has control characters."""


class ModelListing(Protocol):
    """How one dialect lists models. Pure."""

    def ask(self, channel: Channel, after: str) -> PreparedRequest:
        """The request for the first page, or for the one after another."""

    def read(self, body: bytes) -> ModelPage | None:
        """The page; None if the body is none."""


class PlainModelListing:
    """OpenAI's way: everything at once."""

    def ask(self, channel: Channel, after: str) -> PreparedRequest:
        """See ``ModelListing``."""
        return PreparedRequest(url=channel.base_url.rstrip("/") + "/models", headers=HEADERS, body=b"")

    def read(self, body: bytes) -> ModelPage | None:
        """See ``ModelListing``."""
        return read_models(body)
