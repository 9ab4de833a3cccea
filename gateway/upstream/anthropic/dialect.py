"""Anthropic's Messages: the dialect, and what its errors mean."""

import re
from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

import msgspec

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.failure import Failure
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import OutputLimit
from gateway.domain.rawjson import Fields
from gateway.upstream.adapter import ChannelDialect
from gateway.upstream.anthropic import request
from gateway.upstream.anthropic.models import row_of
from gateway.upstream.anthropic.reader import MessageReader
from gateway.upstream.anthropic.request import CACHE_MARK
from gateway.upstream.error_body import read_error
from gateway.upstream.openai.dialect import endpoint
from gateway.upstream.vendors import ANTHROPIC

_OWN_NAMES = {
    **dict.fromkeys(("thinking", "enabled", "adaptive", "disabled", "effort", "output_config"), "reasoning_effort"),
    "stop_sequences": "stop",
}
"""Fields of the request that the client knows by another name; of ``thinking.type.enabled`` the last part is used."""

_NO_MARKS = re.compile(
    r"\b(?:extra|extraneous|unknown|unsupported|unexpected|unrecognized|invalid)\b[^.]{0,60}\bcache_control\b"
    r"|\bcache_control\b[^.]{0,60}(?:\bnot (?:permitted|supported|allowed|recognized|enabled)|\bunsupported|\bunknown)"
    r"|prompt caching[^.]{0,40}\bnot\b|\bnot (?:support|allow)[^.]{0,40}\bprompt caching",
    re.IGNORECASE,
)
"""How upstreams refuse cache marks; a wrong mark, or one too many, is refused in other words."""


class AnthropicDialect(ChannelDialect):
    """Anthropic's dialect. The API wants the thoughts before tool calls back."""

    base_url = ANTHROPIC.base_url
    own_names = _OWN_NAMES

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """Returns the request. Raises AttemptFailed for one without a counterpart there."""
        return request.prepare(order, channel, served, learned, partial(self._memory.recall, order.owner))

    def reader(self, order: Order, channel: Channel) -> MessageReader:
        return MessageReader(order, channel, self._memory)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        found = super().failure(channel, status, headers, body)
        if found.kind is FailureKind.CLIENT and _NO_MARKS.search(read_error(body).message[:1000]):
            return msgspec.structs.replace(found, parameters=(*found.parameters, CACHE_MARK))
        return found

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        return request.output_limit(fields, served)

    def model_limit(self, upstream_model: str) -> int | None:
        return row_of(upstream_model).max_output

    def ask_models(self, channel: Channel, after: str) -> PreparedRequest:
        """Returns the request for a page of a thousand models."""
        url = endpoint(request.root(channel), "/v1/models") + "?limit=1000"
        if after:
            url += "&after_id=" + quote(after, safe="")
        return PreparedRequest(url=url, headers=request.headers(channel, stream=False), body=b"")
