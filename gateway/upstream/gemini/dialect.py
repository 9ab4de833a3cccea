"""Dialect: Google's generateContent."""

from collections.abc import Mapping

import msgspec

from gateway.domain.channel import Channel, Served
from gateway.upstream.adapter import Failure, Learned, Order, Prepared, Whole
from gateway.upstream.chat.signatures import Signatures
from gateway.upstream.chat.stream import TranslatedStream
from gateway.upstream.chat.whole import read_translated
from gateway.upstream.gemini import errors, request
from gateway.upstream.gemini.answer import read_answer
from gateway.upstream.gemini.stream import ResponseDecoder


class GeminiDialect:
    """Implements ``adapter.Adapter``. ``signatures`` holds those of tool calls, which the API wants back."""

    def __init__(self, signatures: Signatures) -> None:
        self._signatures = signatures

    def prepare(self, order: Order, channel: Channel, served: Served, learned: Learned) -> Prepared:
        """See ``adapter.Adapter``. Raises AttemptFailed for a request that has no counterpart there."""
        return request.prepare(order, channel, served, learned, self._signatures)

    def recalled(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """See ``adapter.Adapter``."""
        return self._signatures.tokens_for(fields)

    def stream(self, order: Order, channel: Channel) -> TranslatedStream:
        """See ``adapter.Adapter``."""
        decoder = ResponseDecoder(order, channel, self._signatures)
        return TranslatedStream(order, channel, decoder, lambda b: read_answer(b, order, channel, self._signatures))

    def whole(self, body: bytes, order: Order, channel: Channel) -> Whole:
        """See ``adapter.Adapter``."""
        decoder = ResponseDecoder(order, channel, self._signatures)
        return read_translated(
            body, order, channel, decoder, lambda b: read_answer(b, order, channel, self._signatures)
        )

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """See ``adapter.Adapter``."""
        return errors.failure(channel, status, headers, body)
