"""Completions (``POST /v1/completions``) at channels of OpenAI's dialect: requests of them, and answers as parts."""

from collections.abc import Iterator, Mapping

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerPart, StopWord, TextPiece, UpstreamNamed, UsageSeen
from gateway.domain.channel import Channel, ServedModel, TokenLimitField
from gateway.domain.failure import AttemptFailed, Failure
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.rawjson import Fields
from gateway.domain.sse import SSEEvent
from gateway.upstream.adapter import AnswerReader, RequestWriter
from gateway.upstream.answer_errors import failure_in
from gateway.upstream.error_body import read_error
from gateway.upstream.failures import classify, lacks_path
from gateway.upstream.openai.dialect import PLAIN_HEADERS, STREAM_HEADERS, ask_usage, endpoint, limit_output
from gateway.upstream.vendors import Vendor, vendor_of

USUAL_OUTPUT = msgspec.Raw(b"16")
"""OpenAI's default for ``max_tokens``, sent when the client gives none."""


class CompletionsDialect(RequestWriter):
    """Implements ``DialectAdapter``."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        vendor = vendor_of(channel.preset, channel.base_url)
        fields = dict(order.fields)
        dropped = tuple(name for name in learned.dropped if fields.pop(name, None) is not None)
        fields["model"] = rawjson.raw(served.upstream_name)
        if rawjson.is_null(fields.get("max_tokens")):
            fields["max_tokens"] = USUAL_OUTPUT
        lowered = limit_output(fields, TokenLimitField.KEEP, learned.max_output)
        if order.stream:
            ask_usage(fields, wanted=vendor.stream_options and "stream_options" not in learned.dropped)
        return PreparedRequest(
            url=_address(channel.base_url, vendor),
            headers=STREAM_HEADERS if order.stream else PLAIN_HEADERS,
            body=order.body if order.body and fields == order.fields else rawjson.encode(fields),
            dropped=dropped,
            lowered=lowered,
        )

    def reader(self, order: Order, channel: Channel) -> "CompletionReader":
        return CompletionReader(channel)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        found = classify(channel, status, read_error(body), headers)
        return msgspec.structs.replace(found, lacks_api=True, parameters=()) if lacks_path(found) else found


def _address(base_url: str, vendor: Vendor) -> str:
    """Returns the URL to post to. Some vendors, such as DeepSeek, serve completions under another root."""
    if vendor.completions_root:
        base_url = base_url.rstrip("/").removesuffix("/v1").removesuffix("/beta") + vendor.completions_root
    return endpoint(base_url, "/completions")


class CompletionReader(AnswerReader):
    """Reads one answer. Implements ``AnswerReader``."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def read(self, event: SSEEvent) -> Iterator[AnswerPart]:
        if event.data.strip() == b"[DONE]":
            self.done = True
            return
        chunk = rawjson.fields(event.data)
        self.failure = failure_in(self._channel, chunk, event=event.name)
        if self.failure is None:
            yield from _parts(chunk)

    def read_whole(self, body: bytes) -> Iterator[AnswerPart]:
        answer = rawjson.fields(body)
        if "choices" not in answer and (failure := failure_in(self._channel, answer)) is not None:
            raise AttemptFailed(failure)
        self.default_word = "stop"
        yield from _parts(answer)


def _parts(answer: Fields) -> Iterator[AnswerPart]:
    """Returns the parts of an answer or chunk. Raises ValueError if it has no choices, or one of them no text."""
    choices = rawjson.objects(answer.get("choices", rawjson.NULL))
    yield UsageSeen(answer)
    name = rawjson.maybe(answer.get("id"))
    yield UpstreamNamed(name if isinstance(name, str) else "", began=bool(choices))
    for position, choice in enumerate(choices):
        number = rawjson.maybe(choice.get("index"))
        number = number if type(number) is int else position
        text, reason = choice.get("text", rawjson.NULL), rawjson.maybe(choice.get("finish_reason"))
        if not (rawjson.is_null(text) and "finish_reason" in choice):
            yield TextPiece(bytes(text), choice=number)
        if isinstance(reason, str) and reason:
            yield StopWord(reason, number)
