"""Rendering in tests: an upstream's bytes as the response that a client would get."""

from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, Dialect
from gateway.domain.order import Order
from gateway.domain.usage import Usage, UsageSource
from gateway.inbound.api import AttemptPlan
from gateway.inbound.responses.api import RESPONSES
from gateway.upstream.adapter import AnswerStream
from gateway.upstream.dialects import new_adapter
from tests.upstream.makers import channel

SPENT = Usage(input=9, output=2, cached=4, cache_write=1, reasoning=1, source=UsageSource.REPORTED)
REQUEST: dict[str, Any] = {"model": "m", "input": "hi", "stream": True}


def order_of(**fields: Any) -> Order:
    """A request as it is put to a channel."""
    given = {**REQUEST, **fields}
    raw = {name: rawjson.raw(value) for name, value in given.items()}
    return Order(fields=raw, model="m", stream=bool(given["stream"]), answer_id="resp_" + 24 * "0", created=1)


def planned(made: Channel | None = None, **fields: Any) -> AttemptPlan:
    """How a channel that does not speak the API is called."""
    made = made or channel()
    return RESPONSES.plan(order_of(**fields), made, new_adapter(made.dialect), lacks_api=True)


@dataclass
class Rendered:
    out: bytes
    stream: AnswerStream

    @property
    def ended(self) -> bytes:
        """With the end that a good answer has."""
        reported = self.stream.state.reported or SPENT
        return self.out + self.stream.tail(reported)


def rendered(data: bytes, size: int = 0, made: Channel | None = None, **fields: Any) -> Rendered:
    """A stream of an upstream, fed in pieces of ``size`` bytes."""
    made = made or channel()
    plan = planned(made, **fields)
    stream = plan.adapter.stream(plan.order, made)
    step = size or len(data) or 1
    out = b"".join([stream.feed(data[start : start + step]) for start in range(0, len(data), step)])
    return Rendered(out + stream.end(), stream)


def whole(body: bytes, made: Channel | None = None, **fields: Any) -> dict[str, Any]:
    """A plain answer of an upstream."""
    made = made or channel()
    plan = planned(made, stream=False, **fields)
    answer = plan.adapter.whole(body, plan.order, made)
    found: dict[str, Any] = msgspec.json.decode(b"".join(map(bytes, answer.parts(answer.state.reported or SPENT))))
    return found


def of_dialect(dialect: Dialect) -> Channel:
    return msgspec.structs.replace(channel(), dialect=dialect)
