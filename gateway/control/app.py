"""App: the control surface as an aiohttp application. One table says which request goes where."""

import logging
import re
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler as WebHandler
from aiohttp.typedefs import Middleware

from gateway.control import (
    account,
    admin,
    calls,
    channels,
    checkup,
    config_file,
    events,
    groups,
    guard,
    keys,
    machine,
    models,
    offers,
    prices,
    settings,
    tokens,
    usage,
    why,
)
from gateway.control.desk import Desk
from gateway.core.engine import Engine
from gateway.domain.errors import BadRequest, GatewayError, InternalError, NotFound, TooLarge
from gateway.domain.text import plain
from gateway.web.errors import answer

BODY_LIMIT = 8 << 20
"""Bytes of a request body; the largest honest one is a configuration with thousands of models and prices."""

LINE_LIMIT = 64 << 10
"""Bytes of the first line of a request: the words of a filter stand in it."""

_NAME = re.compile(r"\{(\w+)\}")
"""A name in a path may hold all but a slash; the framework's own idea of it has no braces."""

_log = logging.getLogger("tollkeeper")

Handler = Callable[[Desk, web.Request], Awaitable[object]]

ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/status", admin.status),
    ("POST", "/stop", admin.stop),
    ("GET", "/verify", admin.verified),
    ("GET", "/machine", machine.listed),
    ("POST", "/undo", admin.undo),
    ("GET", "/events", events.stream),
    ("GET", "/account", account.show),
    ("PATCH", "/account", account.edit),
    ("GET", "/account/grants", account.grants),
    ("POST", "/account/grants", account.add_grant),
    ("GET", "/config", config_file.export),
    ("POST", "/config", config_file.take),
    ("GET", "/settings", settings.show),
    ("PATCH", "/settings", settings.edit),
    ("GET", "/tokens", tokens.listed),
    ("POST", "/tokens", tokens.add),
    ("GET", "/tokens/{ref}", tokens.show),
    ("PATCH", "/tokens/{ref}", tokens.edit),
    ("DELETE", "/tokens/{ref}", tokens.remove),
    ("POST", "/tokens/{ref}/rotate", tokens.rotate),
    ("POST", "/tokens/{ref}/pass", tokens.give_pass),
    ("GET", "/groups", groups.listed),
    ("POST", "/groups", groups.add),
    ("GET", "/groups/{name}", groups.show),
    ("PATCH", "/groups/{name}", groups.edit),
    ("DELETE", "/groups/{name}", groups.remove),
    ("GET", "/presets", offers.presets),
    ("GET", "/offers", offers.listed),
    ("GET", "/channels", channels.listed),
    ("POST", "/channels", channels.add),
    ("GET", "/channels/{ref}", channels.show),
    ("PATCH", "/channels/{ref}", channels.edit),
    ("DELETE", "/channels/{ref}", channels.remove),
    ("GET", "/channels/{ref}/listing", channels.listing),
    ("POST", "/channels/{ref}/refresh", channels.refresh),
    ("POST", "/channels/{ref}/test", channels.test),
    ("GET", "/channels/{ref}/models", channels.models),
    ("POST", "/channels/{ref}/clear", channels.clear),
    ("POST", "/channels/{ref}/keys", keys.add),
    ("PATCH", "/channels/{ref}/keys/{number}", keys.replace),
    ("DELETE", "/channels/{ref}/keys/{number}", keys.remove),
    ("POST", "/channels/{ref}/keys/{number}/clear", keys.clear),
    ("GET", "/channels/{ref}/checkup", checkup.channel),
    ("GET", "/prices", prices.listed),
    ("POST", "/prices/import", prices.take_over),
    ("PUT", "/prices/{model:(?s:.+)}", prices.put),
    ("DELETE", "/prices/{model:(?s:.+)}", prices.remove),
    ("GET", "/models", models.listed),
    ("GET", "/why", why.explain),
    ("GET", "/calls", calls.listed),
    ("GET", "/records", calls.numbered),
    ("GET", "/calls/{id}", calls.show),
    ("POST", "/calls/{id}/cancel", calls.cancel),
    ("GET", "/usage", usage.summary),
)


def control_app(engine: Engine, secret: str) -> web.Application:
    """The application; ``secret`` is what the runfile tells the owner's front ends."""
    engine.upstreams.redaction.protect(secret)
    app = web.Application(client_max_size=BODY_LIMIT, middlewares=[_border(secret)])
    desk = Desk(engine)
    for method, path, handler in ROUTES:
        app.router.add_route(method, "/control" + _NAME.sub(r"{\1:[^/]+}", path), _bound(handler, desk))
    app.on_shutdown.append(_end_of(engine))
    return app


def control_runner(app: web.Application) -> web.AppRunner:
    """How the control surface is served: handlers end with their clients, nothing lingers when the server stops."""
    return web.AppRunner(
        app,
        handle_signals=False,
        access_log=None,
        handler_cancellation=True,
        keepalive_timeout=75,
        shutdown_timeout=0.2,
        max_line_size=LINE_LIMIT,
    )


def _bound(handler: Handler, desk: Desk) -> WebHandler:
    async def handle(request: web.Request) -> web.StreamResponse:
        result = await handler(desk, request)
        if isinstance(result, web.StreamResponse):
            return result
        return web.Response(body=msgspec.json.encode(result), content_type="application/json")

    return handle


def _border(secret: str) -> Middleware:
    """Guards every request, known path or not, and turns what is raised into answers."""
    own_uid = guard.own_user()

    @web.middleware
    async def border(request: web.Request, handler: WebHandler) -> web.StreamResponse:
        try:
            guard.check(request.headers, request.transport, secret, own_uid)
            return await handler(request)
        except GatewayError as exc:
            return _refusal(exc)
        except web.HTTPException as exc:
            return _refusal(_ours(exc, request))
        except ConnectionError:
            raise
        except Exception as exc:
            _log.exception("control: %s %s failed", request.method, plain(request.path))
            if request.writer.output_size:
                raise ConnectionError("the answer has begun; it can only be broken off") from exc
            return _refusal(InternalError("a bug of the gateway; server.log has the details"))

    return border


def _refusal(error: GatewayError) -> web.Response:
    status, headers, body = answer(error)
    return web.Response(status=status, body=body, headers=headers, content_type="application/json")


def _ours(exc: web.HTTPException, request: web.Request) -> GatewayError:
    """The framework's own refusals in our words."""
    if isinstance(exc, web.HTTPRequestEntityTooLarge):
        return TooLarge(f"the body is larger than {BODY_LIMIT} bytes")
    if isinstance(exc, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(exc.allowed_methods))
        message = f"{request.method} is not for this path; allowed: {allowed}"
        return BadRequest(message, code="method_not_allowed", details={"allow": allowed})
    if isinstance(exc, web.HTTPNotFound):
        return NotFound(f"there is no {plain(request.path)}", code="unknown_url")
    return BadRequest(f"the request cannot be served: {exc.reason}")


def _end_of(engine: Engine) -> Callable[[web.Application], Awaitable[None]]:
    async def end(_: web.Application) -> None:
        engine.bus.close()

    return end
