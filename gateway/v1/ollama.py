"""Ollama's API: the models in the form that its clients expect, which is free, and the start of its calls."""

import hashlib
import re
from contextlib import closing
from typing import Any

import msgspec
from aiohttp import web

from gateway.core.admission import visible_entry, visible_name
from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.core.memory import BodyShare
from gateway.core.model_entry import ModelEntry, answering_model
from gateway.domain import rawjson
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.patterns import is_embedding_model
from gateway.domain.token import Token
from gateway.inbound.api import HttpRequest, is_large
from gateway.inbound.ollama.api import OLLAMA_GENERATE
from gateway.inbound.ollama.render import format_time, load_answer
from gateway.v1.call import OnAnswer, answer_call
from gateway.web.request import read_body
from gateway.web.response import Response

VERSION = "0.18.3"
"""The version of Ollama whose API this is, as of 2026-11-22. Clients refuse a version that is older than they need."""
_VISION = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-[5-9]|^o[134]|claude|gemini|llava|vision|pixtral|[-_.]vl|vl[-_.:]|gemma-?3|llama-?4|grok-[4-9]"
)
"""Matches the names of models that see images."""
_THINKING = re.compile(
    r"gpt-[5-9]|gpt-oss|^o[134]|deepseek-r|reasoner|qwq|qwen-?3|claude-(?:opus|sonnet|haiku)-[4-9]|gemini-(?:2\.5|[3-9])"
    r"|magistral|think|grok-[4-9]"
)
"""Matches the names of models that think before they answer."""


async def answer_version(engine: Engine, _: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer GET /api/version."""
    engine.pipeline.identify(origin)
    return Response(msgspec.json.encode({"version": VERSION}))


async def answer_tags(engine: Engine, _: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer GET /api/tags: the models that the token sees."""
    token = engine.pipeline.identify(origin)
    entries = [
        {
            "name": entry.name,
            "model": entry.name,
            "modified_at": format_time(entry.created),
            "size": 0,
            "digest": hashlib.sha256(entry.name.encode("utf-8", "surrogatepass")).hexdigest(),
            "details": _details(entry),
            "capabilities": capabilities(entry),
        }
        for entry in engine.catalog.visible(token).values()
    ]
    return Response(msgspec.json.encode({"models": entries}))


async def answer_ps(engine: Engine, _: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer GET /api/ps: no model is loaded here."""
    engine.pipeline.identify(origin)
    return Response(b'{"models":[]}')


async def answer_show(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer POST /api/show: what one model can do."""
    entry = await _requested_entry(engine, request, origin)
    target = answering_model(entry)
    context = engine.catalog.context(target.name, target.context)
    abilities = capabilities(entry)
    info: dict[str, Any] = {"general.basename": entry.name}
    if context and "completion" in abilities:  # Koog fails if an architecture has no lengths
        info |= {"general.architecture": "tk", "tk.context_length": context, "tk.embedding_length": 0}
    shown = {
        "license": "",  # OllamaKit, which is in Enchanted, reads no answer without it
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _details(entry),
        "model_info": info,
        "capabilities": abilities,
        "modified_at": format_time(entry.created),
    }
    return Response(msgspec.json.encode(shown))


async def answer_pull(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer POST /api/pull: success for a visible model, which needs no download. Raises NotFound for others."""
    await _requested_entry(engine, request, origin)
    return Response(b'{"status":"success"}\n', content_type="application/x-ndjson")


async def answer_generation(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer POST /api/chat and /api/generate. A request without a prompt loads the model, which is free."""

    async def answer_load(token: Token, received: HttpRequest) -> tuple[HttpRequest, OnAnswer] | Response:
        """Returns the answer to a request to load a model; the request itself if it is a call."""
        fields = rawjson.maybe(received.body) if len(received.body) <= 4096 else None  # a larger one has a prompt
        if not isinstance(fields, dict) or any(fields.get(name) for name in ("messages", "prompt", "images", "suffix")):
            return received, None
        if not isinstance(fields.get("messages", []), list) or not isinstance(fields.get("prompt", ""), str):
            return received, None  # the call's parser reports the wrong type
        name = _model_name(fields)
        visible_entry(visible_name(name, OLLAMA_GENERATE, token, engine.catalog), token, engine.catalog)
        return Response(msgspec.json.encode(load_answer(name, origin.ts, chat=origin.api is not OLLAMA_GENERATE)))

    return await answer_call(engine, request, origin, answer_load)


def capabilities(entry: ModelEntry) -> list[str]:
    """Returns what a model can do, guessed from its names. All have ``tools``: clients hide models without them."""
    names = [entry.name, *(route.served.upstream_name for route in answering_model(entry).routes[:1])]
    if any(map(is_embedding_model, names)):
        return ["embedding"]
    guesses = {"vision": _VISION, "thinking": _THINKING}
    lowered = [name.lower() for name in names]
    return ["completion", "tools", *(name for name, pattern in guesses.items() if any(map(pattern.search, lowered)))]


def _details(entry: ModelEntry) -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": entry.owner,
        "families": [entry.owner],
        "parameter_size": "",
        "quantization_level": "",
    }


async def _requested_entry(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> ModelEntry:
    """Returns the model that a request names. Raises BadRequest for a body that is not an object, and NotFound."""
    token = engine.pipeline.identify(origin)
    with closing(BodyShare(engine.pressure)) as share:
        body = await read_body(request, share)
        fields = None if is_large(body) else rawjson.maybe(body)
    if not isinstance(fields, dict):
        raise BadRequest("the body must be one JSON object", code="invalid_type")
    name = visible_name(_model_name(fields), OLLAMA_GENERATE, token, engine.catalog)
    return visible_entry(name, token, engine.catalog)


def _model_name(body: dict[str, Any]) -> str:
    """Returns the name of the model in a request. Raises NotFound for a request without one."""
    name = body.get("model") or body.get("name")
    if not isinstance(name, str):
        raise NotFound("the request names no model", code="model_not_found", param="model")
    return name
