"""Dialect: OpenAI's chat completions, as spoken by OpenAI and by nearly everybody else."""

from collections.abc import Mapping

import msgspec

from gateway.domain.channel import Channel, Served
from gateway.upstream import failures
from gateway.upstream.adapter import Failure, Learned, Order, Prepared, Whole
from gateway.upstream.error_body import read_error
from gateway.upstream.framing import is_stream
from gateway.upstream.openai import request
from gateway.upstream.openai.completion import read_whole
from gateway.upstream.openai.stream import ChatStream, assemble


class OpenAIDialect:
    """Implements ``adapter.Adapter``; also for ``mock``, which answers in the same form."""

    def prepare(self, order: Order, channel: Channel, served: Served, learned: Learned) -> Prepared:
        """See ``adapter.Adapter``."""
        return request.prepare(order, channel, served, learned)

    def recalled(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """See ``adapter.Adapter``: nothing is remembered."""
        return 0

    def stream(self, order: Order, channel: Channel) -> ChatStream:
        """See ``adapter.Adapter``."""
        return ChatStream(order, channel)

    def whole(self, body: bytes, order: Order, channel: Channel) -> Whole:
        """See ``adapter.Adapter``."""
        return assemble(body, order, channel) if is_stream(body) else read_whole(body, order, channel)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """See ``adapter.Adapter``."""
        return failures.classify(channel, status, read_error(body), headers)
