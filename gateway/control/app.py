"""App: the aiohttp application of the control surface. One table maps requests to handlers.

Every request is checked before its path is looked at, so that only the owner can make it.
"""

import asyncio
import hmac
import logging
import os
import re
import socket
import struct
import sys
from asyncio import BaseTransport
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler as WebHandler, Middleware

from gateway.control import (
    admin,
    calls,
    channels,
    config_import,
    entities,
    events,
    groups,
    history,
    machine,
    models,
    offers,
    prices,
    probe,
    tokens,
    usage,
    why,
)
from gateway.control.edits import ConfigEdits
from gateway.control.views import account_view
from gateway.core.engine import Engine
from gateway.domain.errors import (
    BadRequest,
    GatewayError,
    InternalError,
    InvalidToken,
    NotFound,
    RequestRefused,
    TooLarge,
)
from gateway.domain.history import ACCEPT_HEADER, SOURCE_HEADER, source_of
from gateway.domain.text import plain
from gateway.web.error_responses import error_answer
from gateway.web.origins import LOOPBACK, split_host

BODY_LIMIT = 8 << 20
"""The maximum size of a body, in bytes. A configuration with thousands of models and prices fits."""
BUG_MESSAGE = (
    "a bug in the gateway; server.log in its data folder has the details, or the terminal in which it was started"
)
_PATH_PARAMETER = re.compile(r"\{(\w+)\}")
"""Matches a parameter in a path. Its value may contain anything but a slash; aiohttp's default would exclude braces."""
_log = logging.getLogger("tollkeeper")

Handler = Callable[[ConfigEdits, web.Request], Awaitable[object]]

_ENTITIES = "/{kind:tokens|groups|channels}"


def _show(value: Callable[[ConfigEdits], object]) -> Handler:
    """Returns a handler that answers with a value."""

    async def handle(edits: ConfigEdits, _: web.Request) -> object:
        return value(edits)

    return handle


ROUTES: tuple[tuple[str, str, Handler], ...] = (
    # the id of this process: a front end recognizes the runfile of an earlier server by it
    ("GET", "/instance", _show(lambda edits: edits.engine.instance)),
    ("GET", "/status", _show(lambda edits: edits.engine.status())),
    ("POST", "/stop", admin.stop),
    ("GET", "/verify", admin.verify_books),
    ("GET", "/machine", machine.list_machine_checks),
    ("POST", "/batch", entities.edit_many),
    ("GET", "/history", history.list_history),
    ("DELETE", "/history", history.clear_history),
    ("GET", "/history/{id}", history.show_entry),
    ("POST", "/{verb:undo|redo}", history.revert),
    ("GET", "/events", events.stream),
    ("GET", "/account", _show(lambda edits: account_view(edits.engine))),
    ("PATCH", "/account", admin.edit_account),
    ("GET", "/account/grants", admin.list_grants),
    ("POST", "/account/grants", admin.add_grant),
    ("GET", "/config", config_import.export_config),
    ("POST", "/config", config_import.import_config),
    ("GET", "/settings", _show(lambda edits: edits.registry.settings)),
    ("PATCH", "/settings", admin.edit_settings),
    ("GET", _ENTITIES, entities.list_entities),
    ("GET", f"{_ENTITIES}/{{ref}}", entities.show_entity),
    ("PATCH", f"{_ENTITIES}/{{ref}}", entities.edit_entity),
    ("DELETE", f"{_ENTITIES}/{{ref}}", entities.remove_entity),
    ("POST", "/tokens", tokens.add_token),
    ("POST", "/tokens/{ref}/rotate", tokens.rotate_token),
    ("POST", "/tokens/{ref}/pass", tokens.give_pass),
    ("GET", "/keys/{handle}", tokens.show_key),
    ("POST", "/groups", groups.add_group),
    ("GET", "/presets", offers.list_presets),
    ("GET", "/offers", offers.list_offers),
    ("POST", "/channels", channels.add_channel),
    ("GET", "/channels/{ref}/listing", channels.show_listing),
    ("POST", "/channels/{ref}/refresh", channels.refresh_listing),
    ("POST", "/channels/{ref}/test", channels.test_channel),
    ("POST", "/channels/{ref}/clear", channels.resume),
    ("POST", "/channels/{ref}/keys", channels.add_key),
    ("PATCH", "/channels/{ref}/keys/{number}", channels.replace_key),
    ("DELETE", "/channels/{ref}/keys/{number}", channels.remove_key),
    ("POST", "/channels/{ref}/keys/{number}/clear", channels.resume),
    ("GET", "/channels/{ref}/checkup", probe.check_channel),
    ("GET", "/prices", prices.list_prices),
    ("GET", "/prices/news", prices.show_news),
    ("POST", "/prices/import", prices.import_prices),
    ("PUT", "/prices/{ref:(?s:.+)}", entities.set_price),
    ("DELETE", "/{kind:prices}/{ref:(?s:.+)}", entities.remove_entity),
    ("GET", "/models", models.list_models),
    ("GET", "/models/{model:(?s:.+)}", models.show_model),
    ("GET", "/why", why.explain),
    ("GET", "/calls", calls.list_calls),
    ("GET", "/records", calls.list_numbered),
    ("GET", "/calls/{id}", calls.show_call),
    ("POST", "/calls/{id}/cancel", calls.cancel_call),
    ("GET", "/usage", usage.summary),
    ("GET", "/incidents", admin.list_incidents),
)


