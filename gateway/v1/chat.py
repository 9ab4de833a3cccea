"""POST /v1/chat/completions, plain and streamed."""

from aiohttp import web

from gateway.core.call import Visit
from gateway.core.engine import Engine
from gateway.core.memory import Share
from gateway.domain.errors import GatewayError, InternalError
from gateway.v1.client import HttpClient
from gateway.web.request import check_json, read_body
from gateway.web.response import Response


async def chat(engine: Engine, request: web.BaseRequest, visit: Visit) -> web.StreamResponse | Response:
    """Run one call. Raises GatewayError while nothing has been sent."""
    pipeline = engine.pipeline
    token = pipeline.identify(visit)
    with Share(engine.pressure) as share:
        try:
            check_json(request)
            engine.pressure.check(visit.began)
            body = await read_body(request, share)
        except GatewayError as error:
            pipeline.refuse(visit, error, token)
            raise
        client = HttpClient(request, visit.id, engine.live)
        try:
            await pipeline.run(visit, token, body, client)
        finally:
            client.leave()
        response = client.response
        if response is None:
            raise InternalError("the call ended without an answer")
        if isinstance(response, web.StreamResponse):
            await response.write_eof()
        return response
