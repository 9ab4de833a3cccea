"""Google's generateContent: the dialect, and what its errors mean."""

from functools import partial
from urllib.parse import quote

from gateway.domain.channel import Channel, ServedModel
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import OutputLimit
from gateway.domain.rawjson import Fields
from gateway.upstream.adapter import ChannelDialect
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
    """Google's dialect. The API wants the signatures of tool calls back. How long to wait is in the details of an
    error.
    """

    base_url = GEMINI.base_url
    own_names = _OWN_NAMES

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """Returns the request. Raises AttemptFailed for one without a counterpart there."""
        return request.prepare(order, channel, served, learned, partial(self._memory.recall, order.owner))

    def reader(self, order: Order, channel: Channel) -> ResponseReader:
        return ResponseReader(order, channel, self._memory)

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        return request.output_limit(fields, served)

    def model_limit(self, upstream_model: str) -> int | None:
        return row_of(upstream_model).max_output

    def models_request(self, channel: Channel, after: str) -> PreparedRequest:
        """Returns the request for a page of a thousand models."""
        url = request.root(channel) + "/models?pageSize=1000"
        if after:
            url += "&pageToken=" + quote(after, safe="")
        return PreparedRequest(url=url, headers=LIST_HEADERS, body=b"")
