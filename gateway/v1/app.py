"""The /v1 surface: which path leads where, and every failure turned into the one error object.

There are four paths and no framework of routes: the surface is small on purpose and its dispatch is on the hot path.
"""

import logging
from functools import lru_cache

from aiohttp import web

from gateway.core.call import Visit
from gateway.core.engine import Engine
from gateway.core.ids import new_call_id
from gateway.domain.errors import BadRequest, GatewayError, InternalError, InvalidToken, NotFound
from gateway.domain.text import plain
from gateway.v1 import health, models
from gateway.v1.chat import chat
from gateway.web import error_responses
from gateway.web.auth_throttle import AuthThrottle
from gateway.web.origins import check_host, check_origin, preflight, readable_by
from gateway.web.request import check_head, key_of
from gateway.web.response import Response

_log = logging.getLogger("tollkeeper")

CHAT = "/v1/chat/completions"
MODELS = "/v1/models"
HEALTH = frozenset({"/health", "/v1/health"})
EXISTING = "GET /v1/models, GET /v1/models/{id}, POST /v1/chat/completions, GET /v1/health"


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
        call = new_call_id(ts)
        try:
            check_head(request)
            headers, settings = request.headers, engine.catalog.registry.settings
            check_host(headers.get("Host", ""), self._host, settings.hosts, self.port)
            check_origin(headers.get("Origin"), settings.origins)
            visit = Visit(
                id=call,
                key=self._key(request) if request.path.startswith(("/v1/chat", MODELS)) else "",
                app=_app(headers.get("User-Agent", "")),
                retry=_retry(headers.get("x-stainless-retry-count", "0")),
                ts=ts,
                began=began,
            )
            if request.path == CHAT and request.method == "POST":
                response = await chat(engine, request, visit)
            else:
                response = self._other(request, visit)
        except GatewayError as error:
            if isinstance(error, InvalidToken):
                self._throttle.failed(request.remote or "")
            response = _failed(error, call)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost frame of a request: nobody may see a traceback
            _log.exception("request %s failed by a bug", call, exc_info=error)
            response = _failed(InternalError(f"the gateway failed by a bug of its own; the call is {call}"), call)
        if isinstance(response, Response) and not response.sent:
            response.headers["x-request-id"] = call
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
        if path == CHAT:
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
        msg = f"there is no {plain(path, 80)} here; what exists: {EXISTING}"
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


def _failed(error: GatewayError, call: str) -> Response:
    status, headers, body = error_responses.answer(error, call)
    response = Response(body, status=status, headers=headers)
    if status in (408, 413, 417) or error.code == "out_of_memory":
        response.keep_alive = False
    return response


def _method(method: str, *allowed: str) -> None:
    if method not in allowed:
        allow = ", ".join(allowed)
        msg = f"{plain(method, 20)} is not possible here; use {allow}"
        raise BadRequest(msg, code="method_not_allowed", details={"allow": allow})


def _no_body(request: web.BaseRequest) -> None:
    if request.content_length or "Transfer-Encoding" in request.headers:
        raise BadRequest("this path takes no body", code="unexpected_body")


@lru_cache(maxsize=256)
def _app(agent: str) -> str:
    """The client program's name: the first word of its User-Agent, without the version."""
    return plain(agent.partition("/")[0].strip(), 40)


def _retry(count: str) -> int:
    return int(count) if count.isascii() and count.isdecimal() and len(count) < 4 else 0
