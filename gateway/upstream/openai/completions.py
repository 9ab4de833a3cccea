"""Completions (``POST /v1/completions``) at channels of OpenAI's dialect. Answers are read like chat completions."""

from collections.abc import Mapping

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, ServedModel, TokenLimitField
from gateway.domain.failure import Failure
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.rawjson import Fields
from gateway.upstream.adapter import RequestWriter
from gateway.upstream.error_body import read_error
from gateway.upstream.failures import classify, lacks_path
from gateway.upstream.openai.dialect import PLAIN_HEADERS, STREAM_HEADERS, endpoint, limit_output, request_usage
from gateway.upstream.openai.reader import ChatReader
from gateway.upstream.request_rules import fit_request
from gateway.upstream.vendors import vendor_of

DEFAULT_OUTPUT = 16
"""OpenAI's default for ``max_tokens``, which is sent if the client sends none."""


class CompletionsDialect(RequestWriter):
    """Implements ``DialectAdapter``."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        vendor, base_url = vendor_of(channel), channel.base_url
        if vendor.completions_root:  # such as DeepSeek, which has them under another root
            base_url = base_url.rstrip("/").removesuffix("/v1").removesuffix("/beta") + vendor.completions_root
        fields, dropped = fit_request(order.fields, learned.dropped)
        fields = with_limit({**fields, "model": rawjson.raw(served.upstream_name)})
        lowered = limit_output(fields, TokenLimitField.KEEP, learned.max_output)
        if order.stream:
            request_usage(fields, requested="stream_options" not in vendor.rules + learned.dropped)
        return PreparedRequest(
            url=endpoint(base_url, "/completions"),
            headers=STREAM_HEADERS if order.stream else PLAIN_HEADERS,
            body=order.body_with(fields),
            dropped=tuple(dropped),
            lowered_cap=lowered,
        )

    def reader(self, order: Order, channel: Channel) -> ChatReader:
        return ChatReader(order, channel)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        failure = classify(channel, status, read_error(body), headers)
        return msgspec.structs.replace(failure, lacks_api=True, parameters=()) if lacks_path(failure) else failure


def with_limit(fields: Fields) -> Fields:
    """Returns the fields with ``max_tokens``: the client's, else OpenAI's default."""
    has_limit = not rawjson.is_null(fields.get("max_tokens"))
    return fields if has_limit else {**fields, "max_tokens": rawjson.raw(DEFAULT_OUTPUT)}
