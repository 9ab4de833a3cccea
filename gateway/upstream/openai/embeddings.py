"""Embeddings in OpenAI's form: the request is sent unchanged, and the answer is checked.

Clients decode vectors in the form that they requested, and would misread another one without an error. So vectors in
another form are converted, all are put in the order of the inputs, and a wrong number of them is an error.
"""

import base64
import struct
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import InternalError
from gateway.domain.estimate import OutputCounter
from gateway.domain.failure import AttemptFailed, Failure, UpstreamText
from gateway.domain.json_text import MAX_ELEMENTS, contains, text_count
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.rawjson import Fields
from gateway.domain.sse import BOM
from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.adapter import Adapter, AnswerStream, WholeAnswer, WholeFacts
from gateway.upstream.answer_errors import reported_failure, reports_error
from gateway.upstream.error_body import excerpt, read_error
from gateway.upstream.failures import bad_response, classify, lacks_path
from gateway.upstream.openai.dialect import PLAIN_HEADERS, endpoint
from gateway.upstream.request_rules import fit_request
from gateway.upstream.usage_counts import PLAUSIBLE
from gateway.upstream.usage_report import read_report

_FLOATS = msgspec.json.Decoder(list[float])


def has_contents(raw: msgspec.Raw) -> bool:
    """Returns whether a list of texts has objects, such as images, in place of some of them."""
    return b"{" in bytes(raw) and any(bytes(memoryview(item)[:1]) == b"{" for item in rawjson.maybe_items(raw))


class EmbeddingsAdapter(Adapter):
    """The base of adapters for embeddings."""

    def stream(self, order: Order, channel: Channel) -> AnswerStream:
        raise InternalError("embeddings are never streamed")

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """See ``Adapter``. Names take a hundred times as long to read as numbers, and no call runs meanwhile."""
        body = body.strip().removeprefix(BOM)
        if body.count(b'"') > MAX_ELEMENTS:
            raise AttemptFailed(bad_response(channel, f"it has more than {MAX_ELEMENTS:,} quotes"))
        try:
            return self.read(body, order, channel)
        except ValueError as error:
            reason = f"it has no embeddings: {str(error) or excerpt(body)}"
            raise AttemptFailed(bad_response(channel, reason)) from error

    @abstractmethod
    def read(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """Returns the answer in a body. Raises ValueError if it has no vectors, and AttemptFailed for an error."""

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """See ``RequestWriter``. A channel that lacks only this API is not at fault: it does not have the model."""
        error = read_error(body)
        failure = classify(channel, status, error, headers)
        if not lacks_path(failure):
            return failure
        text = f"channel '{channel.name}': the upstream does not offer embeddings (HTTP {status}: {error.message})"
        return msgspec.structs.replace(
            failure, kind=FailureKind.MISSING, code="model_not_found", text=UpstreamText(text), param="model"
        )


class OpenAIEmbeddings(EmbeddingsAdapter):
    """An ``Adapter`` for embeddings; also for ``mock``, which answers in the same form."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        fields, dropped = fit_request(order.fields, learned.dropped)
        fields["model"] = rawjson.raw(served.upstream_name)
        return PreparedRequest(
            url=endpoint(channel.base_url, "/embeddings"),
            headers=PLAIN_HEADERS,
            body=order.body_with(fields),
            dropped=tuple(dropped),
        )

    def read(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        answer = rawjson.fields(body)
        if "data" not in answer and reports_error(answer):
            raise AttemptFailed(reported_failure(channel, body))
        raw = answer.pop("data", None)
        if raw is None:
            raise ValueError(excerpt(body))
        data = _VECTORS.decode(raw)
        if contains(body, b"null") or contains(body, b"NaN"):  # how servers write what is not a number
            for vector in data:
                if rawjson.is_list(vector.embedding):
                    numbers(vector.embedding)  # raises ValueError
        order.screen.clean(answer)
        texts = order.fields["input"]
        # Some servers make one vector of several contents.
        vectors = in_order(data, max(len(data), 1) if has_contents(texts) else text_count(texts))
        return write_answer(vectors, order, answer)


class Vector(msgspec.Struct):
    """One item of an answer."""

    embedding: msgspec.Raw
    index: int = -1


_VECTORS = msgspec.json.Decoder(list[Vector])


def in_order(vectors: list[Vector], count: int) -> list[Vector]:
    """Returns the vectors in the order of the inputs. Raises ValueError unless there is one for each."""
    if len(vectors) != count:
        raise ValueError(f"{len(vectors)} of {count} came")
    indexes = [vector.index for vector in vectors]
    if indexes == list(range(count)) or set(indexes) == {-1}:  # some servers number nothing
        return vectors
    vectors = sorted(vectors, key=attrgetter("index"))
    if [vector.index for vector in vectors] != list(range(count)):
        raise ValueError("its indexes are not those of the inputs")
    return vectors


def write_answer(vectors: list[Vector], order: Order, answer: Fields) -> WholeAnswer:
    """Returns the answer with its vectors in the requested form. ``answer`` has the upstream's other fields."""
    encoding = rawjson.maybe(order.fields.get("encoding_format")) or "float"
    are_floats = rawjson.maybe(order.fields.get("output_dtype")) in (None, "float")
    embeddings = [as_encoding(vector.embedding, encoding) if are_floats else vector.embedding for vector in vectors]
    data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(embeddings)]
    report = rawjson.maybe(answer.pop("usage", None))
    written: dict[str, Any] = {**answer, "object": "list", "data": data, "model": order.model}
    usage = read_usage(report)
    if usage is not None:
        written["usage"] = {**report, **_counts(usage)}
    facts = WholeFacts(reported=usage, tally=OutputCounter())
    return WholeAnswer(body=rawjson.encode(written), state=facts, counts=_counts)


def _counts(usage: Usage) -> dict[str, object]:
    """Returns the usage in OpenAI's form, which has no output tokens."""
    return {"prompt_tokens": usage.input, "total_tokens": usage.input}


def as_encoding(embedding: msgspec.Raw, encoding: str) -> msgspec.Raw:
    """Returns a vector as numbers (``float``) or as ``base64``. Raises ValueError if it is neither, or empty."""
    first = bytes(memoryview(embedding)[:1])
    if first not in (b"[", b'"') or len(memoryview(embedding)) <= len(b"[]"):
        raise ValueError(f"a vector is {excerpt(bytes(embedding)[:100])}")
    if encoding == "base64" and first == b"[":
        return rawjson.raw(pack_vector(numbers(embedding)))
    if encoding == "float" and first == b'"':
        data = base64.b64decode(rawjson.text(embedding), validate=True)
        if len(data) % 4:
            raise ValueError("a vector is not a number of whole floats")
        return rawjson.raw(struct.unpack(f"<{len(data) // 4}f", data))
    return embedding


def numbers(embedding: msgspec.Raw) -> list[float]:
    """Returns the numbers of a vector. Raises ValueError if it is not an array of numbers."""
    try:
        return _FLOATS.decode(embedding)
    except msgspec.DecodeError as error:
        raise ValueError(f"a vector is not an array of numbers: {error}") from error


def pack_vector(values: Sequence[float]) -> str:
    """Returns the numbers in base64: 32 bits each, little-endian."""
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def read_usage(report: Any) -> Usage | None:
    """Returns the reported input tokens; None if the number is not plausible."""
    if not isinstance(report, dict):
        return None
    reading = read_report(report)
    tokens = reading.usage.input if reading is not None else report.get("total_tokens")
    if type(tokens) is not int or not 0 < tokens <= PLAUSIBLE:
        return None
    return Usage(input=tokens, source=UsageSource.REPORTED)
