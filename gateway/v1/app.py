"""PublicApp: calls the handler of each request's path (``endpoints``), and turns failures into error responses.

It uses no routing framework: the paths are few, and finding one is on the hot path.
"""

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

import msgspec
from aiohttp import hdrs, web

from gateway.core.auth import new_call_id, token_of
from gateway.core.call import CallOrigin
from gateway.core.clock import Clock
from gateway.core.engine import Engine
from gateway.domain.addresses import address_advice, is_foreign, request_text
from gateway.domain.errors import BadRequest, GatewayError, InvalidToken, NotFound, RequestRefused, unexpected_error
from gateway.domain.settings import Settings
from gateway.domain.text import plain
from gateway.inbound.api import InboundApi
from gateway.v1.endpoints import KEY_PATH, EndpointRow, Handler, api_of, documented_requests, find_endpoint, methods_of
from gateway.web import error_responses
from gateway.web.connection_limits import AuthThrottle, is_this_machine
from gateway.web.origins import check_host, check_origin, cors_headers, preflight_headers
from gateway.web.request import check_head, keys_of
from gateway.web.response import Response

_log = logging.getLogger("tollkeeper")

APP_LIMIT = 200
"""How many characters of a program's name are read."""

_X_APP, _X_TITLE, _HTTP_REFERER, _RETRY_COUNT = map(
    type(hdrs.USER_AGENT), ("X-App", "X-Title", "HTTP-Referer", "x-stainless-retry-count")
)
"""Names of aiohttp's own type ``istr``, which are looked up in half the time."""
_REFERER = re.compile(r"^[a-z]+://(?:[^/?#]*@)?(?:www\.)?|[/?#].*", re.DOTALL)
"""Matches all of a URL but the host."""


class PublicApp:
    """Answers requests on the public port."""

    def __init__(self, engine: Engine, host: str, *, keyless: bool = False) -> None:
        """``keyless``: no request needs a key (``Settings.ollama_token``), and the front page is Ollama's."""
        self._engine = engine
        self._host = host
        self._keyless = keyless
        self._throttle = AuthThrottle(engine.clock.mono)
        self.port = 0
        """The listening port; 0 until the server listens."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse | Response:
        """Returns the answer to any request. Errors become error responses."""
        if request.protocol._messages:  # noqa: SLF001 - aiohttp's: requests that came together with this one
            await asyncio.sleep(0)  # they must not hold the loop
        engine = self._engine
        endpoint, path, model = find_endpoint(request.path)
        api = (endpoint and endpoint.api) or api_of(request.headers)
        origin = _origin(request, engine.clock, api, path=path, model=model)
        try:
            handler = self._handler_of(request, endpoint, path)
            key = self._key(request) if endpoint is not None and endpoint.keyed else ""
            keyless_token = self._keyless_token(request, path) if engine.settings().ollama_token else ""
            origin = msgspec.structs.replace(origin, key=key, keyless_token=keyless_token)
            response = await handler(engine, request, origin)
        except GatewayError as error:
            if isinstance(error, InvalidToken):
                self._throttle.count_failure(request.remote or "")
            if not error.recorded:
                self._record(request, origin, error)
            response = _error_response(error, origin)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost frame of a request: nobody may see a traceback
            _log.exception("request %s failed unexpectedly", origin.id, exc_info=error)
            response = _error_response(unexpected_error(error, origin.id), origin)
        if isinstance(response, Response) and not response.sent:
            for name in api.id_headers:
                response.headers[name] = origin.id
            if hdrs.ORIGIN in request.headers:
                _add_cors_headers(request.headers[hdrs.ORIGIN], response, engine.settings())
        return response

    def _key(self, request: web.BaseRequest) -> str:
        """Returns the client's key; of several, the first that is ours. The keyless port ignores all that are not."""
        if self._throttle.failures:
            self._throttle.check(request.remote or "")
        keys = keys_of(request)
        if request.path.startswith(KEY_PATH) and is_this_machine(request.remote or ""):
            keys = [*keys, request.path.removeprefix(KEY_PATH).partition("/")[0]]
        if len(keys) < 2 and not self._keyless:
            return keys[0] if keys else ""
        engine = self._engine
        other = "" if self._keyless else keys[0]  # programs send whatever their SDK insists on
        return next((key for key in keys if token_of(key, engine.catalog, engine.pipeline.passes)), other)

    def _keyless_token(self, request: web.BaseRequest, path: str) -> str:
        """Returns the name of the token that pays for a request without a key; empty if the request needs a key.

        A request with the origin ``null`` always needs a key: it may be permitted for apps, but any page can send it.
        """
        token = self._engine.settings().ollama_token
        exempt = (self._keyless or path.startswith("/api/")) and is_this_machine(request.remote or "")
        return token if exempt and request.headers.get("Origin") != "null" else ""

    def _handler_of(self, request: web.BaseRequest, endpoint: EndpointRow | None, path: str) -> Handler:
        """Returns the request's handler. Raises GatewayError for an unknown path and for a forbidden host or origin."""
        check_head(request)
        headers, settings = request.headers, self._engine.settings()
        if hdrs.HOST in headers:  # HTTP/1.0 needs none, as in the checks of load balancers; browsers always send one
            check_host(headers[hdrs.HOST], self._host, settings.hosts, self.port)
        if hdrs.ORIGIN in headers:
            check_origin(headers[hdrs.ORIGIN], settings)
            if request.method == "OPTIONS":
                return _answer_preflight
        handlers = endpoint.handlers if endpoint is not None else {}
        handler = handlers.get("GET" if request.method == "HEAD" else request.method)
        if handler is None or endpoint is None:
            raise self._no_handler_error(plain(request.method, 20), endpoint, path)
        if request.method != "POST" and (request.content_length or "Transfer-Encoding" in headers):
            raise BadRequest("this path does not accept a body", code="unexpected_body")
        return _answer_ollama_probe if self._keyless and path == "/" else handler

    def _no_handler_error(self, method: str, endpoint: EndpointRow | None, path: str) -> GatewayError:
        """Returns the error for an unknown path or a method that the path does not allow, with advice."""
        advice, _ = address_advice(path, self._engine.address)
        msg = f"{method} {plain(path, 80)} does not exist here: {advice}. The paths are: {documented_requests()}"
        if endpoint is None or not endpoint.handlers or is_foreign(path):
            return NotFound(msg, code="unknown_url")
        if path != "/":
            msg = f"{method} is not allowed here; use {', '.join(endpoint.handlers)}"
        return BadRequest(msg, code="method_not_allowed", details={"allow": ", ".join(methods_of(endpoint))})

    def _record(self, request: web.BaseRequest, origin: CallOrigin, error: GatewayError) -> None:
        """Record a failed request that is not a call: most client programs say little about a failure."""
        engine, token = self._engine, None
        with suppress(GatewayError):
            key_was_read = origin.key or error.code not in ("unknown_url", "method_not_allowed")
            token = token_of(origin.key if key_was_read else self._key(request), engine.catalog, engine.pipeline.passes)
        request_line = request_text(request.method, origin.path)
        engine.pipeline.refuse(msgspec.structs.replace(origin, request=request_line), error, token)


