"""Makers: channels and orders for tests."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.errors import UpstreamError
from gateway.domain.failure import AttemptFailed, Failure
from gateway.domain.order import LearnedRefusals, Order
from gateway.domain.units import CallId, ChannelId, Millis
from gateway.domain.usage import Usage, UsageSource
from gateway.inbound.api import HttpRequest, InboundApi, InboundRequest
from gateway.inbound.chat.api import CHAT
from gateway.inbound.chat.conversation import translate_chat
from gateway.inbound.chat.native import NativeChat, NativeChatStream
from gateway.upstream.adapter import Adapter, AnswerStream, DialectAdapter, Memory, WholeAnswer
from gateway.upstream.learned_params import LearnedParams, lesson_in
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.redaction.redaction import Redaction

SERVED = ServedModel(name="m")


class UnlimitedMemory(Memory):
    """The memory of an answer that no other answer needs."""

    def take(self, size: int) -> bool:
        return True

    async def wait(self, size: int) -> None:
        return


TWO_CHOICES = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "n": 2}
"""A request for two choices. The answer may also have one."""


def channel(base_url: str = "http://127.0.0.1:9/v1", **more: Any) -> Channel:
    """A channel named ``up``."""
    fields = {"id": ChannelId("ch_up"), "name": "up", "dialect": Dialect.OPENAI, "base_url": base_url, **more}
    return msgspec.convert(fields, Channel)


def order(body: object = None, *, model: str = "m", include_usage: bool = False) -> Order:
    """The order of a request body, given as JSON text or as values."""
    doc = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]} if body is None else body
    data = doc.encode() if isinstance(doc, str) else json.dumps(doc).encode()
    fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    return Order(
        fields=fields,
        model=model,
        stream=bytes(fields.get("stream", b"")) == b"true",
        include_usage=include_usage,
        answer_id="chatcmpl-ours",
        created=77,
    )


def request_of(api: InboundApi, body: bytes | Mapping[str, object]) -> InboundRequest:
    """A client's request, given as its bytes or as fields in addition to the model."""
    data = body if isinstance(body, bytes) else json.dumps({"model": "m", **body}).encode()
    return api.parse(HttpRequest(body=data, target="/", headers={}))


def order_of(api: InboundApi, body: bytes | Mapping[str, object]) -> Order:
    """What a channel is to answer of it."""
    return api.order(request_of(api, body), CallId("req_0123456789abcdef01234567"), Millis(5_999))


def translated(body: object = None, *, model: str = "m", include_usage: bool = False) -> Order:
    """The same as a dialect other than OpenAI's gets it."""
    return translate_chat(order(body, model=model, include_usage=include_usage))


def learn(
    lessons: LearnedParams, at: Channel, asked: Order, refused: Failure, now: int = 1_000, *, used: LearnedRefusals
) -> bool:
    """Learn from a refusal of this request."""
    return lessons.learn(at, SERVED, lesson_in(asked, at, refused, used), Millis(now), used=used)


def as_chat(dialect: DialectAdapter) -> Adapter:
    """How clients of chat completions get the answers of a dialect."""
    return CHAT.plan(order(), channel(), dialect, lacks_api=False).adapter


def recall_of(kept: Mapping[str, bytes] = {}) -> Callable[[str], bytes]:
    """What is kept of tool calls, by their ids."""
    return lambda call_id: kept.get(call_id, b"")


def native_stream(asked: Order | None = None, at: Channel | None = None) -> NativeChatStream:
    """A stream of chat completions that speaks them already."""
    return NativeChat(OpenAIDialect()).stream(asked or order(TWO_CHOICES), at or channel())


def outcome(stream: AnswerStream, data: bytes, *sizes: int) -> tuple[bytes, bool, str, Usage | None, tuple[str, ...]]:
    """What comes of a stream that arrives in pieces of these sizes and a last one: its bytes, whether it is complete,
    the code of its error, its usage and its marks.
    """
    outs = []
    for size in sizes:
        outs.append(stream.feed(data[:size]))
        data = data[size:]
    outs += [stream.feed(data), stream.end()]
    error = error_of(stream.failure).code if stream.failure else ""
    return b"".join(outs), stream.finished, error, stream.state.reported, stream.state.marks


def native_whole(body: bytes, asked: Order | None = None, at: Channel | None = None) -> WholeAnswer:
    return NativeChat(OpenAIDialect()).whole(body, asked or order(TWO_CHOICES), at or channel())


def body_of(whole: WholeAnswer) -> bytes:
    """What the client gets of a whole answer."""
    usage = whole.state.reported or Usage(output=whole.state.tally.tokens(), source=UsageSource.ESTIMATED)
    return b"".join(bytes(part) for part in whole.parts(usage))


def error_of(failure: Failure, at: Channel | None = None) -> UpstreamError:
    """The error that a failure becomes on its way out."""
    return Redaction({}).error(failure, at or channel())


@dataclass
class Fault:
    """What an attempt failed with."""

    value: UpstreamError = field(default_factory=lambda: UpstreamError("nothing failed"))


@contextmanager
def attempt_fails(match: str = "") -> Iterator[Fault]:
    """The block ends in an AttemptFailed, whose message has this in it."""
    fault = Fault()
    with pytest.raises(AttemptFailed) as caught:
        yield fault
    fault.value = error_of(caught.value.failure)
    assert re.search(match, fault.value.message)
