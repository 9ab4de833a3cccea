"""Embeddings from Gemini: ``embedContent`` for one text, ``batchEmbedContents`` for several, a hundred at a time.

Gemini shortens vectors without scaling them. OpenAI's have length 1 at every size, so shortened ones are scaled here.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.failure import AttemptFailed
from gateway.domain.json_text import text_count
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.rawjson import Fields
from gateway.upstream.adapter import WholeAnswer
from gateway.upstream.answer_errors import reported_failure
from gateway.upstream.gemini.dialect import method_path, root
from gateway.upstream.openai.dialect import PLAIN_HEADERS
from gateway.upstream.openai.embeddings import EmbeddingsAdapter, Vector, in_order, numbers, write_answer

BATCH = 100
"""The maximum number of texts in a request."""
_ACCEPTED = frozenset({"model", "input", "encoding_format", "dimensions", "task_type", "taskType", "title"})
"""Fields of a request with a counterpart at Gemini."""


class GeminiEmbeddings(EmbeddingsAdapter):
    """An ``Adapter`` for embeddings."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        name = served.upstream_name
        model = name if name.startswith(("models/", "tunedModels/")) else f"models/{name}"
        text = order.fields["input"]
        if rawjson.is_list(text):
            method = "batchEmbedContents"
            requests = [{"model": model, **_request(text, order.fields)} for text in rawjson.items(text)]
            batches = [requests[start : start + BATCH] for start in range(0, len(requests), BATCH)]
            bodies = [rawjson.encode({"requests": batch}) for batch in batches]
        else:
            method = "embedContent"
            bodies = [rawjson.encode(_request(text, order.fields))]
        url = root(channel) + method_path(name, method)
        first, *others = [PreparedRequest(url=url, headers=PLAIN_HEADERS, body=body) for body in bodies]
        unknown = [field for field in order.fields if field not in _ACCEPTED]
        dropped = tuple(field for field in unknown if not rawjson.is_nothing(order.fields[field]))
        return msgspec.structs.replace(first, more=tuple(others), dropped=dropped)

    def read(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        answers = [rawjson.fields(item) for item in (rawjson.items(body) if body[:1] == b"[" else [body])]
        if any("error" in answer for answer in answers):
            raise AttemptFailed(reported_failure(channel, body))
        vectors = [Vector(_scale(item, order)) for answer in answers for item in _vectors(answer)]
        in_order(vectors, text_count(order.fields["input"]))
        return write_answer(vectors, order, _usage_fields(answers))


def _request(text: msgspec.Raw, fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    request: dict[str, Any] = {"content": {"parts": [{"text": text}]}}
    for gemini_name, names in (
        ("taskType", ("task_type", "taskType")),
        ("title", ("title",)),
        ("outputDimensionality", ("dimensions",)),
    ):
        value = next((fields[name] for name in names if not rawjson.is_null(fields.get(name))), None)
        if value is not None:
            request[gemini_name] = value
    return request


def _vectors(answer: Fields) -> list[msgspec.Raw]:
    """Returns the vectors of one answer. Raises ValueError if it has none."""
    if "embedding" in answer:
        embeddings = [rawjson.fields(answer["embedding"])]
    else:
        embeddings = rawjson.objects(answer.get("embeddings", rawjson.NULL))
    return [embedding.get("values", rawjson.NULL) for embedding in embeddings]


def _scale(vector: msgspec.Raw, order: Order) -> msgspec.Raw:
    """Returns a vector, scaled to length 1 if the request shortened it."""
    if rawjson.is_null(order.fields.get("dimensions")):
        return vector
    values = numbers(vector)
    length = math.sqrt(sum(value * value for value in values))
    return rawjson.raw([value / length for value in values]) if length else vector


def _usage_fields(answers: list[Fields]) -> Fields:
    """Returns the ``usage`` of all answers together; empty unless each of them reports it."""
    counts = [rawjson.at(answer.get("usageMetadata"), "promptTokenCount") for answer in answers]
    tokens = [count for count in counts if type(count) is int]
    if len(tokens) < len(answers):
        return {}
    return {"usage": rawjson.raw({"prompt_tokens": sum(tokens), "total_tokens": sum(tokens)})}