def control_app(engine: Engine, secret: str) -> web.Application:
    """Returns the application. ``secret`` is the secret in the runfile, which the owner's front ends read."""
    engine.upstreams.redaction.add_secret(secret)
    app = web.Application(client_max_size=BODY_LIMIT, middlewares=[_guard_and_report(secret)])
    app[calls.SEARCH_TURN], app[usage.SUM_TURN] = asyncio.Semaphore(), asyncio.Semaphore()
    app[prices.NEWS_CACHE] = {}
    edits = ConfigEdits(engine)
    for method, path, handler in ROUTES:
        app.router.add_route(method, "/control" + _PATH_PARAMETER.sub(r"{\1:[^/]+}", path), _bind(handler, edits))

    async def close_bus(_: web.Application) -> None:
        engine.bus.close()

    app.on_shutdown.append(close_bus)  # streams of events must end before it waits for handlers
    return app


def control_runner(app: web.Application) -> web.AppRunner:
    """Returns the runner, which cancels a handler when its client disconnects or the server stops."""
    return web.AppRunner(
        app,
        handle_signals=False,
        access_log=None,
        handler_cancellation=True,
        keepalive_timeout=75,
        shutdown_timeout=0.2,
        max_line_size=64 << 10,  # the URL may contain the words of a filter
    )


def _bind(handler: Handler, edits: ConfigEdits) -> WebHandler:
    """Returns a handler for aiohttp. It calls ours with the edits of the request's source, and encodes the result."""

    async def handle(request: web.Request) -> web.StreamResponse:
        source = source_of(request.headers.get(SOURCE_HEADER, ""))
        await request.read()  # first, so that no handler waits for it when it knows what to change
        result = await handler(edits.for_source(source, request.headers.get(ACCEPT_HEADER, "")), request)
        if isinstance(result, web.StreamResponse):
            return result
        return web.Response(body=msgspec.json.encode(result), content_type="application/json")

    return handle


def _guard_and_report(secret: str) -> Middleware:
    """Returns the middleware that checks every request, even for an unknown path, and makes responses of exceptions."""

    @web.middleware
    async def handle(request: web.Request, handler: WebHandler) -> web.StreamResponse:
        try:
            check_caller(request.headers, request.transport, secret)
            return await handler(request)
        except GatewayError as exc:
            return _error_response(exc)
        except web.HTTPException as exc:
            return _error_response(_gateway_error(exc, request))
        except ConnectionError:
            raise
        except Exception as exc:
            _log.exception("control: %s %s failed", request.method, plain(request.path))
            if request.writer.output_size:
                raise ConnectionError("the response has begun and can only be aborted") from exc
            return _error_response(InternalError(BUG_MESSAGE))

    return handle


def _error_response(error: GatewayError) -> web.Response:
    status, headers, body = error_answer(error)
    return web.Response(status=status, body=body, headers=headers, content_type="application/json")


def _gateway_error(exc: web.HTTPException, request: web.Request) -> GatewayError:
    if isinstance(exc, web.HTTPRequestEntityTooLarge):
        return TooLarge(f"the body is larger than {BODY_LIMIT} bytes")
    if isinstance(exc, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(exc.allowed_methods))
        message = f"{request.method} is not allowed here; use {allowed}"
        return BadRequest(message, code="method_not_allowed", details={"allow": allowed})
    if isinstance(exc, web.HTTPNotFound):
        return NotFound(f"{plain(request.path)} does not exist", code="unknown_url")
    return BadRequest(f"the request cannot be served: {exc.reason}")


def check_caller(headers: Mapping[str, str], transport: BaseTransport | None, secret: str) -> None:
    """Check that a request may use the control surface. Raises RequestRefused or InvalidToken.

    1. The peer: on a Unix socket it must run as the server's own user, if the system reports the user.
    2. ``Host`` must name this machine, and ``Origin`` must be absent: a web page can reach loopback, but cannot forge
       these headers.
    3. The secret of the runfile, compared in constant time.
    """
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None:
        raise RequestRefused("the connection is closing")
    if peer_uid(sock) not in (None, own_user()):
        message = "this gateway belongs to another user of this machine; start your own"
        raise RequestRefused(message, code="foreign_user")
    _check_host(headers.get("Host", ""), sock)
    if "Origin" in headers:
        raise RequestRefused("web pages may not call the control surface", code="origin_not_allowed")
    check_secret(headers.get("Authorization", ""), secret)


def check_secret(header: str, secret: str) -> None:
    """Check that the Authorization header has the secret. Raises InvalidToken, even if both are empty."""
    secret_in_header = header[7:] if header[:7].lower() == "bearer " else ""
    matches = hmac.compare_digest(secret_in_header.encode("utf-8", "surrogateescape"), secret.encode())
    if not matches or not secret:
        raise InvalidToken("the control secret is missing or wrong; it is in the runfile", code="invalid_secret")


def own_user() -> int | None:
    """Returns the user id of this server; None on systems without users."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def peer_uid(sock: socket.socket) -> int | None:
    """Returns the user id at the other end of a Unix socket; None for other sockets, or if it is not reported."""
    if os.name == "nt" or sock.family != socket.AF_UNIX:
        return None
    try:
        if sys.platform == "linux":  # unix(7), SO_PEERCRED: struct ucred {pid_t pid; uid_t uid; gid_t gid}
            uid = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        else:  # macOS and the BSDs, unix(4), LOCAL_PEERCRED: struct xucred {u_int version; uid_t uid; …} at level 0
            uid = struct.unpack_from("=II", sock.getsockopt(0, 1, 76))[1]
    except (OSError, struct.error):
        return None
    return int(uid)


def _check_host(header: str, sock: socket.socket) -> None:
    """Check the Host header: over TCP it must have the right port, on a Unix socket none. Raises RequestRefused."""
    port = "" if os.name != "nt" and sock.family == socket.AF_UNIX else str(sock.getsockname()[1])
    name, port_in_header = split_host(header)
    if name not in LOOPBACK or port_in_header != port:
        raise RequestRefused("the Host header does not name this machine's control surface", code="wrong_host")
