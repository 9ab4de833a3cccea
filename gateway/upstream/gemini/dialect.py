"""Google's generateContent: the dialect, and what its errors mean."""

from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

import msgspec

from gateway.domain.channel import Channel, ServedModel
from gateway.domain.failure import Failure
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import OutputLimit
from gateway.domain.rawjson import Fields
from gateway.upstream.answer_reader import ChannelDialect
from gateway.upstream.call_memory import CallMemory
from gateway.upstream.error_body import read_error
from gateway.upstream.failures import classify
from gateway.upstream.gemini import request
from gateway.upstream.gemini.models import row_of
from gateway.upstream.gemini.reader import ResponseReader
from gateway.upstream.model_list import LIST_HEADERS
from gateway.upstream.vendors import GEMINI

_OWN_NAMES = {
    "thinking_config": "reasoning_effort",
    "thinking_level": "reasoning_effort",
    "thinking_budget": "reasoning_effort",
    "stop_sequences": "stop",
    "response_logprobs": "logprobs",
}
"""Fields of the request that the client knows by another name."""


class GeminiDialect(ChannelDialect):
    """``memory`` holds the signatures of tool calls, which the API wants back."""

    base_url = GEMINI.base_url

    def __init__(self, memory: CallMemory | None = None) -> None:
        self._memory = memory or CallMemory()

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """Raises AttemptFailed for a request that has no counterpart there."""
        return request.prepare(order, channel, served, learned, partial(self._memory.recall, order.owner))

    def recalled(self, fields: Mapping[str, msgspec.Raw]) -> int:
        return self._memory.tokens_for(fields)

    def reader(self, order: Order, channel: Channel) -> ResponseReader:
        return ResponseReader(order, channel, self._memory)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """There is no Retry-After; the delay is in the details."""
        found = classify(channel, status, read_error(body), headers)
        names = dict.fromkeys(_OWN_NAMES.get(name, name) for name in found.parameters)
        return msgspec.structs.replace(found, parameters=tuple(names))

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        return request.output_limit(fields, served)

    def model_limit(self, upstream_model: str) -> int | None:
        return row_of(upstream_model).max_output

    def remembers(self, channel: Channel) -> bool:
        return True

    def ask_models(self, channel: Channel, after: str) -> PreparedRequest:
        """A thousand a page."""
        url = request.root(channel) + "/models?pageSize=1000"
        if after:
            url += "&pageToken=" + quote(after, safe="")
        return PreparedRequest(url=url, headers=LIST_HEADERS, body=b"")
