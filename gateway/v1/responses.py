"""What belongs to ``/v1/responses`` beside the call itself: the size of a request."""

from contextlib import closing
from functools import partial

import msgspec
from aiohttp import web

from gateway.core.admission import visible_entry
from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.core.memory import Share
from gateway.inbound.api import LARGE, HttpRequest
from gateway.inbound.responses.api import RESPONSES
from gateway.web.request import check_json, read_body
from gateway.web.response import Response


class InputTokens(msgspec.Struct, frozen=True):
    """What a request would be billed for before its answer begins."""

    input_tokens: int
    object: str = "response.input_tokens"


async def answer_input_tokens(engine: Engine, request: web.BaseRequest, visit: CallOrigin) -> Response:
    """POST /v1/responses/input_tokens: an estimate. It costs nothing and counts against no limit."""
    token = engine.pipeline.identify(visit)
    with closing(Share(engine.pressure)) as share:
        check_json(request)
        engine.pressure.check(visit.began)
        received = HttpRequest(body=await read_body(request, share), target=request.raw_path, headers=request.headers)
        large = len(received.body) > LARGE
        count = partial(_count, received)
        model, tokens = await engine.worker.run(count) if large else count()
        visible_entry(model, token, engine.catalog)
        return Response(msgspec.json.encode(InputTokens(tokens)))


def _count(received: HttpRequest) -> tuple[str, int]:
    request = RESPONSES.parse(received)
    return request.model, RESPONSES.prompt_tokens(request)
