"""Responses that are remembered, at ``/v1/responses`` and below, and the size of a request."""

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from gateway.core.admission import visible_entry
from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.core.memory import Share
from gateway.core.response_memory import TokenMemory
from gateway.domain import rawjson
from gateway.domain.errors import BadRequest, NotFound, TooLarge
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import TokenId
from gateway.inbound.api import LARGE, HttpRequest
from gateway.inbound.responses.api import RESPONSES
from gateway.inbound.responses.recall import RecalledRequest, input_items, kept_of, recall
from gateway.v1.call import MOST_SEEN, answer_call
from gateway.web.request import MAX_BODY, check_json, read_body
from gateway.web.response import Response


class InputTokens(msgspec.Struct, frozen=True):
    """What a request would be billed for before its answer begins."""

    input_tokens: int
    object: str = "response.input_tokens"


async def answer_response(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """POST /v1/responses and /v1/responses/compact, which may go on from what is remembered."""
    recall_here = partial(_recall, engine, origin) if engine.responses.on else None
    return await answer_call(engine, request, origin, recall=recall_here)


async def _recall(
    engine: Engine, origin: CallOrigin, token: Token, body: bytes
) -> tuple[bytes, Mapping[str, msgspec.Raw], Callable[[bytes], None] | None]:
    recalled = await recall_request(engine, body, TokenMemory(token.id, engine.responses))
    if len(recalled.body) > MOST_SEEN:
        recalled = msgspec.structs.replace(recalled, stored=False)
    return (
        recalled.body,
        recalled.repeats,
        partial(_keep, engine, token.id, recalled, origin.id[-24:]) if recalled.stored else None,
    )


async def recall_request(engine: Engine, body: bytes, memory: TokenMemory) -> RecalledRequest:
    """The request with what is remembered in it. A large one is read beside the event loop. Raises BadRequest."""
    work = partial(recall, body, memory)
    recalled = await engine.worker.run(work) if len(body) > LARGE else work()
    if len(recalled.body) > MAX_BODY:
        raise TooLarge(f"the request is larger than {MAX_BODY >> 20} MiB with the responses that it goes on from")
    return recalled


def _keep(engine: Engine, token: TokenId, request: RecalledRequest, call: str, data: bytes) -> None:
    request = msgspec.structs.replace(request, body=b"")
    engine.responses.keep_lazily(token, partial(kept_of, request, data, call), len(request.input) + len(data))


async def answer_kept(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """GET /v1/responses/{id} and /v1/responses/{id}/input_items: what is remembered."""
    token, id, rest = _kept_at(engine, origin)
    kept = engine.responses.find(token, id)
    if kept is None:
        raise _not_kept(id)
    if rest == "input_items":
        chain = TokenMemory(token, engine.responses).chain(id) or [kept]
        return Response(rawjson.encode(_page(input_items(chain), request.query)))
    if rest:
        raise NotFound(f"of a response there is no '{plain(rest, 40)}'", code="unknown_url")
    if request.query.get("stream", "").lower() == "true":
        raise BadRequest("stream: a response that is kept is answered whole", param="stream")
    return Response(kept.body)


async def delete_kept(engine: Engine, _request: web.BaseRequest, origin: CallOrigin) -> Response:
    """DELETE /v1/responses/{id}."""
    token, id, rest = _kept_at(engine, origin)
    if rest or not engine.responses.forget(token, id):
        raise _not_kept(id)
    return Response(rawjson.encode({"id": id, "object": "response", "deleted": True}))


async def cancel_kept(engine: Engine, _request: web.BaseRequest, origin: CallOrigin) -> Response:
    """POST /v1/responses/{id}/cancel: no response here runs in the background."""
    token, id, rest = _kept_at(engine, origin)
    if rest != "cancel":
        raise NotFound(f"no POST {plain(origin.path, 80)}", code="unknown_url")
    if engine.responses.find(token, id) is None:
        raise _not_kept(id)
    msg = "only a response in the background can be cancelled, and there are none here; close the connection instead"
    raise BadRequest(msg, code="unsupported_parameter")


def _kept_at(engine: Engine, origin: CallOrigin) -> tuple[TokenId, str, str]:
    """The token, the response's id, and what follows it in the path."""
    token = engine.pipeline.identify(origin)
    id, _, rest = origin.path.removeprefix("/v1/responses/").partition("/")
    return token.id, id, rest


def _not_kept(id: str) -> NotFound:
    return NotFound(
        f"the response '{plain(id, 80)}' is not kept here: those of this token are, in memory and for a while, unless "
        "they were requested with store: false",
        param="response_id",
    )


def _page(items: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """A page of a list, the newest first unless ``order`` is ``asc``."""
    ordered = items if query.get("order") == "asc" else items[::-1]
    ids = [rawjson.maybe(rawjson.raw(item["id"])) for item in ordered]
    start = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
    given = query.get("limit", "")
    limit = min(100, max(1, int(given))) if given.isascii() and given.isdecimal() else 20
    page, names = ordered[start : start + limit], ids[start : start + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
        "has_more": start + limit < len(ordered),
    }


async def answer_input_tokens(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """POST /v1/responses/input_tokens: an estimate. It costs nothing and counts against no limit."""
    token = engine.pipeline.identify(origin)
    with closing(Share(engine.pressure)) as share:
        check_json(request)
        engine.pressure.check(origin.began)
        body = await read_body(request, share)
        if engine.responses.on:
            body, _, _ = await _recall(engine, origin, token, body)
        received = HttpRequest(body=body, target=request.raw_path, headers=request.headers)
        large = len(received.body) > LARGE
        count = partial(_count, received)
        model, tokens = await engine.worker.run(count) if large else count()
        visible_entry(model, token, engine.catalog)
        return Response(msgspec.json.encode(InputTokens(tokens)))


def _count(received: HttpRequest) -> tuple[str, int]:
    request = RESPONSES.parse(received)
    return request.model, RESPONSES.prompt_tokens(request)
