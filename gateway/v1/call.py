"""One call of any inbound API, plain or streamed: the path decides which (``endpoints``)."""

from aiohttp import web

from gateway.core.call import Visit
from gateway.core.engine import Engine
from gateway.core.memory import Share
from gateway.domain.errors import GatewayError, InternalError
from gateway.inbound.api import HttpRequest
from gateway.v1.client import HttpClient
from gateway.web.request import check_json, read_body
from gateway.web.response import Response


async def answer_call(engine: Engine, request: web.BaseRequest, visit: Visit) -> web.StreamResponse | Response:
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
        client = HttpClient(request, visit.id, visit.api, engine.live)
        try:
            received = HttpRequest(body=body, target=request.raw_path, headers=request.headers)
            await pipeline.run(visit, token, received, client)
        finally:
            client.leave()
        response = client.response
        if response is None:
            raise InternalError("the call ended without an answer")
        if isinstance(response, web.StreamResponse):
            await response.write_eof()
        return response