async def _answer_preflight(_engine: Engine, request: web.BaseRequest, _origin: CallOrigin) -> Response:
    """Answer the CORS preflight of a permitted origin, even for an unknown path: the request itself gets the 404."""
    requested_headers = request.headers.get("Access-Control-Request-Headers", "")
    is_private = request.headers.get("Access-Control-Request-Private-Network") == "true"
    return Response(status=204, headers=preflight_headers(requested_headers, private=is_private))


async def _answer_ollama_probe(_engine: Engine, _request: web.BaseRequest, _origin: CallOrigin) -> Response:
    return Response(b"Ollama is running", content_type="text/plain; charset=utf-8")


def _origin(request: web.BaseRequest, clock: Clock, api: InboundApi, *, path: str, model: str) -> CallOrigin:
    """Returns who made the request and when, without credentials."""
    began, ts = clock.mono(), clock.wall()
    app, bundled = _app_of(request.headers)
    retries = request.headers.get(_RETRY_COUNT, "")
    return CallOrigin(
        id=new_call_id(ts),
        api=api,
        path=path,
        model=model,
        key="",
        app=app,
        bundled=bundled,
        retry=int(retries) if retries.isascii() and retries.isdecimal() and len(retries) < 4 else 0,
        ts=ts,
        began=began,
    )


def _add_cors_headers(origin: str, response: Response, settings: Settings) -> None:
    """Add the headers that let a permitted origin read the answer. A stream has already sent its own."""
    headers = {"Vary": "Origin"}
    with suppress(RequestRefused):
        check_origin(origin, settings)
        headers = cors_headers(origin)
    for name, value in headers.items():
        response.headers.setdefault(name, value)


def _error_response(error: GatewayError, origin: CallOrigin) -> Response:
    """Returns the response for an error. It closes the connection if parts of the request may be unread."""
    status, headers, body = error_responses.error_answer(error, origin.id, origin.api)
    response = Response(body, status=status, headers=headers)
    if status in (408, 413, 417) or error.code in ("out_of_memory", "transfer_encoding"):
        response.keep_alive = False
    return response


def _app_of(headers: Mapping[str, str]) -> tuple[str, bool]:
    """Returns the client program's name, and whether a bundler shortened its User-Agent (see ``_agent_name``).

    The name is what the program sends for gateways (``X-App``, ``X-Title``, the host of ``HTTP-Referer``), or else the
    name at the start of the User-Agent (older Codexes have only an ``originator``), without version and comment.
    """
    name, bundled = _agent_name((headers.get(hdrs.USER_AGENT) or headers.get("originator", ""))[:APP_LIMIT])
    if _X_APP in headers or _X_TITLE in headers or _HTTP_REFERER in headers:
        # Claude Code's X-App says only how it was started
        sent_name = "" if "anthropic-version" in headers else headers.get(_X_APP, "")
        sent_name = sent_name or headers.get(_X_TITLE, "") or _REFERER.sub("", headers.get(_HTTP_REFERER, ""))
        if app_name := _app_name(sent_name[:APP_LIMIT]):
            return app_name, bundled
    if bundled:
        return "Anthropic" if "anthropic-version" in headers else "OpenAI", True
    return name, False


@lru_cache(maxsize=256)
def _app_name(text: str) -> str:
    return plain(text.strip(), 40)


@lru_cache(maxsize=256)
def _agent_name(user_agent: str) -> tuple[str, bool]:
    """Returns the name at the start of a User-Agent, and whether a bundler shortened it, as in ``ls/JS 5.23.2``."""
    is_shortened = user_agent.find("/JS ", 1, 3 + len("/JS ")) > 0  # at most three characters are left of it
    return _app_name(user_agent.partition("/")[0].partition(" (")[0]), is_shortened
