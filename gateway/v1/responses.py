"""The paths of ``/v1/responses``: new responses, those remembered here, and an estimate of a request's input tokens."""

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from gateway.core.admission import visible_entry
from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.core.memory import BodyShare
from gateway.core.response_memory import TokenMemory
from gateway.domain import rawjson
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import TokenId
from gateway.inbound.api import HttpRequest, is_large, parse_large
from gateway.inbound.responses.api import RESPONSES
from gateway.inbound.responses.recall import RecalledRequest, input_items, kept_of, recall
from gateway.v1.call import MAX_OBSERVED, OnAnswer, answer_call
from gateway.web.request import MAX_BODY, read_body
from gateway.web.response import Response


async def answer_response(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer POST /v1/responses and /v1/responses/compact, which may continue a remembered response."""
    complete = partial(_complete, engine, origin) if engine.responses.enabled else None
    return await answer_call(engine, request, origin, complete)


async def _complete(
    engine: Engine, origin: CallOrigin, token: Token, received: HttpRequest
) -> tuple[HttpRequest, OnAnswer]:
    """Returns the request with the remembered responses that it continues, and what will remember the answer."""
    recalled = await recall_request(engine, received.body, TokenMemory(token.id, engine.responses))
    completed = msgspec.structs.replace(received, body=recalled.body, repeats=recalled.repeats)
    request = msgspec.structs.replace(recalled, body=b"")

    def remember(data: bytes) -> None:
        """Remember an answer. ``data`` is the whole answer, or the last event of a stream."""
        read = partial(kept_of, request, data, origin.id[-24:])
        engine.responses.keep_lazily(token.id, read, len(request.input) + len(data))

    keeps = recalled.stored and len(recalled.body) <= MAX_OBSERVED
    return completed, remember if keeps else None


async def recall_request(engine: Engine, body: bytes, memory: TokenMemory) -> RecalledRequest:
    """Returns the request with the remembered responses that it continues. Raises BadRequest and TooLarge."""
    return await engine.worker.run(partial(recall, body, memory, MAX_BODY), large=is_large(body))


async def get_response(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer GET /v1/responses/{id} with a remembered response, and /v1/responses/{id}/input_items with its input."""
    token, id, subpath = _addressed_response(engine, origin)
    response = engine.responses.find(token, id)
    if response is None:
        raise _not_remembered(id)
    if subpath == "input_items":
        chain = TokenMemory(token, engine.responses).chain(id) or [response]
        return Response(await engine.worker.run(lambda: rawjson.encode(_page(input_items(chain), request.query))))
    if subpath:
        raise NotFound(f"a response has no '{plain(subpath, 40)}'", code="unknown_url")
    if request.query.get("stream", "").lower() == "true":
        raise BadRequest("stream: a kept response can only be fetched whole", param="stream")
    return Response(response.body)


async def delete_response(engine: Engine, _request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer DELETE /v1/responses/{id}, and forget the response."""
    token, id, subpath = _addressed_response(engine, origin)
    if subpath or not engine.responses.forget(token, id):
        raise _not_remembered(id)
    return Response(rawjson.encode({"id": id, "object": "response", "deleted": True}))


async def cancel_response(engine: Engine, _request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer POST /v1/responses/{id}/cancel with an error: no response here runs in the background."""
    token, id, subpath = _addressed_response(engine, origin)
    if subpath != "cancel":
        raise NotFound(f"POST {plain(origin.path, 80)} does not exist here", code="unknown_url")
    if engine.responses.find(token, id) is None:
        raise _not_remembered(id)
    msg = "only background responses can be cancelled, and this gateway has none; close the connection instead"
    raise BadRequest(msg, code="unsupported_parameter")


def _addressed_response(engine: Engine, origin: CallOrigin) -> tuple[TokenId, str, str]:
    token = engine.pipeline.identify(origin)
    id, _, subpath = origin.path.removeprefix("/v1/responses/").partition("/")
    return token.id, id, subpath


def _not_remembered(id: str) -> NotFound:
    return NotFound(
        f"the response '{plain(id, 80)}' is not kept here: a token's responses are kept in memory for a while, but "
        "not those requested with store: false",
        param="response_id",
    )


def _page(items: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Returns a page of items, the newest first unless ``order`` is ``asc``. ``after`` is the last id already read."""
    ordered = items if query.get("order") == "asc" else items[::-1]
    ids = [rawjson.maybe(rawjson.raw(item["id"])) for item in ordered]
    start = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
    limit_text = query.get("limit", "")
    limit = min(100, max(1, int(limit_text[:9]))) if limit_text.isascii() and limit_text.isdecimal() else 20
    page_ids = ids[start : start + limit]
    return {
        "object": "list",
        "data": ordered[start : start + limit],
        "first_id": page_ids[0] if page_ids else None,
        "last_id": page_ids[-1] if page_ids else None,
        "has_more": start + limit < len(ordered),
    }


async def answer_input_tokens(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer POST /v1/responses/input_tokens with an estimate. It costs nothing and counts against no limit."""
    token = engine.pipeline.identify(origin)
    with closing(BodyShare(engine.pressure)) as share:
        body = await read_body(request, share, origin.began)
        if engine.responses.enabled:
            body = (await recall_request(engine, body, TokenMemory(token.id, engine.responses))).body
        received = HttpRequest(body=body, target=request.raw_path, headers=request.headers)
        parsed = await engine.worker.run(partial(parse_large, RESPONSES, received), large=is_large(body))
        visible_entry(parsed.model, token, engine.catalog)
        return Response(rawjson.encode({"input_tokens": parsed.input_estimate, "object": "response.input_tokens"}))
