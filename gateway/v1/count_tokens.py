"""POST /v1/messages/count_tokens: how many input tokens a Messages request has.

If the call would go to a channel that speaks Messages, its upstream counts them. For any other channel, or if the
upstream fails, the gateway estimates them. Counting is free: it is not a call, holds nothing and is not recorded, and
an exhausted budget does not matter. A valid request always gets a number, because a program that gets an error here
makes real calls to find out: Claude Code makes fourteen at once.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial

import msgspec
from aiohttp import web

from gateway.core.admission import visible_entry, visible_name
from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.core.memory import BodyShare
from gateway.core.model_entry import Route, answering_model
from gateway.core.routing import NOTHING_TRIED, choose
from gateway.domain import rawjson
from gateway.domain.channel import Dialect
from gateway.domain.errors import GatewayError, RateLimited
from gateway.domain.failure import AttemptFailed
from gateway.domain.token import Token
from gateway.inbound.api import HttpRequest, InboundRequest, is_large
from gateway.inbound.messages.api import MESSAGES, parse_messages_request
from gateway.inbound.messages.native import COUNT_PATH, MessagesRelay, native_request, repaired_order
from gateway.inbound.relay import CLIENT_STATUSES
from gateway.upstream.dialects import new_adapter
from gateway.web.request import read_body
from gateway.web.response import Response

MAX_RUNNING_COUNTS = 60
"""How many counts may run at the same time for one token."""


async def answer_count_tokens(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer with the upstream's count, else with an estimate. Raises GatewayError."""
    token = engine.pipeline.identify(origin)
    with closing(BodyShare(engine.pressure)) as share, _count_slot(engine, token):
        body = await read_body(request, share)
        received = HttpRequest(body=body, target=request.raw_path, headers=request.headers)
        parse = partial(parse_messages_request, received, only_counts=True)
        parsed = await engine.worker.run(parse, large=is_large(body))
        name = visible_name(parsed.model, MESSAGES, token, engine.catalog)
        entry = answering_model(visible_entry(name, token, engine.catalog))
        # the route that a call would probably take: weights and limits are ignored
        route = choose(entry.routes, NOTHING_TRIED, engine.health, lambda _: 0).route
        if route is not None and route.channel.dialect is Dialect.ANTHROPIC:
            answer = await _fetch_upstream_count(engine, route, parsed, origin)
            if answer is not None:
                return answer
        tokens = max(1, parsed.prompt_tokens)
        if route is not None:  # the channel has reported other numbers for earlier calls
            tokens = engine.pipeline.meter.calibration.apply(route.channel.id, route.served.name, tokens)
        return Response(msgspec.json.encode({"input_tokens": tokens}))


@contextmanager
def _count_slot(engine: Engine, token: Token) -> Iterator[None]:
    """Hold one of the token's slots for counts while the block runs. Raises RateLimited if all are in use."""
    running = engine.running_counts
    if running[token.id] >= MAX_RUNNING_COUNTS:
        msg = f"token '{token.name}' is already counting the tokens of {MAX_RUNNING_COUNTS} requests"
        raise RateLimited(msg, retry_after_s=1)
    running[token.id] += 1
    try:
        yield
    finally:
        running[token.id] -= 1


async def _fetch_upstream_count(
    engine: Engine, route: Route, parsed: InboundRequest, origin: CallOrigin
) -> Response | None:
    """Returns the upstream's answer: a count, or what is wrong with the request. Returns None if it has neither."""
    channel = route.channel
    learned = engine.learned.of(channel.id, route.served, engine.now())
    order = MESSAGES.order(parsed, origin.id, origin.ts)
    prepared = native_request(order, channel, route.served, learned, COUNT_PATH)
    with suppress(AttemptFailed, TimeoutError, GatewayError):
        async with asyncio.timeout(3.0):  # an estimate now is better than a count later
            reply = await engine.upstreams.send(channel, prepared, stream=False)
            body = await engine.upstreams.read_body(channel, reply, 64 << 10, "its count")
        answer = rawjson.maybe(body)
        text = body.decode("utf-8", "replace")
        is_client_error = reply.status in CLIENT_STATUSES and isinstance(answer, dict)
        if is_client_error and not channel.strict:
            failure = MessagesRelay(new_adapter(channel.dialect)).failure(channel, reply.status, reply.headers, body)
            if failure.parameters or repaired_order(order, failure) is not None:
                return None  # as a call it is repaired
        if is_client_error or (reply.status == 200 and type(rawjson.at(answer, "input_tokens")) is int):
            text = engine.upstreams.redaction.without_secrets(text, channel)
            return Response(text.encode(), status=reply.status)
    return None
