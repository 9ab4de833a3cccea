"""POST /v1/messages/count_tokens: how many input tokens a Messages request would have.

A channel that speaks Messages counts them. If another channel would answer, or if it cannot count, the count is an
estimate. Counting is free: it is not a call, holds nothing and is not recorded, and an exhausted budget does not
matter. It always answers: a program that gets an error here makes real calls to find out (Claude Code does, fourteen
at once).
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
from gateway.core.model_entry import ModelEntry, Route
from gateway.core.routing import NOTHING_TRIED, choose
from gateway.domain import rawjson
from gateway.domain.channel import Dialect
from gateway.domain.errors import GatewayError, RateLimited
from gateway.domain.failure import AttemptFailed
from gateway.domain.token import Token
from gateway.inbound.api import LARGE, HttpRequest, InboundRequest
from gateway.inbound.messages.api import MESSAGES, parse_messages_request
from gateway.inbound.messages.native import COUNT_PATH, native_request
from gateway.inbound.relay import CLIENT_STATUSES
from gateway.upstream.adapter import UnlimitedMemory
from gateway.web.request import check_json, read_body
from gateway.web.response import Response

MOST_AT_ONCE = 60
"""How many counts of one token may run at the same time."""
WAIT_S = 3.0
"""Seconds after which an estimate is better than the upstream's number."""
ANSWER_LIMIT = 64 << 10


async def answer_count_tokens(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer the request. Raises GatewayError."""
    token = engine.pipeline.identify(origin)
    with closing(BodyShare(engine.pressure)) as share, _counting(engine, token):
        check_json(request)
        body = await read_body(request, share)
        received = HttpRequest(body=body, target=request.raw_path, headers=request.headers)
        if len(body) > LARGE:
            parsed = await engine.worker.run(partial(parse_messages_request, received, counts=True))
        else:
            parsed = parse_messages_request(received, counts=True)
        name = visible_name(parsed.model, MESSAGES, token, engine.catalog)
        entry = visible_entry(name, token, engine.catalog)
        route = _route(engine, entry)
        if route is not None and route.channel.dialect is Dialect.ANTHROPIC:
            answer = await _ask(engine, route, parsed, origin)
            if answer is not None:
                return answer
        return Response(msgspec.json.encode({"input_tokens": _estimate(engine, route, parsed)}))


@contextmanager
def _counting(engine: Engine, token: Token) -> Iterator[None]:
    """Count a request of the token while the block runs. Raises RateLimited if too many run already."""
    running = engine.counting.get(token.id, 0)
    if running >= MOST_AT_ONCE:
        msg = f"token '{token.name}' counts {MOST_AT_ONCE} requests at once already"
        raise RateLimited(msg, retry_after_s=1)
    engine.counting[token.id] = running + 1
    try:
        yield
    finally:
        engine.counting[token.id] -= 1
        if not engine.counting[token.id]:
            del engine.counting[token.id]


def _route(engine: Engine, entry: ModelEntry) -> Route | None:
    """Returns about where a call would go, without a draw and without checking limits."""
    return choose(entry.routes, NOTHING_TRIED, engine.health, lambda _: 0).route


def _estimate(engine: Engine, route: Route | None, parsed: InboundRequest) -> int:
    """Returns the estimated input tokens, corrected by what the channel reported for earlier calls."""
    tokens = max(1, MESSAGES.prompt_tokens(parsed))
    return tokens if route is None else engine.pipeline.calibration.apply(route.channel.id, route.served.name, tokens)


async def _ask(engine: Engine, route: Route, parsed: InboundRequest, origin: CallOrigin) -> Response | None:
    """Returns the upstream's count, or its refusal of a mistake in the request; None if it cannot count now."""
    channel = route.channel
    order = MESSAGES.order(parsed, origin.id, origin.ts)
    prepared = native_request(order, channel, route.served, COUNT_PATH)
    with suppress(AttemptFailed, TimeoutError, GatewayError):
        async with asyncio.timeout(WAIT_S):
            reply = await engine.upstreams.send(channel, prepared, stream=False)
            try:
                body = await reply.read(ANSWER_LIMIT, UnlimitedMemory())
            finally:
                reply.abort()
        refused = reply.status in CLIENT_STATUSES and isinstance(rawjson.maybe(body), dict)
        if refused or (reply.status == 200 and _is_count(body)):
            text = engine.upstreams.redaction.text(body.decode("utf-8", "replace"), channel)
            return Response(text.encode(), status=reply.status)
    return None


def _is_count(body: bytes) -> bool:
    value = rawjson.maybe(body)
    return isinstance(value, dict) and type(value.get("input_tokens")) is int
