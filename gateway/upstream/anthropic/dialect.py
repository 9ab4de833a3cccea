"""Anthropic's Messages, and the models of its ``GET /v1/models``, a thousand a page; retired ones are left out."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.failure import Failure
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.upstream.anthropic import errors, request
from gateway.upstream.anthropic.reader import MessageReader
from gateway.upstream.anthropic.request import headers, root
from gateway.upstream.model_list import NAME_LIMIT, ModelPage
from gateway.upstream.openai.dialect import endpoint
from gateway.upstream.translate.tool_names import Signatures


class AnthropicDialect:
    """Implements ``DialectAdapter``. ``signatures`` holds the thoughts before tool calls, which the API wants back."""

    def __init__(self, signatures: Signatures) -> None:
        self._signatures = signatures

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """See ``DialectAdapter``. Raises AttemptFailed for a request that has no counterpart there."""
        return request.prepare(order, channel, served, learned, self._signatures.of(order.owner))

    def recalled(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """See ``DialectAdapter``."""
        return self._signatures.tokens_for(fields)

    def reader(self, order: Order, channel: Channel) -> MessageReader:
        """See ``DialectAdapter``."""
        return MessageReader(order, channel, self._signatures.of(order.owner))

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """See ``DialectAdapter``."""
        return errors.failure(channel, status, headers, body)


class AnthropicListing:
    """Implements ``ModelListing``."""

    def ask(self, channel: Channel, after: str) -> PreparedRequest:
        """See ``ModelListing``."""
        url = endpoint(root(channel), "/v1/models") + "?limit=1000"
        if after:
            url += "&after_id=" + quote(after, safe="")
        return PreparedRequest(url=url, headers=headers(channel, stream=False), body=b"")

    def read(self, body: bytes) -> ModelPage | None:
        """See ``ModelListing``."""
        found = rawjson.maybe(body.strip())
        entries = found.get("data") if isinstance(found, dict) else None
        if not isinstance(entries, list):
            return None
        models = [_model(entry) for entry in entries if isinstance(entry, dict)]
        last = found.get("last_id") if found.get("has_more") else ""
        return ModelPage(models=[model for model in models if model], after=last if isinstance(last, str) else "")


def _model(entry: dict[str, Any]) -> ServedModel | None:
    name = entry.get("id")
    if not isinstance(name, str) or not name or name != plain(name, NAME_LIMIT) or entry.get("lifecycle") == "retired":
        return None
    return ServedModel(
        name=name,
        created=_moment(entry.get("created_at")),
        context=_positive(entry.get("max_input_tokens")),
        max_output=_positive(entry.get("max_tokens")),
    )


def _positive(number: object) -> int | None:
    return number if type(number) is int and number > 0 else None


def _moment(text: object) -> Millis:
    """RFC 3339 to milliseconds; 0 for what is none. The epoch itself means unknown."""
    try:
        return Millis(max(0, round(datetime.fromisoformat(str(text)).timestamp() * 1000)))
    except (ValueError, OverflowError):
        return Millis(0)
