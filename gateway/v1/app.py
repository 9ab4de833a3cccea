"""The public surface: which path leads where. Every failure becomes an error as the path's API has them.

There is no framework of routes: the paths are few, and finding one is on the hot path.
"""

import logging
from functools import lru_cache

from aiohttp import web

from gateway.core.call import Visit
from gateway.core.engine import Engine
from gateway.core.ids import new_call_id
from gateway.domain.errors import BadRequest, GatewayError, InternalError, InvalidToken, NotFound
from gateway.domain.text import plain
from gateway.inbound.api import InboundApi
from gateway.inbound.chat.api import CHAT
from gateway.v1 import health, models
from gateway.v1.call import answer_call
from gateway.web import error_responses
from gateway.web.auth_throttle import AuthThrottle
from gateway.web.origins import check_host, check_origin, preflight, readable_by
from gateway.web.request import check_head, key_of
from gateway.web.response import Response

_log = logging.getLogger("tollkeeper")

APIS: dict[str, InboundApi] = {"/v1/chat/completions": CHAT}
"""The API of each path to which calls are posted. Requests for other paths are answered as ``CHAT`` does."""
MODELS = "/v1/models"
HEALTH = frozenset({"/health", "/v1/health"})
EXISTING = ", ".join(["GET /v1/models", "GET /v1/models/{id}", *(f"POST {path}" for path in APIS), "GET /v1/health"])


class Surface:
    """Answers requests on the public port."""

    def __init__(self, engine: Engine, host: str) -> None:
        self._engine = engine
        self._host = host
        self._throttle = AuthThrottle(engine.clock.mono)
        self.port = 0
        """The port that listens, once it does."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse | Response:
        """Every request of the public port."""
        engine = self._engine
        began, ts = engine.clock.mono(), engine.clock.wall()
        call, path = new_call_id(ts), request.path
        posted = APIS.get(path)
        api = posted or CHAT
        try:
            check_head(request)
            headers, settings = request.headers, engine.catalog.registry.settings
            check_host(headers.get("Host", ""), self._host, settings.hosts, self.port)
            check_origin(headers.get("Origin"), settings.origins)
            visit = Visit(
                id=call,
                api=api,
                key=self._key(request) if posted is not None or path.startswith(MODELS) else "",
                app=_app(headers.get("User-Agent", "")),
                retry=_retry(headers.get("x-stainless-retry-count", "0")),
                ts=ts,
                began=began,
            )
            if posted is not None and request.method == "POST":
                response = await answer_call(engine, request, visit)
            else:
                response = self._other(request, visit)
        except GatewayError as error:
            if isinstance(error, InvalidToken):
                self._throttle.failed(request.remote or "")
            response = _failed(error, call, api)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost frame of a request: nobody may see a traceback
            _log.exception("request %s failed by a bug", call, exc_info=error)
            response = _failed(InternalError(f"the gateway failed by a bug of its own; the call is {call}"), call, api)
        if isinstance(response, Response) and not response.sent:
            for name in api.id_headers:
                response.headers[name] = call
            if origins := engine.catalog.registry.settings.origins:
                _allow_origin(request, response, origins)
        return response

    def _key(self, request: web.BaseRequest) -> str:
        if self._throttle.heard:
            self._throttle.check(request.remote or "")
        return key_of(request)

    def _other(self, request: web.BaseRequest, visit: Visit) -> Response:
        path, method = request.path, request.method
        if method == "OPTIONS" and "Origin" in request.headers:
            wanted = request.headers.get("Access-Control-Request-Headers", "")
            return Response(status=204, headers=preflight(wanted))
        if path in APIS:
            _method(method, "POST")
        if path == MODELS or (path.startswith(MODELS + "/") and path != MODELS + "/"):
            _method(method, "GET")
            _no_body(request)
            return self._models(path, visit)
        if path in HEALTH:
            _method(method, "GET", "HEAD")
            _no_body(request)
            status, body = health.health(self._engine)
            return Response(body, status=status)
        if path == "/":
            _method(method, "GET", "HEAD")
            _no_body(request)
            page = health.front_page(self._engine.address)
            return Response(page, content_type="text/plain; charset=utf-8")
        msg = f"there is no {plain(path, 80)} here; the paths are: {EXISTING}"
        raise NotFound(msg, code="unknown_url")

    def _models(self, path: str, visit: Visit) -> Response:
        catalog = self._engine.catalog
        token = self._engine.pipeline.identify(visit)
        name = path[len(MODELS) + 1 :]
        body = models.one(name, token, catalog) if name else models.listing(token, catalog)
        return Response(body)


def _allow_origin(request: web.BaseRequest, response: Response, origins: tuple[str, ...]) -> None:
    """A listed origin may read the answer. Streams say so in their head, which has been sent."""
    origin = request.headers.get("Origin")
    if origin in origins:
        response.headers.update(readable_by(origin))


def _failed(error: GatewayError, call: str, api: InboundApi) -> Response:
    status, headers, body = error_responses.answer(error, call, api)
    response = Response(body, status=status, headers=headers)
    if status in (408, 413, 417) or error.code == "out_of_memory":
        response.keep_alive = False
    return response


def _method(method: str, *allowed: str) -> None:
    if method not in allowed:
        allow = ", ".join(allowed)
        msg = f"{plain(method, 20)} is not allowed here; use {allow}"
        raise BadRequest(msg, code="method_not_allowed", details={"allow": allow})


def _no_body(request: web.BaseRequest) -> None:
    if request.content_length or "Transfer-Encoding" in request.headers:
        raise BadRequest("this path does not accept a body", code="unexpected_body")


@lru_cache(maxsize=256)
def _app(agent: str) -> str:
    """The client program's name: the first word of its User-Agent, without the version."""
    return plain(agent.partition("/")[0].strip(), 40)


def _retry(count: str) -> int:
    return int(count) if count.isascii() and count.isdecimal() and len(count) < 4 else 0
