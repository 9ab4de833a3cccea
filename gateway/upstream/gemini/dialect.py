"""Google's generateContent, and the models of its ``GET /v1beta/models`` that can chat, a thousand a page."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.failure import Failure
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.text import plain
from gateway.upstream.gemini import errors, request
from gateway.upstream.gemini.reader import ResponseReader
from gateway.upstream.gemini.request import root
from gateway.upstream.model_list import HEADERS, NAME_LIMIT, ModelPage
from gateway.upstream.translate.tool_names import Signatures


class GeminiDialect:
    """Implements ``DialectAdapter``. ``signatures`` holds those of tool calls, which the API wants back."""

    def __init__(self, signatures: Signatures) -> None:
        self._signatures = signatures

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """See ``DialectAdapter``. Raises AttemptFailed for a request that has no counterpart there."""
        return request.prepare(order, channel, served, learned, self._signatures.of(order.owner))

    def recalled(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """See ``DialectAdapter``."""
        return self._signatures.tokens_for(fields)

    def reader(self, order: Order, channel: Channel) -> ResponseReader:
        """See ``DialectAdapter``."""
        return ResponseReader(order, channel, self._signatures.of(order.owner))

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """See ``DialectAdapter``."""
        return errors.failure(channel, status, headers, body)


class GeminiListing:
    """Implements ``ModelListing``."""

    def ask(self, channel: Channel, after: str) -> PreparedRequest:
        """See ``ModelListing``."""
        url = root(channel) + "/models?pageSize=1000"
        if after:
            url += "&pageToken=" + quote(after, safe="")
        return PreparedRequest(url=url, headers=HEADERS, body=b"")

    def read(self, body: bytes) -> ModelPage | None:
        """See ``ModelListing``."""
        found = rawjson.maybe(body.strip())
        entries = found.get("models") if isinstance(found, dict) else None
        if not isinstance(found, dict) or not isinstance(entries, list):
            return None
        models = [_model(entry) for entry in entries if isinstance(entry, dict)]
        after = found.get("nextPageToken")
        return ModelPage(models=[model for model in models if model], after=after if isinstance(after, str) else "")


_METHODS = frozenset({"generateContent", "embedContent"})


def _model(entry: dict[str, Any]) -> ServedModel | None:
    name, methods = entry.get("name"), entry.get("supportedGenerationMethods")
    if not isinstance(name, str) or not name or name != plain(name, NAME_LIMIT):
        return None
    if not isinstance(methods, list) or not _METHODS.intersection(m for m in methods if isinstance(m, str)):
        return None
    return ServedModel(
        name=name.removeprefix("models/"),
        context=_positive(entry.get("inputTokenLimit")),
        max_output=_positive(entry.get("outputTokenLimit")),
    )


def _positive(number: object) -> int | None:
    return number if type(number) is int and number > 0 else None
